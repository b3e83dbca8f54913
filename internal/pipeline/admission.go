package pipeline

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/create-info/persistent-queue/queue_job"
)

// admission decides which of the rows that are due may be marked now, beside the room that workers and settler leave. A line has those
// that its configuration asks for; a plain type has none, unless its process has a quota. The dispatcher asks them in this order:
//
//	filling    a batch handler's rows wait until they fill a call
//	claims     rows wait for a place of the process's quota
//	keyTurns   the table says whether it is a row's turn among those of its key
type admission interface {
	begin()                                // before rows are picked
	admit(picked []*task, f found) []*task // returns those to mark now; the others are kept, parked or put back
	in(f found) time.Duration              // until it may admit what it does not admit now; an hour if something else has to happen first
	keepNone()                             // nothing is marked for now: what is kept goes back
}

// found is what a turn has found.
type found struct {
	unpicked                  // what waits and was not picked
	marked      bool          // marked tasks go on waiting
	room, early int           // for marks; of rows that are not due yet
	picked      int           // rows that have gone to an admission, or to the batch
	ahead       bool          // what was picked is not due yet
	markTakes   time.Duration // of late
}

// filling holds the rows that wait until they fill a call of a batch handler, or until the first of them has waited for
// BatchWait, and then until the rate lets the call start soon. They wait unmarked: a marked row cannot be changed, and counts as lost if
// the process dies. While a full call waits, no rows are picked. It is an admission.
type filling struct {
	queue *queue
	size  int                               // rows of a call
	wait  time.Duration                     // for a call to fill
	opens func(rows int) (in time.Duration) // how long until the gate lets that many rows be marked
	rows  []*task
	since time.Time // the first of the rows came
}

func newFilling(cfg *queue_job.Config, q *queue, opens func(rows int) time.Duration) *filling {
	return &filling{queue: q, size: max(1, cfg.BatchSize), wait: cfg.BatchWait, opens: opens}
}

func (f *filling) begin() {}

func (f *filling) admit(picked []*task, turn found) []*task {
	return f.add(time.Now(), picked, turn.room > 0)
}

func (f *filling) in(turn found) time.Duration { return f.goesIn(time.Now(), turn.room > 0) }

func (f *filling) keepNone() { f.queue.back(f.take()...) }

// full reports whether the rows fill a call, which waits for the rate.
func (f *filling) full() bool { return len(f.rows) >= f.size }

// add takes rows in and returns the rows to mark now. If the rows fill one call or more, it returns the full calls, and the
// rows that came last stay. If they fill none, it returns all of them once the first has waited long enough and there is room
// for marks. Calls that the rate does not let start soon stay, too.
func (f *filling) add(now time.Time, picked []*task, room bool) (calls []*task) {
	if len(f.rows) == 0 {
		f.since = now
	}
	f.rows = append(f.rows, picked...)
	n := len(f.rows)
	if n >= f.size || !room || now.Sub(f.since) < f.wait {
		n -= n % f.size
	}
	for n > 0 && f.opens(n) > 0 {
		n = max(0, n-f.size)
	}
	calls = f.rows[:n:n]
	if f.rows = f.rows[n:]; n > 0 {
		f.since = now
	}
	return calls
}

// goesIn is how long until the rows go on if no others come. It is an hour if there are none, or no room for a call that is not full.
func (f *filling) goesIn(now time.Time, room bool) time.Duration {
	switch {
	case f.full():
		return f.opens(f.size)
	case len(f.rows) == 0 || !room:
		return time.Hour
	}
	return max(f.since.Add(f.wait).Sub(now), f.opens(len(f.rows)))
}

// take takes all rows out.
func (f *filling) take() (rows []*task) {
	rows, f.rows = f.rows, nil
	return rows
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
	if ready[0].expired {
		return n, 0
	}
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

// first is how many of the ready tasks go into the next call. A suspect has a call of its own, and so has a task that has expired.
func (g *gate) first(ready []*task) (n int) {
	for n < min(g.batch, len(ready)) && (n == 0 || !ready[n].apart() && !ready[0].apart()) {
		n++
	}
	return n
}

// apart reports whether a task is in no call with others.
func (t *task) apart() bool { return t.alone || t.expired }

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

// opens is how long until the tokens allow that many more rows to be marked while ready tasks wait for tokens; 0: they do now.
func (g *gate) opens(now time.Time, ready, rows int) (in time.Duration) {
	if g.limiter == nil {
		return 0
	}
	if missing := float64(ready+max(ready, rows)) - g.tokens(now) - g.soon(); missing > rounding {
		return g.lasting(missing)
	}
	return 0
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
