package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// quota is how many workers this process may have at a time, over all its lines. A worker has a place as long as it lives. If
// there is none, its line waits in a row with the others: whoever gives up a place gives it to the first of them, and a line that
// wants more goes to the end. As long as others wait, a worker gives up its place after each call, so a line with much to do keeps
// no other waiting for longer than its calls take.
//
// A marked row should start at once, so a line takes a place before it marks a row, not after. If the mark takes far longer than
// others did, the place goes on to the next line.
//
// A nil quota is for a process without that limit: its lines count no places.
type quota struct {
	mu      sync.Mutex
	free    int
	waiting []*workers // each once, see places.inRow; empty if places are free
}

// placeLasts is how long a line may have a place without a worker, unless marks take long.
const placeLasts = 250 * time.Millisecond

func newQuota(places int) *quota {
	if places == 0 {
		return nil
	}
	return &quota{free: places}
}

// take returns how many of n places a line may have now.
func (q *quota) take(n int) (got int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	got = max(0, min(n, q.free))
	q.free -= got
	return got
}

// takeOrWait is take for a line that waits for the rest.
func (q *quota) takeOrWait(w *workers, n int) (got int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	got = max(0, min(n, q.free))
	q.free -= got
	if got < n {
		q.await(w)
	}
	return got
}

// await has a line wait for its turn. The caller holds both locks.
func (q *quota) await(w *workers) {
	if !w.inRow {
		w.inRow, w.waitsFrom = true, time.Now()
		q.waiting = append(q.waiting, w)
	}
}

// yields reports whether it is another line's turn, and has this one wait for its own.
func (q *quota) yields(w *workers) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	others := len(q.waiting) > 1 || len(q.waiting) == 1 && !w.inRow
	if others {
		q.await(w)
	}
	return others
}

// waits reports whether a line waits for its turn.
func (q *quota) waits(w *workers) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.inRow
}

// pass gives places up, each to the first line that has a use for it. The caller holds no lock.
func (q *quota) pass(places int) {
	for range places {
		for next := q.next(); next != nil && !next.offered(); next = q.next() {
		}
	}
}

// next takes the first line out of the row. If there is none, the place is free.
func (q *quota) next() (first *workers) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.free++
		return nil
	}
	first = q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	first.inRow = false
	return first
}

// places are a line's part of the quota. The lock of its workers guards them, and inRow is guarded by the lock of the quota.
type places struct {
	quota     *quota        // nil: the line needs no places
	unused    int           // places that the line has, and no worker has yet
	hungry    bool          // rows are due and not marked, and the dispatcher waits for a place
	inRow     bool          // the line is one of quota.waiting …
	waitsFrom time.Time     // … since then
	turnTakes time.Duration // from the wait for a place to the place, of late
	lasts     time.Duration // how long a place may be unused
	lapse     *time.Timer   // gives up unused places; nil: there were none
}

// occupy takes places for workers that are about to come, and returns how many may. If some may not, the line waits. There is a
// quota, and the caller holds the lock.
func (w *workers) occupy(wanted int) (may int) {
	if wanted > w.unused {
		w.unused += w.quota.takeOrWait(w, wanted-w.unused)
	}
	may = min(wanted, w.unused)
	w.unused -= may
	return may
}

// lacksPlace reports whether the line waits for a place. The caller holds the lock.
func (w *workers) lacksPlace() bool { return w.quota != nil && w.quota.waits(w) }

// keepsPlace reports whether a worker that has ended a call may begin another one, or it is another line's turn. There is a quota, and
// the caller holds the lock.
func (w *workers) keepsPlace() bool {
	if w.quota.yields(w) {
		return false
	}
	ground.Smooth(&w.turnTakes, 0)
	return true
}

