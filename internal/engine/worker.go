package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// start hands marked tasks to the workers, starting as many more as there is work for. Only the dispatcher calls it: the
// pool may keep it waiting for a goroutine to end, which a goroutine that ends must not wait for.
func (l *line) start(marked []*task) {
	l.mu.Lock()
	l.makeReady(marked)
	now, more := time.Now(), 0
	if n, _ := l.gate.open(now, l.ready); n > 0 {
		more = max(0, min(l.gate.calls(now, len(l.ready))-l.coming, l.cfg.WorkerPoolCapacity-l.running))
	}
	l.running += more
	l.coming += more
	l.mu.Unlock()
	for range more {
		if err := l.pool.Submit(l.work); err != nil { // only a pool that was released says no
			l.mu.Lock()
			l.coming--
			l.running--
			l.mu.Unlock()
		}
	}
}

// makeReady lets workers take marked tasks. The caller holds the lock.
func (l *line) makeReady(marked []*task) {
	now := time.Now()
	for _, t := range marked {
		t.since = now
	}
	l.ready = append(l.ready, marked...)
}

// work runs ready tasks, one call after the other, until there are none that may start.
func (l *line) work() {
	ended := false
	defer func() {
		if !ended { // a handler took the goroutine down with runtime.Goexit; the dispatcher starts another
			l.workerLeft()
			signal(l.rowsCame)
		}
	}()
	for came := true; ; came = false {
		t, others := l.nextReady(came)
		switch {
		case t == nil:
			ended = true
			return
		case l.cfg.HandleBatchFunc != nil:
			l.runBatch(append([]*task{t}, others...))
		default:
			l.run(t)
		}
	}
}

// nextReady takes the ready tasks of the next call; if none may start, the worker that asks leaves. One that has come takes
// its first in the same breath: otherwise it would seem to be at work, and its task to need another worker.
func (l *line) nextReady(came bool) (first *task, others []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if came {
		l.coming--
	}
	now := time.Now()
	n, _ := l.gate.open(now, l.ready)
	if n == 0 {
		l.running--
		signal(l.rowsCame)
		return nil, nil
	}
	if l.gate != nil {
		l.gate.enter(now, n)
		signal(l.rowsCame) // it opens at another time now
	}
	for _, t := range l.ready[:n] {
		t.place = len(l.atWork)
		l.atWork = append(l.atWork, t)
	}
	first, others = l.ready[0], slices.Clone(l.ready[1:n])
	clear(l.ready[:n])
	l.ready = l.ready[n:]
	return first, others
}

// gateOpensIn is in what time a ready task may start that waits for nothing but the gate, or marks may be made for it. An
// hour: something else happens before.
func (l *line) gateOpensIn() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch now := time.Now(); {
	case l.running >= l.cfg.WorkerPoolCapacity:
		return time.Hour
	case len(l.ready) == 0:
		return l.gate.marksAgain(now)
	default:
		n, again := l.gate.open(now, l.ready)
		if n > 0 && l.coming > 0 { // who comes says so
			return time.Hour
		}
		return again
	}
}

// takeReady takes all tasks that no worker has taken yet.
func (l *line) takeReady() []*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	unstarted := append(l.ready, l.early...)
	l.ready, l.early = nil, nil
	return unstarted
}

// leave notes that a worker is done with a task. The caller holds the lock.
func (l *line) leave(t *task) {
	last := len(l.atWork) - 1
	l.atWork[t.place] = l.atWork[last]
	l.atWork[t.place].place = t.place
	l.atWork[last] = nil
	l.atWork = l.atWork[:last]
}

// freeWorkers is how many more tasks, or calls, the workers would begin at once if none were ready. The caller holds the
// lock.
func (l *line) freeWorkers() int { return l.cfg.WorkerPoolCapacity - l.running + l.coming }

func (l *line) workerLeft() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}

// run runs one marked task, if it may still start, and hands its outcome to the settler, however the handler ends.
func (l *line) run(t *task) {
	t.parent = jobContext{t.lease.Context(), l.aboutRun(t)}
	ctx, cancel := context.WithCancelCause(&t.parent)
	l.begin(t, time.Now(), cancel)
	if !l.mayStart(t) {
		cancel(nil)
		l.notStarted(t)
		return
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
		l.finish(ctx, t, cause, err)
	}()
	err = l.call(ctx, &t.job)
}

