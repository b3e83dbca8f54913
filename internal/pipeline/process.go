package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/attributes"
	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

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
	OnFlow    func(nodes ...uint64)                     // jobs of nodes of flows have ended, and their runs are over; nil: nobody hears of it
}

// part is the part of a job type that a line and its actors work for.
type part struct {
	Part
	process  *Process
	name     string           // of its lease
	whole    int              // the capacity of all shards
	cfg      queue_job.Config // what the part may use of it
	instance string           // that holds the leases
	runner   *hidden.Runner   // what its jobs have of it; nil: their handlers cannot write
	about    context.Context  // for messages about the line as a whole
}

// Part is the part of a job type that a line serves: all of it, or a shard.
type Part struct {
	JobType int32
	Layout  share.Layout
	Shard   int
}

// Hook is a function of the application that is told of outcomes.
type Hook interface {
	Wants(queue_job.JobStatus) bool
	Add(queue_job.Settled) // nobody waits for the function
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
	RestRuns(ctx context.Context, rests []string) (map[string]store.RestRuns, error)

	Mark(ctx context.Context, ids []uint64, createdBy int64, read store.Version, term, deadline int64) (marked int, err error)
	MarkedRows(ctx context.Context, ids []uint64, term int64) ([]store.Marked, error)
	Unlocked(ctx context.Context, ids []uint64) ([]uint64, error)
	LongParams(ctx context.Context, ids []uint64, term int64) ([]store.RunParams, error)
	Settle(ctx context.Context, ids []uint64, o store.Outcome) (written int, err error)
	LogAttempts(ctx context.Context, attempts []store.Attempt) error
	Standings(ctx context.Context, ids []uint64) ([]store.Standing, error)
}

const (
	batchRowsMax  = 1000             // rows of one mark or settle
	unsettledMax  = 2 * batchRowsMax // outcomes that wait to be written before new marks stop
	inFlightMax   = 3 * batchRowsMax // these, and rows that are marked ahead of busy workers
	aloneWaitsFor = 10 * time.Second // for the neighbours to end, and again for the suspect itself
	markMax       = 3 * time.Second  // how long a mark may take, unless the database is slow: it may wait for a locked row, and all others for it
	lifeLooks     = WatchEvery / 10  // whether jobs may start again under a lease that others may have taken
	heededFor     = time.Second      // an answer about pauses allows jobs to start for this long, or longer (allowedFor)
	lockedLongest = 20 * time.Second // the longest wait before a row is marked again that business code may have locked
)

// longRowsMax is how many rows with long parameters one statement reads, marks or settles: what is read has to come in time, and a
// binary log or a write set may have the rows whole, as they were and as they are.
const longRowsMax = 32

// smaller is how many rows go into one statement after one has failed. A single row may make it fail, if business code has locked the row or
// a trigger refuses it. So after each failure, statements are smaller, until the other rows get past that row; and twice as large after each
// success.
func smaller(rows int) int { return max(1, rows/8) }

// StopPatience is how long a stop waits, after its context has ended, for handlers that heed theirs.
const StopPatience = 2 * time.Second

// shownAgain is how long a row waits before it is marked that carries the line's own term and is unknown here, if statements have failed
// lately. Another node of a cluster may not show yet that the row was settled a moment ago; then the mark finds, after the wait, that the
// row is final. Otherwise somebody has set the row back by hand, or the answers to its mark were lost, and it runs.
const shownAgain = 3 * time.Second

// WatchEvery is how often a line hears whether its type is paused, and which of its jobs are cancelled.
const WatchEvery = 500 * time.Millisecond

// jobOf is the task's job as the application sees it. If a job runs again, the table rounds its time up to a whole second, and a task
// that waited in memory may start before that.
func (p *part) jobOf(t *task) queue_job.Job {
	fellDue := t.row.DueSecond()
	if t.dueMillis > 0 {
		fellDue = min(fellDue, t.dueMillis/1000)
	}
	job := queue_job.Job{
		Id: t.row.ID, JobType: t.row.JobType, TypeName: p.cfg.ServiceName, Tables: p.process.Tables.Name, JobParams: t.row.Params,
		StartTime: uint32(t.row.StartTime), NextExecuteTime: uint32(fellDue),
		Retries: int(t.row.Retries), Attempt: int(t.row.Attempts - t.row.Deferred), Lost: int(t.row.Lost), Term: t.row.Term,
		Key: t.row.Key, Group: t.row.Group(), Priority: queue_job.Priority(t.row.Priority), CreateTime: uint32(t.row.CreateTime), Meta: t.row.Metadata(),
	}
	if t.row.Extra != nil {
		return withExtra(job, t.row.Extra)
	}
	return job
}

// withExtra has a job of its own to fill in: what jobOf returned would be moved to the heap for each plain job, too.
func withExtra(job queue_job.Job, extra *store.Extra) queue_job.Job {
	bridge.QueueJob.Extra(&job, extra)
	return job
}

// waited is how long a task has waited for its start. The table has whole seconds: a job that was due at once fell due before the end
// of the second in which it was created, and before it was ready. A task whose mark was refused has another dueMillis since.
func (p *part) waited(t *task) time.Duration {
	due := (t.row.CreateTime + 1) * 1000
	if t.row.StartTime > t.row.CreateTime {
		due = min(t.row.StartTime*1000, t.dueMillis)
	}
	return max(t.run.started.Sub(t.run.since), time.Duration(p.process.Clock.At(t.run.started)-due)*time.Millisecond)
}

// aboutRun is the context of log lines about a run, or about the runs of a call.
func (p *part) aboutRun(run slog.LogValuer) context.Context {
	ctx := p.process.Log.GetNewContext(p.cfg.ServiceName)
	if several := p.process.Tables.Several; several != nil && several.Load() {
		ctx = logger.With(ctx, slog.String("tables", p.process.Tables.Name))
	}
	return attributes.Later(ctx, run)
}

// wanted reports whether somebody is to be told of outcomes with a status.
func (p *Process) wanted(status queue_job.JobStatus) bool {
	return slices.ContainsFunc(p.Hooks, func(h Hook) bool { return h.Wants(status) })
}

// AboutType has the log say which type a context is about.
func (p *Process) AboutType(cfg *queue_job.Config, more ...slog.Attr) context.Context {
	return p.Tables.About(logger.With(p.Log.GetNewContext(cfg.ServiceName), append([]slog.Attr{slog.Int("job_type", int(cfg.JobType))}, more...)...))
}

// tellFlows tells that jobs have ended, as far as they are of flows.
func (p *Process) tellFlows(tasks []*task) {
	if p.OnFlow == nil {
		return
	}
	for _, t := range tasks {
		if node := t.node(); node != 0 {
			p.OnFlow(node)
		}
	}
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

// Permit is the engine's one permit to run a suspect. The task that has it gives it back.
type Permit struct {
	place chan struct{} // full: a task has it
	of    atomic.Pointer[task]
}

func NewPermit() *Permit { return &Permit{place: make(chan struct{}, 1)} }

// take gives the permit to the task that pick returns, unless another one has it. It returns that task; nil: none may run.
func (p *Permit) take(pick func() *task) *task {
	select {
	case p.place <- struct{}{}:
	default:
		return nil
	}
	t := pick()
	if t == nil {
		<-p.place
		return nil
	}
	p.of.Store(t)
	return t
}

func (p *Permit) has(t *task) bool { return p.of.Load() == t }

// giveBack takes the permit from a task, if the task has it.
func (p *Permit) giveBack(t *task) {
	if p.of.CompareAndSwap(t, nil) {
		<-p.place
	}
}
