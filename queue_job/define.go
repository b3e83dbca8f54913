package queue_job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Definition is a job type with the Go type of its parameters. Declare it once, in a package that is imported by the
// code that adds the jobs and by the code that runs them:
//
//	var PaidNotice = queue_job.Define[PaidMsg](1, "send-paid-notice")
type Definition[Params any] struct {
	// JobType is the column job_type of these jobs.
	JobType int32
	// Name is the [Config.ServiceName] of the configuration that [Definition.Handle] returns.
	Name string
}

// Define names a job type whose parameters have a Go type and are stored as JSON. They come back as encoding/json decodes them: a number in
// an any, as in a map[string]any, becomes a float64, which rounds whole numbers from 2^53 on. Use a struct with int64, json.Number or
// json.RawMessage for those.
func Define[Params any](jobType int32, name string) Definition[Params] {
	return Definition[Params]{jobType, name}
}

// New returns a job to be added, with [Jobs.AddMany] for example.
func (d Definition[Params]) New(params Params, options ...AddOption) AddModelJob {
	return AddModelJob{JobType: d.JobType, JobParams: params, TypeName: d.Name}.With(options...)
}

// Add is [Jobs.Add] for a job of this type.
func (d Definition[Params]) Add(ctx context.Context, jobs *Jobs, ex Executor, params Params, options ...AddOption) (id uint64, err error) {
	return jobs.Add(ctx, ex, d.New(params, options...))
}

// Key selects the jobs of this type with a business key, for [Jobs.Cancel] and the other verbs.
func (d Definition[Params]) Key(key string) Selector { return Key(d.JobType, key) }

// Decode reads the parameters of a job that [Jobs.Get] or [Jobs.List] has returned. A job of another type is an error.
func (d Definition[Params]) Decode(job *JobInfo) (params Params, err error) {
	if job.JobType != d.JobType {
		return params, fmt.Errorf("job %d is of type %d, and %q is type %d", job.Id, job.JobType, d.Name, d.JobType)
	}
	return params, job.Decode(&params)
}

// HandleOption changes the [Config] that [Definition.Handle] or [Definition.HandleBatch] returns. A function of your own
// can set any field:
//
//	func(c *queue_job.Config) { c.RatePerSecond = 20 }
type HandleOption func(*Config)

// Retries sets how many times a job is retried, and how long it waits before each retry: [Waits] and [Exponential] make a
// timing, and nil keeps the usual one. The number may be [Unlimited]; 0 makes a job's
// first failure final.
func Retries(most int, timing RetryTiming) HandleOption {
	return func(c *Config) { c.NeedRetry, c.MaxRetries, c.RetryTiming = most != 0, most, timing }
}

// RenamedFrom says what the type was called before: [Config.RenamedFrom].
func RenamedFrom(name string) HandleOption {
	return func(c *Config) { c.RenamedFrom = name }
}

// StrictParams refuses parameters with a field that the Go type lacks: [Config.StrictParams].
func StrictParams() HandleOption {
	return func(c *Config) { c.StrictParams = true }
}

// KeepLog keeps what runs log with their jobs: [Config.KeepLog].
func KeepLog() HandleOption {
	return func(c *Config) { c.KeepLog = true }
}

// Workers sets how many jobs of the type run at a time, over all instances: [Config.WorkerPoolCapacity]. 0 is refused: it would stand for the
// default of 100.
func Workers(n int) HandleOption {
	if n == 0 {
		n = noWorkers
	}
	return func(c *Config) { c.WorkerPoolCapacity = n }
}

const noWorkers = math.MinInt // what Workers(0) sets

// Timeout sets how long a run may take: [Config.Timeout].
func Timeout(d time.Duration) HandleOption {
	return func(c *Config) { c.Timeout = d }
}

const (
	// usualRetries is how many times a job is retried if [Definition.Handle] is told nothing else. The first retry comes after
	// two seconds at most, each further one after up to twice as long, but at most six hours: all together, the retries take two
	// or three days.
	usualRetries = 25

	usualFirstWait, usualLongestWait = 2 * time.Second, 6 * time.Hour
)

