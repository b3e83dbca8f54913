package simulator

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

func dormantName(name string) string {
	return store.DormantPrefix + strings.TrimPrefix(name, store.LeasePrefix)
}

func (t *Table) LayDown(ctx context.Context, name, owner string) error {
	return carryOut(ctx, t, layDown, ofLeases(name), func() error {
		if l, ok := t.leases[name]; ok && l.Owner == owner {
			if t.locked(name) {
				return store.ErrLocked
			}
			l.Until = t.now()
			t.leases[dormantName(name)] = l
			delete(t.leases, name)
			t.freed[name] = true
		}
		return nil
	})
}

func (t *Table) Wake(ctx context.Context, names []string) error {
	return carryOut(ctx, t, wakeTypes, ofLeases(names...), func() error {
		for _, name := range names {
			l, ok := t.leases[dormantName(name)]
			if _, both := t.leases[name]; ok && !both {
				t.leases[name] = l
				delete(t.leases, dormantName(name))
			}
		}
		return nil
	})
}

// HaveWork knows all types.
func (t *Table) HaveWork(ctx context.Context, types []int32) (map[int32]bool, error) {
	return do(ctx, t, lookForWork, about{}, func() (map[int32]bool, error) {
		have := map[int32]bool{}
		for _, jobType := range types {
			have[jobType] = false
		}
		for _, j := range t.jobs {
			if _, asked := have[j.JobType]; j.committed && j.pending() && (asked || len(types) == 0) {
				have[j.JobType] = true
			}
		}
		return have, nil
	})
}

// drawDormant draws which types may be dormant, from dice of its own. Where the tables of jobs are slow, none is: there, types wait for
// seconds in any case.
func (p *plan) drawDormant(d *dice) {
	if d.chance(700) || p.weather.sluggish > 0 {
		return
	}
	for i := range p.configs {
		if cfg := &p.configs[i]; d.chance(600) && cfg.Shards <= 1 {
			cfg.DormantAfter = d.between(time.Second, 3*time.Second)
		}
	}
}

func (p *plan) anyDormant() bool {
	return slices.ContainsFunc(p.configs, func(cfg queue_job.Config) bool { return cfg.DormantAfter > 0 })
}

// wakesWithin is how long it may take until a type is woken by a look at the table, in the place of the tail.
const wakesWithin = 13 * time.Second

// expectAwake expects that a type is awake soon after a job was committed. The world stands still.
func (j *judge) expectAwake(x *insertion) {
	w := j.world
	if !w.weather.gentle || w.weather.refused > 0 || w.weather.stray > 0 || w.weather.steered || time.Since(x.opened) > time.Second {
		return
	}
	for _, o := range x.orders {
		if o.ignored {
			continue
		}
		cfg := j.configOf(o.row.JobType)
		if cfg.DormantAfter == 0 || !j.anyUpSince(time.Now().Add(-2*time.Second)) {
			continue
		}
		came := j.cameOrWent
		committed := time.Now()
		time.AfterFunc(2*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if j.cameOrWent != came || w.over || o.history.gone || j.lockedSince(leaseName(cfg.JobType), committed) {
				return
			}
			j.saw["awake in time"]++
			if o.history.final {
				return
			}
			l, there := w.table.Lease(leaseName(cfg.JobType))
			if layout, _ := w.table.Layout(context.Background(), cfg.JobType); layout == 0 && (!there || l.Until <= w.table.now()) {
				j.accuse("%s was committed two seconds ago, and nobody has the lease of its type, which was dormant", o.history.name())
			}
		})
		return
	}
}

// anyUpSince reports whether an instance has been up since a moment, and goes on.
func (j *judge) anyUpSince(moment time.Time) bool {
	for _, i := range j.world.instances {
		if i.up && !i.ending.Load() && i.since.Before(moment) {
			return true
		}
	}
	return false
}
