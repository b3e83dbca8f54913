package pipeline

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// keys limits how many jobs of one key are in flight, and keyRate how many start; keyOf says which key a row has. If a row's key has no slot
// left, the row is parked apart, within bounds, where it is in nobody's way. A slot of a key is taken when a row is picked, and given
// back when it is settled, forgotten or put back; then the key's first parked row gets it.
//
// If the type is ordered, a key has one slot, and its rows get it by their ids. The table says whether a row is the first of
// its key, just before the mark: an earlier row may wait there for its time. A row that is not the first is parked until the
// first is done or gone. The order is in the table, so it survives every change of holder.
type keys struct {
	most    int // slots of each key; 0: keys are not looked at; noLimit: they have no slots, but a rate
	ordered bool
	limit   int // rows that are parked
	perKey  int // rows of one key that are parked

	rate   *keyRate // nil: starts of a key are not limited
	taken  map[string]int
	parked map[string][]*task // in the order in which they get their slots
	rows   int

	idleNext string            // where parkedIdle goes on
	from     map[string]uint64 // in order: no pending row of the key has a smaller id
}

const (
	fromMax = 100_000 // keys in from
	noLimit = math.MaxInt
)

// newKeys leaves at least half of the queue to rows that are not parked, and divides the other half among several keys.
func newKeys(most int, ordered bool, limit int) keys {
	if ordered {
		most = 1
	}
	return keys{
		most: most, ordered: ordered, limit: max(1, limit/2), perKey: max(1, limit/8),
		taken: map[string]int{}, parked: map[string][]*task{}, from: map[string]uint64{},
	}
}

// keyOf is what is called a key here: the row's group, which is its business key unless the job was added with a group. Databases do
// not agree on blanks at its end.
func keyOf(t *task) string { return strings.TrimRight(t.row.Group(), " ") }

// take takes a slot for the row if its key has one and no parked row of the key goes first.
func (k *keys) take(t *task) bool {
	if k.most == 0 || t.row.Group() == "" || t.hasSlot {
		return true
	}
	key := keyOf(t)
	if from, known := k.from[key]; known && t.row.ID < from { // it was retried by hand, or committed late
		k.from[key] = t.row.ID
	}
	if k.taken[key] >= k.most {
		return false
	}
	if parked := k.parked[key]; k.ordered && len(parked) > 0 && parked[0].row.ID < t.row.ID {
		return false
	}
	if k.rate != nil && !k.rate.reserve(key, t) {
		return false
	}
	k.takeSlot(key, t)
	return true
}

// wouldTake reports whether take would succeed. The row has no slot yet.
func (k *keys) wouldTake(t *task) bool {
	ok := k.take(t)
	k.giveSlotBack(t)
	return ok
}

func (k *keys) takeSlot(key string, t *task) {
	if k.most == noLimit {
		return
	}
	t.hasSlot = true
	k.taken[key]++
}

// giveSlotBack reports whether the row had a slot.
func (k *keys) giveSlotBack(t *task) (had bool) {
	if k.rate != nil {
		k.rate.giveBack(t)
	}
	if !t.hasSlot {
		return false
	}
	t.hasSlot = false
	key := keyOf(t)
	if k.taken[key]--; k.taken[key] == 0 {
		delete(k.taken, key)
	}
	return true
}

// park keeps a row until its key has a slot. If there is no room, it returns the row that goes back to the table: the key's
// last one, since the rows before it are needed sooner, or the last one of a larger key.
func (k *keys) park(t *task) (back *task) {
	key := keyOf(t)
	k.insert(key, t)
	if len(k.parked[key]) <= k.perKey && k.rows <= k.limit {
		return nil
	}
	if len(k.parked[key]) <= k.perKey {
		key = k.largest(key)
	}
	return k.removeLast(key)
}

// largest is the key with the most parked rows, of this one and a few others. A key counts as larger if none of its rows is in
// flight: nothing here gives it a slot.
func (k *keys) largest(key string) string {
	const few = 8
	weight := func(key string) int {
		if k.taken[key] == 0 {
			return k.limit + len(k.parked[key])
		}
		return len(k.parked[key])
	}
	seen := 0
	for other := range k.parked { // others each time
		if c := cmp.Or(cmp.Compare(weight(other), weight(key)), cmp.Compare(other, key)); c > 0 {
			key = other
		}
		if seen++; seen == few {
			break
		}
	}
	return key
}

func (k *keys) insert(key string, t *task) {
	rows := k.parked[key]
	i, _ := slices.BinarySearchFunc(rows, t, k.compare)
	k.parked[key] = slices.Insert(rows, i, t)
	k.rows++
}

