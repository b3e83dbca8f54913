package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// decide turns what a handler did, and how often the job had been retried before, into a verdict. A status that the
// handler set wins over its error.
func decide(cfg *queue_job.Config, row *store.Row, status queue_job.JobStatus, err error) verdict {
	v := verdict{status: status}
	var asked *queue_job.Outcome
	if err != nil {
		asked, v.reason = askedBy(err), err.Error()
	}
	switch {
	case status != queue_job.JobStatusInit:
	case asked != nil:
		v.status = asked.Status
		if err == error(asked) && asked.Err == nil && v.status != queue_job.JobStatusFailed {
			v.reason = "" // nothing went wrong
		}
	case err != nil:
		v.status = queue_job.JobStatusRetry
	default:
		v.status = queue_job.JobStatusSuccess
	}
	hasWait := asked != nil && asked.Status == v.status
	switch v.status {
	case queue_job.JobStatusSuccess, queue_job.JobStatusCancelled:
	case queue_job.JobStatusContinue:
		if v.wait = cfg.WaitTime; hasWait {
			v.wait = bounded(asked.Wait)
			if asked.Deferred {
				v.deferred = 1
			}
		}
	case queue_job.JobStatusRetry:
		if v.reason == "" {
			v.reason = "the handler asked for a retry"
		}
		if !retriesLeft(cfg, row) {
			v.status = queue_job.JobStatusFailed
			break
		}
		if v.retried = 1; hasWait {
			v.wait = bounded(asked.Wait)
		} else {
			v.wait = waitBefore(cfg, int(row.Retries), err)
		}
	case queue_job.JobStatusFailed:
		if v.reason == "" {
			v.reason = "the handler set the status failed"
		}
	default:
		v.reason = fmt.Sprintf("the handler set %v", v.status)
		v.status = queue_job.JobStatusFailed
	}
	return v
}

// retriesLeft reports whether a job may be retried once more. A number of the job's own wins over its type's.
func retriesLeft(cfg *queue_job.Config, row *store.Row) bool {
	most := retriesOf(cfg)
	if row.MaxRetries > store.NotSet {
		most = row.MaxRetries
	}
	return most == queue_job.Unlimited || row.Retries < most
}

// retriesOf is how many retries a job of the type has that says nothing about it.
func retriesOf(cfg *queue_job.Config) int32 {
	if !cfg.NeedRetry {
		return 0
	}
	return int32(min(cfg.MaxRetries, math.MaxInt32))
}

// waitBefore is the wait before a retry, after a number of retries.
func waitBefore(cfg *queue_job.Config, retries int, err error) (wait time.Duration) {
	wait = cfg.WaitTime
	if cfg.RetryTiming != nil {
		defer func() { _ = recover() }() // a panic leaves it at WaitTime
		wait = bounded(cfg.RetryTiming(retries, err))
	}
	return wait
}

// bounded is the nearest wait that a job can have: start_time, an int unsigned, ends in 2106.
func bounded(wait time.Duration) time.Duration {
	const tenYears = 10 * 365 * 24 * time.Hour
	return min(max(0, wait), tenYears)
}

// interrupted is the verdict on a run that failed after its context was ended from here, because the lease was lost or Stop
// ran out of patience. The job is not to blame: it runs again, and that does not count as a retry.
func interrupted(cause, err error) verdict {
	return verdict{status: queue_job.JobStatusRetry, reason: fmt.Sprintf("%v: %v", cause, err)}
}

// judgeError is judge for a run that ended with an error. The error may panic when it is looked at: its Is, As or Unwrap may. The run has
// ended by then, so nobody else would give its task back.
func (p *part) judgeError(t *task, cause error) (v verdict, dropped bool) {
	defer func() {
		if panicked := recover(); panicked != nil {
			t.run.err = fmt.Errorf("panic in the handler's error, a %T: %v\n%s", t.run.err, panicked, debug.Stack())
			v, dropped = p.judgeError(t, cause)
		}
	}()
	switch {
	case bridge.QueueJob.Ended(&t.run.job) != queue_job.JobStatusInit:
		return p.judgeCompleted(t, cause)
	case errors.Is(t.run.err, queue_job.ErrNotOurs):
		return p.judgeNotOurs(t, cause)
	default:
		return p.judgeReturned(t, cause, t.run.err), false
	}
}

