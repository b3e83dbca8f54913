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

// work runs ready tasks, one call after the other, until there are none that may start.
func (l *line) work() {
	ended := false
	defer func() {
		if !ended { // a handler called runtime.Goexit; the dispatcher starts another worker
			l.workers.vanished()
		}
	}()
	for came := true; ; came = false {
		call := l.workers.next(came)
		if call == nil {
			ended = true
			return
		}
		l.run(call)
	}
}

// run calls the handler with the tasks of one call that may still start. Without a batch handler, a call is one task. The
// settler gets the outcomes, however the handler ends. The tasks belong to one lease and share one context.
func (l *line) run(tasks []*task) {
	ctx, cancel := context.WithCancelCause(l.contextOf(tasks))
	tasks = l.begin(ctx, tasks, cancel)
	if len(tasks) == 0 {
		cancel(nil)
		return
	}
	if l.cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, l.cfg.Timeout, queue_job.ErrTimeout)
		defer stop()
	}
	defer func() {
		cause := context.Cause(ctx)
		cancel(nil)
		for _, t := range tasks {
			l.finish(ctx, t, cause)
		}
		clear(tasks)
	}()
	for _, t := range tasks {
		l.counts.start(l.waited(t))
	}
	if len(l.told.observers) > 0 {
		l.tellStarted(ctx, tasks)
	}
	l.call(ctx, tasks)
}

// begin makes the tasks' jobs as the handler sees them, and returns the tasks that may start.
func (l *line) begin(ctx context.Context, tasks []*task, cancel context.CancelCauseFunc) (may []*task) {
	var params runParams
	if slices.ContainsFunc(tasks, (*task).HasLong) {
		params = l.longParams(tasks)
	}
	if l.cfg.RatePerSecond > 0 {
		l.awaitDelay(ctx, len(tasks))
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
		l.beginOne(t, started, cancelOne)
		if l.mayStart(t) && (!t.HasLong() || t.takeLong(params)) { // a task that does not start keeps no long parameters
			may = append(may, t)
			if t.alone && l.permit.has(t) {
				t.enough = time.AfterFunc(aloneWaitsFor, func() { l.permit.giveBack(t) })
			}
		} else {
			cancelOne(nil)
			l.notStarted(t)
		}
	}
	clear(tasks[len(may):])
	return may
}

