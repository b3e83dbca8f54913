package pipeline

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// workers run the tasks that the dispatcher has marked: no more calls at a time than the capacity allows, and each when the
// gate admits it. A worker is a goroutine of the pool. It takes one call after the other, and leaves if none may start.
//
//	marked ─► early ─► ready ─► at work
//	          (not due)
type workers struct {
	cfg  *queue_job.Config
	pool Pool
	work func()        // what a worker does until it leaves
	wake chan struct{} // of the dispatcher: something about the workers has changed

	mu     sync.Mutex
	gate   *gate   // of the last lease taken
	early  dueHeap // marked, and not due yet
	ready  []*task // marked, and waiting for a worker
	atWork []*task // with a worker
	most   int     // workers, if all have a place: the capacity, less what runs of earlier holders, elsewhere, take of it
	alive  int     // workers; none comes beyond that
	coming int     // workers among them that have not asked for a task yet
	runs   runs
	places *places  // nil: the process may have as many workers as all its lines
	turns  *byTurns // of a type that is fair by group; nil: what is ready starts in the order in which it was marked

	ending atomic.Int64 // tasks that have left atWork, and whose outcomes are not with the settler yet
}

// runs is what runs have been like of late.
type runs struct {
	take  time.Duration
	ended time.Time // the last one
}

// Pool runs functions on goroutines that it keeps for a while. Its user counts how many run at a time: the pool's own numbers
// include idle workers.
type Pool interface{ Submit(func()) error }

const (
	markedEarly  = 100 * time.Millisecond // before their time: jobs that fall due in bunches are marked before their second begins
	aheadMax     = 2 * batchRowsMax       // rows that are marked before a worker is free: a mark fills one half while the workers empty the other
	earlyMax     = 4 * batchRowsMax       // rows beyond the idle workers, and no more than start within markedEarly
	surplusAfter = 900 * time.Millisecond // what is marked and waits this long for a worker goes back; a little later, it may not start
)

// start makes those marked tasks ready that are due by the database's clock, now and since the last start, and starts as many workers as
// there is work for. It reports whether tasks go on waiting: for their time, or for a worker that is not on its way. The pool may keep the
// caller waiting for a goroutine to end, which a goroutine that ends must not wait for.
func (w *workers) start(now int64, marked ...*task) (waits bool) {
	since := time.Now()
	w.mu.Lock()
	w.ready = slices.Grow(w.ready, len(marked))
	before := len(w.ready)
	for len(w.early) > 0 && w.early[0].dueMillis <= now {
		t := heap.Pop(&w.early).(*task)
		t.run.since, w.ready = since, append(w.ready, t)
	}
	for _, t := range marked {
		if t.dueMillis > now {
			heap.Push(&w.early, t)
		} else {
			t.run.since, w.ready = since, append(w.ready, t)
		}
	}
	if w.turns != nil {
		w.turns.join(w.ready, before)
	}
	more := w.wanted()
	if w.places != nil {
		more = w.places.occupy(more)
	}
	w.alive += more
	w.coming += more
	waits = len(w.early) > 0 || len(w.ready) > w.coming
	w.mu.Unlock()
	w.send(more)
	return waits
}

// send starts workers that are counted already.
func (w *workers) send(n int) {
	for range n {
		if err := w.pool.Submit(w.work); err != nil { // only a released pool refuses
			w.gone(true)
		}
	}
}

// wanted is how many more workers the ready tasks need, as far as they may start. The caller holds the lock.
func (w *workers) wanted() int {
	calls := len(w.ready)
	if w.gate != nil {
		calls = w.gate.calls(time.Now(), w.ready)
	}
	return max(0, min(calls-w.coming, w.most-w.alive))
}

// next takes the ready tasks of the next call. If none may start, the worker that asks leaves. A worker that has just come
// takes its first call under the same lock: otherwise it would count as at work already, and its task would seem to need
// another worker. The caller may keep the list, and change it.
func (w *workers) next(came bool) (call []*task) {
	w.mu.Lock()
	if came {
		w.coming--
	}
	n := min(1, len(w.ready))
	var now time.Time
	if w.gate != nil {
		now = time.Now()
		n, _ = w.gate.admits(now, w.ready)
	}
	if n == 0 || !came && w.places != nil && !w.places.keep() {
		w.alive--
		w.mu.Unlock()
		ground.Signal(w.wake)
		if w.places != nil {
			w.places.quota.pass(1)
		}
		return nil
	}
	if w.gate != nil && !w.ready[0].expired { // what has expired does not start, and takes no token
		w.gate.enter(now, n)
		ground.Signal(w.wake) // it admits the next call at another time now
	}
	call = w.ready[:n:n]
	w.ready = w.ready[n:]
	if w.turns != nil {
		w.turns.start(call)
	}
	for _, t := range call {
		t.run.index = len(w.atWork)
		w.atWork = append(w.atWork, t)
	}
	w.mu.Unlock()
	return call
}

// gone notes that a worker is gone that next has not sent away: the pool has refused it while it was coming, or its handler called
// runtime.Goexit.
func (w *workers) gone(coming bool) {
	w.mu.Lock()
	if coming {
		w.coming--
	}
	w.alive--
	w.mu.Unlock()
	ground.Signal(w.wake)
	if w.places != nil {
		w.places.quota.pass(1)
	}
}