// Handle returns a [Config] with ServiceName, JobType and HandleJobFunc set. A job that fails is retried 25 times,
// with growing waits; the options, or the fields of the Config, say otherwise. If a job's parameters are not JSON of
// the Go type, that is an error like any other: while a new version of a program replaces an older one, a job may have the parameters
// of the one and run on the other, and a retry finds the right one. The reason is in the log table, see [Jobs.Attempts]. A field that the
// Go type lacks is no error without [StrictParams], and a field that the job lacks never is: see "Changing a type" in docs/operate/operations.md.
//
// Config.Db is left to the caller, or to the option persistent_queue.WithDB.
func (d Definition[Params]) Handle(handler func(ctx context.Context, job *Job, params Params) error, options ...HandleOption) Config {
	return d.config(Config{HandleJobFunc: func(ctx context.Context, job *Job) error {
		var params Params
		if err := d.decode(job, &params); err != nil {
			return err
		}
		return handler(ctx, job, params)
	}}, options)
}

// Typed is a job of a batch with its parameters.
type Typed[Params any] struct {
	*Job
	Params Params
}

// JobErrors is what the handler of [Definition.HandleBatch] returns to tell its jobs apart: the error of each job that did
// not go well, by its id. The other jobs of the call have succeeded.
type JobErrors map[uint64]error

// Error says how many of the jobs ended with an error.
func (e JobErrors) Error() string { return fmt.Sprintf("%d jobs ended with an error", len(e)) }

// HandleBatch returns a [Config] whose handler gets several jobs in one call, see [Config.HandleBatchFunc]. What it returns
// is the outcome of all of them: nil, an error, or [JobErrors]. A job whose parameters are not JSON of the Go type ends by
// itself with an error, as with [Definition.Handle], and the handler does not get it. Retries and options are as with [Definition.Handle].
func (d Definition[Params]) HandleBatch(handler func(ctx context.Context, jobs []Typed[Params]) error, options ...HandleOption) Config {
	return d.config(Config{HandleBatchFunc: func(ctx context.Context, jobs []*Job) error {
		typed, errs := make([]Typed[Params], 0, len(jobs)), make(BatchErrors, len(jobs))
		for i, job := range jobs {
			t := Typed[Params]{Job: job}
			if errs[i] = d.decode(job, &t.Params); errs[i] == nil {
				typed = append(typed, t)
			}
		}
		if len(typed) == 0 {
			return errs
		}
		outcomeOf := outcomesByJob(handler(ctx, typed), typed)
		for i, job := range jobs {
			if errs[i] == nil {
				errs[i] = outcomeOf(job.Id)
			}
		}
		return errs
	}}, options)
}

// outcomesByJob returns a function that says with which error each of the jobs ended. An id that none of them has is a
// mistake: then nobody knows which job it was meant for, so all have failed.
func outcomesByJob[Params any](err error, jobs []Typed[Params]) func(id uint64) error {
	var byJob JobErrors
	if !errors.As(err, &byJob) {
		return func(uint64) error { return err }
	}
	for id := range byJob {
		if !slices.ContainsFunc(jobs, func(t Typed[Params]) bool { return t.Id == id }) {
			err = fmt.Errorf("JobErrors has an error for job %d, which is not one of the %d jobs of the call: %w", id, len(jobs), byJob[id])
			return func(uint64) error { return err }
		}
	}
	return func(id uint64) error { return byJob[id] }
}

// config completes a Config that has its handler.
func (d Definition[Params]) config(c Config, options []HandleOption) Config {
	c.ServiceName, c.JobType = d.Name, d.JobType
	c.NeedRetry, c.MaxRetries, c.backsOff, c.defined = true, usualRetries, true, true
	for _, set := range options {
		set(&c)
	}
	return c
}

// decode reads a job's parameters. The error says what a reader of the log has to know: it is this program that cannot read them.
func (d Definition[Params]) decode(job *Job, params *Params) error {
	if err := job.Decode(params); err != nil {
		return fmt.Errorf("%q: %w (they do not fit %T of the program that ran the job; a retry may come to another version of it)", d.Name, err, *params)
	}
	return nil
}
