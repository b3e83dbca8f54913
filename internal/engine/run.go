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

	"github.com/create-info/persistent-queue/internal/attributes"
	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// runner calls the handler with marked tasks, and gives the settler what becomes of them.
type runner struct {
	*base
	handler queue_job.Handler      // with its middleware; nil: batch is the handler
	batch   queue_job.BatchHandler // with its middleware; nil: handler is
	queue   *queue
	marker  *marker
	workers *workers
	settler *settler
	starts  *starts
	counts  *counts
	putOffs *putOffs
	wake    chan struct{} // the dispatcher
}

// work runs ready tasks, one call after the other, until there are none that may start.
func (r *runner) work() {
	ended := false
	defer func() {
		if !ended { // a handler called runtime.Goexit; the dispatcher starts another worker
			r.workers.vanished()
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
	life, cancel := context.WithCancelCause(tasks[0].lease.Context())
	tasks = r.begin(life, tasks, cancel)
	if len(tasks) == 0 {
		cancel(nil)
		return
	}
	if r.cfg.Timeout > 0 {
		var stop context.CancelFunc
		life, stop = context.WithTimeoutCause(life, r.cfg.Timeout, queue_job.ErrTimeout)
		defer stop()
	}
	ctx := r.contextOf(life, tasks)
	defer func() {
		cause := context.Cause(life)
		cancel(nil)
		for _, t := range tasks {
			r.finish(ctx, t, cause)
		}
		clear(tasks)
	}()
	for _, t := range tasks {
		r.counts.start(r.waited(t))
	}
	if len(r.told.observers) > 0 {
		r.tellStarted(ctx, tasks)
	}
	r.call(ctx, tasks)
}

// begin makes the tasks' jobs as the handler sees them, and returns the tasks that may start.
func (r *runner) begin(ctx context.Context, tasks []*task, cancel context.CancelCauseFunc) (may []*task) {
	var params runParams
	if slices.ContainsFunc(tasks, (*task).HasLong) {
		params = r.longParams(tasks)
	}
	if r.cfg.RatePerSecond > 0 {
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
		t.job = r.jobOf(t)
		bridge.QueueJob.Through(&t.job, r.rows, t.Attempts)
		t.cancel, t.started, t.err = cancelOne, started, errGoexit // which stands if the call never returns
		t.begun.Store(true)
		if r.mayStart(t) && (!t.HasLong() || t.takeLong(params)) { // a task that does not start keeps no long parameters
			may = append(may, t)
			if t.alone && r.permit.has(t) {
				t.enough = time.AfterFunc(aloneWaitsFor, func() { r.permit.giveBack(t) })
			}
		} else {
			cancelOne(nil)
			r.notStarted(t)
		}
	}
	clear(tasks[len(may):])
	return may
}

// mayStart reports whether a marked task may still start: the lease is trusted, the job is not cancelled, its type is not
// paused, and the last answers about that are not too old. It is called right before the handler, so that little time lies
// between the answer and the start.
func (r *runner) mayStart(t *task) bool {
	return t.lease.Trusted() && !t.gone.Load() && r.starts.allowedAt(t.started) &&
		t.started.Sub(*t.seen.Load()) < time.Duration(r.starts.lasts.Load())
}

// notStarted takes back a marked task that may not start now, or ever.
func (r *runner) notStarted(t *task) {
	r.workers.ended(t, time.Time{})
	defer r.workers.handedOver()
	if !t.gone.Load() {
		r.marker.takeBack(t.lease, t)
		return
	}
	r.permit.giveBack(t)
	r.queue.forget(t)
	ground.Signal(r.wake)
}

// awaitDelay waits until n tasks may start, because others were late.
func (r *runner) awaitDelay(ctx context.Context, n int) {
	if delay := r.workers.delay(n); delay > 0 {
		ground.Sleep(ctx, delay)
	}
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

// jobOf is the task's job as the application sees it. If a job runs again, the table rounds its time up to a whole second, and a task
// that waited in memory may start before that.
func (b *base) jobOf(t *task) queue_job.Job {
	fellDue := t.DueSecond()
	if t.timed() {
		fellDue = min(fellDue, t.dueMillis/1000)
	}
	return queue_job.Job{
		Id: t.ID, JobType: t.JobType, TypeName: b.cfg.ServiceName, Tables: b.which.tables, JobParams: t.Params, StartTime: uint32(t.StartTime), NextExecuteTime: uint32(fellDue),
		Retries: int(t.Retries), Attempt: int(t.Attempts - t.Deferred), Lost: int(t.Lost), Term: t.Term,
		Key: t.Key, Group: t.Group(), Priority: queue_job.Priority(t.Priority), CreateTime: uint32(t.CreateTime), Meta: t.Metadata(),
	}
}

// tellStarted tells the observer of the runs of a call.
func (r *runner) tellStarted(ctx context.Context, tasks []*task) {
	for _, o := range r.told.observers {
		if o.Started == nil {
			continue
		}
		for _, t := range tasks {
			guarded(ctx, r.log, "Observer.Started", func() { o.Started(ctx, &t.job, r.waited(t)) })
		}
	}
}

// waited is how long a task has waited for its start. The table has whole seconds: a job that was due at once fell due before the end
// of the second in which it was created, and before it was ready. A task whose mark was refused has another dueMillis since.
func (b *base) waited(t *task) time.Duration {
	due := (t.CreateTime + 1) * 1000
	if t.StartTime > t.CreateTime {
		due = min(t.StartTime*1000, t.dueMillis)
	}
	return max(t.started.Sub(t.since), time.Duration(b.clock.At(t.started)-due)*time.Millisecond)
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// call calls the handler and notes on each task how it ended. A panic is an error of all of them.
func (r *runner) call(ctx context.Context, tasks []*task) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			for _, t := range tasks {
				t.err = err
			}
		}
	}()
	if r.batch == nil {
		tasks[0].err = r.handler(ctx, &tasks[0].job)
	} else {
		jobs := make([]*queue_job.Job, len(tasks)) // the handler's own, to sort as it likes
		for i, t := range tasks {
			jobs[i] = &t.job
		}
		for i, err := range eachOf(r.batch(ctx, jobs), len(tasks)) {
			tasks[i].err = err
		}
	}
	for _, t := range tasks {
		if t.err != nil {
			_ = t.err.Error() // which panics here, if it does: a nil pointer in an error is a common mistake
		}
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

// finish hands the outcome of a run to the settler. Cause says why the run's context ended before the handler did. It is nil
// if the context had not ended.
func (r *runner) finish(ctx context.Context, t *task, cause error) {
	if t.enough != nil {
		t.enough.Stop()
		r.permit.giveBack(t)
	}
	ended := time.Now()
	r.workers.ended(t, ended)
	t.took = ended.Sub(t.started)
	bridge.QueueJob.Returned(&t.job)
	v, dropped := r.judge(t, cause)
	if v.deferred > 0 && !dropped {
		r.putOff(t, v, ended)
	} else {
		r.counts.end(v.status, t.took)
		if t.Deferred > 0 {
			r.putOffs.forget(t.ID)
		}
	}
	if dropped {
		r.queue.forget(t)
		if v.written {
			r.tellSettled(t, v)
		}
	} else {
		light := t
		if t.HasLong() {
			light = r.lighten(t)
		}
		r.settler.add(light, v, r.clock.At(t.started))
	}
	r.workers.handedOver()
	ground.Signal(r.wake)
	if r.cfg.OnFinished != nil || len(r.told.observers) > 0 {
		r.tellFinished(ctx, t, queue_job.Finished{Status: v.status, Err: t.err, Took: t.took, Wait: v.wait, Dropped: dropped && !v.written})
	}
}

// putOff notes that a run has ended before it had begun.
func (r *runner) putOff(t *task, v verdict, ended time.Time) {
	delay := r.waited(t)
	r.putOffs.note(t, r.clock.At(t.started)-delay.Milliseconds(), r.clock.At(ended)+v.wait.Milliseconds())
	r.counts.putOff(delay)
}

// judge is the verdict on a run. It is dropped, which means that nothing is to be written here, if the job has been cancelled
// or completed elsewhere, if a stop has cut it off, or if the handler has written it.
func (r *runner) judge(t *task, cause error) (v verdict, dropped bool) {
	switch {
	case t.cutOff, t.gone.Load() && errors.Is(cause, keeper.ErrLost):
		return verdict{status: queue_job.JobStatusRetry}, true
	case t.gone.Load():
		return verdict{status: queue_job.JobStatusCancelled}, true
	case t.err != nil:
		return r.judgeError(t, cause)
	case bridge.QueueJob.Completed(&t.job):
		return r.judgeCompleted(t, cause)
	default:
		return decide(&r.cfg, &t.Row, t.job.Status, nil), false
	}
}

// judgeError is judge for a run that ended with an error. The error may panic when it is looked at: its Is, As or Unwrap may. The run has
// ended by then, so nobody else would give its task back.
func (r *runner) judgeError(t *task, cause error) (v verdict, dropped bool) {
	defer func() {
		if p := recover(); p != nil {
			t.err = fmt.Errorf("panic in the handler's error, a %T: %v\n%s", t.err, p, debug.Stack())
			v, dropped = r.judge(t, cause)
		}
	}()
	switch {
	case bridge.QueueJob.Completed(&t.job):
		return r.judgeCompleted(t, cause)
	case errors.Is(t.err, queue_job.ErrNotOurs):
		return r.judgeNotOurs(t, cause)
	default:
		return r.judgeReturned(t, cause, t.err), false
	}
}

// judgeNotOurs is the verdict on a run whose handler has heard that the job is not its any more, mostly before the watch has looked: the
// job was cancelled, or another run has it. If the table says otherwise, that was about another job, and the run has failed.
func (r *runner) judgeNotOurs(t *task, cause error) (v verdict, dropped bool) {
	row, err := r.standing(t)
	if err != nil || t.ours(row) {
		v = r.judgeReturned(t, cause, t.err)
		v.doubt = t.ID
		return v, false
	}
	return r.countsNoMore(t, row, t.err), true
}

// countsNoMore is the verdict on a run whose row is not its own any more, which the log is told.
func (b *base) countsNoMore(t *task, row store.Standing, err error) verdict {
	v, why := verdict{status: queue_job.JobStatusRetry}, "another run has the job"
	switch status := queue_job.JobStatus(row.Status); {
	case row == store.Standing{}:
		why = "the job was deleted"
	case !status.Pending():
		v.status, why = queue_job.JobStatusCancelled, fmt.Sprintf("the job is %v", status)
	}
	b.log.Info(b.aboutRun(t), fmt.Sprintf("the run counts no more, %s: %v", why, err))
	return v
}

// judgeReturned is the verdict by the handler's error and the status that it set.
func (r *runner) judgeReturned(t *task, cause, err error) verdict {
	if ended := t.lease.Context(); err != nil && t.job.Status == queue_job.JobStatusInit && ended.Err() != nil && askedBy(err) == nil {
		return interrupted(context.Cause(ended), err)
	}
	if err != nil && errors.Is(cause, queue_job.ErrTimeout) && !errors.Is(err, queue_job.ErrTimeout) {
		err = fmt.Errorf("%w after %v: %w", queue_job.ErrTimeout, r.cfg.Timeout, err)
	}
	return decide(&r.cfg, &t.Row, t.job.Status, err)
}

// tellSettled tells the hooks of an outcome that the table has. A task without a run was lost once too often.
func (b *base) tellSettled(t *task, v verdict) {
	settled := queue_job.Settled{Finished: queue_job.Finished{Status: v.status, Wait: v.wait}}
	if t.run != nil {
		settled.Job, settled.Err, settled.Took = &t.job, t.err, t.took
	} else {
		job := b.jobOf(t)
		job.Lost++
		settled.Job, settled.Err = &job, errors.New(lostReason(b.instance))
	}
	for _, h := range b.told.outcomes {
		if h.wants(v.status) {
			h.add(settled)
		}
	}
}

// tellFinished tells the type's own listener and the observers of the end of a run.
func (r *runner) tellFinished(ctx context.Context, t *task, f queue_job.Finished) {
	ctx = context.WithoutCancel(ctx)
	tell := func(name string, listener func(context.Context, *queue_job.Job, queue_job.Finished)) {
		if listener != nil {
			guarded(ctx, r.log, name, func() { listener(ctx, &t.job, f) })
		}
	}
	tell("OnFinished", r.cfg.OnFinished)
	for _, o := range r.told.observers {
		tell("Observer.Finished", o.Finished)
	}
}

// contextOf is the context in which the tasks of a call run. It ends with life.
func (r *runner) contextOf(life context.Context, tasks []*task) context.Context {
	first := tasks[0]
	about := r.aboutRun(first)
	if r.cfg.HandleBatchFunc != nil {
		about = logger.With(r.newContext(), slog.Int("job_type", int(r.cfg.JobType)), slog.Int("jobs", len(tasks)), slog.Int64("term", first.Term))
	}
	first.context = jobContext{life, about}
	return &first.context
}

// jobContext ends with a context and has the values of the logger's context.
type jobContext struct {
	context.Context
	values context.Context
}

func (c *jobContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// aboutRun is the context of log lines about a run.
func (b *base) aboutRun(t *task) context.Context {
	return attributes.Later(b.newContext(), t)
}

// newContext is the context of what is said about a run, before it says about which.
func (b *base) newContext() context.Context {
	ctx := b.log.GetNewContext(b.cfg.ServiceName)
	if b.which.known() {
		ctx = logger.With(ctx, slog.String("tables", b.which.tables))
	}
	return ctx
}

// LogValue says which run it is.
func (t *task) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("job_id", t.ID),
		slog.Int("job_type", int(t.JobType)),
		slog.Int("attempt", int(t.Attempts)),
		slog.Int64("term", t.Term),
	)
}
