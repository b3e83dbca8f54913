package queue_job

import (
	"context"
	"fmt"
	"time"
)

// Handler runs a job. [Config.HandleJobFunc] is one.
type Handler func(ctx context.Context, job *Job) error

// Middleware wraps a handler in another, in the shape of net/http middleware: it returns a handler that does something
// before it calls next, after it, or instead of it.
type Middleware func(next Handler) Handler

// Handler returns HandleJobFunc inside its Middleware, of which the first is the outermost. The Runner calls this
// handler; a test can call it to try both together. It is an error if a middleware returns no handler.
func (c *Config) Handler() (Handler, error) {
	handler := Handler(c.HandleJobFunc)
	for i := len(c.Middleware) - 1; i >= 0; i-- {
		if handler = c.Middleware[i](handler); handler == nil {
			return nil, fmt.Errorf("queue_job.Config.Middleware (job type %d, service %q): number %d made no handler; return one from it", c.JobType, c.ServiceName, i)
		}
	}
	return handler, nil
}

// Finished tells [Config.OnFinished] and others about a run.
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

// Settled is an outcome that the table has, for [github.com/create-info/persistent-queue.WithOnSettled] and WithOnDead.
type Settled struct {
	// Job is the job as its run had it. If the job has failed because it was lost too often, it is the run that was lost, and Took is
	// 0. Do not change it.
	Job *Job
	Finished
}

// RunsAgain reports whether another run of the job follows, after Wait.
func (f Finished) RunsAgain() bool { return f.Status.Pending() }