// judgeNotOurs is the verdict on a run whose handler has heard that the job is not its any more, mostly before the watch has looked: the
// job was cancelled, or another run has it. If the table says otherwise, that was about another job, and the run has failed.
func (p *part) judgeNotOurs(t *task, cause error) (v verdict, dropped bool) {
	row, err := p.standing(t)
	if err != nil || t.ours(row) {
		v = p.judgeReturned(t, cause, t.run.err)
		v.doubt = t.row.ID
		return v, false
	}
	return p.countsNoMore(t, row, t.run.err), true
}

// countsNoMore is the verdict on a run whose row is not its own any more, which the log is told.
func (p *part) countsNoMore(t *task, row store.Standing, err error) verdict {
	v, why := verdict{status: queue_job.JobStatusRetry}, "another run has the job"
	switch status := queue_job.JobStatus(row.Status); {
	case row == store.Standing{}:
		why = "the job was deleted"
	case !status.Pending():
		v.status, why = queue_job.JobStatusCancelled, fmt.Sprintf("the job is %v", status)
	}
	p.process.Log.Info(p.aboutRun(t), fmt.Sprintf("the run counts no more, %s: %v", why, err))
	return v
}

// judgeReturned is the verdict by the handler's error and the status that it set.
func (p *part) judgeReturned(t *task, cause, err error) verdict {
	if ended := t.run.lease.Context(); err != nil && t.run.job.Status == queue_job.JobStatusInit && ended.Err() != nil && askedBy(err) == nil {
		return interrupted(context.Cause(ended), err)
	}
	if err != nil && errors.Is(cause, queue_job.ErrTimeout) && !errors.Is(err, queue_job.ErrTimeout) {
		err = fmt.Errorf("%w after %v: %w", queue_job.ErrTimeout, p.cfg.Timeout, err)
	}
	return decide(&p.cfg, &t.row, t.run.job.Status, err)
}

var (
	errNotCommitted = errors.New("the transaction in which the handler ended the job was not committed")
	errNotKnown     = errors.New("whether the transaction in which the handler ended the job was committed is not known")
)

// judgeCompleted is the verdict on a run whose handler has given the job its final status itself, in a transaction of its own. Only
// the table knows whether that was committed.
func (p *part) judgeCompleted(t *task, cause error) (v verdict, dropped bool) {
	err, job := t.run.err, &t.run.job
	given := bridge.QueueJob.Ended(job)
	if given == queue_job.JobStatusContinue {
		return p.judgeAsleep(t, cause), false
	}
	row, errRead := p.standing(t)
	status := queue_job.JobStatus(row.Status)
	switch {
	case errRead != nil: // if the transaction was committed, what is written now changes nothing
		v = interrupted(errRead, errors.Join(errNotKnown, err))
		v.doubt = t.row.ID
		return v, false
	case t.marked(row) && pending(row):
		if job.Status == queue_job.JobStatusInit && err == nil || job.Status == given {
			job.Status, err = queue_job.JobStatusInit, errors.Join(errNotCommitted, err)
		}
		v = p.judgeReturned(t, cause, err)
		v.doubt = t.row.ID // the handler may have given up while its commit was under way
		return v, false
	case t.marked(row) && err != nil && (status != given || status == queue_job.JobStatusCancelled): // by somebody else, perhaps
		return p.countsNoMore(t, row, err), true
	case t.marked(row):
		if err != nil && given == queue_job.JobStatusSuccess {
			p.process.Log.Warn(p.aboutRun(t), fmt.Sprintf("job was completed, and then its handler ended with an error: %v", err))
		}
		if reason := bridge.QueueJob.EndReason(job); reason != "" && status == given {
			t.run.err = errors.New(reason)
		}
		return verdict{status: status, written: status == given}, true
	case err != nil:
		return p.countsNoMore(t, row, err), true
	default: // another holder's
		return verdict{status: queue_job.JobStatusRetry}, true
	}
}

