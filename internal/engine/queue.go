package engine

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// task is a row in memory, from loading to settling.
type task struct {
	store.Row
	due     int64         // database time in milliseconds from which it may start; 0: at once
	suspect bool          // it was lost so often that it runs alone
	refused int           // marks of it that failed
	lease   *keeper.Lease // under which it is marked; nil before
	alone   bool          // it holds the process's permit to run a suspect
}

// timed reports whether the task waits for its time.
func (t *task) timed() bool { return t.due > 0 }

// queue holds the rows of one job type that wait in memory, within bounds, and knows every row that is in memory in
// whatever state, so that none is loaded twice.
//
// Fresh rows stand in the order of their ids, timed ones (delayed, continued, retried) in the order in which they fall
// due. The two are served by turns, and neither may take all the room, so neither starves the other. Suspects, which
// were lost twice, wait apart to run alone.
type queue struct {
	loads   *loads
	limit   int // rows of both lanes
	perLane int // rows of one lane

	mu       sync.Mutex
	known    map[uint64]struct{}
	departed []departed // forgotten, but a read that began before may still show them
	fresh    []*task
	timed    dueHeap
	suspects []*task
	turn     bool // whose turn it is: true for timed
}

type departed struct {
	id   uint64
	read uint64 // the newest read when it was forgotten
}

func newQueue(limit int, loads *loads) *queue {
	return &queue{loads: loads, limit: limit, perLane: max(1, limit*3/4), known: map[uint64]struct{}{}}
}

// offer takes a row in. It reports false if there is no room; a row that is in memory already is no news.
func (q *queue) offer(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush()
	if _, ok := q.known[t.ID]; ok {
		return true
	}
	if q.roomIn(t.timed()) <= 0 {
		return false
	}
	q.known[t.ID] = struct{}{}
	q.push(t)
	return true
}

func (q *queue) push(t *task) {
	switch {
	case t.suspect:
		q.suspects = append(q.suspects, t)
	case t.timed():
		heap.Push(&q.timed, t)
	default:
		q.fresh = append(q.fresh, t)
	}
}

// admit makes a row known that is not to wait. It reports false if it is in memory already.
func (q *queue) admit(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush()
	if _, ok := q.known[t.ID]; ok {
		return false
	}
	q.known[t.ID] = struct{}{}
	return true
}

// room is how many rows the lane takes now, and how many it takes when it is empty.
func (q *queue) room(timed bool) (now, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.roomIn(timed), q.perLane
}

func (q *queue) roomIn(timed bool) int {
	lane := len(q.fresh)
	if timed {
		lane = len(q.timed)
	}
	return min(q.perLane-lane, q.limit-q.waitingRows())
}

func (q *queue) waitingRows() int { return len(q.fresh) + len(q.timed) + len(q.suspects) }

// inMemory is how many rows are in memory, in whatever state.
func (q *queue) inMemory() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.known)
}

// pick takes at most n rows that are due, from both lanes by turns.
func (q *queue) pick(now int64, n int) (picked []*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(picked) < n {
		fresh, timed := len(q.fresh) > 0, len(q.timed) > 0 && q.timed[0].due <= now
		switch {
		case timed && (q.turn || !fresh):
			picked = append(picked, heap.Pop(&q.timed).(*task))
		case fresh:
			picked = append(picked, q.fresh[0])
			q.fresh[0] = nil
			q.fresh = q.fresh[1:]
		default:
			return picked
		}
		q.turn = !q.turn
	}
	return picked
}

// pickSuspect takes one suspect that is due, or nil.
func (q *queue) pickSuspect(now int64) *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range q.suspects {
		if t.due <= now {
			q.suspects = slices.Delete(q.suspects, i, i+1)
			return t
		}
	}
	return nil
}

// nextDue is when the first row falls due that waits in a lane; false if none does.
func (q *queue) nextDue() (due int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.fresh) > 0 {
		return 0, true
	}
	if len(q.timed) > 0 {
		return q.timed[0].due, true
	}
	return 0, false
}

// nextSuspect is when the first suspect falls due; false if there is none.
func (q *queue) nextSuspect() (due int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range q.suspects {
		if i == 0 || t.due < due {
			due, ok = t.due, true
		}
	}
	return due, ok
}

// putBack returns rows that were picked but could not be marked. They wait a while, longer each time, so that others
// pass.
func (q *queue) putBack(now int64, tasks []*task, longest time.Duration) {
	const doublings = 10
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		t.due = now + min(retryFirst<<min(2*t.refused, doublings), longest).Milliseconds()
		t.refused++
		q.push(t)
	}
}

// again takes a row that was settled to run again. It reports false, and forgets the row, if there is no room.
func (q *queue) again(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.roomIn(true) <= 0 {
		q.depart(t)
		return false
	}
	heap.Push(&q.timed, t)
	return true
}

// forget lets rows go: from now on, a read of the table that begins now may bring them back.
func (q *queue) forget(tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		q.depart(t)
	}
}

func (q *queue) depart(t *task) {
	newest, oldest := q.loads.span()
	if oldest > newest { // no read is under way
		delete(q.known, t.ID)
		return
	}
	q.departed = append(q.departed, departed{t.ID, newest})
}

// flush removes the departed whom no read under way can still show.
func (q *queue) flush() {
	if len(q.departed) == 0 {
		return
	}
	_, oldest := q.loads.span()
	n := 0
	for n < len(q.departed) && q.departed[n].read < oldest {
		delete(q.known, q.departed[n].id)
		n++
	}
	q.departed = q.departed[n:]
}

// clear forgets every waiting row.
func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lane := range [][]*task{q.fresh, q.timed, q.suspects} {
		for _, t := range lane {
			q.depart(t)
		}
	}
	q.fresh, q.timed, q.suspects = nil, nil, nil
}

// dueHeap orders tasks by when they fall due.
type dueHeap []*task

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].ID < h[j].ID
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(t any)   { *h = append(*h, t.(*task)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
