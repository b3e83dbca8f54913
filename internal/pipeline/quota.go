package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// Quota is how many workers this process may have at a time, over all its lines. A worker has a place as long as it lives. If
// there is none, its line waits in a row with the others: whoever gives up a place gives it to the first of them, and a line that
// wants more goes to the end. As long as others wait, a worker gives up its place after each call, so a line with much to do keeps
// no other waiting for longer than its calls take.
//
// A marked row should start at once, so a line takes a place before it marks a row, not after. If the mark takes far longer than
// others did, the place goes on to the next line.
//
// A process without that limit has no quota, and its lines have no places. The lock of a line's workers is taken before that of the quota.
type Quota struct {
	mu      sync.Mutex
	free    int
	waiting []*places // of the lines that wait, each once, see places.inRow; empty if places are free
}

// placeLasts is how long a line may have a place without a worker, unless marks take long.
const placeLasts = 250 * time.Millisecond

// NewQuota returns nil for 0, which means that there is no limit.
func NewQuota(places int) *Quota {
	if places == 0 {
		return nil
	}
	return &Quota{free: places}
}

// take returns how many of n places a line may have now.
func (q *Quota) take(n int) (got int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	got = max(0, min(n, q.free))
	q.free -= got
	return got
}

// takeOrWait is take for a line that waits for the rest.
func (q *Quota) takeOrWait(p *places, n int) (got int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	got = max(0, min(n, q.free))
	q.free -= got
	if got < n {
		q.await(p)
	}
	return got
}

// await has a line wait for its turn. The caller holds both locks.
func (q *Quota) await(p *places) {
	if !p.inRow {
		p.inRow, p.waitsFrom = true, time.Now()
		q.waiting = append(q.waiting, p)
	}
}

// yields reports whether it is another line's turn, and has this one wait for its own.
func (q *Quota) yields(p *places) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	others := len(q.waiting) > 1 || len(q.waiting) == 1 && !p.inRow
	if others {
		q.await(p)
	}
	return others
}

// waits reports whether a line waits for its turn.
func (q *Quota) waits(p *places) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.inRow
}

// pass gives places up, each to the first line that has a use for it. The caller holds no lock.
func (q *Quota) pass(places int) {
	for range places {
		for next := q.next(); next != nil && !next.use(); next = q.next() {
		}
	}
}

// next takes the first line out of the row. If there is none, the place is free.
func (q *Quota) next() (first *places) {
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

// places are what a line has of the quota, beside its workers, each of whom has one.
type places struct {
	quota *Quota
	use   func() bool   // it is the line's turn; false: it has no use for a place
	wake  chan struct{} // the dispatcher

	inRow     bool      // the line is one of quota.waiting …
	waitsFrom time.Time // … since then; the lock of the quota guards both

	mu        *sync.Mutex   // of the workers
	unused    int           // places that the line has, and no worker has yet
	hungry    bool          // rows are due and not marked, and the dispatcher waits for a place
	turnTakes time.Duration // from the wait for a place to the place, of late
	lasts     time.Duration // how long a place may be unused
	lapse     *time.Timer   // gives up unused places; nil: there were none
}

// newPlaces returns nil for a process that has no quota.
func newPlaces(q *Quota, w *workers) *places {
	if q == nil {
		return nil
	}
	return &places{quota: q, use: w.usePlace, wake: w.wake, mu: &w.mu}
}

// occupy takes places for workers that are about to come, and returns how many may. If some may not, the line waits. The caller holds
// the lock of the workers, here and below, where nothing else is said.
func (p *places) occupy(wanted int) (may int) {
	if wanted > p.unused {
		p.unused += p.quota.takeOrWait(p, wanted-p.unused)
	}
	may = min(wanted, p.unused)
	p.unused -= may
	return may
}

// lacking reports whether the line waits for a place.
func (p *places) lacking() bool { return p != nil && p.quota.waits(p) }

// keep reports whether a worker that has ended a call may begin another one, or it is another line's turn.
func (p *places) keep() bool {
	if p.quota.yields(p) {
		return false
	}
	ground.Smooth(&p.turnTakes, 0)
	return true
}

// hold has places wait for a worker, but not for long.
func (p *places) hold(more int) {
	p.unused += more
	switch lasts := min(max(placeLasts, p.lasts), markMax); {
	case p.unused == 0:
	case p.lapse == nil:
		p.lapse = time.AfterFunc(lasts, p.giveUpUnused)
	default:
		p.lapse.Reset(lasts)
	}
}

// await takes a place or, if none is free, has the line wait for one that the dispatcher needs.
func (p *places) await() {
	p.hold(p.quota.takeOrWait(p, 1))
	if p.hungry = p.unused == 0; !p.hungry {
		ground.Signal(p.wake) // a place has come free since the last look
	}
}

// claimOne takes a place for a row that is about to be marked. If it reports false, the line waits for a place. The caller holds no lock,
// here and below.
func (p *places) claimOne() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unused == 0 {
		p.await()
	}
	return p.unused > 0
}

