package simulator

import (
	"context"
	"github.com/create-info/persistent-queue/internal/share"
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

// drawWakers draws, from dice of its own, that types which may be dormant get work when all is calm and they have had none for long: a job
// that the tail of each instance sees, or one that none sees, so that only a look at the table finds it.
func (p *plan) drawWakers(d *dice) {
	for _, cfg := range p.configs {
		if cfg.DormantAfter == 0 || d.chance(300) {
			continue
		}
		o, other := p.drawOrder(d, false), p.drawOrder(d, false)
		for _, o := range []*order{o, other} {
			o.due, o.old, o.ignored, o.lengthy, o.deadly, o.row.JobType, o.row.Status, o.row.NoStart = 0, 0, false, false, false, cfg.JobType, 0, false
		}
		first := p.calmAt + d.between(time.Second, 2*time.Second)
		at := first + 12*time.Second + d.between(0, 10*time.Second)
		var x *insertion
		switch d.upTo(3) {
		case 0:
			p.at(at, func(w *world) { w.insert([]*order{o}).commit(false) }, "insert %s, the only job of its type", o.label)
		case 1: // the tail does not wait for it
			p.at(first, func(w *world) { x = w.insert([]*order{o}) }, "insert %s", o.label)
			p.at(first+100*time.Millisecond, func(w *world) { w.insert([]*order{other}).commit(false) }, "insert %s", other.label)
			p.at(at, func(w *world) { x.commitUnseen() }, "commit %s, the only job of its type", o.label)
		case 2:
			p.at(first, func(w *world) { w.insertCancelled(o) }, "insert %s, and cancel it", o.label)
			p.at(at, func(w *world) { w.retryUnseen(o) }, "retry %s, the only job of its type", o.label)
		}
	}
}

// commitUnseen commits rows that the tail has long passed by.
func (x *insertion) commitUnseen() {
	x.commit(false)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.judge.expectWoken(x.orders[0], wakesWithin)
}

func (w *world) insertCancelled(o *order) {
	w.insert([]*order{o}).commit(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Cancel(o.history.id)
}

func (w *world) retryUnseen(o *order) {
	w.retry(o.history)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.expectWoken(o, wakesWithin)
}

func (p *plan) anyDormant() bool {
	return slices.ContainsFunc(p.configs, func(cfg queue_job.Config) bool { return cfg.DormantAfter > 0 })
}

// wakesWithin is how long it may take until a type is woken by a look at the table, in the place of the tail.
const wakesWithin = 13 * time.Second

// expectAwake expects that a type is awake soon after a job was committed. The world stands still.
func (j *judge) expectAwake(x *insertion) {
	const within = 2 * time.Second
	if w := j.world; time.Since(x.opened) > time.Second ||
		!w.calm() && (!w.weather.gentle || w.weather.refused > 0 || w.weather.stray > 0 || w.weather.steered) {
		return
	}
	for _, o := range x.orders {
		if !o.ignored && j.expectWoken(o, within) {
			return
		}
	}
}

// expectWoken expects that the type of a job that comes now is awake within a time, if it may be dormant. The world stands still.
func (j *judge) expectWoken(o *order, within time.Duration) bool {
	w, cfg, h := j.world, j.configOf(o.row.JobType), o.history
	up := j.anyUpSince(time.Now().Add(-2 * time.Second))
	if cfg.DormantAfter == 0 || !up || j.deadUnburied() || w.calm() && (w.weather.edited || w.weather.stepped) {
		return false
	}
	came, committed := j.cameOrWent, time.Now()
	j.after(within, func() {
		over := func() bool {
			return j.cameOrWent != came || w.over || h.gone || j.lockedSince(leaseName(cfg.JobType), committed) || w.answeredSlowly(committed)
		}
		if over() {
			return
		}
		if j.saw["awake in time"]++; within > 2*time.Second {
			j.saw["awake in time by a look at the table"]++
		}
		if h.final || !j.sleeps(cfg.JobType) {
			return
		}
		j.after(100*time.Millisecond, func() { // it may have been on its way from one instance to another
			if !over() && !h.final && j.sleeps(cfg.JobType) {
				j.accuse("%s came %v ago, and nobody has the lease of its type, which was dormant", h.name(), time.Since(committed))
			}
		})
	})
	return true
}

// after calls a function later. The world stands still.
func (j *judge) after(d time.Duration, look func()) {
	time.AfterFunc(d, func() {
		j.world.mu.Lock()
		defer j.world.mu.Unlock()
		look()
	})
}

// sleeps reports whether a type is not divided, and nobody has its lease. The world stands still.
func (j *judge) sleeps(jobType int32) bool {
	l, there := j.world.table.Lease(leaseName(jobType))
	layout, _ := j.world.table.Layout(context.Background(), jobType)
	return layout == 0 && (!there || l.Until <= j.world.table.now())
}

// deadUnburied reports whether an instance is dead, and the others do not know that yet: a type may fall to it, until it is buried.
func (j *judge) deadUnburied() bool {
	return slices.ContainsFunc(j.world.instances, func(i *instance) bool {
		l, there := j.world.table.leases[share.Life(i.id())]
		return there && !i.up && l.Running >= 0 && l.Until > j.world.table.now()
	})
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
