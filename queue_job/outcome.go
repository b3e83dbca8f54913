package queue_job

import (
	"errors"
	"fmt"
	"time"
)

// Outcome is an error by which a handler says what becomes of its job. [Snooze], [Defer], [RetryAfter], [Fail] and
// [Cancel] make one. It also works inside other errors, wrapped with %w. If the handler set [Job.Status], that wins over the Outcome.
type Outcome struct {
	Status JobStatus     // what the job becomes: continue, retry, failed or cancelled
	Wait   time.Duration // until it runs again, if it does
	Err    error         // the reason; nil: none was given
	// Deferred: the run does not count in [Job.Attempt], if the Status is continue.
	Deferred bool
	// Because and Until are for people, if the job is Deferred: what it waits for, as in "the printer is off", and until when that will be so,
	// if it is known. They are not logged. As long as jobs wait for it, operate.Check and the console say so, and count the jobs with the
	// same Because.
	Because string
	Until   time.Time
}

// Snooze makes the job run again after a wait. Use it to look again later whether something has happened. It is no
// retry, so [Config.MaxRetries] does not limit it: a job may snooze without end. [Job.Attempt] counts the run,
// [Job.Retries] does not. If the run had not really begun, use [Defer]. A negative wait means at once, and a wait above ten
// years means ten years.
func Snooze(wait time.Duration) error {
	return &Outcome{Status: JobStatusContinue, Wait: wait}
}

// Defer is [Snooze] for a run that found that it cannot begin yet: something that it needs is in use, or switched off for the night.
// Such a run counts neither in [Job.Attempt] nor in [Job.Retries], so the next run sees the numbers that this one saw. A handler
// that does something of its own in the first run, or more often in later ones, is not misled by it.
//
// The table and the log count all runs: [JobInfo.Attempts] grows, and [JobInfo.Deferred] says how many of them ended like this.
func Defer(wait time.Duration) error {
	return &Outcome{Status: JobStatusContinue, Wait: wait, Deferred: true}
}

// RetryAfter makes the job be retried after this wait. Use it if an outside system says when to come back. In all other
// respects it is a plain error: it counts as a retry, and [Config.NeedRetry] and [Config.MaxRetries] apply.
func RetryAfter(wait time.Duration, reason error) error {
	return &Outcome{Status: JobStatusRetry, Wait: wait, Err: reason}
}

// Fail ends the job as failed, whatever retries are left. Use it for an error that no retry can repair.
func Fail(reason error) error {
	return &Outcome{Status: JobStatusFailed, Err: reason}
}

// Cancel ends the job as cancelled. Use it if the job need not be done any more. To cancel a job from outside its
// handler, use [Jobs.Cancel].
func Cancel(reason error) error {
	return &Outcome{Status: JobStatusCancelled, Err: reason}
}

// Error returns the reason or, if there is none, the outcome in words.
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

// ErrTimeout is the cause in a handler's context if the run has taken longer than [Config.Timeout].
var ErrTimeout = errors.New("job timed out")