func (k *keys) removeLast(key string) (last *task) {
	rows := k.parked[key]
	last = rows[len(rows)-1]
	k.keep(key, rows[:len(rows)-1])
	return last
}

func (k *keys) keep(key string, rows []*task) {
	k.rows--
	if len(rows) == 0 {
		delete(k.parked, key)
	} else {
		k.parked[key] = rows
	}
}

// compare says which of two rows of a key gets its slot first: the more urgent one, unless the type is ordered, and then the
// one with the smaller id.
func (k *keys) compare(a, b *task) int {
	if !k.ordered && a.row.Priority != b.row.Priority {
		return cmp.Compare(b.row.Priority, a.row.Priority)
	}
	return cmp.Compare(a.row.ID, b.row.ID)
}

// next takes a slot for the key's first parked row and returns the row. It returns nil if there is no such row, no slot or no token.
func (k *keys) next(key string) *task {
	rows := k.parked[key]
	if len(rows) == 0 || k.taken[key] >= k.most || k.rate != nil && !k.rate.reserve(key, rows[0]) {
		return nil
	}
	t := rows[0]
	rows[0] = nil
	k.keep(key, rows[1:])
	k.takeSlot(key, t)
	return t
}

// parkedIdle returns at most n keys that have parked rows and none in flight, other keys each time. The row that they wait for
// is not in memory, or waits for its time. They do not wait for a token.
func (k *keys) parkedIdle(n int) (idle []string) {
	for key := range k.parked {
		if k.taken[key] == 0 && !k.rate.waits(key) {
			idle = append(idle, key)
		}
	}
	slices.Sort(idle)
	if len(idle) > n {
		next, _ := slices.BinarySearch(idle, k.idleNext)
		idle = slices.Concat(idle[next:], idle[:next])
		k.idleNext = idle[n]
	}
	return idle[:min(n, len(idle))]
}

// remembered divides keys into known ones, whose pending rows have ids from a number on, and unknown ones.
func (k *keys) remembered(keys []string) (known []string, from uint64, unknown []string) {
	for _, key := range keys {
		if id, ok := k.from[key]; ok && (len(known) == 0 || id < from) {
			known, from = append(known, key), id
		} else if ok {
			known = append(known, key)
		} else {
			unknown = append(unknown, key)
		}
	}
	return known, from, unknown
}

// remember notes that a marked row was the first of its key, so all rows before it are done. If a row before it is committed
// later, nobody waits for that row until it is in memory.
func (k *keys) remember(t *task) {
	if !k.ordered || t.row.Group() == "" {
		return
	}
	if len(k.from) > fromMax {
		clear(k.from)
	}
	k.from[keyOf(t)] = t.row.ID
}

// clear forgets the parked rows and returns them. Rows in flight keep their slots.
func (k *keys) clear() (rows []*task) {
	for _, parked := range k.parked {
		rows = append(rows, parked...)
	}
	clear(k.parked)
	clear(k.from)
	k.rows = 0
	return rows
}

// What the queue does with rows whose key has no slot left.

func (q *queue) park(t *task) {
	q.waiting++
	if back := q.keys.park(t); back != nil {
		q.waiting--
		q.depart(back)
		q.overflow()
	}
}

// giveSlotBack gives a task's slot back; the first of its key that is parked gets it.
func (q *queue) giveSlotBack(t *task) {
	if q.keys.giveSlotBack(t) {
		q.passOn(keyOf(t))
	}
}

// passOn lets the first parked row of a key go on, if it has a slot. It reports whether one does.
func (q *queue) passOn(key string) bool {
	t := q.keys.next(key)
	if t == nil {
		return false
	}
	if v := &q.levels[levelOf(t.row.Priority)]; v.fair != nil {
		v.fair.hasSlot(t)
	} else {
		v.unparked = append(v.unparked, t)
	}
	return true
}

// parkPicked parks rows that were picked although another row is the first of their key. Firsts has the first id of each key.
func (q *queue) parkPicked(now int64, tasks []*task, firsts map[string]uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		q.keys.giveSlotBack(t)
		if t.suspect {
			t.dueMillis = now + ground.RetryLongest.Milliseconds()
			q.put(t)
		} else {
			q.park(t)
		}
	}
	q.passOnFirsts(firsts)
}