// awaitDelay waits until n tasks may start, because others were late.
func (l *line) awaitDelay(ctx context.Context, n int) {
	if delay := l.workers.delay(n); delay > 0 {
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

func (l *line) beginOne(t *task, started time.Time, cancel context.CancelCauseFunc) {
	t.job = l.jobOf(t)
	bridge.QueueJob.Through(&t.job, l.rows, t.Attempts)
	t.cancel, t.started, t.err = cancel, started, errGoexit // which stands if the call never returns
	t.begun.Store(true)
}

// jobOf is the task's job as the application sees it.
func (l *line) jobOf(t *task) queue_job.Job {
	return queue_job.Job{
		Id: t.ID, JobType: t.JobType, TypeName: l.cfg.ServiceName, Tables: l.which.tables, JobParams: t.Params, StartTime: uint32(t.StartTime), NextExecuteTime: uint32(l.fellDue(t)),
		Retries: int(t.Retries), Attempt: int(t.Attempts - t.Deferred), Lost: int(t.Lost), Term: t.Term,
		Key: t.Key, Group: t.Group(), Priority: queue_job.Priority(t.Priority), CreateTime: uint32(t.CreateTime), Meta: t.Metadata(),
	}
}

// tellStarted tells the observer of the runs of a call.
func (l *line) tellStarted(ctx context.Context, tasks []*task) {
	for _, o := range l.told.observers {
		if o.Started == nil {
			continue
		}
		for _, t := range tasks {
			guarded(ctx, l.log, "Observer.Started", func() { o.Started(ctx, &t.job, l.waited(t)) })
		}
	}
}

// waited is how long a task has waited for its start. The table has whole seconds: a job that was due at once fell due before the end
// of the second in which it was created, and before it was ready. A task whose mark was refused has another dueMillis since.
func (l *line) waited(t *task) time.Duration {
	due := (t.CreateTime + 1) * 1000
	if t.StartTime > t.CreateTime {
		due = min(t.StartTime*1000, t.dueMillis)
	}
	return max(t.started.Sub(t.since), time.Duration(l.clock.At(t.started)-due)*time.Millisecond)
}

// fellDue is the second in which a task fell due. If a job runs again, the table rounds its time up to a whole second, and a
// task that waited in memory may start before that.
func (l *line) fellDue(t *task) int64 {
	due := t.DueSecond()
	if t.timed() {
		due = min(due, t.dueMillis/1000)
	}
	return due
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// call calls the handler and notes on each task how it ended. A panic is an error of all of them.
func (l *line) call(ctx context.Context, tasks []*task) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			for _, t := range tasks {
				t.err = err
			}
		}
	}()
	if l.batch == nil {
		tasks[0].err = l.handler(ctx, &tasks[0].job)
	} else {
		jobs := make([]*queue_job.Job, len(tasks)) // the handler's own, to sort as it likes
		for i, t := range tasks {
			jobs[i] = &t.job
		}
		for i, err := range eachOf(l.batch(ctx, jobs), len(tasks)) {
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
func (l *line) finish(ctx context.Context, t *task, cause error) {
	if t.enough != nil {
		t.enough.Stop()
		l.permit.giveBack(t)
	}
	ended := time.Now()
	l.workers.ended(t, ended)
	t.took = ended.Sub(t.started)
	bridge.QueueJob.Returned(&t.job)
	v, dropped := l.judge(t, cause)
	if v.deferred > 0 && !dropped {
		l.putOff(t, v, ended)
	} else {
		l.counts.end(v.status, t.took)
		if t.Deferred > 0 {
			l.putOffs.forget(t.ID)
		}
	}
	if dropped {
		l.queue.forget(t)
		if v.written {
			l.tellSettled(t, v)
		}
	} else {
		light := t
		if t.HasLong() {
			light = l.lighten(t)
		}
		l.settler.add(light, v, l.clock.At(t.started))
	}
	l.workers.handedOver()
	ground.Signal(l.wake)
	if l.cfg.OnFinished != nil || len(l.told.observers) > 0 {
		l.tellFinished(ctx, t, queue_job.Finished{Status: v.status, Err: t.err, Took: t.took, Wait: v.wait, Dropped: dropped && !v.written})
	}
}

// putOff notes that a run has ended before it had begun.
func (l *line) putOff(t *task, v verdict, ended time.Time) {
	delay := l.waited(t)
	l.putOffs.note(t, l.clock.At(t.started)-delay.Milliseconds(), l.clock.At(ended)+v.wait.Milliseconds())
	l.counts.putOff(delay)
}

// judge is the verdict on a run. It is dropped, which means that nothing is to be written here, if the job has been cancelled
// or completed elsewhere, if a stop has cut it off, or if the handler has written it.
func (l *line) judge(t *task, cause error) (v verdict, dropped bool) {
	switch {
	case t.cutOff, t.gone.Load() && errors.Is(cause, keeper.ErrLost):
		return verdict{status: queue_job.JobStatusRetry}, true
	case t.gone.Load():
		return verdict{status: queue_job.JobStatusCancelled}, true
	case t.err != nil:
		return l.judgeError(t, cause)
	case bridge.QueueJob.Completed(&t.job):
		return l.judgeCompleted(t, cause)
	default:
		return decide(&l.cfg, &t.Row, t.job.Status, nil), false
	}
}

// judgeError is judge for a run that ended with an error. The error may panic when it is looked at: its Is, As or Unwrap may. The run has
// ended by then, so nobody else would give its task back.
func (l *line) judgeError(t *task, cause error) (v verdict, dropped bool) {
	defer func() {
		if p := recover(); p != nil {
			t.err = fmt.Errorf("panic in the handler's error, a %T: %v\n%s", t.err, p, debug.Stack())
			v, dropped = l.judge(t, cause)
		}
	}()
	switch {
	case bridge.QueueJob.Completed(&t.job):
		return l.judgeCompleted(t, cause)
	case errors.Is(t.err, queue_job.ErrNotOurs):
		return l.judgeNotOurs(t, cause)
	default:
		return l.judgeReturned(t, cause, t.err), false
	}
}

// judgeNotOurs is the verdict on a run whose handler has heard that the job is not its any more, mostly before the watch has looked: the
// job was cancelled, or another run has it. If the table says otherwise, that was about another job, and the run has failed.
func (l *line) judgeNotOurs(t *task, cause error) (v verdict, dropped bool) {
	row, err := l.standing(t)
	if err != nil || t.ours(row) {
		v = l.judgeReturned(t, cause, t.err)
		v.doubt = t.ID
		return v, false
	}
	return l.countsNoMore(t, row, t.err), true
}

// countsNoMore is the verdict on a run whose row is not its own any more, which the log is told.
func (l *line) countsNoMore(t *task, row store.Standing, err error) verdict {
	v, why := verdict{status: queue_job.JobStatusRetry}, "another run has the job"
	switch status := queue_job.JobStatus(row.Status); {
	case row == store.Standing{}:
		why = "the job was deleted"
	case !status.Pending():
		v.status, why = queue_job.JobStatusCancelled, fmt.Sprintf("the job is %v", status)
	}
	l.log.Info(l.aboutRun(t), fmt.Sprintf("the run counts no more, %s: %v", why, err))
	return v
}

// judgeReturned is the verdict by the handler's error and the status that it set.
func (l *line) judgeReturned(t *task, cause, err error) verdict {
	if ended := t.lease.Context(); err != nil && t.job.Status == queue_job.JobStatusInit && ended.Err() != nil && askedBy(err) == nil {
		return interrupted(context.Cause(ended), err)
	}
	if err != nil && errors.Is(cause, queue_job.ErrTimeout) && !errors.Is(err, queue_job.ErrTimeout) {
		err = fmt.Errorf("%w after %v: %w", queue_job.ErrTimeout, l.cfg.Timeout, err)
	}
	return decide(&l.cfg, &t.Row, t.job.Status, err)
}

// tellSettled tells the hooks of an outcome that the table has. A task without a run was lost once too often.
func (l *line) tellSettled(t *task, v verdict) {
	settled := queue_job.Settled{Finished: queue_job.Finished{Status: v.status, Wait: v.wait}}
	if t.run != nil {
		settled.Job, settled.Err, settled.Took = &t.job, t.err, t.took
	} else {
		job := l.jobOf(t)
		job.Lost++
		settled.Job, settled.Err = &job, errors.New(lostReason(l.instance))
	}
	for _, h := range l.told.outcomes {
		if h.wants(v.status) {
			h.add(settled)
		}
	}
}

// tellFinished tells the type's own listener and the observers of the end of a run.
func (l *line) tellFinished(ctx context.Context, t *task, f queue_job.Finished) {
	ctx = context.WithoutCancel(ctx)
	tell := func(name string, listener func(context.Context, *queue_job.Job, queue_job.Finished)) {
		if listener != nil {
			guarded(ctx, l.log, name, func() { listener(ctx, &t.job, f) })
		}
	}
	tell("OnFinished", l.cfg.OnFinished)
	for _, o := range l.told.observers {
		tell("Observer.Finished", o.Finished)
	}
}

// contextOf is the parent of the context in which the tasks of a call run.
func (l *line) contextOf(tasks []*task) context.Context {
	first := tasks[0]
	about := l.aboutRun(first)
	if l.cfg.HandleBatchFunc != nil {
		about = logger.With(l.newContext(), slog.Int("job_type", int(l.cfg.JobType)), slog.Int("jobs", len(tasks)), slog.Int64("term", first.Term))
	}
	first.parent = jobContext{first.lease.Context(), about}
	return &first.parent
}

// jobContext ends with the lease and has the values of the logger's context.
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
func (l *line) aboutRun(t *task) context.Context {
	return attributes.Later(l.newContext(), t)
}

// newContext is the context of what is said about a run, before it says about which.
func (l *line) newContext() context.Context {
	ctx := l.log.GetNewContext(l.cfg.ServiceName)
	if l.which.known() {
		ctx = logger.With(ctx, slog.String("tables", l.which.tables))
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
