package engine

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
)

// Times in the table are whole seconds, so what falls due does so in bunches, and a bunch of thousands takes a few marks.
// They are sent before the second begins; what is marked early waits here for its time.
const (
	markedEarly  = 100 * time.Millisecond // so long before their time
	earlyMax     = 4 * batchRowsMax       // so many beyond the free workers, and no more than start within as long a time
	surplusAfter = 900 * time.Millisecond // what is marked and waits this long for a worker goes back; a little more, and it may not start
)

// roomForEarly is how many rows to mark before their time, when none is due that could be marked instead. Where a rate or a
// key decides who may start, that is none: a row that waits would take the turn of another.
func (l *line) roomForEarly() int {
	if l.queue.keys.most > 0 || l.settler.waiting() > unsettledMax {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate != nil {
		return 0
	}
	most := earlyMax // nothing has run yet, so nobody knows: if it turns out to be too many, they go back
	if l.runTakes > 0 {
		most = min(most, l.startedWithin(markedEarly))
	}
	return max(0, min(batchRowsMax, l.freeWorkers()+most-len(l.ready)-len(l.early)))
}

// startedWithin is how many tasks the workers start in a while. The caller holds the lock, and something has run.
func (l *line) startedWithin(d time.Duration) int {
	return int(time.Duration(l.cfg.WorkerPoolCapacity) * d / l.runTakes)
}

// pickEarly takes at most n rows that fall due until a moment, the most urgent first. One whose mark was refused waits for
// its time, and so does one that was lost: it may be what its process died of.
func (q *queue) pickEarly(until int64, n int) (picked []*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.levels {
		for v := &q.levels[i]; len(picked) < n && v.dueEarly(until); {
			picked = append(picked, heap.Pop(&v.timed).(*task))
		}
	}
	return picked
}

// nextEarly is when the first row falls due that may be marked early; false if there is none.
func (q *queue) nextEarly() (due int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.levels {
		if v := &q.levels[i]; v.dueEarly(math.MaxInt64) && (!ok || v.timed[0].due < due) {
			due, ok = v.timed[0].due, true
		}
	}
	return due, ok
}

func (v *level) dueEarly(until int64) bool {
	return len(v.timed) > 0 && v.timed[0].due <= until && v.timed[0].refused == 0 && !v.timed[0].wasLost()
}

// holdEarly keeps those of the marked tasks that are not due yet, and returns the others.
func (l *line) holdEarly(marked []*task) (due []*task) {
	now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(marked, func(t *task) bool {
		if t.due > now {
			heap.Push(&l.early, t)
			return true
		}
		return false
	})
}

// fallenDue takes those of the tasks that were marked early whose time has come.
func (l *line) fallenDue() (due []*task) {
	now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.early) > 0 && l.early[0].due <= now {
		due = append(due, heap.Pop(&l.early).(*task))
	}
	return due
}

// giveBackSurplus takes the marks off what does not start soon: marked, it could not be changed, and would be counted as
// lost with the process.
func (l *line) giveBackSurplus(lease *keeper.Lease, now time.Time) {
	l.mu.Lock()
	surplus := l.surplus(now)
	if len(l.early) > 0 && l.early[0].due > l.clock.at(now)+surplusAfter.Milliseconds() { // the database's clock was set back
		surplus = append(surplus, l.early...)
		l.early = nil
	}
	l.mu.Unlock()
	for _, t := range surplus {
		if t.permit {
			l.settler.undo(lease, t) // another may have it
		} else {
			l.settler.handBack(lease, t)
		}
	}
}

// surplus takes the ready tasks when the first of them has waited for long, because runs have turned out to be slow.
// The caller holds the lock.
func (l *line) surplus(now time.Time) (surplus []*task) {
	waited := l.readyFor(now)
	if waited < surplusAfter {
		return nil
	}
	if stuck := min(waited, now.Sub(l.ranLast)); stuck >= surplusAfter { // no run has ended since
		l.runTakes = max(l.runTakes, stuck)
	}
	surplus, l.ready = l.ready, nil
	return surplus
}

// readyFor is for how long the first ready task has waited while all workers are at work; 0: that is not so. The caller
// holds the lock.
func (l *line) readyFor(now time.Time) time.Duration {
	if len(l.ready) == 0 || l.running-l.coming < l.cfg.WorkerPoolCapacity {
		return 0
	}
	return max(1, now.Sub(l.ready[0].since))
}

// nextForEarly is in what time something is to be done about tasks that are, or may be, marked before their time.
func (l *line) nextForEarly(now int64, room int) time.Duration {
	wait := time.Hour
	if due, ok := l.queue.nextEarly(); ok && room > 0 {
		wait = time.Duration(due-now)*time.Millisecond - markedEarly
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.early) > 0 {
		wait = min(wait, time.Duration(l.early[0].due-now)*time.Millisecond, surplusAfter)
	}
	switch waited := l.readyFor(time.Now()); {
	case waited == 0:
	case waited < surplusAfter:
		wait = min(wait, surplusAfter-waited)
	default:
		wait = min(wait, surplusAfter)
	}
	return wait
}
