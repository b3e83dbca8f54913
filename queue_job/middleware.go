package queue_job

import (
	"context"
	"time"
)

// Handler runs a job. [Config.HandleJobFunc] is one.
type Handler func(ctx context.Context, job *Job) error

// Middleware wraps a handler in another, in the shape of net/http middleware: it returns a handler that does something
// before it calls next, after it, or instead of it.
type Middleware func(next Handler) Handler

// Finished tells [Config.OnFinished] about a run.
type Finished struct {
	// Status is what the job becomes: success, failed or cancelled if that is final, continue or retry if the job runs
	// again.
	Status JobStatus
	// Err is what the handler returned, or what it panicked with.
	Err error
	// Took is how long the run took.
	Took time.Duration
	// Wait is how long the job waits before it runs again, see [Finished.RunsAgain].
	Wait time.Duration
	// Dropped: nothing is written about this run. Either the job was cancelled while it ran, and then Status says so too,
	// or another holder has it by now.
	Dropped bool
}

// RunsAgain reports whether another run of the job follows, after Wait.
func (f Finished) RunsAgain() bool { return f.Status.Pending() }
