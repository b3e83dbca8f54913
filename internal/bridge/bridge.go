// Package bridge leads from package queue_job to those parts of the library that need what it hides from its users: what a job and a
// configuration have for the Runner alone, and the tables.
package bridge

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// QueueJob is package queue_job as its users do not see it.
var QueueJob = hidden.QueueJob.(interface {
	// Through gives a job its way to the table, and what its row says of this run, before its handler is called.
	Through(job *queue_job.Job, by *hidden.Runner, number, retriesMost int32, started time.Time)
	// Extra gives a job what few jobs have.
	Extra(job *queue_job.Job, extra *store.Extra)
	// Ended is the status that the handler of a job has given it in a transaction, whatever came of that; 0: it has given it none.
	Ended(job *queue_job.Job) queue_job.JobStatus
	// Asleep is the outcome of a run that has ended in queue_job.Job.Sleep, or in queue_job.Await: Ended is JobStatusContinue then.
	Asleep(job *queue_job.Job) (outcome *queue_job.Outcome, awaits bool)
	// EndReason is the reason that it gave for that; empty: none.
	EndReason(job *queue_job.Job) string
	// Log is the record of what the run of a job has logged, as it is stored.
	Log(job *queue_job.Job, text string) (store.Step, error)
	// Returned tells a job that its handler has returned, and returns the jobs that are to follow if the run has succeeded.
	Returned(job *queue_job.Job) (next []store.NewJob)
	// Then has jobs follow the run of a job, as queue_job.Jobs.Then does with what it has made of them.
	Then(job *queue_job.Job, next []store.NewJob) error

	// WithDefaults returns a configuration with its zero values replaced by the defaults.
	WithDefaults(cfg queue_job.Config) queue_job.Config
	// Defined reports whether a configuration is of a queue_job.Definition, whose name is the type's own.
	Defined(cfg *queue_job.Config) bool
	// Settings returns how a configuration runs its type, and how long its jobs are kept, as async_job_type_tab has it.
	Settings(cfg *queue_job.Config, kept *queue_job.Retention) string
	// ScheduledParams returns the parameters of the jobs that the schedule of a configuration adds, as they are stored in a job with a key.
	ScheduledParams(cfg *queue_job.Config) (func(key string) (string, error), error)
	// EncodedFor returns the parameters of a schedule that is a row, as they are stored in a job of it that has the key.
	EncodedFor(key string, c *record.Schedule, codec queue_job.Codec) (string, error)

	// CronOf is what reads the text of a schedule for the Jobs; nil: nothing does.
	CronOf(jobs *queue_job.Jobs) func(text string) (queue_job.Schedule, error)

	// WithCodec returns a configuration whose jobs a codec encodes.
	WithCodec(cfg queue_job.Config, codec queue_job.Codec) queue_job.Config
	// CodecOf is the codec of a configuration; nil: it has none.
	CodecOf(cfg *queue_job.Config) any
	// WithoutCodec returns Jobs that read values as they are stored. They are for reading only.
	WithoutCodec(jobs *queue_job.Jobs) *queue_job.Jobs

	// StoreOf returns the tables, reached through an executor.
	StoreOf(jobs *queue_job.Jobs, ex queue_job.Executor) (*record.Store, error)
	// ExecutorOf returns the handle that the Jobs were opened with; nil: it is no queue_job.Executor.
	ExecutorOf(jobs *queue_job.Jobs) queue_job.Executor
	// Sickness is what keeps the database from cleaning up, as it was when somebody asked last: within a minute, nothing is sent again.
	Sickness(ctx context.Context, jobs *queue_job.Jobs, st *record.Store) *record.Sickness
	// Look reads a job together with those who wait in Jobs.Wait, by their statements.
	Look(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*queue_job.JobInfo, error)
	// StepsAndLogs tells the steps of a job from what its runs have logged, and decodes both. Neither is nil.
	StepsAndLogs(jobs *queue_job.Jobs, job *queue_job.JobInfo, list []store.Step) ([]queue_job.StepInfo, []queue_job.RunLog)
	// FilterOf returns which rows a filter selects. An error says which of its times it must not have.
	FilterOf(filter *queue_job.Filter) (record.Filter, error)
	// List is queue_job.Jobs.List by a filter of rows, which may have what no queue_job.Filter has.
	List(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, filter record.Filter, limit int) ([]queue_job.JobInfo, error)
	// TypeOf returns what a row of the registry of types says.
	TypeOf(row *record.KnownType) queue_job.Type
	// Archived reads jobs by their ids, as an archive gets them. Jobs that run again by now are not among them.
	Archived(ctx context.Context, rows hidden.Rows, ids []uint64) ([]queue_job.Archived, error)
})
