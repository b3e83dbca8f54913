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

// BatchHandler runs several jobs in one call. [Config.HandleBatchFunc] is one.
type BatchHandler func(ctx context.Context, jobs []*Job) error

// BatchMiddleware is [Middleware] for a handler of batches. Its error is the outcome of all jobs that it was called with: if it passes
// only some of them to next, it must return [BatchErrors] with an entry for each job that it got.
type BatchMiddleware func(next BatchHandler) BatchHandler

// Finished tells [Config.OnFinished] and others about a run.
type Finished struct {
	// Status is what the job becomes: success, failed or cancelled if that is final, continue or retry if the job runs
	// again.
	Status JobStatus
	// Err is what the handler returned, or what it panicked with. If its cause is [ErrExpired], no handler was called, nor [Observer.Started].
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
	// Job is the job as its run had it, but without parameters of more than 4,096 characters: [Jobs.Get] reads them. If the job has
	// failed because it was lost too often, it is the run that was lost, and Took is 0. Do not change it. What a [Codec] has encoded stands in
	// JobParams as it is stored; [Job.Decode] decodes it.
	Job *Job
	Finished
}

// Observer has functions that are told what happens in a process, for metrics and traces: pass it to
// [github.com/create-info/persistent-queue.WithObserver]. A function that is nil costs nothing. Many goroutines call Started and
// Finished at the same time, and wait for them, so they should be quick. A panic in a function is logged, and does no harm.
type Observer struct {
	// Started is called right before the handler, with the handler's context. Waited is how long the job has waited since it
	// fell due. The table holds whole seconds, so if the job was due when it was added, up to a second of that may be missing.
	Started func(ctx context.Context, job *Job, waited time.Duration)
	// Finished is called after each run, as [Config.OnFinished] is, and after that.
	Finished func(ctx context.Context, job *Job, f Finished)
	// Lease is called when the process has taken the lease of a job type, or of a shard of it, and when it starts no more jobs
	// under it, since it gives the lease away or has lost it. A type that is not divided has the shard 0. It is called with one
	// change after the other, in their order, and nothing but Stop waits for it. It does not say in which tables; the Runner's Types do.
	Lease func(jobType int32, shard int, held bool)
}

// RunsAgain reports whether another run of the job follows, after Wait.
func (f Finished) RunsAgain() bool { return f.Status.Pending() }
