// Package hidden has what package queue_job hides from its users, as far as that package itself needs it. Package bridge leads to the rest.
package hidden

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// QueueJob is set by package queue_job, and package bridge says what it is: it knows the types.
var QueueJob any

// Run lets a job write to its row while it runs. The contracts stand at the methods of the store that implements it.
type Run interface {
	SetProgress(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error)
	SetResult(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error)
	Progress(ctx context.Context, id uint64) (string, error)
	FinishThrough(ctx context.Context, h conn.Handle, id uint64, term int64, attempt int32, end store.End) (ours bool, err error)
}

// Steps lets a job write down what later runs of it need not do again. The contracts stand at the methods of the store that implements it.
type Steps interface {
	RecordStep(ctx context.Context, step store.Step) (recorded bool, err error)
	RecordStepThrough(ctx context.Context, h conn.Handle, step store.Step) (recorded bool, err error)
	StepsOfRun(ctx context.Context, h conn.Handle, id uint64) ([]store.Step, error)
	EndWait(ctx context.Context, step store.Step) (ours bool, err error)
	ForgetStray(ctx context.Context, id uint64, created int64) error
	Standings(ctx context.Context, ids []uint64) ([]store.Standing, error)
}

// Watch hears of a step before its function is called. In tests, that is a place at which the process can die.
type Watch interface {
	BeforeStep(ctx context.Context, job uint64, name string)
}

// Flows lets a job read what earlier jobs of its flow have left. The contract stands at the method of the store that implements it.
type Flows interface {
	NodesNamed(ctx context.Context, h conn.Handle, ids []uint64, name string) ([]store.Node, error)
}

// Logs keeps what runs have logged. The contract stands at the method of the store that implements it.
type Logs interface {
	KeepLogs(ctx context.Context, logs []store.Step, runs int32) error
}

// Runner is what the jobs of a type have of whoever runs them.
type Runner struct {
	Rows     Run
	Instance string                // as the log names it
	Millis   func(time.Time) int64 // of a moment, by the database's clock
	Retries  int32                 // how many a job has that says nothing about it; below 0: any number
	Strict   bool                  // parameters that a job has and the Go type lacks are an error
	Codec    any                   // a queue_job.Codec, which encodes what is stored of jobs; nil: it is stored as it is
	Batch    bool                  // a call of the handler has several jobs
}

// ArchivedMost is how many jobs are archived together: the parameters of each may take a megabyte.
const ArchivedMost = 100

// Rows are the rows of jobs, and what the log has of their runs. *record.Store has them.
type Rows interface {
	List(ctx context.Context, f record.Filter, limit int) ([]record.Listed, error)
	AttemptsOf(ctx context.Context, ids []uint64) ([]store.Attempt, error)
	StepsAndLogsOf(ctx context.Context, ids []uint64) ([]store.Step, error)
}

type actorKey struct{}

type acting struct{ actor, why string }

// WithActor returns a context that says who steers, and why.
func WithActor(ctx context.Context, actor, why string) context.Context {
	return context.WithValue(ctx, actorKey{}, acting{actor, why})
}

// ActorOf returns what WithActor has put into a context. An empty actor: nothing.
func ActorOf(ctx context.Context) (actor, why string) {
	a, _ := ctx.Value(actorKey{}).(acting)
	return a.actor, a.why
}
