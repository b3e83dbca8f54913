package recipes

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Expiry is what happens to a resource on a day after it expired.
type Expiry struct {
	Resource int64
	Day      int // 30: it is deleted; before: its owner is warned
}

var AfterExpiry = queue_job.Define[Expiry](2, "after-expiry")

func expiryKey(resource int64) string { return fmt.Sprintf("resource-%d", resource) }

// Expire adds all that is to come, under one key.
func Expire(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, resource int64, at time.Time) error {
	var all []queue_job.AddModelJob
	for _, day := range []int{23, 28, 29, 30} {
		all = append(all, AfterExpiry.New(Expiry{resource, day}, queue_job.WithKey(expiryKey(resource)), queue_job.At(at.AddDate(0, 0, day))))
	}
	_, err := jobs.AddMany(ctx, tx, all)
	return err
}

// Renew takes all of it back, with one call.
func Renew(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, resource int64) error {
	_, err := jobs.Cancel(ctx, tx, AfterExpiry.Key(expiryKey(resource)))
	return err
}

func HandleExpiry(
	warn func(ctx context.Context, resource int64, daysLeft int) error, remove func(ctx context.Context, resource int64) error,
) queue_job.Config {
	return AfterExpiry.Handle(func(ctx context.Context, job *queue_job.Job, e Expiry) error {
		if e.Day == 30 {
			return remove(ctx, e.Resource)
		}
		return warn(ctx, e.Resource, 30-e.Day)
	})
}
