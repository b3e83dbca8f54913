package queue_job

import (
	"context"
	"encoding/json"
	"fmt"
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

// Define names a job type whose parameters have a Go type and are stored as JSON.
func Define[Params any](jobType int32, name string) Definition[Params] {
	return Definition[Params]{jobType, name}
}

// New returns a job to be added, with [Jobs.Add] for example.
func (d Definition[Params]) New(params Params, options ...AddOption) AddModelJob {
	return AddModelJob{JobType: d.JobType, JobParams: params}.With(options...)
}

// Handle returns a [Config] with ServiceName, JobType and HandleJobFunc set. The caller sets Db, and each field that
// should not have its default. If a job's parameters are not JSON of the Go type, the job fails at once, whatever
// retries are left; the reason is in the log table, see [Jobs.Attempts].
func (d Definition[Params]) Handle(handler func(ctx context.Context, job *Job, params Params) error) Config {
	return Config{ServiceName: d.Name, JobType: d.JobType, HandleJobFunc: func(ctx context.Context, job *Job) error {
		var params Params
		if err := json.Unmarshal([]byte(job.JobParams), &params); err != nil {
			return Fail(fmt.Errorf("parameters of job type %d, %q: %w", d.JobType, d.Name, err))
		}
		return handler(ctx, job, params)
	}}
}