// passOnFirsts passes slots that are not taken on to the first rows of their keys, if these are parked.
func (q *queue) passOnFirsts(firsts map[string]uint64) {
	for key, first := range firsts {
		if parked := q.keys.parked[key]; len(parked) > 0 && parked[0].row.ID <= first {
			q.passOn(key)
		}
	}
}

// unparkFirsts lets the rows go on that turned out to be the first of their keys.
func (q *queue) unparkFirsts(firsts map[string]uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passOnFirsts(firsts)
}

// remembered and remember spare the table from looking through the finished rows of a key each time.
func (q *queue) remembered(keys []string) (known []string, from uint64, unknown []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys.remembered(keys)
}

func (q *queue) remember(t *task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys.remember(t)
}

// hasParked reports whether the table has to be asked about parked rows every now and then: in an ordered type.
func (q *queue) hasParked() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys.ordered && q.keys.rows > 0
}

// noneIsFirst stands for the first id of a key that has no pending row.
const noneIsFirst = math.MaxUint64

// parkedKeys returns at most n keys that have parked rows and none in flight.
func (q *queue) parkedKeys(n int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys.parkedIdle(n)
}

// leaveWaiting gives back the slot of a row that goes on waiting. In an ordered type it is not passed on, since the other rows
// of the key wait for this one.
func (q *queue) leaveWaiting(t *task) {
	if q.keys.ordered {
		q.keys.giveSlotBack(t)
	} else {
		q.giveSlotBack(t)
	}
}

// slotsTaken is how many slots of these keys are taken. Rows that were picked have taken theirs already.
func (q *queue) slotsTaken(keys map[string]int) (taken map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken = map[string]int{}
	for key := range keys {
		taken[key] = q.keys.taken[key]
	}
	return taken
}

// lookAtParkedEvery is how often to look at keys whose parked rows wait for a row that is not in flight: that row may have
// been cancelled, or finished elsewhere.
const lookAtParkedEvery = time.Second

// keyTurns is the admission of a type whose keys have slots: the queue gives them, and the table says the rest.
type keyTurns struct {
	process  *Process
	part     *part
	lease    *keeper.Lease
	queue    *queue
	marker   *marker
	backlog  Backlog
	roomCame chan struct{} // the loader: rows have left the queue
	lookedAt time.Time     // at keys whose rows are parked
}

func (k *keyTurns) begin() {}

func (k *keyTurns) admit(picked []*task, _ found) (may []*task) {
	if may = k.mayMark(picked); len(may) == 0 {
		ground.Signal(k.roomCame) // rows were parked, or went back to the table
	}
	return may
}

func (k *keyTurns) in(found) time.Duration { return time.Hour }

func (k *keyTurns) keepNone() {}

// mayMark returns the tasks that the table allows to be marked.
func (k *keyTurns) mayMark(batch []*task) []*task { return k.besideOthers(k.onlyFirst(batch)) }

// onlyFirst returns the tasks that are the first of their keys in the table, if the type is ordered. The others
// are parked.
func (k *keyTurns) onlyFirst(batch []*task) (first []*task) {
	if !k.part.cfg.OrderedByKey {
		return batch
	}
	keys := map[string]bool{}
	for _, t := range batch {
		if t.row.Group() != "" {
			keys[keyOf(t)] = true
		}
	}
	if len(keys) == 0 {
		return batch
	}
	firsts, err := k.firstOfKeys(slices.Sorted(maps.Keys(keys)))
	if k.process.Errlog.On(k.lease.Context(), "look for the first jobs of keys", err) {
		keyed, keyless := ground.Divide(batch, func(t *task) bool { return t.row.Group() != "" })
		k.marker.refuse(keyed, ground.RetryLongest)
		return keyless
	}
	// A key without a first row has no pending row, or the table spells it otherwise: the mark will tell.
	first, later := ground.Divide(batch, func(t *task) bool {
		id, there := firsts[keyOf(t)]
		return t.row.Group() == "" || !there || id >= t.row.ID
	})
	if len(later) > 0 {
		k.queue.parkPicked(k.process.Clock.Now(), later, firsts)
	}
	return first
}

// lookAtParked looks, every now and then, whether the rows for which parked rows wait are still there.
func (k *keyTurns) lookAtParked() {
	if !k.part.cfg.OrderedByKey || time.Since(k.lookedAt) < lookAtParkedEvery {
		return
	}
	k.lookedAt = time.Now()
	keys := k.queue.parkedKeys(batchRowsMax)
	if len(keys) == 0 {
		return
	}
	firsts, err := k.firstOfKeys(keys)
	if k.process.Errlog.On(k.lease.Context(), "look for the first jobs of keys", err) {
		return
	}
	for _, key := range keys {
		if _, there := firsts[key]; !there {
			firsts[key] = noneIsFirst
		}
	}
	k.queue.unparkFirsts(firsts)
}

