package engine

import (
	"context"
	"maps"
	"slices"
)

// besideOthers returns the tasks whose keys have a slot left beside the jobs that an earlier holder still runs elsewhere. The
// others wait a moment. In an ordered type, such a job is mostly the first of its key; but a row with a smaller id may have been
// committed since, or retried by hand.
func (d *dispatcher) besideOthers(batch []*task) (may []*task) {
	r, most := d.remains.Load(), d.queue.keys.most
	if r == nil || len(r.elsewhere)+len(r.lines) == 0 || most == 0 {
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
	running, err := d.runningOfKeys(r, slices.Sorted(maps.Keys(inBatch)))
	if d.trouble.on(d.lease.Context(), "look for running jobs of keys", err) {
		keyed, keyless := divide(batch, func(t *task) bool { return t.Group() != "" })
		d.refuse(keyed, retryLongest)
		return keyless
	}
	slots := map[string]int{}
	for key, here := range d.queue.slotsTaken(inBatch) {
		slots[key] = most - running[key] - (here - inBatch[key])
	}
	may, mayNot := divide(batch, func(t *task) bool {
		key := keyOf(t)
		slots[key]--
		return t.Group() == "" || slots[key] >= 0
	})
	d.refuse(mayNot, retryLongest)
	return may
}

// runningOfKeys counts the jobs of these keys that other instances still run, by the table, and retired lines of this process.
func (d *dispatcher) runningOfKeys(r *remains, keys []string) (running map[string]int, err error) {
	running = map[string]int{}
	if len(r.elsewhere) > 0 {
		ctx, cancel := context.WithTimeout(d.lease.Context(), markMax)
		defer cancel()
		if running, err = d.jobs.RunningOfKeys(ctx, d.cfg.JobType, keys, r.elsewhere); err != nil {
			return nil, err
		}
	}
	for _, earlier := range r.lines {
		earlier.workers.marked(func(t *task) bool {
			running[keyOf(t)]++
			return false
		})
	}
	return running, nil
}