func (p *places) giveUpUnused() {
	p.mu.Lock()
	n := p.unused
	p.unused = 0
	p.mu.Unlock()
	p.quota.pass(n)
}

// wantNone gives up the places that no worker has, and waits for no others: the dispatcher marks nothing for now.
func (p *places) wantNone() {
	p.mu.Lock()
	p.hungry = false
	p.mu.Unlock()
	p.giveUpUnused()
}

// claims is the admission of a line that needs places of the quota.
type claims struct {
	workers *workers
	queue   *queue
	clock   *ground.Clock
	fills   *filling // nil: rows do not wait for a full call
	lacking bool     // the line could have more workers, and has no place for one
}

func (c *claims) begin() { c.lacking = c.workers.claim() }

// admit keeps the places that the rows need. Early rows need theirs later.
func (c *claims) admit(picked []*task, f found) []*task {
	rows := len(picked)
	if f.ahead {
		rows = 0
	}
	c.workers.keep(rows, c.lacking && len(picked) == 0 && c.dueIn() <= 0, f.markTakes)
	return picked
}

func (c *claims) in(found) time.Duration {
	if due := c.dueIn(); c.lacking && due > 0 {
		return due
	}
	return time.Hour // the line waits for a place already
}

func (c *claims) keepNone() { c.workers.places.wantNone() }

// dueIn is how long until the first row that is not marked falls due, or its batch goes without being full.
func (c *claims) dueIn() time.Duration {
	wait := time.Hour
	if c.fills != nil {
		if wait = c.fills.goesIn(time.Now(), true); c.fills.full() {
			return wait // no row is picked before that
		}
	}
	if due, ok := c.queue.nextDue(0); ok {
		wait = min(wait, time.Duration(due-c.clock.Now())*time.Millisecond)
	}
	return wait
}

// claim takes all places that are free and that the line could use, while the dispatcher looks what there is to mark; then comes
// keep. It reports whether the line could have more workers, and has no place for one.
func (w *workers) claim() (lacking bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	could := w.most - w.alive
	w.places.unused += w.places.quota.take(could - w.places.unused)
	return could > 0 && w.places.unused == 0
}

// keep is told how many rows are about to be marked, and gives up the places that they do not need. If the line is hungry, because
// rows are due and there was no place for any, it waits for a place.
func (w *workers) keep(rows int, hungry bool, markTakes time.Duration) {
	p := w.places
	w.mu.Lock()
	perCall := max(1, w.cfg.BatchSize)
	needed := max(0, (rows+len(w.ready)+perCall-1)/perCall-w.coming)
	spare := max(0, p.unused-needed)
	p.unused -= spare
	p.lasts = 2 * markTakes
	p.hold(0)
	if p.hungry = hungry && rows+len(w.ready) == 0; p.hungry {
		p.await()
	}
	w.mu.Unlock()
	p.quota.pass(spare)
}

// usePlace is called if it is the line's turn. A ready task gets a worker at once. If rows are due and not marked yet, the place waits
// until the dispatcher has marked one. It reports false if the line has no use for a place.
func (w *workers) usePlace() (used bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, wanted := w.places, w.wanted()
	switch {
	case wanted > 0:
		more := 1 + p.quota.takeOrWait(p, wanted-1)
		w.alive += more
		w.coming += more
		go w.send(more) // the pool may keep its caller waiting, see start
	case p.hungry:
		p.hungry = false
		p.hold(1)
		ground.Signal(w.wake)
	default:
		return false
	}
	ground.Smooth(&p.turnTakes, time.Since(p.waitsFrom))
	return true
}
