package pipeline

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

// queue holds the rows of one job type that wait in memory, within bounds, and knows every row that is in memory in
// whatever state, so that none is loaded twice.
//
//	a row is    in                  it comes by                        and goes by
//	fresh       level.fresh         offer, back                        pick
//	timed       level.timed         offer, back: it has a time         pick
//	suspect     queue.suspects      offer, back: it is to run alone    pickSuspect
//	parked      keys.parked         pick, parkPicked: no slot          passOn; park, when too many are
//	unparked    level.unparked      passOn: it has its slot            pick
//	locked      queue.locked        lock: others have locked it        takeLocked
//	picked      the dispatcher      pick, pickSuspect                  mark, back, forget
//	filling     filling.rows        pick: its batch is not full        mark, back
//	early       workers.early       mark, before its time              start, surplus, takeUnstarted
//	ready       workers.ready       mark; start, when it is due        next, surplus, takeUnstarted
//	at work     workers.atWork      next                               ended
//	unsettled   settler             add, undo, handBack, failLost      write, and then back, backIfRoom or forget
//	departed    queue.departed      forget                             flush, when no read can show it any more
//
// Rows wait in levels, one for each priority. The most urgent go first; one row of a lower level goes after every few of
// the higher ones, and each level has some room of its own, so that none starves. In a level, fresh rows stand in the
// order of their ids, timed ones (delayed, continued, retried) in the order in which they fall due; the two are served by
// turns, and neither may take all the room. Rows that were parked are served by turns with the others when they have their
// slot. Suspects run alone.
type queue struct {
	reads   reads
	limit   int // rows of all levels; beyond it, a level has only the room of its own
	perLane int // rows of one lane
	own     int // rows for which a level has room in any case

	mu       sync.Mutex
	known    map[uint64]int32 // how many times the row had been changed when it was taken in
	waiting  int              // rows in the lists below, but departed
	departed []departed       // forgotten, but a read that began before may still show them
	levels   [levels]level    // the most urgent first
	suspects []*task
	locked   []lockedTask // by the time at which they are looked at
	keys     keys
	overflow func() // rows are left to the table; called with the lock held, mostly
}

type departed struct {
	id   uint64
	read uint64 // the newest read when it was forgotten
}

const (
	levels = 4
	// passes is how many rows of higher levels a row of a lower one lets pass.
	passes = 10
)

// level holds the rows of one priority that wait.
type level struct {
	fresh    []*task
	timed    dueHeap
	unparked []*task // they were parked, and have their slot now
	fair     *fair   // of a type that is fair by group: it has those that are due, in place of fresh and unparked
	turn     int     // whose turn it is
	passed   int     // rows of higher levels that were picked while some waited here
}

// held is a queue whose line has a lease. It is the sink of the rows that are found for the lease.
type held struct {
	*queue
	wake      chan struct{}    // the dispatcher
	runsAgain func(*task) bool // a row that was in flight, or whose process died, is to run once more
}

func newQueue(limit int, reads reads) *queue {
	return &queue{reads: reads, limit: limit, perLane: max(1, limit*3/4), own: max(1, limit/16), known: map[uint64]int32{}, overflow: func() {}}
}

// Offer takes a pending row into the queue. It reports false if there is no room; then a later load brings the row.
func (h held) Offer(row *store.Row) (accepted bool) {
	t := &task{row: *row, dueMillis: row.StartTime * 1000, wasLost: row.Lost > 0 || row.Term != 0}
	if t.wasLost && !h.runsAgain(t) {
		return true
	}
	if !h.offer(t) {
		h.overflow()
		return false
	}
	ground.Signal(h.wake)
	return true
}

// offer takes a row in. It reports false if there is no room. A row that is in memory already is ignored, unless it was
// changed while it waits.
func (q *queue) offer(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.departed) > 0 {
		q.flush()
	}
	if changes, ok := q.known[t.row.ID]; ok {
		if t.row.Changes > changes {
			q.replace(t)
		}
		return true
	}
	if level := levelOf(t.row.Priority); q.levels[level].fair != nil {
		if room, _ := q.roomOf(level, t.dueMillis > 0, keyOf(t)); room == 0 {
			return false
		}
	} else if q.waiting >= q.perLane && q.roomIn(level, t.dueMillis > 0) <= 0 {
		return false
	}
	q.known[t.row.ID] = t.row.Changes
	q.put(t)
	return true
}

