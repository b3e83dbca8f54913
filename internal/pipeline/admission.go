package pipeline

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/queue_job"
)

// admission decides which of the rows that are due may be marked now, beside the room that workers and settler leave. A line has those
// that its configuration asks for; a plain type has none. The dispatcher asks them in this order:
//
//	filling    a batch handler's rows wait until they fill a call
//	claims     rows wait for a place of the process's quota
//	keyTurns   the table says whether it is a row's turn among those of its key
type admission interface {
	begin()                                // before rows are picked
	admit(picked []*task, f found) []*task // returns those to mark now; the others are kept, parked or put back
	in(f found) time.Duration              // until it may admit what it does not admit now; an hour if something else has to happen first
	back()                                 // nothing is marked for now: what is kept goes back
}

func admissionsOf(d *dispatcher) (list []admission) {
	var fills *filling
	if d.cfg.BatchWait > 0 {
		fills = newFilling(&d.cfg, d.queue)
		list = append(list, fills)
	}
	if d.workers.places != nil {
		list = append(list, &claims{d: d, fills: fills})
	}
	if d.turns != nil {
		list = append(list, d.turns)
	}
	return list
}

// filling holds the rows that wait until they fill a call of a batch handler, or until the first of them has waited for
// BatchWait. They wait unmarked: a marked row cannot be changed, and counts as lost if the process dies. It is an admission.
type filling struct {
	queue *queue
	size  int           // rows of a call
	wait  time.Duration // for a call to fill
	rows  []*task
	since time.Time // the first of the rows came
}

func newFilling(cfg *queue_job.Config, q *queue) *filling {
	return &filling{queue: q, size: max(1, cfg.BatchSize), wait: cfg.BatchWait}
}

func (f *filling) begin() {}

func (f *filling) admit(picked []*task, turn found) []*task {
	return f.add(time.Now(), picked, turn.room > 0)
}

func (f *filling) in(turn found) time.Duration { return f.goesIn(time.Now(), turn.room > 0) }

func (f *filling) back() { f.queue.back(f.take()...) }

// add takes rows in and returns the rows to mark now. If the rows fill one call or more, it returns the full calls, and the
// rows that came last stay. If they fill none, it returns all of them once the first has waited long enough and there is room
// for marks.
func (f *filling) add(now time.Time, picked []*task, room bool) (calls []*task) {
	if len(f.rows) == 0 {
		f.since = now
	}
	f.rows = append(f.rows, picked...)
	n := len(f.rows)
	if n >= f.size || !room || now.Sub(f.since) < f.wait {
		n -= n % f.size
	}
	calls = f.rows[:n:n]
	if f.rows = f.rows[n:]; n > 0 {
		f.since = now
	}
	return calls
}

// goesIn is how long until the rows go on if no others come. It is an hour if there are none, or no room.
func (f *filling) goesIn(now time.Time, room bool) time.Duration {
	if len(f.rows) == 0 || !room {
		return time.Hour
	}
	return f.since.Add(f.wait).Sub(now)
}

// take takes all rows out.
func (f *filling) take() (rows []*task) {
	rows, f.rows = f.rows, nil
	return rows
}

// claims is the admission of a line that needs places of the quota.
type claims struct {
	d       *dispatcher
	fills   *filling // nil: rows do not wait for a full call
	lacking bool     // the line could have more workers, and has no place for one
}

func (c *claims) begin() { c.lacking = c.d.workers.claim() }

// admit keeps the places that the rows need. Early rows need theirs later.
func (c *claims) admit(picked []*task, f found) []*task {
	rows := len(picked)
	if f.ahead {
		rows = 0
	}
	c.d.workers.keep(rows, c.lacking && len(picked) == 0 && c.dueIn() <= 0, c.d.markTakes)
	return picked
}

