package queue_job

import (
	"context"
	"encoding/json"
	"fmt"
)

// Definition is a job type with the Go type of its parameters. Declare it once, in a package that both those who add the
// jobs and those who run them import:
//
//	var PaidNotice = queue_job.Define[PaidMsg](1, "send-paid-notice")
type Definition[Params any] struct {
	// JobType is the column job_type of these jobs.
	JobType int32
	// Name is the ServiceName of the configuration that Handle returns.
	Name string
}

// Define names a job type whose parameters are of a Go type, stored as JSON.
func Define[Params any](jobType int32, name string) Definition[Params] {
	return Definition[Params]{jobType, name}
}

// New returns a job to be added, by Jobs.Add for example.
func (d Definition[Params]) New(params Params, options ...AddOption) AddModelJob {
	return AddModelJob{JobType: d.JobType, JobParams: params}.With(options...)
}

// Handle returns a configuration with ServiceName, JobType and HandleJobFunc set; the caller sets Db, and what should not
// be at its default. A job whose parameters are no JSON of the Go type has failed at once, whatever its retries: the reason
// is in the log table.
func (d Definition[Params]) Handle(handler func(ctx context.Context, job *Job, params Params) error) Config {
	return Config{ServiceName: d.Name, JobType: d.JobType, HandleJobFunc: func(ctx context.Context, job *Job) error {
		var params Params
		if err := json.Unmarshal([]byte(job.JobParams), &params); err != nil {
			return Fail(fmt.Errorf("parameters of job type %d, %q: %w", d.JobType, d.Name, err))
		}
		return handler(ctx, job, params)
	}}
}