// judgeAsleep is the verdict on a run that has ended in [queue_job.Job.Sleep] or [queue_job.Await]. If the handler has kept that to itself, the
// job waits all the same.
func (p *part) judgeAsleep(t *task, cause error) verdict {
	asked := askedBy(t.run.err)
	asleep, awaits := bridge.QueueJob.Asleep(&t.run.job)
	if t.run.job.Status != queue_job.JobStatusInit || asked != nil && !asked.Status.Pending() {
		v := p.judgeReturned(t, cause, t.run.err)
		v.awaits = awaits && v.status == queue_job.JobStatusContinue // a signal ends that wait, too, and may have come already
		return v
	}
	v, by := decide(&p.cfg, &t.row, queue_job.JobStatusInit, asleep), "Sleep"
	if v.awaits = awaits; awaits {
		by = "Await"
	}
	if t.run.err == nil {
		v.reason = fmt.Sprintf("the handler has not returned the error of %s; the job waits all the same", by)
	} else if asked != asleep {
		v.reason = fmt.Sprintf("the handler has returned another error than that of %s; the job waits all the same: %v", by, t.run.err)
	}
	return v
}

// standing reads a task's row until a read succeeds. It goes on for a while after the end of the lease: a run that was
// committed must not be reported as failed.
func (p *part) standing(t *task) (store.Standing, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(t.run.lease.Context()))
	defer cancel()
	defer context.AfterFunc(t.run.lease.Context(), func() { time.AfterFunc(StopPatience*3/4, cancel) })()
	var standing store.Standing // none: the row is gone
	err := ground.Retry(asking, ground.Backoff{}, func() error {
		statement, cancel := context.WithTimeout(asking, ground.StatementMax)
		defer cancel()
		rows, err := p.process.Jobs.Standings(statement, []uint64{t.row.ID})
		if len(rows) > 0 {
			standing = rows[0]
		}
		return err
	})
	if err != nil {
		return store.Standing{}, context.Cause(t.run.lease.Context())
	}
	return standing, nil
}

// tellStarted tells the observer of the runs of a call.
func (p *part) tellStarted(ctx context.Context, tasks []*task) {
	for _, o := range p.process.Observers {
		if o.Started == nil {
			continue
		}
		for _, t := range tasks {
			ground.Guarded(ctx, p.process.Log, "Observer.Started", func() { o.Started(ctx, &t.run.job, t.run.waited) })
		}
	}
}

// tellFinished tells the type's own listener and the observers of the end of a run.
func (p *part) tellFinished(ctx context.Context, t *task, f queue_job.Finished) {
	ctx = context.WithoutCancel(ctx)
	tell := func(name string, listener func(context.Context, *queue_job.Job, queue_job.Finished)) {
		if listener != nil {
			ground.Guarded(ctx, p.process.Log, name, func() { listener(ctx, &t.run.job, f) })
		}
	}
	tell("OnFinished", p.cfg.OnFinished)
	for _, o := range p.process.Observers {
		tell("Observer.Finished", o.Finished)
	}
}

// tellSettled tells the hooks of an outcome that the table has. A task without a run was lost once too often.
func (p *part) tellSettled(t *task, v verdict) {
	settled := queue_job.Settled{Finished: queue_job.Finished{Status: v.status, Wait: v.wait}}
	if t.run != nil {
		settled.Job, settled.Err, settled.Took = &t.run.job, t.run.err, t.run.took
	} else {
		job := p.jobOf(t)
		job.Lost++
		settled.Job, settled.Err = &job, errors.New(lostReason(p.instance))
	}
	for _, h := range p.process.Hooks {
		if h.Wants(v.status) {
			h.Add(settled)
		}
	}
}
