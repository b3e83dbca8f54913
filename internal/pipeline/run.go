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
	"github.com/create-info/persistent-queue/internal/store"
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
	first, about := tasks[0], slog.LogValuer(tasks[0])
	if r.batch != nil {
		about = manyRuns{first, len(tasks)}
	}
	first.context = jobContext{life, r.aboutRun(about)}
	ctx := &first.context
	defer func() {
		if p := recover(); p != nil { // it is an error of all of them
			err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			for _, t := range tasks {
				t.err = err
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
		r.counts.delay[store.RangeOf(t.waited)].Add(1)
	}
	if len(r.Observers) > 0 {
		r.tellStarted(ctx, tasks)
	}
	if r.batch == nil {
		first.err = r.handler(ctx, &first.job)
	} else {
		r.callBatch(ctx, tasks)
	}
	for _, t := range tasks {
		if t.err != nil {
			_ = t.err.Error() // which panics here, if it does: a nil pointer in an error is a common mistake
		}
	}
}

// begin makes the tasks' jobs as the handler sees them, and returns the tasks that may start: the lease is trusted, the job is not cancelled,
// its type is not paused, and the last answers about that are not too old.
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
		bridge.QueueJob.Through(&t.job, r.Rows, t.Attempts)
		t.cancel, t.started, t.err = cancelOne, started, errGoexit // which stands if the call never returns
		t.begun.Store(true)
		// Little time lies between these answers and the start.
		mayStart := t.lease.Trusted() && !t.gone.Load() && r.starts.allowedAt(started) &&
			started.Sub(*t.seen.Load()) < time.Duration(r.starts.lasts.Load())
		if mayStart && (!t.HasLong() || t.takeLong(params)) { // a task that does not start keeps no long parameters
			t.waited = r.waited(t)
			may = append(may, t)
			if t.alone && r.Permit.has(t) {
				t.enough = time.AfterFunc(aloneWaitsFor, func() { r.Permit.giveBack(t) })
			}
		} else {
			cancelOne(nil)
			r.notStarted(t)
		}
	}
	clear(tasks[len(may):])
	return may
}

// waited is how long a task has waited for its start. The table has whole seconds: a job that was due at once fell due before the end
// of the second in which it was created, and before it was ready. A task whose mark was refused has another dueMillis since.
func (b *base) waited(t *task) time.Duration {
	due := (t.CreateTime + 1) * 1000
	if t.StartTime > t.CreateTime {
		due = min(t.StartTime*1000, t.dueMillis)
	}
	return max(t.started.Sub(t.since), time.Duration(b.Clock.At(t.started)-due)*time.Millisecond)
}

// notStarted takes back a marked task that may not start now, or ever.
func (r *runner) notStarted(t *task) {
	r.workers.ended(t, time.Time{})
	defer r.workers.ending.Add(-1)
	if !t.gone.Load() {
		r.marker.takeBack(t.lease, t)
		return
	}
	r.Permit.giveBack(t)
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

// tellStarted tells the observer of the runs of a call.
func (r *runner) tellStarted(ctx context.Context, tasks []*task) {
	for _, o := range r.Observers {
		if o.Started == nil {
			continue
		}
		for _, t := range tasks {
			ground.Guarded(ctx, r.Log, "Observer.Started", func() { o.Started(ctx, &t.job, t.waited) })
		}
	}
}

// manyRuns are the runs of a call of a batch handler, as the log has them.
type manyRuns struct {
	first *task
	jobs  int
}

func (m manyRuns) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("job_type", int(m.first.JobType)), slog.Int("jobs", m.jobs), slog.Int64("term", m.first.Term))
}

// callBatch calls the batch handler and notes on each task how it ended.
func (r *runner) callBatch(ctx context.Context, tasks []*task) {
	jobs := make([]*queue_job.Job, len(tasks)) // the handler's own, to sort as it likes
	for i, t := range tasks {
		jobs[i] = &t.job
	}
	for i, err := range eachOf(r.batch(ctx, jobs), len(tasks)) {
		tasks[i].err = err
	}
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

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
		r.Permit.giveBack(t)
	}
	ended := time.Now()
	r.workers.ended(t, ended)
	t.took = ended.Sub(t.started)
	bridge.QueueJob.Returned(&t.job)
	v, dropped := r.judge(t, cause)
	if v.deferred > 0 && !dropped {
		r.putOff(t, v, ended)
	} else {
		r.counts.took[store.RangeOf(t.took)].Add(1)
		r.counts.ended[v.status].Add(1)
		if t.Deferred > 0 {
			r.counts.putOffs.forget(t.ID)
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
		r.settler.add(light, v, r.Clock.At(t.started))
	}
	r.workers.ending.Add(-1)
	ground.Signal(r.wake)
	if r.cfg.OnFinished != nil || len(r.Observers) > 0 {
		r.tellFinished(ctx, t, queue_job.Finished{Status: v.status, Err: t.err, Took: t.took, Wait: v.wait, Dropped: dropped && !v.written})
	}
}