// put puts a row where it belongs among those that wait: by its id or by its time.
func (q *queue) put(t *task) {
	q.waiting++
	v := &q.levels[levelOf(t.row.Priority)]
	switch n := len(v.fresh); {
	case t.suspect:
		q.suspects = append(q.suspects, t)
	case v.fair != nil:
		v.fair.put(v, t)
	case t.dueMillis > 0:
		heap.Push(&v.timed, t)
	case n == 0 || v.fresh[n-1].row.ID < t.row.ID:
		v.fresh = append(v.fresh, t)
	default:
		v.fresh = slices.Insert(v.fresh, placeOf(v.fresh, t.row.ID), t)
	}
}

// placeOf is the place of a row among others that stand in the order of their ids.
func placeOf(tasks []*task, id uint64) int {
	i, _ := slices.BinarySearchFunc(tasks, id, func(t *task, id uint64) int { return cmp.Compare(t.row.ID, id) })
	return i
}

// levelOf is the level in which rows of a priority wait, or the nearest one if the priority is out of range.
func levelOf(priority int32) int { return min(max(0, int(2-priority)), levels-1) }

// register makes a row known that will not wait in the queue. It reports false if it is in memory already.
func (q *queue) register(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush()
	if _, ok := q.known[t.row.ID]; ok {
		return false
	}
	q.known[t.row.ID] = t.row.Changes
	return true
}

// Knows reports whether a job is in memory, or was until a moment ago.
func (q *queue) Knows(id uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush()
	_, ok := q.known[id]
	return ok
}

// Lane is how many rows a lane takes now, and how many it takes when it is empty. For a level with few rows, the latter is
// the level's own room: a page is worth loading even if little is left of the shared room.
func (q *queue) Lane(priority int32, timed bool) (now, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	level := levelOf(priority)
	now = q.roomIn(level, timed)
	if q.levels[level].rows() < q.own {
		return now, q.own
	}
	return now, q.perLane
}

// Room returns the lowest priority down to which fresh rows find room, and whether all priorities do.
func (q *queue) Room() (lowest int32, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting < q.perLane || q.levels[0].fair != nil { // wherever they do; or a group's first row has room, mostly
		return store.Priorities[levels-1], true
	}
	for i, p := range store.Priorities {
		if q.roomIn(i, false) <= 0 {
			return store.Priorities[max(0, i-1)], false
		}
		lowest = p
	}
	return lowest, true
}

// roomIn is how many more rows a lane takes. If fewer rows wait, wherever they do, than one lane may hold, all lanes take one.
func (q *queue) roomIn(level int, timed bool) int {
	v := &q.levels[level]
	return min(q.perLane-v.lane(timed), max(q.limit-q.waiting, q.own-v.rows()))
}

func (v *level) rows() int {
	if v.fair != nil {
		return v.fair.fresh + v.fair.due + len(v.timed)
	}
	return len(v.fresh) + len(v.timed) + len(v.unparked)
}

func (v *level) lane(timed bool) int {
	switch {
	case v.fair != nil && timed:
		return v.fair.due + len(v.timed)
	case v.fair != nil:
		return v.fair.fresh
	case timed:
		return len(v.timed)
	}
	return len(v.fresh)
}

// runs are what tasks have that are marked: they themselves, but for those that were let go, and the slots of their keys.
func (q *queue) runs(tasks []*task) (runs store.Runs) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if !t.departed {
			runs.Jobs = append(runs.Jobs, t.row.ID)
		}
		if t.hasSlot {
			runs.Keys = append(runs.Keys, keyOf(t))
		}
	}
	return runs
}

// InMemory is how many rows are in memory, in whatever state.
func (q *queue) InMemory() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush()
	return len(q.known)
}

// pick takes at most n rows that are due and have a slot of their key, few of them long; the others are parked, or go back to
// the table. Ahead is how many milliseconds before its time a row may be picked. Idle is how many of the n start at once. A row that
// was in flight when a process died is taken only if it starts at once: it fails after a few such losses, so it must not be lost again
// while it waits for a worker. If the next row is one of these and no worker is idle, the pick is blocked.
func (q *queue) pick(now, ahead int64, n, idle int) (picked []*task, others unpicked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for long := 0; len(picked) < n && long < longRowsMax; {
		t := q.next(now, ahead)
		if t == nil {
			break
		}
		if t.wasLost {
			if others.blocked = len(picked) >= idle; others.blocked {
				q.put(t)
				break
			}
			n = min(n, idle)
		}
		if q.keys.most > 0 && !q.keys.take(t) {
			q.park(t)
			continue
		}
		if f := q.levels[levelOf(t.row.Priority)].fair; f != nil {
			f.charge(t)
		}
		picked = append(picked, t)
		if t.row.HasLong() {
			long++
		}
	}
	others.rows, others.apart = q.waiting, len(q.suspects)+len(q.locked)+q.keys.rows
	return picked, others
}

