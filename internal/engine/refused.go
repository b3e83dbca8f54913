package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// ErrOtherName is the cause of an error about a job type that has another name in the tables. Trying again does not help.
var ErrOtherName = queue_job.ErrOtherName

// joined is one error about all the types.
func joined(others map[int32]error) error {
	var all []error
	for _, jobType := range slices.Sorted(maps.Keys(others)) {
		all = append(all, others[jobType])
	}
	return errors.Join(all...)
}

// claim returns the types that have another name in the table, with what is to be said of it.
func (d *database) claim(ctx context.Context, configs []queue_job.Config) (others map[int32]error) {
	if d.tables.Registry == nil {
		return nil
	}
	return upkeep.Claim(ctx, d.tables.Registry, configs)
}

// refuse starts no jobs of types that are others', and has the log and the health say so.
func (d *database) refuse(configs []queue_job.Config, others map[int32]error) {
	for i := range configs {
		if err := others[configs[i].JobType]; err != nil {
			d.shared.Log.Error(d.shared.AboutType(&configs[i]), err.Error()+"; its jobs are not run here")
		}
	}
	d.health.refused.add(others)
}

// register writes in the background how the types are run and what they are called. If it turns out only now that a type is another's, it
// is run no longer.
func (d *database) register(ctx context.Context, configs []queue_job.Config) {
	if d.tables.Registry == nil {
		return
	}
	upkeep.Register(d.upkeepBase(), d.tables.Registry, d.life.patience, configs, d.options.Retention, func(ctx context.Context, wrong map[int32]error) {
		if len(wrong) > 0 {
			d.refuse(configs, wrong)
			d.coordinator.Change(ctx, cluster.Change{Remove: slices.Collect(maps.Keys(wrong))}) // an error: the Runner stops
		}
		d.coordinator.AskForNew(configs)
	}).Run(ctx)
}
