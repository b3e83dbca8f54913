package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/attributes"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Line is what this process does for one job type, or one shard of it. It lives as long as the type is to have it; between two leases it only
// finishes what it had started. A dispatcher works for one lease, the other actors for all.
type Line struct {
	process *Process
	part    *part

	queue   *queue
	marker  marker
	workers workers
	runner  runner
	settler *settler
	backlog Backlog
	starts  starts // whether they are allowed
	counts  counts

	held    atomic.Pointer[keeper.Lease] // the one under which it starts jobs; nil: none
	remains atomic.Pointer[Remains]      // what still runs under earlier leases of this part, of any instance

	writing writing

	wake     chan struct{} // the dispatcher: the queue, or what it may mark, has changed
	RoomCame chan struct{} // for whoever loads: rows have left the queue
}

// Remains is what still runs of a line's jobs under terms that were given away.
type Remains struct {
	Terms     []int64      // under which jobs still run, here or elsewhere
	Elsewhere []share.Rest // what of this belongs to other instances
	Running   int          // jobs of this shard that other instances, or retired lines of this process, still run
	Earlier   int          // jobs of earlier layouts, of all shards
	Lines     []*Line      // the retired lines of this process that still run something
}

// writing lives until the settler has nothing more to write.
type writing struct {
	context.Context
	end context.CancelFunc
}

// StopPatience is how long a stop waits, after its context has ended, for handlers that heed theirs.
const StopPatience = 2 * time.Second

// ofShard is what a line may use of what the configuration gives to its job type: capacity, rate, burst and memory are divided, so
// that all shards together never have more than was configured.
func ofShard(cfg queue_job.Config, layout share.Layout, shard int) queue_job.Config {
	n := layout.Shards()
	cfg.WorkerPoolCapacity = share.Part(cfg.WorkerPoolCapacity, n, shard)
	cfg.QueueMaxSize = max(1, cfg.QueueMaxSize/n)
	cfg.RatePerSecond /= float64(n)
	cfg.RateBurst /= n
	return cfg
}

// New returns a line for a part of a job type, with the configuration of the whole type.
func New(p *Process, cfg queue_job.Config, is Part, pool Pool, backlog Backlog) (*Line, error) {
	handler, batch, err := handlersOf(&cfg)
	if err != nil {
		return nil, err
	}
	part := &part{
		Part: is, process: p, name: is.Layout.Leases(is.JobType)[is.Shard], whole: cfg.WorkerPoolCapacity, cfg: ofShard(cfg, is.Layout, is.Shard),
		instance: keeper.Holder(cfg.ServiceName), about: p.AboutType(&cfg),
	}
	l := &Line{
		process: p, part: part, backlog: backlog,
		wake: make(chan struct{}, 1), RoomCame: make(chan struct{}, 1),
	}
	if is.Layout.Shards() > 1 {
		l.part.about = p.AboutType(&cfg, slog.Int("shard", is.Shard))
	}
	l.queue = newQueue(l.part.cfg.QueueMaxSize, p.Reads)
	l.queue.keys = newKeys(l.part.cfg.MaxPerKey, l.part.cfg.OrderedByKey, l.part.cfg.QueueMaxSize)
	l.queue.overflow = backlog.Fell
	l.workers = workers{cfg: &l.part.cfg, most: l.part.cfg.WorkerPoolCapacity, pool: pool, work: l.runner.work, wake: l.wake}
	l.workers.places = newPlaces(p.Quota, &l.workers)
	l.settler = newSettler(l, p.Permit, p.Errlog, l.wake)
	l.marker = marker{process: p, part: part, queue: l.queue, settler: l.settler, backlog: backlog, lost: l.noteLost, wake: l.wake}
	l.runner = runner{
		process: p, part: part, handler: handler, batch: batch, queue: l.queue, marker: &l.marker, workers: &l.workers, settler: l.settler,
		starts: &l.starts, counts: &l.counts, wake: l.wake,
	}
	return l, nil
}

// Hold makes the line ready for a lease that was just taken: from now on, rows may be offered to what it returns.
func (l *Line) Hold(lease *keeper.Lease) held {
	l.process.Log.Info(l.part.about, fmt.Sprintf("lease %s taken, term %d", lease.Name, lease.Term))
	l.queue.Forget()
	l.workers.newGate()
	l.starts.forget()
	l.counts.begin()
	l.held.Store(lease)
	l.tellLease(true)
	return held{l.queue, l, lease}
}

