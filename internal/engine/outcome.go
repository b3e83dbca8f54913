package engine

import (
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// verdict is what is written about a run: the job's new status and, if it runs again, after which wait.
type verdict struct {
	status  queue_job.JobStatus
	wait    time.Duration
	reason  string // why it did not succeed; empty for a plain success or continuation
	retried int    // 1 if the run counts as a retry
}

// final reports whether the job is over.
func (v verdict) final() bool {
	return v.status != queue_job.JobStatusContinue && v.status != queue_job.JobStatusRetry
}

// decide turns what a handler did, and how often the job had been retried before, into a verdict. A status that the
// handler set wins over its error.
func decide(cfg *queue_job.Config, retries int, status queue_job.JobStatus, err error) verdict {
	v := verdict{status: status}
	if err != nil {
		v.reason = err.Error()
	}
	if status == queue_job.JobStatusInit {
		v.status = queue_job.JobStatusSuccess
		if err != nil {
			v.status = queue_job.JobStatusRetry
		}
	}
	switch v.status {
	case queue_job.JobStatusSuccess, queue_job.JobStatusCancelled:
	case queue_job.JobStatusContinue:
		v.wait = cfg.WaitTime
	case queue_job.JobStatusRetry:
		if v.reason == "" {
			v.reason = "the handler asked for a retry"
		}
		if !cfg.NeedRetry || retries >= cfg.MaxRetries {
			v.status = queue_job.JobStatusFailed
			break
		}
		v.wait, v.retried = cfg.WaitTime, 1
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

// interrupted is the verdict on a run that ended with an error after its context had been ended from here, because the
// lease was lost or Stop ran out of patience. The job is not to blame: it runs again, and it is not counted.
func interrupted(cause, err error) verdict {
	return verdict{status: queue_job.JobStatusRetry, reason: fmt.Sprintf("%v: %v", cause, err)}
}

// A job whose process died while running it runs again; the second time it runs alone, so that it takes no neighbour
// with it; the third time it has failed.
const (
	lostBeforeAlone  = 2
	lostBeforeFailed = 3
)

const lostReason = "process died while running it"
