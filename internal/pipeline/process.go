package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/attributes"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// base is what a line and its actors stand on.
type base struct {
	*Process
	Part
	name     string           // of its lease
	whole    int              // the capacity of all shards
	cfg      queue_job.Config // what the part may use of it
	instance string           // that holds the leases
	about    context.Context  // for messages about the line as a whole
}

// Part is the part of a job type that a line serves: all of it, or a shard.
type Part struct {
	JobType int32
	Layout  share.Layout
	Shard   int
}

// Process is what the lines of one database share, of this process.
type Process struct {
	Jobs      Jobs
	Rows      hidden.Run // what handlers write through
	Clock     *ground.Clock
	Errlog    *ground.Errlog
	Log       logger.Logger
	Tables    TableSet
	Observers []queue_job.Observer
	Hooks     []Hook
	Permit    *Permit // of all databases, as the quota is
	Quota     *Quota  // nil: there is none
	Reads     reads
	LongReads chan struct{}                             // has a place for each read of long parameters that is under way
	OnLease   func(jobType int32, shard int, held bool) // a lease was taken, or nothing is started under it any more; nil: nobody hears of it
	OnLost    func(lease string, cause error)           // a lease ended before it was given back
}

// Hook is a function of the application that is told of outcomes.
type Hook interface {
	Wants(queue_job.JobStatus) bool
	Add(queue_job.Settled) // nobody waits for the function
}

// wanted reports whether somebody is to be told of outcomes with a status.
func (p *Process) wanted(status queue_job.JobStatus) bool {
	return slices.ContainsFunc(p.Hooks, func(h Hook) bool { return h.Wants(status) })
}

// reads numbers the reads of the table. A read is a picture of the past, and may show what has left the memory since.
type reads interface {
	Span() (newest, oldest uint64) // of those under way; none is, if the oldest is newer than the newest
}

// Backlog is what a line says of rows that are not in memory and are to run. Somebody else loads them.
type Backlog interface {
	Bounds() (before int64, upTo uint64) // rows are left alone that fell due before this second, and whose id is not above this one
	LeftAlone() int                      // how many such rows there are
	Fell()                               // there was no room for a row
	LetGo()                              // a row has left the memory, or was never taken in, and is to run
	PassOver(term int64)                 // a row was left alone, since what was marked under its term still runs …
	HeedTerms(running []int64)           // … under these terms
	Behind() bool                        // not everything is loaded yet
}

// Jobs is what the lines need of the tables of jobs and attempts. *store.Store has it; its methods carry the contracts.
type Jobs interface {
	Newest(ctx context.Context) (id uint64, now float64, err error)
	FirstOfKeys(ctx context.Context, jobType int32, keys []string, from uint64, before int64, upTo uint64) (map[string]uint64, error)
	RunningOfKeys(ctx context.Context, jobType int32, keys []string, terms []int64) (map[string]int, error)
	RestKeys(ctx context.Context, rests []string) (map[string]map[uint32]int, error)

	Mark(ctx context.Context, ids []uint64, createdBy int64, read store.Version, term, deadline int64) (marked int, err error)
	MarkedRows(ctx context.Context, ids []uint64, term int64) ([]store.Marked, error)
	Unlocked(ctx context.Context, ids []uint64) ([]uint64, error)
	LongParams(ctx context.Context, ids []uint64, term int64) ([]store.RunParams, error)
	Settle(ctx context.Context, ids []uint64, o store.Outcome) (written int, err error)
	LogAttempts(ctx context.Context, attempts []store.Attempt) error
	Standings(ctx context.Context, ids []uint64) ([]store.Standing, error)
}

// jobOf is the task's job as the application sees it. If a job runs again, the table rounds its time up to a whole second, and a task
// that waited in memory may start before that.
func (b *base) jobOf(t *task) queue_job.Job {
	fellDue := t.DueSecond()
	if t.dueMillis > 0 {
		fellDue = min(fellDue, t.dueMillis/1000)
	}
	return queue_job.Job{
		Id: t.ID, JobType: t.JobType, TypeName: b.cfg.ServiceName, Tables: b.Tables.Name, JobParams: t.Params,
		StartTime: uint32(t.StartTime), NextExecuteTime: uint32(fellDue),
		Retries: int(t.Retries), Attempt: int(t.Attempts - t.Deferred), Lost: int(t.Lost), Term: t.Term,
		Key: t.Key, Group: t.Group(), Priority: queue_job.Priority(t.Priority), CreateTime: uint32(t.CreateTime), Meta: t.Metadata(),
	}
}

// tellSettled tells the hooks of an outcome that the table has. A task without a run was lost once too often.
func (b *base) tellSettled(t *task, v verdict) {
	settled := queue_job.Settled{Finished: queue_job.Finished{Status: v.status, Wait: v.wait}}
	if t.run != nil {
		settled.Job, settled.Err, settled.Took = &t.job, t.err, t.took
	} else {
		job := b.jobOf(t)
		job.Lost++
		settled.Job, settled.Err = &job, errors.New(lostReason(b.instance))
	}
	for _, h := range b.Hooks {
		if h.Wants(v.status) {
			h.Add(settled)
		}
	}
}

// aboutRun is the context of log lines about a run, or about the runs of a call.
func (b *base) aboutRun(run slog.LogValuer) context.Context {
	ctx := b.Log.GetNewContext(b.cfg.ServiceName)
	if several := b.Tables.Several; several != nil && several.Load() {
		ctx = logger.With(ctx, slog.String("tables", b.Tables.Name))
	}
	return attributes.Later(ctx, run)
}

// AboutType has the log say which type a context is about.
func (p *Process) AboutType(cfg *queue_job.Config, more ...slog.Attr) context.Context {
	return p.Tables.About(logger.With(p.Log.GetNewContext(cfg.ServiceName), append([]slog.Attr{slog.Int("job_type", int(cfg.JobType))}, more...)...))
}

// TableSet says which tables something is about, if the engine works on several sets of them: in several databases, or with several prefixes.
type TableSet struct {
	Name    string       // the prefix; "#2" and so on behind it for another database with the same one
	Several *atomic.Bool // whether the engine has several sets; nil: it has one
}

// About has the log say which tables a context is about, as soon as there are several sets.
func (s TableSet) About(ctx context.Context) context.Context { return attributes.Later(ctx, s) }

// LogValue is nothing as long as there is one set.
func (s TableSet) LogValue() slog.Value {
	if s.Several == nil || !s.Several.Load() {
		return slog.GroupValue()
	}
	return slog.GroupValue(slog.String("tables", s.Name))
}
