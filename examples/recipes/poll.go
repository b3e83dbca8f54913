package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

type Refund struct{ ID int64 }

var CheckRefund = queue_job.Define[Refund](6, "check-refund")

// HandleRefund asks the bank once a minute until the refund is decided, for a day at most. Asking again is no retry: those are for
// a bank that does not answer.
func HandleRefund(
	ask func(context.Context, Refund) (state string, err error), decided func(context.Context, Refund, string) error, now func() time.Time,
) queue_job.Config {
	return CheckRefund.Handle(func(ctx context.Context, job *queue_job.Job, r Refund) error {
		state, err := ask(ctx, r)
		switch {
		case err != nil:
			return err
		case state != "open":
			return decided(ctx, r, state)
		case now().Sub(job.Created()) > 24*time.Hour:
			return queue_job.Fail(errors.New("the bank has not decided within a day"))
		}
		if err := job.SetProgress(ctx, fmt.Sprintf("asked %d times", job.Attempt)); err != nil {
			return err
		}
		return queue_job.Snooze(time.Minute)
	}, func(c *queue_job.Config) { c.RatePerSecond = 20 }) // what the bank allows
}
