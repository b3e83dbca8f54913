package engine

import (
	"maps"
	"slices"

	"github.com/create-info/persistent-queue/internal/share"
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
func (s *standBy) heedLimits(limits map[int32]store.Limits, v *share.View) {
	if len(limits)+len(s.limits) == 0 {
		return
	}
	types := maps.Clone(limits)
	maps.Copy(types, s.limits)
	s.limits = limits
	configs, changed := s.configured(), []queue_job.Config{}
	for _, jobType := range slices.Sorted(maps.Keys(types)) {
		place, found := placeIn(configs, jobType)
		if !found {
			continue
		}
		was, is := &configs[place], limited(s.given[place], limits[jobType], v.LayoutOf(jobType).Shards())
		if was.WorkerPoolCapacity != is.WorkerPoolCapacity || was.RatePerSecond != is.RatePerSecond || was.RateBurst != is.RateBurst {
			changed = append(changed, is)
		}
	}
	s.amend(changed)
	for _, cfg := range changed {
		s.log.Info(s.aboutType(&cfg), "limits: "+queue_job.Limits{Workers: cfg.WorkerPoolCapacity, RatePerSecond: cfg.RatePerSecond}.String())
		c, err := s.makeCasting(cfg)
		if err != nil { // the configuration was tried when it came
			s.log.Error(s.about, err.Error())
			continue
		}
		s.castType(c, "the job type has other limits")
	}
}

// amend replaces the configurations by which this instance works some types. What the application gave stays as it is.
func (d *database) amend(changed []queue_job.Config) {
	if len(changed) == 0 {
		return
	}
	configs := slices.Clone(d.configured())
	for _, cfg := range changed {
		if place, found := placeIn(configs, cfg.JobType); found {
			configs[place] = cfg
		}
	}
	d.configs.Store(&configs)
}
