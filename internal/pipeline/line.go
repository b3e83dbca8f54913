package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
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
	if cfg.KeepLog {
		handler = keepingLog(p, handler)
	}
	if p.Rows != nil {
		part.runner = &hidden.Runner{Rows: p.Rows, Instance: part.instance, Millis: p.Clock.At,
			Retries: retriesOf(&cfg), Strict: cfg.StrictParams, Codec: bridge.QueueJob.CodecOf(&cfg), Batch: batch != nil}
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
	l.queue.rateKeys(&l.part.cfg)
	l.queue.byGroup(&l.part.cfg)
	l.queue.overflow = backlog.Fell
	l.workers = workers{cfg: &l.part.cfg, most: l.part.cfg.WorkerPoolCapacity, pool: pool, work: l.runner.work, wake: l.wake}
	l.workers.byGroup()
	l.workers.places = newPlaces(p.Quota, &l.workers)
	l.settler = newSettler(writer{process: p, part: part, queue: l.queue, backlog: backlog, held: &l.held, wake: l.wake}, &l.counts.errors)
	l.marker = marker{process: p, part: part, queue: l.queue, settler: l.settler, backlog: backlog, remains: &l.remains, wake: l.wake}
	l.runner = runner{
		process: p, part: part, handler: handler, batch: batch, queue: l.queue, marker: &l.marker, workers: &l.workers, settler: l.settler,
		starts: &l.starts, counts: &l.counts, wake: l.wake,
	}
	return l, nil
}

// Hold makes the line ready for a lease that was just taken: from now on, rows may be offered to what it returns.
func (l *Line) Hold(lease *keeper.Lease) held {
	l.process.Log.Info(l.part.about, fmt.Sprintf("lease %s taken, term %d", lease.Want.Name, lease.Term))
	l.queue.Forget()
	l.workers.newGate()
	if l.queue.keys.rate != nil {
		l.queue.emptyBuckets(time.Now())
	}
	l.starts.forget()
	l.counts.begin()
	l.held.Store(lease)
	l.tellLease(true)
	return l.sink(lease)
}

func (l *Line) sink(lease *keeper.Lease) held {
	return held{l.queue, l.wake, func(t *task) bool { return l.runsAgain(lease, t) }}
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
		l.process.OnLost(fmt.Sprintf("%s (term %d)", lease.Want.Name, lease.Term), context.Cause(lease.Context()))
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

// runsAgain reports whether a row that was in flight, or whose process died, is to run once more. It leaves a row alone whose job
// still runs under a term that was given away, and fails a row that was lost too often.
func (l *Line) runsAgain(lease *keeper.Lease, t *task) bool {
	if l.runsElsewhere(&t.row) {
		return false
	}
	lost := lostIfMarked(&t.row, lease.Term)
	if lostTooOften(&l.part.cfg, lost) && lost > t.row.Lost {
		if l.queue.register(t) {
			l.settler.failLost(t, lease)
		}
		return false
	}
	t.suspect = isSuspect(&l.part.cfg, lost)
	if t.row.Term == lease.Term && l.process.Errlog.Lately() {
		t.dueMillis = max(t.dueMillis, l.process.Clock.Now()+shownAgain.Milliseconds())
	}
	return true
}

func newDispatcher(l *Line, lease *keeper.Lease) *dispatcher {
	d := &dispatcher{
		process: l.process, part: l.part, lease: lease, queue: l.queue, marker: &l.marker, workers: &l.workers, settler: l.settler, starts: &l.starts,
		wake: l.wake, roomCame: l.RoomCame, rows: batchRowsMax,
	}
	if l.part.cfg.MaxPerKey > 0 || l.part.cfg.OrderedByKey {
		d.turns = &keyTurns{
			process: l.process, part: l.part, lease: lease, queue: l.queue, marker: &l.marker, backlog: l.backlog, roomCame: l.RoomCame,
		}
	}
	d.admissions = admissionsOf(d)
	return d
}

// ForSteps has Step run jobs in the goroutine that calls it, whatever the capacity: a handler may call it, too.
func (l *Line) ForSteps() { l.workers.pool, l.workers.most = caller{}, math.MaxInt }

// Step marks rows, runs their jobs in the goroutine that asks for it and settles them, with the decisions and the statements of the loops,
// and without a loop. It returns the ids of the jobs that ran. The others could not be marked, since somebody has changed them. If the outcomes
// are not to be settled, it is as if the process died when the handlers had returned. Reads that look for cancelled jobs end with life.
func (l *Line) Step(ctx, life context.Context, lease *keeper.Lease, rows []store.Row, settled bool) (ran []uint64, err error) {
	var tasks, ours []*task
	ok := true
	for i := range rows {
		t := &task{row: rows[i], dueMillis: rows[i].StartTime * 1000}
		if lost := lostIfMarked(&t.row, lease.Term); lostTooOften(&l.part.cfg, lost) && lost > t.row.Lost {
			l.settler.failLost(t, lease)
		} else {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(a.row.ID, b.row.ID) })
	for _, tasks := range byVersion(tasks) {
		marked, fine := l.marker.mark(ctx, lease, tasks)
		ours, ok = append(ours, marked...), ok && fine
	}
	if err := l.settleAll(ctx); err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("the job could not be marked; the log says why")
	}
	if len(ours) == 0 {
		return nil, nil
	}
	l.Hear(false, time.Now(), 0) // whoever found the rows has left out types that are paused
	l.workers.newGate()
	l.runHeeding(life, ours)
	if !settled {
		l.settler.takeAll()
		l.settler.keep(unwritten{})
		return idsOf(ours), nil
	}
	return idsOf(ours), l.settleAll(context.WithoutCancel(ctx))
}