// ended notes that a worker is done with a task, whose handler has returned at a moment; zero: it was not called. The task is ending until
// the settler has its outcome.
func (w *workers) ended(t *task, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !at.IsZero() {
		ground.Smooth(&w.runs.take, t.run.read+at.Sub(t.run.started))
		w.runs.ended = at
	}
	last := len(w.atWork) - 1
	w.atWork[t.run.index] = w.atWork[last]
	w.atWork[t.run.index].run.index = t.run.index
	w.atWork[last] = nil
	w.atWork = w.atWork[:last]
	w.ending.Add(1)
}

// bear reports whether the workers have a task that was marked under a lease. It may say so for a moment too long.
func (w *workers) bear(lease *keeper.Lease) bool {
	under := func(t *task) bool { return t.run.lease == lease }
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending.Load() > 0 || slices.ContainsFunc(w.atWork, under) || slices.ContainsFunc(w.ready, under) || slices.ContainsFunc(w.early, under)
}

// running is how many workers, at most, run tasks of a lease.
func (w *workers) running(lease *keeper.Lease) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.atWork {
		if t.run.lease == lease {
			n++
		}
	}
	return min(n, w.alive)
}

// pace is how many workers there may be now, and how long one takes from one start to the next: it runs, and may have to wait for its turn.
// It is 0 if nothing has run yet. The caller holds the lock.
func (w *workers) pace() (capacity int, cycle time.Duration) {
	if w.places == nil {
		return w.most, w.runs.take
	}
	if w.runs.take > 0 {
		cycle = w.runs.take + w.places.turnTakes
	}
	return min(w.most, w.alive+w.places.unused), cycle
}

// limit sets how many workers there may be, beside runs that still go on under earlier holders. It reports whether the number has changed.
func (w *workers) limit(most int) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = w.most != most
	w.most = most
	return changed
}

// room is how many rows to mark now, and how many of them would start at once, if at most most may be marked ahead. More rows are
// marked ahead only when half of them are gone: each mark is a commit, and a mark for each run that ends would keep the database
// busy.
func (w *workers) room(markTakes time.Duration, most int) (rows, atOnce int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	perCall := max(1, w.cfg.BatchSize)
	capacity, cycle := w.pace()
	idle := perCall * (capacity - w.alive + w.coming) // rows that start at once if none is ready
	atOnce = max(0, idle-len(w.ready))
	ahead := min(aheadMax, most, perCall*aheadOf(capacity, cycle, markTakes))
	if len(w.ready)-idle > ahead/2 {
		return 0, atOnce
	}
	now := time.Now()
	if idle <= 0 && now.Sub(w.runs.ended) >= surplusAfter {
		ahead = 0 // the workers are stuck, and nobody knows for how long
	}
	rows = max(0, min(batchRowsMax, idle+ahead-len(w.ready)))
	if w.turns != nil {
		rows = min(rows, max(fairMark, idle))
	}
	if w.gate != nil {
		rows = min(rows, w.gate.marks(now, len(w.ready)))
	}
	return rows, atOnce
}

// aheadOf says for how many calls to mark rows ahead of idle workers so that no worker waits for a mark: as many as the
// workers finish during a few marks. One mark takes a few times as long as another, and calls end in bunches, for timers and
// the scheduler wake several at a time.
//
// A row that is marked cannot be changed, and counts as lost if the process dies. So no row is marked that is not about to
// start: if runs are long, the workers wait for a mark, which is short beside a run.
func aheadOf(workers int, runTakes, markTakes time.Duration) int {
	const marks, bunch, soon = 5, time.Millisecond, 250 * time.Millisecond
	if runTakes <= 0 {
		return 0 // nothing has run yet
	}
	perWorker := min(marks*float64(markTakes+bunch), float64(soon)) / float64(runTakes)
	if float64(workers)*float64(soon) < float64(runTakes) {
		return 0
	}
	return int(min(aheadMax, math.Ceil(float64(workers)*perWorker)))
}

// takeUnstarted takes all tasks that no worker has taken yet.
func (w *workers) takeUnstarted() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	unstarted := append(w.ready, w.early...)
	w.ready, w.early = nil, nil
	if w.turns != nil {
		w.turns.forget()
	}
	return unstarted
}

// quiet reports whether nothing is marked or runs.
func (w *workers) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alive == 0 && len(w.ready) == 0 && len(w.early) == 0
}