// unpicked is what a pick has left behind.
type unpicked struct {
	rows    int // that wait …
	apart   int // … of these, apart from those that are picked by turns: suspects, locked and parked ones
	blocked bool
}

// next takes the row whose turn it is, or nil. It is a row of the highest level that has something due, unless a lower one has let enough
// pass; and of the three lists of that level by turns.
func (q *queue) next(now, ahead int64) *task {
	var v *level
	for i := range q.levels {
		is := &q.levels[i]
		switch {
		case len(is.fresh)+len(is.unparked) == 0 && (is.fair == nil || len(is.fair.turns) == 0) &&
			(len(is.timed) == 0 || is.timed[0].dueFrom(ahead) > now):
		case v == nil:
			v = is
		default:
			if is.passed++; is.passed > passes {
				v = is
			}
		}
	}
	if v == nil {
		return nil
	}
	q.waiting--
	if v.passed = 0; v.fair != nil {
		return v.fair.next(v, now, ahead)
	}
	for {
		list := &v.fresh
		switch v.turn++; v.turn % 3 {
		case 0:
			if len(v.timed) > 0 && v.timed[0].dueFrom(ahead) <= now {
				return heap.Pop(&v.timed).(*task)
			}
			continue
		case 2:
			list = &v.unparked
		}
		if len(*list) > 0 {
			first := (*list)[0]
			(*list)[0], *list = nil, (*list)[1:]
			return first
		}
	}
}

// nextDue is when the first row that waits in a lane may be picked; false if none waits.
func (q *queue) nextDue(ahead int64) (due int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.levels {
		v := &q.levels[i]
		if len(v.fresh)+len(v.unparked) > 0 || v.fair != nil && len(v.fair.turns) > 0 {
			return 0, true
		}
		if len(v.timed) > 0 && (!ok || v.timed[0].dueFrom(ahead) < due) {
			due, ok = v.timed[0].dueFrom(ahead), true
		}
	}
	return due, ok
}

// back puts picked rows back where they belong, by id or by time, even if there is no room.
func (q *queue) back(tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		q.putBack(t)
	}
}

// backIfRoom is back for a row that may as well be read again. It reports false, and forgets the row, if there is no room.
func (q *queue) backIfRoom(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.roomIn(levelOf(t.row.Priority), t.dueMillis > 0) <= 0 {
		q.giveSlotBack(t)
		q.depart(t)
		return false
	}
	q.putBack(t)
	return true
}

func (q *queue) putBack(t *task) {
	q.put(t)
	q.known[t.row.ID] = t.row.Changes
	q.leaveWaiting(t)
}

// replace swaps an earlier reading of a row, which waits here with another time, priority or parameters, for a newer one. The
// mark of the earlier one would fail, but perhaps only after a long wait, and the row may be urgent by now. A row that is being marked
// or runs is not replaced: its mark fails, or it is read again after its run. Neither is a suspect, or a row that is parked behind
// another of its key: its turn comes as it was read, and if its mark fails then, it is read again.
func (q *queue) replace(t *task) {
	old := q.takeOutLocked(t.row.ID)
	for i := 0; old == nil && i < levels; i++ {
		old = q.levels[i].takeOut(t.row.ID)
	}
	if old != nil {
		q.known[t.row.ID] = t.row.Changes
		q.waiting--
		t.hasSlot = old.hasSlot
		q.put(t)
	}
}

// takeOut takes a row out of the level; nil if it does not wait there.
func (v *level) takeOut(id uint64) *task {
	if v.fair != nil {
		return v.fair.takeOut(v, id)
	}
	is := func(t *task) bool { return t.row.ID == id }
	for _, lane := range []*[]*task{&v.fresh, &v.unparked} {
		if i := slices.IndexFunc(*lane, is); i >= 0 {
			t := (*lane)[i]
			*lane = slices.Delete(*lane, i, i+1)
			return t
		}
	}
	if i := slices.IndexFunc(v.timed, is); i >= 0 {
		return heap.Remove(&v.timed, i).(*task)
	}
	return nil
}

// forget lets rows go. A read of the table that begins later may bring them back.
func (q *queue) forget(tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		if t.hasSlot {
			q.giveSlotBack(t)
		}
		q.depart(t)
	}
}

// release lets a row go whose run is not ours any more but has not ended: the row may come back and run again. The run keeps
// its slot of the key. Release reports false if the row was let go before.
func (q *queue) release(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.depart(t)
}

