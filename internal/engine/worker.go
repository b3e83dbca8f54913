package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// start hands marked tasks to the workers, starting as many more as there is work for. Only the dispatcher calls it: the
// pool may keep it waiting for a goroutine to end, which a goroutine that ends must not wait for.
func (l *line) start(marked []*task) {
	l.mu.Lock()
	l.ready = append(l.ready, marked...)
	more := min(len(l.ready), l.cfg.WorkerPoolCapacity-l.running)
	l.running += more
	l.mu.Unlock()
	for range more {
		if err := l.pool.Submit(l.work); err != nil { // only a pool that was released says no
			l.workerLeft()
		}
	}
}

// work runs ready tasks, one after the other, until there are none.
func (l *line) work() {
	ended := false
	defer func() {
		if !ended { // a handler took the goroutine down with runtime.Goexit; the dispatcher starts another
			l.workerLeft()
			signal(l.rowsCame)
		}
	}()
	for t := l.nextReady(); t != nil; t = l.nextReady() {
		l.run(t)
	}
	ended = true
}

// nextReady takes a ready task; if there is none, the worker that asks leaves.
func (l *line) nextReady() *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ready) == 0 {
		l.running--
		signal(l.rowsCame)
		return nil
	}
	t := l.ready[0]
	l.ready[0] = nil
	l.ready = l.ready[1:]
	return t
}

func (l *line) workerLeft() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}

// run runs one marked task and hands its outcome to the settler, however the handler ends. Without trust in the lease
// nothing starts: the row may be somebody else's by now. It is asked last, so that little time lies between the answer
// and the start.
func (l *line) run(t *task) {
	job := &queue_job.Job{
		Id: t.ID, JobType: t.JobType, JobParams: t.Params, StartTime: uint32(t.StartTime), NextExecuteTime: uint32(l.due(&t.Row)),
		Retries: t.Retries, Attempt: t.Attempts, Lost: t.Lost, Term: t.Term,
	}
	ctx, cancel := context.WithCancel(jobContext{t.lease.Context(), logger.With(l.log.GetNewContext(l.cfg.ServiceName), attributes(t)...)})
	started := time.Now()
	if !t.lease.Trusted() {
		cancel()
		l.settler.undo(t.lease, t)
		return
	}
	err := errGoexit // stands if the call never returns
	defer func() {
		cancel()
		l.finish(t, job, started, err)
	}()
	err = l.call(ctx, job)
}

func (l *line) finish(t *task, job *queue_job.Job, started time.Time, err error) {
	if t.alone {
		<-l.alone
	}
	l.mu.Lock()
	smooth(&l.runTakes, time.Since(started))
	l.mu.Unlock()
	v := decide(&l.cfg, t.Retries, job.Status, err)
	if ended := t.lease.Context(); err != nil && job.Status == queue_job.JobStatusInit && ended.Err() != nil {
		v = interrupted(context.Cause(ended), err)
	}
	l.settler.add(t, v, l.clock.at(started))
	signal(l.rowsCame)
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// call calls the handler and turns a panic into an error.
func (l *line) call(ctx context.Context, job *queue_job.Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.cfg.HandleJobFunc(ctx, job)
}

// jobContext ends with the lease and has the values of the logger's context.
type jobContext struct {
	context.Context
	values context.Context
}

func (c jobContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// attributes say in log lines which run they are about.
func attributes(t *task) []slog.Attr {
	return []slog.Attr{
		slog.Uint64("job_id", t.ID),
		slog.Int("job_type", int(t.JobType)),
		slog.Int("attempt", t.Attempts),
		slog.Int64("term", t.Term),
	}
}
