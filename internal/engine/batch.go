package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// runBatch does for several marked tasks, in one call, what run does for one. They are all of one lease, and have one
// context, which ends when the last of them has been cancelled.
func (l *line) runBatch(batch []*task) {
	lease := batch[0].lease
	about := logger.With(l.log.GetNewContext(l.cfg.ServiceName), slog.Int("job_type", int(l.cfg.JobType)), slog.Int("jobs", len(batch)), slog.Int64("term", lease.Term))
	ctx, cancel := context.WithCancelCause(&jobContext{lease.Context(), about})
	var wanted atomic.Int64
	wanted.Store(int64(len(batch)))
	cancelOne := func() context.CancelCauseFunc {
		var told atomic.Bool
		return func(cause error) {
			if !told.Swap(true) && wanted.Add(-1) == 0 {
				cancel(cause)
			}
		}
	}
	started := time.Now()
	for _, t := range batch {
		l.begin(t, started, cancelOne())
	}
	batch = slices.DeleteFunc(batch, func(t *task) bool {
		if l.mayStart(t) {
			return false
		}
		t.cancel(nil)
		l.notStarted(t)
		return true
	})
	if len(batch) == 0 {
		cancel(nil)
		return
	}
	jobs := make([]*queue_job.Job, len(batch)) // the handler's own, to sort as it likes
	for i, t := range batch {
		jobs[i] = &t.job
	}
	if l.cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, l.cfg.Timeout, queue_job.ErrTimeout)
		defer stop()
	}
	err := errGoexit // stands if the call never returns
	defer func() {
		cause := context.Cause(ctx)
		cancel(nil)
		for i, err := range eachOf(err, len(batch)) {
			l.finish(ctx, batch[i], cause, err)
		}
	}()
	err = l.callBatch(ctx, jobs)
}

func (l *line) callBatch(ctx context.Context, jobs []*queue_job.Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	err = l.cfg.HandleBatchFunc(ctx, jobs)
	for _, one := range eachOf(err, len(jobs)) {
		if one != nil {
			_ = one.Error() // as in call
		}
	}
	return err
}

// eachOf tells the errors of so many jobs apart.
func eachOf(err error, jobs int) []error {
	var each queue_job.BatchErrors
	if errors.As(err, &each) {
		if len(each) == jobs {
			return each
		}
		err = fmt.Errorf("the handler returned %d errors for %d jobs: %w", len(each), jobs, err)
	}
	return slices.Repeat([]error{err}, jobs)
}
