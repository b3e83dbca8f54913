package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// runner calls the handler with marked tasks, and gives the settler what becomes of them.
type runner struct {
	process *Process
	part    *part
	handler queue_job.Handler      // with its middleware; nil: batch is the handler
	batch   queue_job.BatchHandler // with its middleware; nil: handler is
	queue   *queue
	marker  *marker
	workers *workers
	settler *settler
	starts  *starts
	counts  *counts
	wake    chan struct{} // the dispatcher
}

// work runs ready tasks, one call after the other, until there are none that may start.
func (r *runner) work() {
	ended := false
	defer func() {
		if !ended { // a handler called runtime.Goexit; the dispatcher starts another worker
			r.workers.gone(false)
		}
	}()
	for came := true; ; came = false {
		call := r.workers.next(came)
		if call == nil {
			ended = true
			return
		}
		r.run(call)
	}
}

// run calls the handler with the tasks of one call that may still start. Without a batch handler, a call is one task. The
// settler gets the outcomes, however the handler ends. The tasks belong to one lease and share one context.
func (r *runner) run(tasks []*task) {
	life, cancel := context.WithCancelCause(tasks[0].run.lease.Context())
	about, many := slog.LogValuer(tasks[0]), (*manyRuns)(nil)
	if r.batch != nil {
		many = &manyRuns{jobType: tasks[0].row.JobType, term: tasks[0].row.Term}
		about = many
	}
	values := r.part.aboutRun(about)
	tasks = r.begin(life, tasks, cancel)
	if len(tasks) == 0 {
		cancel(nil)
		return
	}
	if r.part.cfg.Timeout > 0 {
		var stop context.CancelFunc
		life, stop = context.WithTimeoutCause(life, r.part.cfg.Timeout, queue_job.ErrTimeout)
		defer stop()
	}
	if many != nil {
		many.jobs = len(tasks)
	}
	first := tasks[0]
	first.run.context = jobContext{life, values}
	ctx := &first.run.context
	defer func() {
		if p := recover(); p != nil { // it is an error of all of them
			err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			for _, t := range tasks {
				t.run.err = err
			}
		}
		cause := context.Cause(life)
		cancel(nil)
		for _, t := range tasks {
			r.finish(ctx, t, cause)
		}
		clear(tasks)
	}()
	for _, t := range tasks {
		r.counts.delay[record.RangeOf(t.run.waited)].Add(1)
		if t.alone && r.process.Permit.has(t) {
			t.run.enough = time.AfterFunc(aloneWaitsFor, func() { r.process.Permit.giveBack(t) })
		}
	}
	if len(r.process.Observers) > 0 {
		r.part.tellStarted(ctx, tasks)
	}
	if r.batch == nil {
		first.run.err = r.handler(ctx, &first.run.job)
	} else {
		r.callBatch(ctx, tasks)
	}
	for _, t := range tasks {
		if t.run.err != nil {
			_ = t.run.err.Error() // which panics here, if it does: a nil pointer in an error is a common mistake
		}
	}
}

// begin makes the tasks' jobs as the handler sees them, and returns the tasks that may start: the job is not cancelled, its type is not paused,
// the last answers about that are not too old, its end has not come, and the lease is trusted. The lease comes last: whatever waits between that
// question and the handler, for a lock or in code that is not ours, lets all those start that wait with it, if the process stands still until
// others have the lease.
func (r *runner) begin(ctx context.Context, tasks []*task, cancel context.CancelCauseFunc) (may []*task) {
	var params runParams
	if slices.ContainsFunc(tasks, func(t *task) bool { return t.row.HasLong() }) {
		params = r.part.longParams(tasks)
	}
	if r.part.cfg.RatePerSecond > 0 && !tasks[0].expired {
		r.awaitDelay(ctx, len(tasks))
	}
	started, cancelOne := time.Now(), cancel
	var others *lastCancels
	if len(tasks) > 1 {
		others = &lastCancels{cancel: cancel}
		others.left.Store(int64(len(tasks)))
	}
	may = tasks[:0]
	for _, t := range tasks {
		if others != nil {
			cancelOne = others.one()
		}
		t.run.job = r.part.jobOf(t)
		bridge.QueueJob.Through(&t.run.job, r.part.runner, t.row.Attempts, t.row.MaxRetries, started)
		t.run.cancel, t.run.started, t.run.err = cancelOne, started, errGoexit // which stands if the call never returns
		t.run.begun.Store(true)
		t.run.waited = r.part.waited(t)
		now := time.Now()
		mayStart := !t.run.watch.gone.Load() && r.starts.allowedAt(now) && now.Sub(*t.run.watch.seen.Load()) < time.Duration(r.starts.lasts.Load())
		switch {
		case !mayStart || t.row.HasLong() && !t.takeLong(params):
			r.notStarted(t)
		case t.row.Extra != nil && t.isOver(r.process.Clock.At(now)):
			r.expire(t)
		default:
			may = append(may, t)
		}
	}
	clear(tasks[len(may):])
	if r.part.cfg.RatePerKey > 0 && r.queue.start(may) {
		ground.Signal(r.wake)
	}
	if len(may) > 0 && !may[0].run.lease.MayStart() {
		for _, t := range may {
			r.notStarted(t)
		}
		clear(may)
		return nil
	}
	return may
}

// awaitDelay waits until n tasks may start, because others were late.
func (r *runner) awaitDelay(ctx context.Context, n int) {
	if delay := r.workers.delay(n); delay > 0 {
		ground.Sleep(ctx, delay)
	}
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
	jobType int32
	term    int64
	jobs    int
}

func (m *manyRuns) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("job_type", int(m.jobType)), slog.Int("jobs", m.jobs), slog.Int64("term", m.term))
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