// marked returns the tasks, ready or at work, that have a property.
func (w *workers) marked(of func(*task) bool) (tasks []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range [][]*task{w.ready, w.atWork} {
		for _, t := range list {
			if of(t) {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// busy reports whether a task waits for a worker or is with one.
func (w *workers) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.atWork)+len(w.ready) > 0
}

// newGate begins a lease.
func (w *workers) newGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = newGate(w.cfg, time.Now())
}

// opens is how long until the gate lets that many rows be marked; 0: it does now.
func (w *workers) opens(rows int) (in time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == nil {
		return 0
	}
	return w.gate.opens(time.Now(), len(w.ready), rows)
}

// delay is how long n tasks that next has returned must wait before they start. There is a rate.
func (w *workers) delay(n int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate.delay(time.Now(), n)
}

// admitsIn is how long until the gate admits a ready task for which a worker is idle or, if none is ready, until it has room for
// marks. It is an hour if something else has to happen first.
func (w *workers) admitsIn() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, again := len(w.ready), time.Duration(0)
	switch {
	case w.alive >= w.most, n == 0 && w.gate == nil:
		return time.Hour
	case n == 0:
		return w.gate.marksAgain(time.Now())
	case w.gate != nil:
		n, again = w.gate.admits(time.Now(), w.ready)
	}
	if n > 0 && (w.coming > 0 || w.places.lacking()) { // a worker that comes says so
		return time.Hour
	}
	return again
}

// roomForEarly is how many rows to mark before their time. If a rate decides who may start, there is no room: an early row
// would take the turn of another.
func (w *workers) roomForEarly() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != nil {
		return 0
	}
	capacity, cycle := w.pace()
	most := earlyMax // nothing has run yet, so nobody knows: if it turns out to be too many, they go back
	switch {
	case cycle > 0:
		most = min(most, int(time.Duration(capacity)*markedEarly/cycle))
	case w.places != nil:
		most = 0
	}
	return max(0, min(batchRowsMax, capacity-w.alive+w.coming+most-len(w.ready)-len(w.early)))
}

// surplus takes marked tasks that will not start soon: a marked row cannot be changed, and counts as lost if the process dies.
// If the database's clock, in milliseconds, was set back, the early tasks are surplus too.
func (w *workers) surplus(now time.Time, database int64) (surplus []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	surplus = w.waitsTooLong(now)
	if len(w.early) > 0 && w.early[0].dueMillis > database+surplusAfter.Milliseconds() {
		surplus = append(surplus, w.early...)
		w.early = nil
	}
	return surplus
}

// waitsTooLong takes the ready tasks when the first of them has waited for long, because runs have turned out to be slow.
// The caller holds the lock.
func (w *workers) waitsTooLong(now time.Time) (surplus []*task) {
	waited := w.readyFor(now)
	if waited < surplusAfter {
		return nil
	}
	if stuck := min(waited, now.Sub(w.runs.ended)); stuck >= surplusAfter && w.places != nil {
		w.places.turnTakes = max(w.places.turnTakes, stuck)
	} else if stuck >= surplusAfter { // no run has ended since
		w.runs.take = max(w.runs.take, stuck)
	}
	surplus, w.ready = w.ready, nil
	if w.turns != nil {
		w.turns.forget()
	}
	return surplus
}

// readyFor is how long a ready task has waited at most while all workers are at work. It is 0 if there is none, or a worker is
// idle. The caller holds the lock.
func (w *workers) readyFor(now time.Time) time.Duration {
	if capacity, _ := w.pace(); len(w.ready) == 0 || w.alive-w.coming < capacity || w.alive < w.most && !w.places.lacking() {
		return 0
	}
	first := w.ready[0].run.since
	if w.turns != nil {
		first = w.turns.longestReady(now, w.ready)
	}
	return max(1, now.Sub(first))
}

// nextDue is how long until something has to be done about marked tasks: the first early one falls due, or the ready ones have
// waited too long. It is an hour if there are none.
func (w *workers) nextDue(database int64) time.Duration {
	wait := time.Hour
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.early) > 0 {
		wait = min(wait, time.Duration(w.early[0].dueMillis-database)*time.Millisecond, surplusAfter)
	}
	switch waited := w.readyFor(time.Now()); {
	case waited == 0:
	case waited < surplusAfter:
		wait = min(wait, surplusAfter-waited)
	default:
		wait = min(wait, surplusAfter)
	}
	return wait
}

// number is how many workers there are.
func (w *workers) number() int {
	alive, _ := w.numbers()
	return alive
}

// seen are the workers at a moment: what is told of them agrees with each other.
type seen struct {
	alive, elsewhere int        // elsewhere is how many workers runs elsewhere stand for
	early, ready     int        // marked tasks: not due yet, and waiting for a worker
	gate             store.Gate // what keeps a task that is due from starting
}

func (w *workers) seen(now time.Time) seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := seen{alive: w.alive, elsewhere: w.cfg.WorkerPoolCapacity - w.most, early: len(w.early), ready: len(w.ready)}
	switch {
	case w.alive >= w.most:
		s.gate.Limit = store.HeldByWorkers
	case w.places.lacking():
		s.gate.Limit = store.HeldByPlaces
	case w.gate != nil && w.gate.limiter != nil && w.gate.tokens(now) < 1-rounding:
		s.gate = store.Gate{Limit: store.HeldByRate, Next: w.gate.lasting(1 - w.gate.tokens(now)).Milliseconds(), Rate: float64(w.gate.limiter.Limit())}
	}
	return s
}

// numbers are how many workers there are, and how many marked tasks wait for one.
func (w *workers) numbers() (alive, marked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alive, len(w.early) + len(w.ready)
}
