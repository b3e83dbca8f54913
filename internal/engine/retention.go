package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	retainFirst = time.Second      // after the start
	retainAgain = time.Minute      // then this instance asks for the lease again
	retainEvery = 10 * time.Minute // one instance gets the lease in this time

	keptFirst = time.Minute // after the start, the log hears how many rows are kept for ever
	keptEvery = 24 * time.Hour
)

// Deletes is what the engine needs of the tables to delete rows that have outlived their time. *store.Store has it.
type Deletes interface {
	hidden.Rows
	FindOld(ctx context.Context, old store.Old, after uint64, limit int) (store.OldPage, error)
	DeleteOld(ctx context.Context, old store.Old, page store.OldPage, steps store.Steps) (store.Deletion, error)
	DeleteStrays(ctx context.Context, page store.OldPage, steps store.Steps) (store.Deletion, error)
	Span(ctx context.Context) (first, last uint64, err error)
}

// retainer deletes the finished rows of this instance's job types when they have outlived their time. It goes along the primary
// key, from the first row to the first page of rows that are too young, under a lease that one instance gets in retainEvery. Rows
// at the beginning that are kept for ever are read once a day.
type retainer struct {
	*database
	times  map[int32]time.Duration // how long rows are kept, by final status. Rows with another status are kept for ever
	types  []int32
	pacing pacing
	looks  ground.Looks

	walked  time.Time // when a walk last began with the first row, or the log heard how many there are; zero: never
	settled uint64    // up to this id, no row is left that could outlive its time, unless somebody makes it run again, or restores it
}

func newRetainer(d *database) *retainer {
	times := map[int32]time.Duration{}
	for _, status := range queue_job.FinalStatuses() {
		if kept := d.retention.Of(status); kept > 0 {
			times[int32(status)] = kept
		}
	}
	r := &retainer{database: d, times: times, pacing: newPacing(retainLeast, retainRows)}
	if d.archive != nil {
		r.pacing = newPacing(1, hidden.ArchivedMost)
	}
	return r
}

// heedTypes notes which types are configured now. If they have changed, no row is settled. It reports whether there are any.
func (r *retainer) heedTypes() bool {
	var types []int32
	for _, cfg := range r.configured() {
		types = append(types, cfg.JobType)
	}
	if !slices.Equal(types, r.types) {
		r.types, r.settled = types, 0
	}
	return len(types) > 0
}

// loop deletes until ctx ends.
func (r *retainer) loop(ctx context.Context) {
	if len(r.times) == 0 {
		r.tellSpan(ctx)
		return
	}
	for wait := retainFirst; ground.Sleep(ctx, wait); wait = retainAgain {
		if !r.heedTypes() {
			continue
		}
		r.errlog.On(ctx, "delete old jobs", r.turn(ctx))
	}
}

// turn walks once, if no other instance has done so lately.
func (r *retainer) turn(ctx context.Context) error {
	lease, err := r.takeTurn(ctx, &r.looks, keeper.Want{Name: fmt.Sprintf("retain-%d", r.types[0]), MinLock: retainEvery})
	if lease == nil {
		return err
	}
	defer r.release(ctx, lease)
	return r.newWalk(lease).run(ctx)
}

// tellSpan says once a day how many rows there are, at most, if all are kept for ever. To count them would cost more than it is
// worth. The instance that has the first of its types says so.
func (r *retainer) tellSpan(ctx context.Context) {
	for wait := keptFirst; ground.Sleep(ctx, wait); {
		wait = keptFirst
		if !r.heedTypes() {
			continue
		}
		lines := r.heldLines().ofType(r.types[0])
		if len(lines) == 0 || lines[0].shard != 0 || !r.walked.IsZero() && time.Since(r.walked) < keptEvery {
			continue
		}
		var first, last uint64
		err := r.looks.Look(r.holding(lines), func(ctx context.Context) (err error) {
			first, last, err = r.tables.Deletes.Span(ctx)
			return err
		})
		if r.errlog.On(ctx, "look how many rows there are", err) {
			continue
		}
		if r.walked = time.Now(); last > 0 {
			r.log.Info(r.about, fmt.Sprintf("the table of jobs has up to %s; finished jobs stay until somebody deletes them: use WithRetention, or Jobs.Delete", rowsText(int64(last-first+1))))
		}
	}
}

func rowsText(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