// begin sets what a run has: the job as its handler sees it, and how to cancel it.
func (l *line) begin(t *task, started time.Time, cancel context.CancelCauseFunc) {
	t.job = queue_job.Job{
		Id: t.ID, JobType: t.JobType, JobParams: t.Params, StartTime: uint32(t.StartTime), NextExecuteTime: uint32(l.fellDue(t)),
		Retries: int(t.Retries), Attempt: int(t.Attempts), Lost: int(t.Lost), Term: t.Term,
		Key: t.Key, Priority: queue_job.Priority(t.Priority), CreateTime: uint32(t.CreateTime),
	}
	t.job.Through(l.ran)
	t.cancel, t.started = cancel, started
	t.begun.Store(true)
}

// fellDue is the second in which a task fell due. The table rounds the time of a job that runs again up to a whole second;
// one that waited in memory starts before that is over.
func (l *line) fellDue(t *task) int64 {
	due := l.due(&t.Row)
	if t.timed() {
		due = min(due, t.due/1000)
	}
	return due
}

// yield gives the permit back that a suspect has.
func (l *line) yield(t *task) {
	if t.permit {
		t.permit = false
		<-l.alone
	}
}

// finish hands over what came of a run. The cause is that for which its context had ended before; nil: it had not.
func (l *line) finish(ctx context.Context, t *task, cause, err error) {
	l.yield(t)
	ended := time.Now()
	job, took := &t.job, ended.Sub(t.started)
	l.mu.Lock()
	smooth(&l.runTakes, took)
	l.ranLast = ended
	l.leave(t)
	l.mu.Unlock()
	v, dropped := l.judge(t, job, cause, err)
	if dropped {
		l.queue.forget(t)
	} else {
		l.settler.add(t, v, l.clock.at(t.started))
	}
	signal(l.rowsCame)
	if l.cfg.OnFinished != nil {
		l.tellObserver(context.WithoutCancel(ctx), job, queue_job.Finished{Status: v.status, Err: err, Took: took, Wait: v.wait, Dropped: dropped && !v.written})
	}
}

// judge is the verdict on a run. It is dropped, which means that nothing is to be written here, if the job has been cancelled
// or completed elsewhere, or if the handler has written it.
func (l *line) judge(t *task, job *queue_job.Job, cause, err error) (v verdict, dropped bool) {
	if t.gone.Load() {
		if errors.Is(cause, keeper.ErrLost) {
			return verdict{status: queue_job.JobStatusRetry}, true
		}
		return verdict{status: queue_job.JobStatusCancelled}, true
	}
	if job.Completed() {
		return l.judgeCompleted(t, job, cause, err)
	}
	return l.judgeReturned(t, job, cause, err), false
}

// judgeReturned goes by what the handler returned, and the status that it set.
func (l *line) judgeReturned(t *task, job *queue_job.Job, cause, err error) verdict {
	if ended := t.lease.Context(); err != nil && job.Status == queue_job.JobStatusInit && ended.Err() != nil && askedBy(err) == nil {
		return interrupted(context.Cause(ended), err)
	}
	if err != nil && errors.Is(cause, queue_job.ErrTimeout) && !errors.Is(err, queue_job.ErrTimeout) {
		err = fmt.Errorf("%w after %v: %w", queue_job.ErrTimeout, l.cfg.Timeout, err)
	}
	return decide(&l.cfg, &t.Row, job.Status, err)
}

// tellObserver lets the application's observer know, whose panics are its own.
func (l *line) tellObserver(ctx context.Context, job *queue_job.Job, f queue_job.Finished) {
	defer func() {
		if p := recover(); p != nil {
			l.log.Error(ctx, fmt.Sprintf("OnFinished: panic: %v\n%s", p, debug.Stack()))
		}
	}()
	l.cfg.OnFinished(ctx, job, f)
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// call calls the handler and turns a panic into an error.
func (l *line) call(ctx context.Context, job *queue_job.Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	err = l.handler(ctx, job)
	if err != nil {
		_ = err.Error() // which panics here, if it does: a nil pointer in an error is a common mistake
	}
	return err
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
	return logger.WithLater(l.log.GetNewContext(l.cfg.ServiceName), t)
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