// Source brings the rows that a line is offered under a lease.
type Source interface {
	Load(ctx context.Context) // what is more than others bring, until ctx ends
	End()                     // no row is offered any more
}

// Serve works the job type while the lease holds and ctx lives, and runs a loop beside that, if it is given one. When it returns, waiting rows
// are forgotten, and tasks that were marked but not started are on their way to be unmarked. Jobs that run, run on.
func (l *Line) Serve(ctx context.Context, lease *keeper.Lease, rows Source, beside func(context.Context)) {
	ctx, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	defer stop(nil)

	var loops sync.WaitGroup
	loops.Go(func() { newDispatcher(l, lease).loop(ctx) })
	loops.Go(func() { rows.Load(ctx) })
	if beside != nil {
		loops.Go(func() { beside(ctx) })
	}
	loops.Wait()
	l.held.Store(nil)
	rows.End()
	l.tellLease(false)

	l.queue.Forget()
	unstarted := l.workers.takeUnstarted()
	l.settler.undo(lease, unstarted...)
	if lease.Context().Err() != nil {
		l.process.OnLost(fmt.Sprintf("%s (term %d)", lease.Name, lease.Term), context.Cause(lease.Context()))
	}
}

func (l *Line) tellLease(held bool) {
	if l.process.OnLease != nil {
		l.process.OnLease(l.part.cfg.JobType, l.part.Shard, held)
	}
}

// quiet reports whether nothing is marked or runs, and every outcome is written.
func (l *Line) quiet() bool { return quiet(&l.workers, l.settler) }

func quiet(w *workers, s *settler) bool { return w.quiet() && s.unwritten.Load() == 0 }

func (l *Line) tellUnnoted() {
	if n := l.settler.log.unnoted(); n > 0 {
		l.process.Log.Warn(l.part.about, fmt.Sprintf("%d rows of the log are not written", n))
	}
}

