package engine

import (
	"iter"
	"maps"
	"slices"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// limited returns a configuration within the limits of a job type that has this many shards.
func limited(cfg queue_job.Config, to store.Limits, shards int) queue_job.Config {
	divided := cfg
	divided.Shards = shards
	divided = queue_job.Limits{Workers: to.Workers, RatePerSecond: to.Rate}.Apply(divided)
	cfg.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst = divided.WorkerPoolCapacity, divided.RatePerSecond, divided.RateBurst
	return cfg
}

// heedLimits applies what a look has shown of limits. If somebody has changed the limits of a type, the type gets new lines. A look takes
// leases only after that, so no line starts a job beyond the limits that the look has shown.
func (s *standBy) heedLimits(limits map[int32]store.Limits) {
	if len(limits)+len(s.limits) == 0 {
		return
	}
	types := maps.Clone(limits)
	maps.Copy(types, s.limits)
	s.limits = limits
	for _, cfg := range s.limit(maps.Keys(types)) {
		s.log.Info(s.aboutType(&cfg), "limits: "+queue_job.Limits{Workers: cfg.WorkerPoolCapacity, RatePerSecond: cfg.RatePerSecond}.String())
		s.casts[cfg.JobType]++
	}
}

// limit has this instance work types within the limits that the last look has shown, and returns the configurations that are others now. What
// the application gave stays as it is.
func (s *standBy) limit(types iter.Seq[int32]) (changed []queue_job.Config) {
	configs := s.configured()
	for _, jobType := range slices.Sorted(types) {
		place, found := placeIn(configs, jobType)
		if !found {
			continue
		}
		was, is := &configs[place], limited(s.given[place], s.limits[jobType], s.seen.LayoutOf(jobType).Shards())
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
		s.configs.Store(&configs)
	}
	return changed
}