func (q *queue) depart(t *task) bool {
	if t.departed {
		return false
	}
	t.departed = true
	if q.keys.rate != nil {
		q.keys.rate.giveBack(t)
	}
	newest, oldest := q.reads.Span()
	if oldest > newest { // no read is under way
		delete(q.known, t.row.ID)
		return true
	}
	q.departed = append(q.departed, departed{t.row.ID, newest})
	return true
}

// flush removes departed rows that no read under way can still show.
func (q *queue) flush() {
	_, oldest := q.reads.Span()
	n := 0
	for n < len(q.departed) && q.departed[n].read < oldest {
		delete(q.known, q.departed[n].id)
		n++
	}
	q.departed = q.departed[n:]
}

// Forget forgets every waiting row.
func (q *queue) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	gone := append(q.suspects, q.keys.clear()...)
	for _, l := range q.locked {
		gone = append(gone, l.task)
	}
	for i := range q.levels {
		v := &q.levels[i]
		gone = slices.Concat(gone, v.fresh, v.timed, v.unparked)
		if v.fair != nil {
			gone = append(gone, v.fair.clear()...)
		}
		*v = level{fair: v.fair}
	}
	for _, t := range gone {
		q.keys.giveSlotBack(t)
		q.depart(t)
	}
	q.suspects, q.locked, q.waiting = nil, nil, 0
}

// dueHeap orders tasks by when they fall due.
type dueHeap []*task

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].dueMillis < h[j].dueMillis || h[i].dueMillis == h[j].dueMillis && h[i].row.ID < h[j].row.ID
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

func idsOf(tasks []*task) []uint64 {
	ids := make([]uint64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.row.ID
	}
	return ids
}

// lockedTask is a task whose row another transaction has locked. A mark passes over such rows. They wait apart, where they are in no
// mark's way and take no slot of their key. A read finds out which of them are free again: a thousand rows with one statement, at
// first after 20 ms, later once a second. Only then they are marked again.
type lockedTask struct {
	task   *task
	lookAt time.Time
}

// lock lets picked rows wait until their locks are gone.
func (q *queue) lock(now time.Time, tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		q.locked = append(q.locked, lockedTask{t, now.Add(t.refusal(ground.RetryLongest))})
		q.known[t.row.ID] = t.row.Changes
		q.leaveWaiting(t)
	}
	q.waiting += len(tasks)
	slices.SortStableFunc(q.locked, func(a, b lockedTask) int { return a.lookAt.Compare(b.lookAt) })
}

// takeLocked takes at most n locked rows whose time to be looked at has come, or comes within ten milliseconds.
func (q *queue) takeLocked(now time.Time, n int) (tasks []*task) {
	const soon = 10 * time.Millisecond
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.locked) == 0 || now.Before(q.locked[0].lookAt) {
		return nil
	}
	for len(tasks) < min(n, len(q.locked)) && q.locked[len(tasks)].lookAt.Before(now.Add(soon)) {
		tasks = append(tasks, q.locked[len(tasks)].task)
	}
	q.locked = slices.Delete(q.locked, 0, len(tasks))
	q.waiting -= len(tasks)
	return tasks
}

// takeDue takes at most n rows that are due, whether their keys have slots or not: they will not be marked.
func (q *queue) takeDue(now int64, n int) (tasks []*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(tasks) < n {
		t := q.next(now, 0)
		if t == nil {
			break
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// lookAtLockedIn is how long until locked rows are to be looked at.
func (q *queue) lookAtLockedIn(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.locked) == 0 {
		return time.Hour
	}
	return q.locked[0].lookAt.Sub(now)
}

// takeOutLocked takes a row out of the locked ones; nil if it is not there.
func (q *queue) takeOutLocked(id uint64) *task {
	i := slices.IndexFunc(q.locked, func(l lockedTask) bool { return l.task.row.ID == id })
	if i < 0 {
		return nil
	}
	t := q.locked[i].task
	q.locked = slices.Delete(q.locked, i, i+1)
	return t
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
			due := t.row.DueSecond() * 1000
			oldest = min(oldest, due)
			if t.row.StartTime > 0 && due > now {
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
		if v.fair != nil {
			for _, g := range v.fair.turns {
				look(g.fresh[:min(1, len(g.fresh))])
				look(g.due)
			}
		}
	}
	for _, tasks := range q.keys.parked {
		look(tasks)
	}
	return q.waiting, q.keys.rows, soon, time.Duration(now-oldest) * time.Millisecond
}