// firstOfKeys asks the table for the first pending id of each key: in one read, or two if some were not asked for before.
func (k *keyTurns) firstOfKeys(keys []string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(k.lease.Context(), k.marker.patience())
	defer cancel()
	known, from, unknown := k.queue.remembered(keys)
	before, upTo := k.backlog.Bounds()
	firsts := map[string]uint64{}
	for _, part := range []struct {
		keys []string
		from uint64
	}{{known, from}, {unknown, 0}} {
		if len(part.keys) == 0 {
			continue
		}
		some, err := k.process.Jobs.FirstOfKeys(ctx, k.part.cfg.JobType, part.keys, part.from, before, upTo)
		if err != nil {
			return nil, err
		}
		maps.Copy(firsts, some)
	}
	return firsts, nil
}

// besideOthers returns the tasks whose keys have a slot left beside the jobs that an earlier holder still runs elsewhere. The
// others wait a moment. In an ordered type, such a job is mostly the first of its key; but a row with a smaller id may have been
// committed since, or retried by hand.
func (k *keyTurns) besideOthers(batch []*task) (may []*task) {
	r, most := k.marker.remains.Load(), k.queue.keys.most
	if r == nil || len(r.Elsewhere)+len(r.Lines) == 0 || most == 0 {
		return batch
	}
	inBatch := map[string]int{}
	for _, t := range batch {
		if t.row.Group() != "" {
			inBatch[keyOf(t)]++
		}
	}
	if len(inBatch) == 0 {
		return batch
	}
	running, err := k.runningOfKeys(r, slices.Sorted(maps.Keys(inBatch)))
	if k.process.Errlog.On(k.lease.Context(), "look for running jobs of keys", err) {
		keyed, keyless := ground.Divide(batch, func(t *task) bool { return t.row.Group() != "" })
		k.marker.refuse(keyed, ground.RetryLongest)
		return keyless
	}
	slots := map[string]int{}
	for key, here := range k.queue.slotsTaken(inBatch) {
		slots[key] = most - running[key] - (here - inBatch[key])
	}
	may, mayNot := ground.Divide(batch, func(t *task) bool {
		key := keyOf(t)
		slots[key]--
		return t.row.Group() == "" || slots[key] >= 0
	})
	k.marker.refuse(mayNot, ground.RetryLongest)
	return may
}

// runningOfKeys counts the jobs of these keys that other instances still run, by the table, and retired lines of this process.
func (k *keyTurns) runningOfKeys(r *Remains, keys []string) (running map[string]int, err error) {
	running = map[string]int{}
	if len(r.Elsewhere) > 0 {
		ctx, cancel := context.WithTimeout(k.lease.Context(), k.marker.patience())
		defer cancel()
		if running, err = k.elsewhereOfKeys(ctx, r, keys); err != nil {
			return nil, err
		}
	}
	for _, earlier := range r.Lines {
		earlier.workers.marked(func(t *task) bool {
			running[keyOf(t)]++
			return false
		})
	}
	return running, nil
}

// elsewhereOfKeys counts the jobs of these keys that other instances still run. Their rows do not tell everything: the job of a handler
// may be final already, or deleted. And what their holders have told does not have the outcomes that are not written yet. So the larger
// number counts. An instance of an older version tells nothing.
func (k *keyTurns) elsewhereOfKeys(ctx context.Context, r *Remains, keys []string) (running map[string]int, err error) {
	told, err := k.marker.restRuns.of(ctx, k.process.Jobs, r)
	if err != nil {
		return nil, err
	}
	inRows := func(told map[string]store.RestRuns, are bool) (map[string]int, error) {
		var terms []int64
		for _, rest := range r.Elsewhere {
			if _, is := told[rest.Name]; is == are {
				terms = append(terms, rest.Term)
			}
		}
		if len(terms) == 0 {
			return map[string]int{}, nil
		}
		return k.process.Jobs.RunningOfKeys(ctx, k.part.cfg.JobType, keys, terms)
	}
	running, err = inRows(told, true)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		n, hash := 0, store.HashOfKey(key)
		for _, runs := range told {
			n += runs.Keys[hash]
		}
		running[key] = max(running[key], n)
	}
	untold, err := inRows(told, false)
	for key, n := range untold {
		running[key] += n
	}
	return running, err
}