// runHeeding runs the handlers. If a job is cancelled while its handler runs, the handler's context ends.
func (l *Line) runHeeding(life context.Context, tasks []*task) {
	over := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		var looks ground.Looks
		ticker := time.NewTicker(watchFrom)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				l.process.Errlog.On(life, "look for cancellations", HeedCancellations(life, &looks, []*Line{l}))
			}
		}
	})
	defer looking.Wait()
	defer close(over)
	l.workers.start(math.MaxInt64, tasks...)
}

// settleAll writes all outcomes that wait.
func (l *Line) settleAll(ctx context.Context) error {
	if w := l.settler.write(ctx, l.settler.takeAll()); len(w.tried) > 0 {
		return errors.New("the outcome could not be written; the log says why")
	}
	return nil
}

// caller is a pool of one goroutine, whichever asks for a worker.
type caller struct{}

func (caller) Submit(work func()) error { work(); return nil }

// What others ask a line.

func (l *Line) Config() *queue_job.Config       { return &l.part.cfg }  // within its part
func (l *Line) About() context.Context          { return l.part.about } // for messages about it
func (l *Line) Running(lease *keeper.Lease) int { return l.workers.running(lease) }
func (l *Line) Busy() bool                      { return l.workers.busy() }
func (l *Line) Handlers() int                   { return l.workers.number() }
func (l *Line) Unwritten() int                  { return int(l.settler.unwritten.Load()) }
func (l *Line) Knows(row uint64) bool           { return l.queue.Knows(row) }
func (l *Line) InMemory() int                   { return l.queue.InMemory() }
func (l *Line) Idle() bool                      { return l.queue.InMemory() == 0 && l.quiet() }

// Held is the lease under which the line starts jobs; nil: there is none that holds.
func (l *Line) Held() *keeper.Lease {
	if lease := l.held.Load(); lease != nil && lease.Context().Err() == nil {
		return lease
	}
	return nil
}

// Ended is how many runs have ended, by the status that they led to, and how many before they had begun.
func (l *Line) Ended() (byStatus [queue_job.JobStatusCancelled + 1]int64, deferrals int64) {
	return l.counts.endedNow(), l.counts.deferrals.Load()
}

// RunsUnder are what tasks have that run under a lease.
func (l *Line) RunsUnder(lease *keeper.Lease) store.Runs {
	return l.queue.runs(l.workers.marked(func(t *task) bool { return t.run.lease == lease }))
}

// Numbers say what a line does at a moment.
type Numbers struct {
	Paused                 bool
	Running, Marked        int // workers; rows that wait for one
	Waiting, Parked        int // rows that are not marked; of these, rows that wait for a slot of their key
	PutOff                 int // jobs whose last run ended with Defer
	Overdue, LongestPutOff time.Duration
}

func (l *Line) Numbers() (n Numbers) {
	now := l.process.Clock.Now()
	n.Paused = l.starts.paused()
	n.Running, n.Marked = l.workers.numbers()
	n.Waiting, n.Parked, _, n.Overdue = l.queue.numbers(now)
	n.PutOff, n.LongestPutOff = l.counts.putOffs.count(now)
	return n
}

// Ran is what has run since it was asked last. It goes into the stats of the minute that begins then; what comes goes into the next.
func (l *Line) Ran(begin, next, term int64) record.StatState {
	news := l.counts.news()
	news.Level = l.counts.peak.take()
	news.Errors, news.Lost = l.counts.errors.enter(minute{begin, term}, minute{next, term})
	return news
}

// State is what the line has in memory, what it runs, and the errors of its last minutes under a term.
func (l *Line) State(now, term int64) store.LineState {
	state := l.state(now)
	l.counts.peak.see(&state)
	state.Minutes = l.counts.errors.minutes(term)
	return state
}

func (l *Line) state(now int64) store.LineState {
	workers := l.workers.seen(time.Now())
	waiting, parked, soon, overdue := l.queue.numbers(now)
	gate, keys := workers.gate, l.queue.keysWithoutTokens(time.Now())
	switch {
	case len(keys) > 0 && parked >= waiting-soon && workers.ready == 0:
		next := slices.MinFunc(keys, func(a, b store.KeyWaits) int { return cmp.Compare(a.Next, b.Next) }).Next
		gate = store.Gate{Limit: store.HeldByKeyRate, Next: next, Rate: l.part.cfg.RatePerKey}
	case parked > 0 && parked >= waiting-soon && workers.ready == 0: // another worker, or a higher rate, would start none of them
		gate = store.Gate{Limit: store.HeldByKeys}
	case overdue == 0 && workers.ready == 0:
		gate = store.Gate{}
	case gate.Limit == "":
		gate = l.heldByPool()
	}
	return store.LineState{
		Soon: soon + workers.early, Gate: &gate, PutOff: l.counts.putOffs.tell(now), KeyRate: keys[:min(toldKeys, len(keys))],
		Waiting: waiting, Parked: parked, Marked: workers.early + workers.ready,
		Running: workers.alive, Elsewhere: workers.elsewhere, Workers: l.part.cfg.WorkerPoolCapacity,
		Overdue: overdue.Milliseconds(), Behind: l.backlog.Behind(), LeftAlone: l.backlog.LeftAlone(), Runs: l.counts.ranUnderLease(),
	}
}

// heldByPool says whether the statements that start jobs have to wait for a connection.
func (l *Line) heldByPool() (gate store.Gate) {
	if most := l.process.Errlog.Full(); most > 0 {
		gate = store.Gate{Limit: store.HeldByConnections, Most: most}
	}
	return gate
}
