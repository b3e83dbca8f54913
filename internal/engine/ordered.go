package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// lookAtParkedEvery is how often to look at keys whose parked rows wait for a row that is not in flight: that row may have
// been cancelled, or finished elsewhere.
const lookAtParkedEvery = time.Second

// onlyFirst returns the tasks that are the first of their keys in the table, if the type is ordered. The others
// are parked.
func (d *dispatcher) onlyFirst(batch []*task) (first []*task) {
	if !d.cfg.OrderedByKey {
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
	firsts, err := d.firstOfKeys(slices.Sorted(maps.Keys(keys)))
	if d.errlog.On(d.lease.Context(), "look for the first jobs of keys", err) {
		keyed, keyless := ground.Divide(batch, func(t *task) bool { return t.Group() != "" })
		d.refuse(keyed, ground.RetryLongest)
		return keyless
	}
	// A key without a first row has no pending row, or the table spells it otherwise: the mark will tell.
	first, later := ground.Divide(batch, func(t *task) bool {
		id, there := firsts[keyOf(t)]
		return t.Group() == "" || !there || id >= t.ID
	})
	if len(later) > 0 {
		d.queue.parkPicked(d.clock.Now(), later, firsts)
	}
	return first
}

// lookAtParked looks, every now and then, whether the rows for which parked rows wait are still there.
func (d *dispatcher) lookAtParked() {
	if !d.cfg.OrderedByKey || time.Since(d.lookedAt) < lookAtParkedEvery {
		return
	}
	d.lookedAt = time.Now()
	keys := d.queue.parkedKeys(batchRowsMax)
	if len(keys) == 0 {
		return
	}
	firsts, err := d.firstOfKeys(keys)
	if d.errlog.On(d.lease.Context(), "look for the first jobs of keys", err) {
		return
	}
	for _, key := range keys {
		if _, there := firsts[key]; !there {
			firsts[key] = noneIsFirst
		}
	}
	d.queue.unparkFirsts(firsts)
}

// firstOfKeys asks the table for the first pending id of each key: in one read, or two if some were not asked for before.
func (d *dispatcher) firstOfKeys(keys []string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(d.lease.Context(), markMax)
	defer cancel()
	known, from, unknown := d.queue.remembered(keys)
	firsts := map[string]uint64{}
	for _, part := range []struct {
		keys []string
		from uint64
	}{{known, from}, {unknown, 0}} {
		if len(part.keys) == 0 {
			continue
		}
		some, err := d.jobs.FirstOfKeys(ctx, d.cfg.JobType, part.keys, part.from, d.backlog.Since(), d.backlog.UpTo)
		if err != nil {
			return nil, err
		}
		maps.Copy(firsts, some)
	}
	return firsts, nil
}