func (c *claims) in(found) time.Duration {
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
	p := w.places
	switch {
	case w.wanted() > 0:
		p.hold(1)
		go w.start(0) // the pool may keep its caller waiting
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

// gate says when marked jobs may start: as fast as the rate allows, and as many in a call as the handler takes. It admits calls
// to the workers, which then read long parameters. If such reads are slow, their calls would start together; so a second limiter
// counts the starts. A type with neither a rate nor batches has no gate: each task that is ready starts, in a call of its own.
type gate struct {
	limiter *rate.Limiter // of what is admitted; nil: without limit
	starts  *rate.Limiter // of what starts
	batch   int           // jobs of one call
}

// ahead is how much time of the rate rows are marked ahead for. More are marked when half of them have started. So marks stay
// few, and few marked rows wait.
const ahead = 200 * time.Millisecond

const (
	rounding  = 1e-6 // of a token
	leastWait = 500 * time.Microsecond
)

// newGate returns the gate for a lease that was just taken. It has no tokens yet: the holder before may have used them.
func newGate(cfg *queue_job.Config, now time.Time) *gate {
	if cfg.RatePerSecond == 0 && cfg.HandleBatchFunc == nil {
		return nil
	}
	g := &gate{batch: max(1, cfg.BatchSize)}
	if cfg.RatePerSecond > 0 {
		g.limiter, g.starts = emptied(cfg, now), emptied(cfg, now)
	}
	return g
}

func emptied(cfg *queue_job.Config, now time.Time) *rate.Limiter {
	l := rate.NewLimiter(rate.Limit(cfg.RatePerSecond), cfg.RateBurst)
	l.AllowN(now, cfg.RateBurst)
	return l
}

// admits returns how many of the ready tasks a call may take now or, if none, how long to wait before asking again.
func (g *gate) admits(now time.Time, ready []*task) (n int, again time.Duration) {
	if len(ready) == 0 {
		return 0, time.Hour
	}
	n = g.first(ready)
	if missing := float64(n) - g.tokens(now); missing > rounding {
		return 0, g.lasting(missing)
	}
	return n, 0
}

// enter takes the tokens for n starts.
func (g *gate) enter(now time.Time, n int) {
	if g.limiter != nil {
		g.limiter.ReserveN(now, n)
	}
}

// delay is how long n tasks of a call that was admitted must wait before they start, because other starts were late. A delay
// too short for a timer counts as none.
func (g *gate) delay(now time.Time, n int) time.Duration {
	delay := g.starts.ReserveN(now, n).DelayFrom(now)
	if delay < leastWait {
		return 0
	}
	return delay
}

// first is how many of the ready tasks go into the next call. A suspect has a call of its own.
func (g *gate) first(ready []*task) (n int) {
	for n < min(g.batch, len(ready)) && (n == 0 || !ready[n].alone && !ready[0].alone) {
		n++
	}
	return n
}

// calls is how many calls the ready tasks make, as far as the tokens go; at least one, if one is admitted.
func (g *gate) calls(now time.Time, ready []*task) int {
	if n, _ := g.admits(now, ready); n == 0 {
		return 0
	}
	most := (len(ready) + g.batch - 1) / g.batch
	return max(1, min(most, int(min(g.tokens(now), batchRowsMax))/g.batch))
}

// marks is how many rows to mark while ready tasks wait for tokens.
func (g *gate) marks(now time.Time, ready int) int {
	if g.limiter == nil {
		return batchRowsMax
	}
	most := g.tokens(now) + g.soon() + rounding
	if float64(ready) > most/2 {
		return 0
	}
	return max(0, int(min(batchRowsMax, most))-ready)
}

// marksAgain is how long until the tokens allow marks, if no task is ready. It is an hour if they do now.
func (g *gate) marksAgain(now time.Time) time.Duration {
	if g.limiter == nil {
		return time.Hour
	}
	missing := 1 - g.tokens(now) - g.soon()
	if missing <= 0 {
		return time.Hour
	}
	return g.lasting(missing)
}

// soon is how many tokens come in the time for which rows are marked ahead.
func (g *gate) soon() float64 { return float64(g.limiter.Limit()) * ahead.Seconds() }

func (g *gate) tokens(now time.Time) float64 {
	if g.limiter == nil {
		return math.Inf(1)
	}
	return g.limiter.TokensAt(now)
}

// lasting is how long that many tokens take to come.
func (g *gate) lasting(tokens float64) time.Duration {
	if g.limiter == nil {
		return leastWait
	}
	return max(leastWait, time.Duration(min(tokens/float64(g.limiter.Limit()), time.Hour.Seconds())*float64(time.Second)))
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

// newGate begins a lease.
func (w *workers) newGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = newGate(w.cfg, time.Now())
}
