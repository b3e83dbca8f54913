package engine

import (
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// claims is the admission of a line that needs places of the quota.
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

func (c *claims) back() { c.d.workers.places.wantNone() }

// dueIn is how long until the first row that is not marked falls due, or its batch goes without being full.
func (c *claims) dueIn() time.Duration {
	wait := time.Hour
	if c.fills != nil {
		wait = c.fills.goesIn(time.Now(), true)
	}
	if due, ok := c.d.queue.nextDue(0); ok {
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