// offered is called if it is the line's turn. A ready task gets a worker at once. If rows are due and not marked yet, the place
// waits until the dispatcher has marked one. Offered reports false if the line has no use for a place.
func (w *workers) offered() (taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := w.wanted()
	switch {
	case wanted > 0:
		more := 1 + w.quota.takeOrWait(w, wanted-1)
		w.alive += more
		w.coming += more
		go w.send(more) // the pool may keep its caller waiting, see start
	case w.hungry:
		w.hungry = false
		w.hold(1)
		ground.Signal(w.wake)
	default:
		return false
	}
	ground.Smooth(&w.turnTakes, time.Since(w.waitsFrom))
	return true
}

// hold has places wait for a worker, but not for long. The caller holds the lock.
func (w *workers) hold(more int) {
	w.unused += more
	switch lasts := min(max(placeLasts, w.lasts), markMax); {
	case w.unused == 0:
	case w.lapse == nil:
		w.lapse = time.AfterFunc(lasts, w.giveUpUnused)
	default:
		w.lapse.Reset(lasts)
	}
}

// claims is the admission of a line that needs places.
type claims struct {
	d       *dispatcher
	fills   *filling // nil: rows do not wait for a full call
	lacking bool     // the line could have more workers, and has no place for one
}

func (c *claims) begin() { c.lacking = c.d.workers.claim() }

// admit keeps the places that the rows need. Early rows need theirs later.
func (c *claims) admit(picked []*task, s spare) []*task {
	rows := len(picked)
	if s.ahead {
		rows = 0
	}
	c.d.workers.keep(rows, c.lacking && len(picked) == 0 && c.dueIn() <= 0, c.d.markTakes)
	return picked
}

func (c *claims) in(spare) time.Duration {
	if due := c.dueIn(); c.lacking && due > 0 {
		return due
	}
	return time.Hour // the line waits for a place already
}

func (c *claims) back() { c.d.workers.wantNone() }

// dueIn is how long until the first row that is not marked falls due, or its batch goes without being full.
func (c *claims) dueIn() time.Duration {
	wait := time.Hour
	if c.fills != nil {
		wait = c.fills.goesIn(time.Now(), true)
	}
	if due, ok := c.d.queue.nextDue(); ok {
		wait = min(wait, c.d.until(due))
	}
	return wait
}

// claim takes all places that are free and that the line could use, while the dispatcher looks what there is to mark; then comes
// keep. It reports whether the line could have more workers, and has no place for one.
func (w *workers) claim() (lacking bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	could := w.most() - w.alive
	w.unused += w.quota.take(could - w.unused)
	return could > 0 && w.unused == 0
}

// keep is told how many rows are about to be marked, and gives up the places that they do not need. If the line is hungry, because
// rows are due and there was no place for any, it waits for a place.
func (w *workers) keep(rows int, hungry bool, markTakes time.Duration) {
	w.mu.Lock()
	perCall := max(1, w.cfg.BatchSize)
	needed := max(0, (rows+len(w.ready)+perCall-1)/perCall-w.coming)
	spare := max(0, w.unused-needed)
	w.unused -= spare
	w.lasts = 2 * markTakes
	w.hold(0)
	if w.hungry = hungry && rows+len(w.ready) == 0; w.hungry {
		w.await()
	}
	w.mu.Unlock()
	w.quota.pass(spare)
}

// claimOne takes a place for a row that is about to be marked. If it reports false, the line waits for a place.
func (w *workers) claimOne() bool {
	if w.quota == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unused == 0 {
		w.await()
	}
	return w.unused > 0
}

// await takes a place or, if none is free, has the line wait for one that the dispatcher needs. The caller holds the lock.
func (w *workers) await() {
	w.hold(w.quota.takeOrWait(w, 1))
	if w.hungry = w.unused == 0; !w.hungry {
		ground.Signal(w.wake) // a place has come free since the last look
	}
}

func (w *workers) giveUpUnused() {
	w.mu.Lock()
	n := w.unused
	w.unused = 0
	w.mu.Unlock()
	w.quota.pass(n)
}

// wantNone gives up the places that no worker has, and waits for no others: the dispatcher marks nothing for now.
func (w *workers) wantNone() {
	w.mu.Lock()
	w.hungry = false
	w.mu.Unlock()
	w.giveUpUnused()
}
