// Package hidden is how a Runner and the packages operate and console get at what package queue_job hides from its users: what a job and a
// configuration have for the Runner alone, and the tables. Package queue_job sets the functions. It stands above this package, so
// they take its types as any, and a value of another type is a panic.
package hidden

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// Run lets a job write to its row while it runs. The contracts stand at the methods of the store that implements it.
type Run interface {
	SetProgress(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error)
	SetResult(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error)
	FinishThrough(ctx context.Context, h store.Handle, id uint64, term int64, attempt, status int32) (ours bool, err error)
}

// ArchivedMost is how many jobs are archived together: the parameters of each may take a megabyte.
const ArchivedMost = 100

// Rows are the rows of jobs, and what the log has of their runs. *store.Store has them.
type Rows interface {
	List(ctx context.Context, f store.Filter, limit int) ([]store.Listed, error)
	AttemptsOf(ctx context.Context, ids []uint64) ([]store.Attempt, error)
}

var (
	// Archived reads jobs by their ids, as an archive gets them: a []queue_job.Archived. Jobs that run again by now are not among them.
	Archived func(ctx context.Context, rows Rows, ids []uint64) (jobs any, err error)
	// FilterOf returns which rows a *queue_job.Filter selects. An error says which of its times it must not have.
	FilterOf func(filter any) (store.Filter, error)
	// StartSecond returns the second at which a job that is to fall due at a time may start. An error says that no job can have it.
	StartSecond func(due time.Time) (uint32, error)
	// CheckPriority says whether a queue_job.Priority is one.
	CheckPriority func(priority any) error
	// Through gives a *queue_job.Job its way to the table, and the number that its run has there, before its handler is called.
	Through func(job any, run Run, number int32)
	// Completed reports whether CompleteTx of a *queue_job.Job was called, whatever came of it.
	Completed func(job any) bool
	// Returned tells a *queue_job.Job that its handler has returned.
	Returned func(job any)
	// StoreOf returns the tables of a *queue_job.Jobs, reached through a queue_job.Executor.
	StoreOf func(jobs, ex any) (*store.Store, error)
	// ExecutorOf returns the handle that a *queue_job.Jobs was opened with, if it is a queue_job.Executor.
	ExecutorOf func(jobs any) any
	// ActorOf returns what queue_job.WithActor has put into a context; an empty actor: nothing.
	ActorOf func(ctx context.Context) (actor, why string)
	// SetDefaults replaces the zero values of a *queue_job.Config by the defaults.
	SetDefaults func(cfg any)
	// Defined reports whether a *queue_job.Config is of a queue_job.Definition, whose name is the type's own.
	Defined func(cfg any) bool
	// Settings returns how a *queue_job.Config runs its type, and how long a *queue_job.Retention keeps its jobs, as
	// async_job_type_tab has it.
	Settings func(cfg, kept any) string
	// TypeOf returns a row of the registry of types as a queue_job.Type.
	TypeOf func(row *store.KnownType) any
	// ScheduledParams returns the parameters of the jobs that the schedule of a *queue_job.Config adds, as they are stored.
	ScheduledParams func(cfg any) (string, error)
)

// WithDefaults returns a queue_job.Config with its zero values replaced by the defaults.
func WithDefaults[Config any](cfg Config) Config {
	SetDefaults(&cfg)
	return cfg
}
