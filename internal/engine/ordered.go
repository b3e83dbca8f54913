package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
)

// lookAtHeldEvery is how often keys are looked at whose rows wait for one that is not in flight: it may have been
// cancelled meanwhile, or been finished elsewhere.
const lookAtHeldEvery = time.Second

// onlyFirst returns the tasks that are the first of their keys in the table, if the type is ordered. The others are held
// back.
func (l *line) onlyFirst(lease *keeper.Lease, batch []*task) (first []*task) {
	if !l.cfg.OrderedByKey {
		return batch
	}
	keys := map[string]bool{}
	for _, t := range batch {
		if t.Key != "" {
			keys[keyOf(t)] = true
		}
	}
	if len(keys) == 0 {
		return batch
	}
	firsts, err := l.firstOfKeys(lease, slices.Sorted(maps.Keys(keys)))
	if err != nil {
		keyed, free := divide(batch, func(t *task) bool { return t.Key != "" })
		l.log.Warn(l.about, err.Error()+"; trying again")
		l.queue.putBack(l.clock.now(), keyed, retryLongest)
		return free
	}
	// One that has none is done, or is written in another way there: then its mark will say so.
	first, later := divide(batch, func(t *task) bool {
		id, there := firsts[keyOf(t)]
		return t.Key == "" || !there || id >= t.ID
	})
	if len(later) > 0 {
		l.queue.holdBack(l.clock.now(), later, firsts)
	}
	return first
}

// lookAtHeld looks, every now and then, whether what rows wait for is still there.
func (l *line) lookAtHeld(lease *keeper.Lease) {
	if !l.cfg.OrderedByKey || time.Since(l.lookedAtHeld) < lookAtHeldEvery {
		return
	}
	l.lookedAtHeld = time.Now()
	keys := l.queue.heldKeys(batchRowsMax)
	if len(keys) == 0 {
		return
	}
	firsts, err := l.firstOfKeys(lease, keys)
	if err != nil {
		l.log.Warn(l.about, err.Error()+"; trying again")
		return
	}
	for _, key := range keys {
		if _, there := firsts[key]; !there {
			firsts[key] = noneIsFirst
		}
	}
	l.queue.noLongerHeld(firsts)
}

// firstOfKeys asks the table for the first pending id of each key: in one read, or two if some were not asked for before.
func (l *line) firstOfKeys(lease *keeper.Lease, keys []string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(lease.Context(), markMax)
	defer cancel()
	known, from, unknown := l.queue.remembered(keys)
	firsts := map[string]uint64{}
	for _, part := range []struct {
		keys []string
		from uint64
	}{{known, from}, {unknown, 0}} {
		if len(part.keys) == 0 {
			continue
		}
		some, err := l.jobs.FirstOfKeys(ctx, l.cfg.JobType, part.keys, part.from, l.since, l.upTo)
		if err != nil {
			return nil, err
		}
		maps.Copy(firsts, some)
	}
	return firsts, nil
}

// divide divides tasks into those of which it is true and the rest.
func divide(tasks []*task, of func(*task) bool) (yes, no []*task) {
	for _, t := range tasks {
		if of(t) {
			yes = append(yes, t)
		} else {
			no = append(no, t)
		}
	}
	return yes, no
}
