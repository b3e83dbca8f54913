package pipeline

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// What others ask a line.

func (l *Line) Config() *queue_job.Config       { return &l.cfg }  // within its part
func (l *Line) About() context.Context          { return l.about } // for messages about it
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

// KeysUnder are the keys of which tasks that run under a lease have slots, each as often as tasks have it.
func (l *Line) KeysUnder(lease *keeper.Lease) (keys []string, limited bool) {
	if l.queue.keys.most == 0 {
		return nil, false
	}
	return l.queue.keysOf(l.workers.marked(func(t *task) bool { return t.lease == lease && t.Group() != "" })), true
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
	now := l.Clock.Now()
	n.Paused = l.starts.paused()
	n.Running, n.Marked = l.workers.numbers()
	n.Waiting, n.Parked, _, n.Overdue = l.queue.numbers(now)
	n.PutOff, n.LongestPutOff = l.counts.putOffs.count(now)
	return n
}

// Ran is what has run since it was asked last. It goes into the stats of the minute that begins then; what comes goes into the next.
func (l *Line) Ran(begin, next, term int64) store.StatState {
	news := l.counts.news()
	news.Errors, news.Lost = l.counts.errors.enter(minute{begin, term}, minute{next, term})
	return news
}

// State is what the line has in memory, what it runs, and the errors of its last minutes under a term.
func (l *Line) State(now, term int64) store.LineState {
	state := l.state(now)
	state.Minutes = l.counts.errors.minutes(term)
	return state
}

func (l *Line) state(now int64) store.LineState {
	workers := l.workers.seen(time.Now())
	waiting, parked, soon, overdue := l.queue.numbers(now)
	gate := workers.gate
	switch {
	case parked > 0 && parked >= waiting-soon && workers.ready == 0: // another worker, or a higher rate, would start none of them
		gate = store.Gate{Limit: store.HeldByKeys}
	case overdue == 0 && workers.ready == 0:
		gate = store.Gate{}
	case gate.Limit == "":
		gate = l.heldByPool()
	}
	return store.LineState{
		Soon: soon + workers.early, Gate: &gate, PutOff: l.counts.putOffs.tell(now),
		Waiting: waiting, Parked: parked, Marked: workers.early + workers.ready,
		Running: workers.alive, Elsewhere: workers.elsewhere, Workers: l.cfg.WorkerPoolCapacity,
		Overdue: overdue.Milliseconds(), Behind: l.backlog.Behind(), LeftAlone: l.backlog.LeftAlone(), Runs: l.counts.ranUnderLease(),
	}
}

// heldByPool says whether the statements that start jobs have to wait for a connection.
func (l *Line) heldByPool() (gate store.Gate) {
	if most := l.Errlog.Full(); most > 0 {
		gate = store.Gate{Limit: store.HeldByConnections, Most: most}
	}
	return gate
}

// numbers say of the rows that wait how many there are, how many of them are parked, how many are not due yet, and how long the
// longest-waiting one has been due. A row whose mark was refused waits longer, and has been due all the same: so what counts is the row's
// second, and not dueMillis.
func (q *queue) numbers(now int64) (waiting, parked, soon int, overdue time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := now
	look := func(tasks []*task) {
		for _, t := range tasks {
			due := t.DueSecond() * 1000
			oldest = min(oldest, due)
			if t.StartTime > 0 && due > now {
				soon++
			}
		}
	}
	look(q.suspects)
	for _, l := range q.locked {
		look([]*task{l.task})
	}
	for i := range q.levels {
		v := &q.levels[i]
		look(v.fresh[:min(1, len(v.fresh))]) // they stand in the order in which they were added, or nearly so
		look(v.timed)
		look(v.unparked)
	}
	for _, tasks := range q.keys.parked {
		look(tasks)
	}
	return q.waiting, q.keys.rows, soon, time.Duration(now-oldest) * time.Millisecond
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
