package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// filling holds the rows that wait until they fill a call of a batch handler, or until the first of them has waited for
// BatchWait. They wait unmarked: a marked row cannot be changed, and counts as lost if the process dies. It is an admission.
type filling struct {
	queue *queue
	size  int           // rows of a call
	wait  time.Duration // for a call to fill
	rows  []*task
	since time.Time // the first of the rows came
}

func newFilling(cfg *queue_job.Config, q *queue) *filling {
	return &filling{queue: q, size: max(1, cfg.BatchSize), wait: cfg.BatchWait}
}

func (f *filling) begin() {}

func (f *filling) admit(picked []*task, turn found) []*task {
	return f.add(time.Now(), picked, turn.room > 0)
}

func (f *filling) in(turn found) time.Duration { return f.goesIn(time.Now(), turn.room > 0) }

func (f *filling) back() { f.queue.back(f.take()...) }

// add takes rows in and returns the rows to mark now. If the rows fill one call or more, it returns the full calls, and the
// rows that came last stay. If they fill none, it returns all of them once the first has waited long enough and there is room
// for marks.
func (f *filling) add(now time.Time, picked []*task, room bool) (calls []*task) {
	if len(f.rows) == 0 {
		f.since = now
	}
	f.rows = append(f.rows, picked...)
	n := len(f.rows)
	if n >= f.size || !room || now.Sub(f.since) < f.wait {
		n -= n % f.size
	}
	calls = f.rows[:n:n]
	if f.rows = f.rows[n:]; n > 0 {
		f.since = now
	}
	return calls
}

// goesIn is how long until the rows go on if no others come. It is an hour if there are none, or no room.
func (f *filling) goesIn(now time.Time, room bool) time.Duration {
	if len(f.rows) == 0 || !room {
		return time.Hour
	}
	return f.since.Add(f.wait).Sub(now)
}

// take takes all rows out.
func (f *filling) take() (rows []*task) {
	rows, f.rows = f.rows, nil
	return rows
}

// callBatch calls the batch handler and notes on each task how it ended.
func (r *runner) callBatch(ctx context.Context, tasks []*task) {
	jobs := make([]*queue_job.Job, len(tasks)) // the handler's own, to sort as it likes
	for i, t := range tasks {
		jobs[i] = &t.run.job
	}
	for i, err := range eachOf(r.batch(ctx, jobs), len(tasks)) {
		tasks[i].run.err = err
	}
}

// eachOf returns the error of each job of a batch.
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

// manyRuns are the runs of a call of a batch handler, as the log has them.
type manyRuns struct {
	first *task
	jobs  int
}

func (m manyRuns) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("job_type", int(m.first.row.JobType)), slog.Int("jobs", m.jobs), slog.Int64("term", m.first.row.Term))
}

// lastCancels ends the context of a batch when the last of its jobs has been cancelled.
type lastCancels struct {
	cancel context.CancelCauseFunc
	left   atomic.Int64
}

func (c *lastCancels) one() context.CancelCauseFunc {
	var told atomic.Bool
	return func(cause error) {
		if !told.Swap(true) && c.left.Add(-1) == 0 {
			c.cancel(cause)
		}
	}
}
