package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// verdict is what is written about a run: the job's new status and, if it runs again, after which wait.
type verdict struct {
	status   queue_job.JobStatus
	wait     time.Duration
	reason   string // why it did not succeed; empty for a plain success or continuation
	retried  int32  // 1 if the run counts as a retry
	deferred int32  // 1 if it counts as no run
	written  bool   // by the handler, in its own transaction
	doubt    uint64 // the job's id, if only the table knows whether to write this; 0: write it
}

// final reports whether the job is over.
func (v verdict) final() bool { return !v.status.Pending() }

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

// askedBy is the outcome that an error asks for; nil: none.
func askedBy(err error) *queue_job.Outcome {
	var asked *queue_job.Outcome
	errors.As(err, &asked)
	return asked
}

// retriesLeft reports whether a job may be retried once more. A number of the job's own wins over its type's.
func retriesLeft(cfg *queue_job.Config, row *store.Row) bool {
	most := cfg.MaxRetries
	switch {
	case row.MaxRetries > store.NotSet:
		most = int(row.MaxRetries)
	case !cfg.NeedRetry:
		return false
	}
	return most == queue_job.Unlimited || int(row.Retries) < most
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

// lostTooOften reports whether a job has failed that was lost so often.
func lostTooOften(cfg *queue_job.Config, lost int16) bool {
	return cfg.LostLimit > 0 && int(lost) >= cfg.LostLimit
}

// isSuspect reports whether a job that was lost so often runs alone, so that it takes no neighbour with it: after two losses, or before
// the last.
func isSuspect(cfg *queue_job.Config, lost int16) bool {
	return cfg.LostLimit > 1 && int(lost) >= min(2, cfg.LostLimit-1)
}

// lostReason names who noticed: the row of the log names who died.
func lostReason(noticedBy string) string {
	return "process died while running it; noticed by " + noticedBy
}
