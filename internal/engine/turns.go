package engine

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// lookAtParkedEvery is how often to look at keys whose parked rows wait for a row that is not in flight: that row may have
// been cancelled, or finished elsewhere.
const lookAtParkedEvery = time.Second

// keyTurns is the admission of a type whose keys have slots: the queue gives them, and the table says the rest.
type keyTurns struct {
	*base
	lease    *keeper.Lease
	queue    *queue
	marker   *marker
	backlog  Backlog
	remains  *atomic.Pointer[Remains] // what still runs under earlier leases
	roomCame chan struct{}            // the loader: rows have left the queue
	restKeys restKeys
	lookedAt time.Time // at keys whose rows are parked
}

func (k *keyTurns) begin() {}

func (k *keyTurns) admit(picked []*task, _ spare) (may []*task) {
	if may = k.mayMark(picked); len(may) == 0 {
		ground.Signal(k.roomCame) // rows were parked, or went back to the table
	}
	return may
}

func (k *keyTurns) in(spare) time.Duration { return time.Hour }

func (k *keyTurns) back() {}

// mayMark returns the tasks that the table allows to be marked.
func (k *keyTurns) mayMark(batch []*task) []*task { return k.besideOthers(k.onlyFirst(batch)) }

// onlyFirst returns the tasks that are the first of their keys in the table, if the type is ordered. The others
// are parked.
func (k *keyTurns) onlyFirst(batch []*task) (first []*task) {
	if !k.cfg.OrderedByKey {
		return batch
	}
	keys := map[string]bool{}
	for _, t := range batch {
		if t.Group() != "" {
			keys[keyOf(t)] = true
		}
	}
	if len(keys) == 0 {
		return batch
	}
	firsts, err := k.firstOfKeys(slices.Sorted(maps.Keys(keys)))
	if k.errlog.On(k.lease.Context(), "look for the first jobs of keys", err) {
		keyed, keyless := ground.Divide(batch, func(t *task) bool { return t.Group() != "" })
		k.marker.refuse(keyed, ground.RetryLongest)
		return keyless
	}
	// A key without a first row has no pending row, or the table spells it otherwise: the mark will tell.
	first, later := ground.Divide(batch, func(t *task) bool {
		id, there := firsts[keyOf(t)]
		return t.Group() == "" || !there || id >= t.ID
	})
	if len(later) > 0 {
		k.queue.parkPicked(k.clock.Now(), later, firsts)
	}
	return first
}

// lookAtParked looks, every now and then, whether the rows for which parked rows wait are still there.
func (k *keyTurns) lookAtParked() {
	if !k.cfg.OrderedByKey || time.Since(k.lookedAt) < lookAtParkedEvery {
		return
	}
	k.lookedAt = time.Now()
	keys := k.queue.parkedKeys(batchRowsMax)
	if len(keys) == 0 {
		return
	}
	firsts, err := k.firstOfKeys(keys)
	if k.errlog.On(k.lease.Context(), "look for the first jobs of keys", err) {
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
	ctx, cancel := context.WithTimeout(k.lease.Context(), markMax)
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
		some, err := k.jobs.FirstOfKeys(ctx, k.cfg.JobType, part.keys, part.from, before, upTo)
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
	r, most := k.remains.Load(), k.queue.keys.most
	if r == nil || len(r.Elsewhere)+len(r.Lines) == 0 || most == 0 {
		return batch
	}
	inBatch := map[string]int{}
	for _, t := range batch {
		if t.Group() != "" {
			inBatch[keyOf(t)]++
		}
	}
	if len(inBatch) == 0 {
		return batch
	}
	running, err := k.runningOfKeys(r, slices.Sorted(maps.Keys(inBatch)))
	if k.errlog.On(k.lease.Context(), "look for running jobs of keys", err) {
		keyed, keyless := ground.Divide(batch, func(t *task) bool { return t.Group() != "" })
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
		return t.Group() == "" || slots[key] >= 0
	})
	k.marker.refuse(mayNot, ground.RetryLongest)
	return may
}

// runningOfKeys counts the jobs of these keys that other instances still run, by the table, and retired lines of this process.
func (k *keyTurns) runningOfKeys(r *Remains, keys []string) (running map[string]int, err error) {
	running = map[string]int{}
	if len(r.Elsewhere) > 0 {
		ctx, cancel := context.WithTimeout(k.lease.Context(), markMax)
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
	told, err := k.restKeys.of(ctx, k.jobs, r)
	if err != nil {
		return nil, err
	}
	inRows := func(told map[string]map[uint32]int, are bool) (map[string]int, error) {
		var terms []int64
		for _, rest := range r.Elsewhere {
			if _, is := told[rest.Name]; is == are {
				terms = append(terms, rest.Term)
			}
		}
		if len(terms) == 0 {
			return map[string]int{}, nil
		}
		return k.jobs.RunningOfKeys(ctx, k.cfg.JobType, keys, terms)
	}
	running, err = inRows(told, true)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		n, hash := 0, store.HashOfKey(key)
		for _, numbers := range told {
			n += numbers[hash]
		}
		running[key] = max(running[key], n)
	}
	untold, err := inRows(told, false)
	for key, n := range untold {
		running[key] += n
	}
	return running, err
}

// restKeys is what other instances have told of the keys that their handlers have. It becomes less only, so it may be some milliseconds
// old.
type restKeys struct {
	about *Remains
	at    time.Time
	told  map[string]map[uint32]int
}

func (k *restKeys) of(ctx context.Context, jobs Jobs, r *Remains) (map[string]map[uint32]int, error) {
	const fresh = 50 * time.Millisecond
	if k.about == r && time.Since(k.at) < fresh {
		return k.told, nil
	}
	names := make([]string, len(r.Elsewhere))
	for i, rest := range r.Elsewhere {
		names[i] = rest.Name
	}
	asked := time.Now()
	told, err := jobs.RestKeys(ctx, names)
	if err == nil {
		*k = restKeys{r, asked, told}
	}
	return told, err
}
