package engine

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
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
	backlog  *find.Backlog
	remains  *atomic.Pointer[cluster.Remains] // what still runs under earlier leases
	roomCame chan struct{}                    // the loader: rows have left the queue
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
	firsts := map[string]uint64{}
	for _, part := range []struct {
		keys []string
		from uint64
	}{{known, from}, {unknown, 0}} {
		if len(part.keys) == 0 {
			continue
		}
		some, err := k.jobs.FirstOfKeys(ctx, k.cfg.JobType, part.keys, part.from, k.backlog.Since(), k.backlog.UpTo)
		if err != nil {
			return nil, err
		}
		maps.Copy(firsts, some)
	}
	return firsts, nil
}
