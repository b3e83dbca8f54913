package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

// besideOthers returns the tasks whose keys have a slot left beside the jobs that an earlier holder still runs elsewhere. The
// others wait a moment. In an ordered type, such a job is mostly the first of its key; but a row with a smaller id may have been
// committed since, or retried by hand.
func (k *keyTurns) besideOthers(batch []*task) (may []*task) {
	r, most := k.remains.Load(), k.queue.keys.most
	if r == nil || len(r.Elsewhere)+len(r.Members) == 0 || most == 0 {
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
func (k *keyTurns) runningOfKeys(r *cluster.Remains, keys []string) (running map[string]int, err error) {
	running = map[string]int{}
	if len(r.Elsewhere) > 0 {
		ctx, cancel := context.WithTimeout(k.lease.Context(), markMax)
		defer cancel()
		if running, err = k.elsewhereOfKeys(ctx, r, keys); err != nil {
			return nil, err
		}
	}
	for _, earlier := range r.Members {
		earlier.(member).workers.marked(func(t *task) bool {
			running[keyOf(t)]++
			return false
		})
	}
	return running, nil
}

// elsewhereOfKeys counts the jobs of these keys that other instances still run. Their rows do not tell everything: the job of a handler
// may be final already, or deleted. And what their holders have told does not have the outcomes that are not written yet. So the larger
// number counts. An instance of an older version tells nothing.
func (k *keyTurns) elsewhereOfKeys(ctx context.Context, r *cluster.Remains, keys []string) (running map[string]int, err error) {
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
	about *cluster.Remains
	at    time.Time
	told  map[string]map[uint32]int
}

func (k *restKeys) of(ctx context.Context, jobs Jobs, r *cluster.Remains) (map[string]map[uint32]int, error) {
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