// await waits until a condition holds. Workers and the settler signal when it may have changed.
func await(ctx context.Context, wake <-chan struct{}, so func() bool) bool {
	for !so() {
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Heed notes what still runs. Rows with these terms are left alone, and jobs that run elsewhere take workers here.
func (l *Line) Heed(r Remains) {
	l.remains.Store(&r)
	l.backlog.HeedTerms(r.Terms)
	part := share.Part(max(0, l.part.whole-r.Earlier), l.part.Layout.Shards(), l.part.Shard)
	if l.workers.limit(max(0, part-r.Running)) {
		ground.Signal(l.wake)
	}
}

// runsElsewhere reports whether a row's mark was made under a term that was given away, and under which its job still runs, or
// whether a retired line of this process has the row. If that holder dies, the row is to be loaded again.
func (l *Line) runsElsewhere(row *store.Row) bool {
	r := l.remains.Load()
	switch {
	case row.Term == 0 || r == nil:
		return false
	case slices.Contains(r.Terms, row.Term):
		l.backlog.PassOver(row.Term)
		return true
	}
	if !slices.ContainsFunc(r.Lines, func(earlier *Line) bool { return earlier.Knows(row.ID) }) {
		return false
	}
	l.backlog.LetGo() // that line may take its mark back
	return true
}

// Bears reports whether something was marked under a lease and is not written yet, or may still be marked by a statement that is
// under way.
func (l *Line) Bears(lease *keeper.Lease) bool {
	inDoubt, over := l.marker.doubts.under(lease)
	l.settler.undo(lease, over...)
	if inDoubt {
		return true
	}
	// A task goes from the workers to the settler, so they are asked in this order.
	return l.workers.bear(lease) || l.settler.owes(lease.Term)
}

// Hear notes what an answer to a question that was sent at a moment, and took a while, says of the line's type.
func (l *Line) Hear(paused bool, sent time.Time, took time.Duration) {
	before := l.starts.allowed()
	if l.starts.heed(paused, sent, took) && paused {
		l.process.Log.Info(l.part.about, "paused; what runs, runs on")
	}
	if before != l.starts.allowed() {
		ground.Signal(l.wake)
	}
}

// ForgetWaiting forgets the rows that wait in memory.
func (l *Line) ForgetWaiting() {
	l.queue.Forget()
	ground.Signal(l.wake)
}

// Open begins the line's life: from now on until [Line.Close], Write writes outcomes.
func (l *Line) Open(keeping context.Context) {
	l.writing.Context, l.writing.end = context.WithCancel(keeping)
}

func (l *Line) Write() { l.settler.loop(l.writing) }

// Close ends the line's life. It has no lease any more, and has waited with AwaitWritten.
func (l *Line) Close() { l.writing.end() }

// Closed is closed when the life of the line has ended.
func (l *Line) Closed() <-chan struct{} { return l.writing.Done() }

// Drain waits until the line is quiet and bears nothing, and reports whether that was before the end of ctx. Then it waits a while for the
// rest of the log: a log that cannot be written holds nobody up for longer.
func (l *Line) Drain(ctx context.Context, bearsNone func() bool) bool {
	if !await(ctx, l.wake, func() bool { return l.quiet() && bearsNone() }) {
		return false
	}
	l.settler.log.hurry()
	noted, cancel := context.WithTimeout(ctx, StopPatience)
	defer cancel()
	await(noted, l.wake, func() bool { return l.settler.log.unnoted() == 0 })
	l.tellUnnoted()
	return true
}

// AwaitWritten waits until every outcome is written, and for the rest of the log as Drain does. It reports false if the life of the line has
// ended before.
func (l *Line) AwaitWritten() bool {
	for wait := (ground.Backoff{First: time.Millisecond}); !l.quiet(); {
		if !ground.Sleep(l.writing, wait.Next()) {
			return false
		}
	}
	l.settler.log.hurry()
	const often = 10 * time.Millisecond
	for until := time.Now().Add(StopPatience); l.settler.log.unnoted() > 0 && time.Now().Before(until); {
		if !ground.Sleep(l.writing, often) {
			return false
		}
	}
	l.tellUnnoted()
	return true
}

// held is a line whose lease this process holds. It is the sink of the rows that are found for the lease, as its queue is, but for Offer.
type held struct {
	*queue
	line  *Line
	lease *keeper.Lease
}

// shownAgain is how long a row waits before it is marked that carries the line's own term and is unknown here, if statements have failed
// lately. Another node of a cluster may not show yet that the row was settled a moment ago; then the mark finds, after the wait, that the
// row is final. Otherwise somebody has set the row back by hand, or the answers to its mark were lost, and it runs.
const shownAgain = 3 * time.Second

// Offer takes a pending row into the queue. It reports false if there is no room; then a later load brings the row.
func (h held) Offer(row *store.Row) (accepted bool) {
	t := &task{row: *row, dueMillis: row.StartTime * 1000, wasLost: row.Lost > 0 || row.Term != 0}
	if t.wasLost && !h.runsAgain(t) {
		return true
	}
	if !h.offer(t) {
		h.line.backlog.Fell()
		return false
	}
	ground.Signal(h.line.wake)
	return true
}

// runsAgain reports whether a row that was in flight, or whose process died, is to run once more. It leaves a row alone whose job
// still runs under a term that was given away, and fails a row that was lost too often.
func (h held) runsAgain(t *task) bool {
	if h.line.runsElsewhere(&t.row) {
		return false
	}
	lost := lostIfMarked(&t.row, h.lease.Term)
	if lostTooOften(&h.line.part.cfg, lost) && lost > t.row.Lost {
		if h.register(t) {
			h.line.settler.failLost(t, h.lease)
		}
		return false
	}
	t.suspect = isSuspect(&h.line.part.cfg, lost)
	if t.row.Term == h.lease.Term && h.line.process.Errlog.Lately() {
		t.dueMillis = max(t.dueMillis, h.line.process.Clock.Now()+shownAgain.Milliseconds())
	}
	return true
}

// lostIfMarked is how many of the job's runs have been lost, seen from a term that is about to mark it.
func lostIfMarked(row *store.Row, term int64) int16 {
	if row.Term != 0 && row.Term < term {
		return row.Lost + 1
	}
	return row.Lost
}

// part is the part of a job type that a line and its actors work for.
type part struct {
	Part
	process  *Process
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
