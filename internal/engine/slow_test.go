package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// slowWrites is a database that reads as fast as ever, and takes long to commit.
type slowWrites struct {
	resting
	takes        time.Duration
	marks, backs atomic.Int64
	done         atomic.Bool
}

func (s *slowWrites) Mark(ctx context.Context, ids []uint64, _ int64, _ store.Version, _, _ int64) (int, error) {
	s.marks.Add(1)
	if !ground.Sleep(ctx, s.takes) {
		return 0, ctx.Err()
	}
	return len(ids), nil
}

func (s *slowWrites) Settle(ctx context.Context, ids []uint64, o store.Outcome) (int, error) {
	switch o.(type) {
	case store.NotStarted:
		s.backs.Add(1)
	case store.Final:
		s.due.Store(0)
		s.done.Store(true)
	}
	if !ground.Sleep(ctx, s.takes) {
		return 0, ctx.Err()
	}
	return len(ids), nil
}

// If each mark were older than an answer may be when its answer comes, no job would ever start.
func TestJobsStartAlsoIfEachMarkTakesLong(t *testing.T) {
	for _, takes := range []time.Duration{100 * time.Millisecond, 900 * time.Millisecond, 1200 * time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &slowWrites{takes: takes}
			databaseWith(t, Tables{Jobs: s, Leases: s, Close: func() {}}, listeners{}, 4, func(context.Context, *queue_job.Job) error { return nil })
			s.due.Store(7)
			time.Sleep(time.Minute)
			if !s.done.Load() || s.backs.Load() > 3 {
				t.Errorf("a mark takes %v: done %v, %d marks, %d times taken back", takes, s.done.Load(), s.marks.Load(), s.backs.Load())
			}
		})
	}
}