// putOff notes that a run has ended before it had begun.
func (r *runner) putOff(t *task, v verdict, ended time.Time) {
	r.counts.putOffs.note(t, r.Clock.At(t.started)-t.waited.Milliseconds(), r.Clock.At(ended)+v.wait.Milliseconds())
	r.counts.deferred[store.RangeOf(t.waited)].Add(1)
	r.counts.deferrals.Add(1)
}

// tellFinished tells the type's own listener and the observers of the end of a run.
func (r *runner) tellFinished(ctx context.Context, t *task, f queue_job.Finished) {
	ctx = context.WithoutCancel(ctx)
	tell := func(name string, listener func(context.Context, *queue_job.Job, queue_job.Finished)) {
		if listener != nil {
			ground.Guarded(ctx, r.Log, name, func() { listener(ctx, &t.job, f) })
		}
	}
	tell("OnFinished", r.cfg.OnFinished)
	for _, o := range r.Observers {
		tell("Observer.Finished", o.Finished)
	}
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

// Long parameters are not in memory while a job waits, nor when its run has ended: the worker reads them right before it calls the
// handler. So they take as much memory as the runs need, whatever waits.

// LongReadsMax is how many reads of long parameters a database is sent at a time: there are many workers, and perhaps few
// connections.
const LongReadsMax = 8

// runParams are the long parameters of runs.
type runParams map[runID]string

type runID struct {
	job     uint64
	attempt int32
}

// longParams reads the long parameters of those tasks that have any. They are about to start.
// Tasks whose parameters it does not bring wait, longer each time.
func (r *runner) longParams(tasks []*task) runParams {
	var long []*task
	for _, t := range tasks {
		if t.HasLong() && !t.gone.Load() {
			long = append(long, t)
		}
	}
	began, params := time.Now(), runParams{}
	for some := range slices.Chunk(long, longRowsMax) {
		for _, row := range r.readLong(some) {
			params[runID{row.ID, row.Attempts}] = row.Params
		}
	}
	for _, t := range long {
		t.read = time.Since(began)
		if _, ok := params[t.runID()]; !ok {
			t.refuse(r.Clock.Now(), lockedLongest)
		}
	}
	return params
}

func (t *task) runID() runID { return runID{t.ID, t.Attempts} }

// readLong returns nothing if the read fails.
func (r *runner) readLong(tasks []*task) []store.RunParams {
	lease := tasks[0].lease
	statement, cancel := context.WithTimeout(lease.Context(), ground.StatementMax)
	defer cancel()
	select {
	case r.LongReads <- struct{}{}:
		defer func() { <-r.LongReads }()
	case <-statement.Done():
		return nil
	}
	rows, err := r.Jobs.LongParams(statement, idsOf(tasks), lease.Term)
	r.Errlog.On(lease.Context(), "read long parameters", err)
	return rows
}

// takeLong gives a task's job its long parameters. It reports whether they were read.
func (t *task) takeLong(params runParams) bool {
	whole, ok := params[t.runID()]
	t.job.JobParams = whole
	return ok
}

// lighten lets the long parameters of a task go whose run has ended. The task that it returns stands for it from now on: the
// handler may have kept the job.
func (r *runner) lighten(t *task) *task {
	light := r.queue.substitute(t)
	light.run = &run{lease: t.lease, job: r.jobOf(t), err: t.err, took: t.took}
	light.job.JobParams = ""
	return light
}

// longRowsMax is how many rows with long parameters one statement reads, marks or settles: what is read has to come in time, and a
// binary log or a write set may have the rows whole, as they were and as they are.
const longRowsMax = 32

// fewLong divides groups of rows that are written together so that none has too many with long parameters.
func fewLong[T interface{ HasLong() bool }](groups [][]T) (few [][]T) {
	for _, group := range groups {
		from, long := 0, 0
		for i, row := range group {
			if !row.HasLong() {
				continue
			}
			if long++; long > longRowsMax {
				few = append(few, group[from:i:i])
				from, long = i, 1
			}
		}
		few = append(few, group[from:])
	}
	return few
}
