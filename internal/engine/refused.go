package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// ErrOtherName is the cause of an error about a job type that has another name in the tables. Trying again does not help.
var ErrOtherName = queue_job.ErrOtherName

// refused are the types of others, whose jobs are not run here, with the reasons.
type refused struct {
	mu    sync.Mutex
	types map[int32]error
}

func (r *refused) add(types map[int32]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types == nil {
		r.types = map[int32]error{}
	}
	maps.Copy(r.types, types)
}

// forget has types be judged anew.
func (r *refused) forget(types []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jobType := range types {
		delete(r.types, jobType)
	}
}

// first is the reason for one of them; nil: there are none.
func (r *refused) first() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jobType := range slices.Sorted(maps.Keys(r.types)) {
		return r.types[jobType]
	}
	return nil
}

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
			d.Log.Error(d.AboutType(&configs[i]), err.Error()+"; its jobs are not run here")
		}
	}
	d.refused.add(others)
}

// register writes in the background how the types are run and what they are called. If it turns out only now that a type is another's, it
// is run no longer.
func (d *database) register(ctx context.Context, configs []queue_job.Config) {
	if d.tables.Registry == nil {
		return
	}
	upkeep.Register(d.upkeepBase(), d.tables.Registry, d.patience, configs, d.retention, func(ctx context.Context, wrong map[int32]error) {
		if len(wrong) > 0 {
			d.refuse(configs, wrong)
			d.coordinator.Change(ctx, cluster.Change{Remove: slices.Collect(maps.Keys(wrong))}) // an error: the Runner stops
		}
		d.coordinator.AskForNew(configs)
	}).Run(ctx)
}
