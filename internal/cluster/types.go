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
}

// Configured are the configurations, within the limits that the table has, in the order of their types.
func (t *types) Configured() []queue_job.Config {
	if all := t.within.Load(); all != nil {
		return *all
	}
	return nil
}

// configOf is the configuration of a job type; nil: there is none here.
func (t *types) configOf(jobType int32) *queue_job.Config {
	configs := t.Configured()
	if place, found := placeIn(configs, jobType); found {
		return &configs[place]
	}
	return nil
}

// placeIn is the place of a job type among configurations in the order of their types.
func placeIn(configs []queue_job.Config, jobType int32) (place int, found bool) {
	return slices.BinarySearchFunc(configs, jobType, func(cfg queue_job.Config, jobType int32) int { return cmp.Compare(cfg.JobType, jobType) })
}

func (c *Coordinator) configure(configs []queue_job.Config) {
	sorted := slices.Clone(configs)
	slices.SortFunc(sorted, func(a, b queue_job.Config) int { return cmp.Compare(a.JobType, b.JobType) })
	c.given = sorted
	c.within.Store(&sorted)
	c.constant = nil
	for i := range sorted {
		if !c.mayBeDormant(&sorted[i]) {
			c.constant = append(c.constant, i)
		}
	}
	c.dormancy.any.Store(len(c.constant) < len(sorted))
}

// mayBeDormant reports whether a type is dormant if it has no lease. If the type is divided, or ever was, its leases stay.
func (c *Coordinator) mayBeDormant(cfg *queue_job.Config) bool {
	return cfg.DormantAfter > 0 && c.Tables.Dormancy != nil
}

// withLeases yields the configured types whose leases must be there: types that are never dormant, types that are divided, and types that
// were woken just now. Thousands of others may be dormant.
func (c *Coordinator) withLeases(layouts map[int32]share.Layout, woken map[int32]bool) iter.Seq[*queue_job.Config] {
	return func(yield func(*queue_job.Config) bool) {
		configs := c.Configured()
		for _, place := range c.constant {
			if !yield(&configs[place]) {
				return
			}
		}
		others := slices.Concat(slices.Collect(maps.Keys(layouts)), slices.Collect(maps.Keys(woken)))
		slices.Sort(others)
		for _, jobType := range slices.Compact(others) {
			if cfg := c.configOf(jobType); cfg != nil && c.mayBeDormant(cfg) && !yield(cfg) {
				return
			}
		}
	}
}

// ShortestLock is the length of the lease that says that this instance is here. It ends when the first of its other leases does.
func (t *types) ShortestLock() time.Duration {
	shortest := time.Duration(bridge.QueueJob.WithDefaults(queue_job.Config{}).LockSecond) * time.Second
	for i, cfg := range t.Configured() {
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

// heedLimits applies what a look has shown of limits. If somebody has changed the limits of a type, the type gets other members. A look
// takes leases only after that, so none starts a job beyond the limits that the look has shown.
func (c *Coordinator) heedLimits(limits map[int32]store.Limits) {
	if len(limits)+len(c.limits) == 0 {
		return
	}
	types := maps.Clone(limits)
	maps.Copy(types, c.limits)
	c.limits = limits
	for _, cfg := range c.limit(maps.Keys(types)) {
		text := queue_job.Limits{Workers: cfg.WorkerPoolCapacity, RatePerSecond: cfg.RatePerSecond}.String()
		c.Log.Info(c.Members.About(&cfg), "limits: "+text)
		c.casts[cfg.JobType]++
	}
}

// limit has this instance work types within the limits that the last look has shown, and returns the configurations that are others now. What
// the application gave stays as it is.
func (c *Coordinator) limit(types iter.Seq[int32]) (changed []queue_job.Config) {
	configs := c.Configured()
	for _, jobType := range slices.Sorted(types) {
		place, found := placeIn(configs, jobType)
		if !found {
			continue
		}
		was, is := &configs[place], limited(c.given[place], c.limits[jobType], c.seen.LayoutOf(jobType).Shards())
		if was.WorkerPoolCapacity == is.WorkerPoolCapacity && was.RatePerSecond == is.RatePerSecond && was.RateBurst == is.RateBurst {
			continue
		}
		if len(changed) == 0 {
			configs = slices.Clone(configs)
		}
		configs[place] = is
		changed = append(changed, is)
	}
	if len(changed) > 0 {
		c.within.Store(&configs)
	}
	return changed
}

func typeText(cfg *queue_job.Config) string { return ground.TypeText(cfg.JobType, cfg.ServiceName) }