// notStarted takes back a marked task that may not start now, or ever.
func (r *runner) notStarted(t *task) {
	t.run.cancel(nil)
	t.run.job.JobParams = "" // they may be long
	r.workers.ended(t, time.Time{})
	defer r.workers.ending.Add(-1)
	if !t.run.watch.gone.Load() {
		r.marker.takeBack(t.run.lease, t)
		return
	}
	r.process.Permit.giveBack(t)
	r.queue.forget(t)
	ground.Signal(r.wake)
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// finish hands the outcome of a run to the settler. Cause says why the run's context ended before the handler did. It is nil
// if the context had not ended.
func (r *runner) finish(ctx context.Context, t *task, cause error) {
	if t.run.enough != nil {
		t.run.enough.Stop()
		r.process.Permit.giveBack(t)
	}
	ended := time.Now()
	r.workers.ended(t, ended)
	t.run.took = ended.Sub(t.run.started)
	next := bridge.QueueJob.Returned(&t.run.job)
	v, dropped := r.judge(t, cause)
	if len(next) > 0 && v.status == queue_job.JobStatusSuccess && !dropped {
		v.follows, t.run.next = true, next
	}
	if t.row.Extra != nil && v.status.Pending() {
		v.wait = t.untilOver(v.wait, r.process.Clock.At(ended))
	}
	if v.deferred > 0 && !dropped {
		r.putOff(t, v, ended)
	} else {
		r.counts.took[record.RangeOf(t.run.took)].Add(1)
		r.counts.ended[v.status].Add(1)
		if t.row.Deferred > 0 {
			r.counts.putOffs.forget(t.row.ID)
		}
	}
	if dropped {
		r.queue.forget(t)
		if t.node() != 0 && (v.written || v.status == queue_job.JobStatusCancelled) {
			r.process.tellFlows([]*task{t})
		}
		if v.written {
			r.settler.log.endedByHandler(t, v)
			r.part.tellSettled(t, v)
		}
	} else {
		light := t
		if t.row.HasLong() {
			light = r.part.lighten(r.queue, t)
		}
		r.settler.add(light, v, r.process.Clock.At(t.run.started))
	}
	r.workers.ending.Add(-1)
	ground.Signal(r.wake)
	if r.part.cfg.OnFinished != nil || len(r.process.Observers) > 0 {
		r.part.tellFinished(ctx, t, queue_job.Finished{Status: v.status, Err: t.run.err, Took: t.run.took, Wait: v.wait, Dropped: dropped && !v.written})
	}
}

// judge is the verdict on a run. It is dropped, which means that nothing is to be written here, if the job has been cancelled
// or completed elsewhere, if a stop has cut it off, or if the handler has written it.
func (r *runner) judge(t *task, cause error) (v verdict, dropped bool) {
	switch {
	case t.run.watch.cutOff, t.run.watch.gone.Load() && errors.Is(cause, keeper.ErrLost):
		return verdict{status: queue_job.JobStatusRetry}, true
	case t.run.watch.gone.Load():
		return verdict{status: queue_job.JobStatusCancelled}, true
	case t.run.err != nil:
		return r.part.judgeError(t, cause)
	case bridge.QueueJob.Ended(&t.run.job) != queue_job.JobStatusInit:
		return r.part.judgeCompleted(t, cause)
	case t.run.job.Status == queue_job.JobStatusInit: // the handler asks for nothing
		return verdict{status: queue_job.JobStatusSuccess}, false
	default:
		return decide(&r.part.cfg, &t.row, t.run.job.Status, nil), false
	}
}

// putOff notes that a run has ended before it had begun.
func (r *runner) putOff(t *task, v verdict, ended time.Time) {
	r.counts.putOffs.note(t, r.process.Clock.At(t.run.started)-t.run.waited.Milliseconds(), r.process.Clock.At(ended)+v.wait.Milliseconds())
	r.counts.deferred[record.RangeOf(t.run.waited)].Add(1)
	r.counts.deferrals.Add(1)
}

// ErrNoHandler is the cause of an error about a middleware that makes no handler. Trying again does not help.
var ErrNoHandler = errors.New("a middleware makes no handler")

// noHandler is an error with the cause [ErrNoHandler].
type noHandler string

func (n noHandler) Error() string      { return string(n) }
func (noHandler) Is(target error) bool { return target == ErrNoHandler }

// Try makes what a line needs of a configuration whose lines are made later, when nobody can be told that it is refused.
func Try(cfg *queue_job.Config) error {
	_, _, err := handlersOf(cfg)
	return err
}

// handlersOf are HandleJobFunc and HandleBatchFunc inside their middleware. A type has one of them, and the other is nil.
func handlersOf(cfg *queue_job.Config) (one queue_job.Handler, batch queue_job.BatchHandler, err error) {
	if cfg.HandleBatchFunc != nil {
		batch, err = within(cfg, "BatchMiddleware", cfg.BatchMiddleware, cfg.HandleBatchFunc)
	} else {
		one, err = within(cfg, "Middleware", cfg.Middleware, cfg.HandleJobFunc)
	}
	return one, batch, err
}

// within puts a handler into middleware, of which the first is the outermost.
func within[H queue_job.Handler | queue_job.BatchHandler, M ~func(H) H](cfg *queue_job.Config, field string, middleware []M, handler H) (H, error) {
	for i, around := range slices.Backward(middleware) {
		if handler = around(handler); handler == nil {
			return nil, noHandler(fmt.Sprintf(
				"queue_job.Config.%s (job type %d, service %q): number %d made no handler; return one from it", field, cfg.JobType, cfg.ServiceName, i))
		}
	}
	return handler, nil
}
