package cluster

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// types are the job types that this instance works.
type types struct {
	given    []queue_job.Config                 // what the application says, in the order of its types
	within   atomic.Pointer[[]queue_job.Config] // the same within the limits that the table has; never changed in place
	constant []int                              // the places of the types that are never dormant
	limits   map[int32]store.Limits             // that the last look has shown
	casts    map[int32]int                      // how often types have got another configuration, or other limits
	sleep    bool                               // types may be dormant: somebody can say which have work
}

// configured are the configurations, within the limits that the table has, in the order of their types.
func (t *types) configured() []queue_job.Config {
	if all := t.within.Load(); all != nil {
		return *all
	}
	return nil
}

// configOf is the configuration of a job type; nil: there is none here.
func (t *types) configOf(jobType int32) *queue_job.Config {
	configs := t.configured()
	if place, found := placeIn(configs, jobType); found {
		return &configs[place]
	}
	return nil
}

// placeIn is the place of a job type among configurations in the order of their types.
func placeIn(configs []queue_job.Config, jobType int32) (place int, found bool) {
	return slices.BinarySearchFunc(configs, jobType, func(cfg queue_job.Config, jobType int32) int { return cmp.Compare(cfg.JobType, jobType) })
}

// mayBeDormant reports whether a type is dormant if it has no lease. If the type is divided, or ever was, its leases stay.
func (t *types) mayBeDormant(cfg *queue_job.Config) bool { return cfg.DormantAfter > 0 && t.sleep }

// withLeases yields the configured types whose leases must be there: types that are never dormant, types that are divided, and types that
// were woken just now. Thousands of others may be dormant.
func (t *types) withLeases(layouts map[int32]share.Layout, woken map[int32]bool) iter.Seq[*queue_job.Config] {
	return func(yield func(*queue_job.Config) bool) {
		configs := t.configured()
		for _, place := range t.constant {
			if !yield(&configs[place]) {
				return
			}
		}
		others := slices.Concat(slices.Collect(maps.Keys(layouts)), slices.Collect(maps.Keys(woken)))
		slices.Sort(others)
		for _, jobType := range slices.Compact(others) {
			if cfg := t.configOf(jobType); cfg != nil && t.mayBeDormant(cfg) && !yield(cfg) {
				return
			}
		}
	}
}

// shortestLock is the length of the lease that says that this instance is here. It ends when the first of its other leases does.
func (t *types) shortestLock() time.Duration {
	shortest := time.Duration(bridge.QueueJob.WithDefaults(queue_job.Config{}).LockSecond) * time.Second
	for i, cfg := range t.configured() {
		if lock := time.Duration(cfg.LockSecond) * time.Second; i == 0 || lock < shortest {
			shortest = lock
		}
	}
	return shortest
}

// limited returns a configuration within the limits of a job type that has this many shards.
func limited(cfg queue_job.Config, to store.Limits, shards int) queue_job.Config {
	divided := cfg
	divided.Shards = shards
	divided = queue_job.Limits{Workers: to.Workers, RatePerSecond: to.Rate}.Apply(divided)
	cfg.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst = divided.WorkerPoolCapacity, divided.RatePerSecond, divided.RateBurst
	return cfg
}

func typeText(cfg *queue_job.Config) string { return ground.TypeText(cfg.JobType, cfg.ServiceName) }
