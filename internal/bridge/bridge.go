// Package bridge leads from package queue_job to those parts of the library that need what it hides from its users: what a job and a
// configuration have for the Runner alone, and the tables.
package bridge

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// QueueJob is package queue_job as its users do not see it.
var QueueJob = hidden.QueueJob.(interface {
	// Through gives a job its way to the table, and what its row says of this run, before its handler is called.
	Through(job *queue_job.Job, by *hidden.Runner, number, retriesMost int32, started time.Time)
	// Ended is the status that the handler of a job has given it in a transaction, whatever came of that; 0: it has given it none.
	Ended(job *queue_job.Job) queue_job.JobStatus
	// EndReason is the reason that it gave for that; empty: none.
	EndReason(job *queue_job.Job) string
	// Returned tells a job that its handler has returned.
	Returned(job *queue_job.Job)

	// WithDefaults returns a configuration with its zero values replaced by the defaults.
	WithDefaults(cfg queue_job.Config) queue_job.Config
	// Defined reports whether a configuration is of a queue_job.Definition, whose name is the type's own.
	Defined(cfg *queue_job.Config) bool
	// Settings returns how a configuration runs its type, and how long its jobs are kept, as async_job_type_tab has it.
	Settings(cfg *queue_job.Config, kept *queue_job.Retention) string
	// ScheduledParams returns the parameters of the jobs that the schedule of a configuration adds, as they are stored.
	ScheduledParams(cfg *queue_job.Config) (string, error)

	// StoreOf returns the tables, reached through an executor.
	StoreOf(jobs *queue_job.Jobs, ex queue_job.Executor) (*record.Store, error)
	// ExecutorOf returns the handle that the Jobs were opened with; nil: it is no queue_job.Executor.
	ExecutorOf(jobs *queue_job.Jobs) queue_job.Executor
	// FilterOf returns which rows a filter selects. An error says which of its times it must not have.
	FilterOf(filter *queue_job.Filter) (record.Filter, error)
	// TypeOf returns what a row of the registry of types says.
	TypeOf(row *record.KnownType) queue_job.Type
	// Archived reads jobs by their ids, as an archive gets them. Jobs that run again by now are not among them.
	Archived(ctx context.Context, rows hidden.Rows, ids []uint64) ([]queue_job.Archived, error)
})
