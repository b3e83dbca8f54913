package queue_job

import (
	"errors"
	"fmt"
	"time"
)

// Outcome is an error by which a handler says what is to become of its job. Snooze, RetryAfter, Fail and Cancel make one;
// it works as well from inside other errors, wrapped with %w. A Status that the handler set on the job wins over it.
type Outcome struct {
	Status JobStatus     // what the job becomes: continue, retry, failed or cancelled
	Wait   time.Duration // until it runs again, if it does
	Err    error         // the reason; nil: none was given
}

// Snooze lets the job run again after a wait. It is no retry, so MaxRetries does not limit it: a job may snooze for ever.
// Use it to look again later whether something has happened. Job.Attempt counts the run, Job.Retries does not. A negative
// wait means at once.
func Snooze(wait time.Duration) error {
	return &Outcome{Status: JobStatusContinue, Wait: wait}
}

// RetryAfter lets the job be retried, but after a wait of its own: use it where an outside system says when to come back.
// In all else it is a plain error: it counts as a retry, and NeedRetry and MaxRetries apply.
func RetryAfter(wait time.Duration, reason error) error {
	return &Outcome{Status: JobStatusRetry, Wait: wait, Err: reason}
}

// Fail ends the job as failed, whatever retries are left: use it for what no retry will mend.
func Fail(reason error) error {
	return &Outcome{Status: JobStatusFailed, Err: reason}
}

// Cancel ends the job as cancelled: use it for what need not be done any more.
func Cancel(reason error) error {
	return &Outcome{Status: JobStatusCancelled, Err: reason}
}

// Error is the reason; without one, what was asked for.
func (o *Outcome) Error() string {
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case o.Status == JobStatusContinue:
		return fmt.Sprintf("the job is to run again after %v", o.Wait)
	case o.Status == JobStatusRetry:
		return fmt.Sprintf("the job is to be retried after %v", o.Wait)
	default:
		return fmt.Sprintf("the handler gave the job up: %v", o.Status)
	}
}

// Unwrap returns the reason.
func (o *Outcome) Unwrap() error { return o.Err }

// ErrTimeout is the cause in a handler's context when the run has taken longer than Config.Timeout.
var ErrTimeout = errors.New("job timed out")
