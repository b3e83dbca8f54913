package engine

import (
	"container/heap"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
)

// Times are whole seconds, so what falls due does so in bunches, and a bunch of thousands takes a few marks. They are
// sent before the second begins; what is marked early waits here for its time.
const (
	markedEarly  = 100 * time.Millisecond // so long before their time
	earlyMax     = 4 * batchRowsMax       // so many, and no more than the workers start within as long a time
	surplusAfter = time.Second            // what is marked and should have started long ago goes back then
)

// roomForEarly is how many rows to mark before their time. Where a rate or a key decides who may start, that is none: a
// row that waits would take the turn of another.
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
		most = int(min(earlyMax, time.Duration(l.cfg.WorkerPoolCapacity)*markedEarly/l.runTakes))
	}
	free := l.cfg.WorkerPoolCapacity - l.running
	return max(0, min(batchRowsMax, free+most-len(l.ready)-len(l.early)))
}

// pickEarly takes at most n rows that fall due until a moment, the most urgent first. One whose mark was refused waits for
// its time.
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
		if v := &q.levels[i]; v.dueEarly(1<<62) && (!ok || v.timed[0].due < due) {
			due, ok = v.timed[0].due, true
		}
	}
	return due, ok
}

func (v *level) dueEarly(until int64) bool {
	return len(v.timed) > 0 && v.timed[0].due <= until && v.timed[0].refused == 0
}

// holdEarly keeps those of the marked tasks that are not due yet, and returns the others.
func (l *line) holdEarly(marked []*task) (due []*task) {
	now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range marked {
		if t.due > now {
			heap.Push(&l.early, t)
		} else {
			due = append(due, t)
		}
	}
	return due
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

// giveBackSurplus takes the marks off what will not start soon, because runs have turned out to be slow: marked, it could
// not be changed, and would be counted as lost with the process.
func (l *line) giveBackSurplus(lease *keeper.Lease, markTakes time.Duration) {
	l.mu.Lock()
	var surplus []*task
	if age := l.readySince(); age >= surplusAfter {
		l.runTakes = max(l.runTakes, age)
		keep := 2 * aheadOf(l.cfg.WorkerPoolCapacity, l.runTakes, markTakes)
		surplus = slices.Clone(l.ready[min(keep, len(l.ready)):])
		l.ready = slices.Delete(l.ready, len(l.ready)-len(surplus), len(l.ready))
	}
	l.mu.Unlock()
	l.settler.undo(lease, surplus...)
}

// readySince is for how long the first ready task has waited for a worker. The caller holds the lock.
func (l *line) readySince() time.Duration {
	if l.gate != nil || len(l.ready) == 0 || l.running < l.cfg.WorkerPoolCapacity {
		return 0
	}
	return time.Since(l.ready[0].since)
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
		wait = min(wait, time.Duration(l.early[0].due-now)*time.Millisecond)
	}
	if age := l.readySince(); age > 0 && age < surplusAfter {
		wait = min(wait, surplusAfter-age)
	}
	return wait
}
