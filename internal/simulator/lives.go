package simulator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Leases are long in some worlds, and instances say each second that they live. Whoever is not heard of is buried: others go on at once, and what the
// buried one may still run is left alone until its leases would have ended. Instances are killed, frozen and cut off for longer than that, also while
// they bury others; the database stands still for all, or for those that write.

// takeoverOf is how long it takes at most until others have the leases of an instance that is killed, and said that it lives: 4.5 seconds, unless
// answers took so long that its last beat counts for longer.
func (j *judge) takeoverOf(i *instance) time.Duration {
	const besides, usual = 2 * time.Second, 2500 * time.Millisecond
	life, _ := j.world.table.Lease(share.Life(i.id()))
	return max(usual, time.Duration(life.Running)*time.Millisecond) + besides
}

// drawLives draws such worlds, from dice of its own.
func (p *plan) drawLives(d, dead *dice) {
	if d.chance(700) || p.weather.truncated {
		return
	}
	p.lives = true
	for i := range p.configs {
		p.configs[i].LockSecond = uint32(8 + d.upTo(6))
	}
	p.older = d.chance(250)
	if !p.weather.stepped { // whoever sees that the clock was set back has to be there
		p.calmAt += d.between(5*time.Second, 15*time.Second)
	}
	if p.older {
		p.drawDeploys(d)
	}
	p.drawDead(dead)
	for range 4 + d.upTo(8) {
		p.drawTransaction(d, d.between(0, p.calmAt), 1+d.upTo(8), 0)
	}
	if p.weather.gentle {
		return
	}
	for range d.upTo(4) {
		at, for_, all := d.between(time.Second, p.calmAt), d.between(300*time.Millisecond, oneOf(d, 2*time.Second, 4*time.Second)), d.chance(400)
		p.at(at, func(w *world) { w.stall(for_, all) }, "the database stands still for %v, for all %v", for_, all)
	}
	if d.chance(400) { // nothing else goes wrong, so a takeover has no excuse
		p.weather.refused, p.weather.broken, p.weather.slow, p.weather.blows = 0, 0, 0, 0
	}
	for range 1 + d.upTo(4) {
		slot, at := d.upTo(4), d.between(time.Second, p.calmAt)
		for_ := d.between(time.Second, oneOf(d, 3*time.Second, 6*time.Second, 12*time.Second))
		switch d.upTo(8) {
		case 0, 1:
			p.at(at, func(w *world) { w.kill(w.at(slot)) }, "kill place %d", slot)
			p.at(at+d.between(time.Millisecond, 6*time.Second), func(w *world) { w.start(slot) }, "start in place %d", slot)
		case 2, 3:
			p.at(at, func(w *world) { w.freeze(w.at(slot), for_) }, "freeze place %d for %v", slot, for_)
		case 4:
			way := d.upTo(3)
			p.at(at, func(w *world) { w.cutOff(w.at(slot), for_, way != 1, way != 2) }, "cut place %d off for %v: statements %v, answers %v", slot, for_,
				way != 1, way != 2)
		case 5, 6, 7:
			p.at(at, func(w *world) { w.silence(w.at(slot), for_) }, "nobody hears of place %d for %v", slot, for_)
		}
	}
}

// silence has the beats of an instance not arrive; all else does.
func (w *world) silence(i *instance, for_ time.Duration) {
	w.strike(i, for_, "not heard of", func(l *link, until time.Time) { l.silentUntil = until })
}

// stall has the database stand still for all statements, or for those that write.
func (w *world) stall(for_ time.Duration, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := time.Now().Add(for_)
	if until.After(w.calmAt()) {
		until = w.calmAt()
	}
	w.judge.saw["stall"]++
	w.judge.stalls = append(w.judge.stalls, stall{time.Now(), until})
	w.judge.disturb(time.Until(until))
	w.writesFrom.Store(&until)
	if all {
		w.answersFrom.Store(&until)
	}
}

// stall is a time in which the database stands still, at least for statements that write.
type stall struct{ from, until time.Time }

// stoodStill reports whether the database stood still at some moment between two.
func (j *judge) stoodStill(from, until time.Time) bool {
	return slices.ContainsFunc(j.stalls, func(s stall) bool { return s.from.Before(until) && s.until.After(from) })
}

// swallowed reports whether the database has stood still of late for longer than a beat waits for its answer: an instance sends the next one a
// second later, and whoever had its own beats answered between two standstills, or promptly enough, takes that for silence.
func (j *judge) swallowed() bool {
	const late, waits = 4 * time.Second, time.Second
	stood, from := time.Duration(0), time.Now().Add(-late)
	for _, s := range j.stalls {
		if s.until.After(from) {
			stood += min(time.Until(s.until), 0) + time.Since(later(s.from, from))
		}
	}
	return stood >= waits
}

// stalledUntil is until when the database stands still for a statement.
func (w *world) stalledUntil(v verb) (until time.Time) {
	if at := w.answersFrom.Load(); at != nil {
		until = *at
	}
	if at := w.writesFrom.Load(); at != nil && v.writes() {
		until = later(until, *at)
	}
	return until
}

// speaks reports whether the instance says that it lives.
func (i *instance) speaks() bool { return i.world.plan.lives && !i.older() }

// older reports whether the instance is of a version that knows nothing of lives. In some worlds, those in places with odd numbers are. In
// others, the instances are upgraded after a third of the time, one by one, and replaced by older ones after another third.
func (i *instance) older() bool {
	w := i.world
	if !w.plan.older {
		return false
	}
	if w.seed%2 == 0 {
		return i.place%2 == 1
	}
	third, at := w.plan.calmAt/3, w.plan.calmAt-w.calmAt().Sub(i.born)
	return at < third || at >= 2*third
}

// drawDeploys draws that instances are replaced one by one, twice.
func (p *plan) drawDeploys(d *dice) {
	for _, from := range []time.Duration{p.calmAt / 3, 2 * p.calmAt / 3} {
		for slot := range 4 {
			at, patience := from+d.between(0, p.calmAt/6), time.Minute
			if !p.weather.gentle {
				patience = d.between(0, 3*time.Second)
			}
			p.at(at, func(w *world) { w.stop(slot, patience) }, "stop in place %d, for another version, with a patience of %v", slot, patience)
			p.at(at+d.between(time.Millisecond, time.Second), func(w *world) { w.start(slot) }, "start in place %d", slot)
		}
	}
}

// shownTo is what the names of rows begin with at which an instance looks.
func (t *Table) shownTo(prefixes []string) []string {
	if t.link == nil || !t.link.instance.older() {
		return prefixes
	}
	return slices.DeleteFunc(slices.Clone(prefixes), func(prefix string) bool { return prefix == share.Life("") })
}

// through is what a statement about a life is called, by the connection that it takes.
func (t *Table) through(own, beside verb) verb {
	if t.pulse {
		return own
	}
	return beside
}

func (t *Table) Rise(ctx context.Context, name, owner string, number, counts, lockSeconds int64) error {
	return carryOut(ctx, t, t.through(rise, riseBeside), ofLeases(name), func() error {
		if l := t.leases[name]; l.Layout >= number {
			if l.Layout == number && l.Owner == owner && l.Running >= 0 {
				return nil
			}
			return fmt.Errorf("%s is gone", name)
		}
		t.leases[name] = Lease{Until: t.nowRounded() + lockSeconds, Since: t.now(), Owner: owner, Term: t.clock().UnixMilli() + counts,
			Running: int(counts), Layout: number}
		return nil
	})
}

func (t *Table) Beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (bool, error) {
	return do(ctx, t, t.through(beat, beatBeside), ofLeases(name), func() (bool, error) {
		l, there := t.leases[name]
		if !there || l.Owner != owner || l.Running < 0 {
			return false, nil
		}
		if l.Layout >= number { // it comes late, or again
			return l.Layout == number, nil
		}
		l.Until, l.Term, l.Running, l.Layout = t.nowRounded()+lockSeconds, t.clock().UnixMilli()+counts, int(counts), number
		t.leases[name] = l
		return true, nil
	})
}

func (t *Table) Bury(ctx context.Context, name, owner string, term, seconds int64) (bool, error) {
	return do(ctx, t, bury, ofLeases(name), func() (bool, error) {
		l, there := t.leases[name]
		if !there || t.locked(name) || l.Owner != owner || l.Running < 0 || l.Term != term || l.Term > t.clock().UnixMilli() {
			return false, nil
		}
		l.Running, l.Since, l.Until = store.Buried, t.now(), max(l.Until, t.nowRounded()+seconds)
		t.leases[name] = l
		return true, nil
	})
}

func (t *Table) BuryDead(ctx context.Context, name, owner string, term, seconds int64, unexpired bool) (bool, error) {
	return do(ctx, t, buryDead, ofLeases(name), func() (bool, error) {
		l, there := t.leases[name]
		if !there || t.locked(name) || l.Owner != owner || l.Running <= store.Dead || l.Term != term {
			return false, nil
		}
		if !unexpired && l.Running >= 0 && l.Term > t.clock().UnixMilli() {
			return false, nil
		}
		if l.Running >= 0 {
			l.Since = t.now()
		}
		l.Running, l.Until = store.Dead, max(l.Until, t.nowRounded()+seconds)
		t.leases[name] = l
		return true, nil
	})
}

func (t *Table) CopyLeases(ctx context.Context, copies []store.Copy) error {
	names := make([]string, len(copies))
	for i, c := range copies {
		names[i] = c.Rest
	}
	return carryOut(ctx, t, copyLeases, ofLeases(names...), func() error {
		for _, c := range copies {
			if l, there := t.leases[c.Rest]; (!there || l.Owner == "") && !t.locked(c.Rest) {
				t.leases[c.Rest] = Lease{Until: c.Until / 1e6, Since: t.now(), Owner: c.Owner, Term: c.Term, Running: c.Running, Layout: c.Layout}
			}
		}
		return nil
	})
}

func (t *Table) FreeLeases(ctx context.Context, names, owners []string) error {
	return carryOut(ctx, t, freeLeases, ofLeases(names...), func() error {
		for _, name := range names {
			if l, there := t.leases[name]; there && slices.Contains(owners, l.Owner) && l.Until > t.now() && !t.locked(name) {
				l.Until = t.now()
				t.leases[name], t.freed[name] = l, true
			}
		}
		return nil
	})
}

// hasBuried is told that an instance was buried. The world stands still. In good weather, only those are that are struck.
func (j *judge) hasBuried(name string) {
	j.saw["burial"]++
	w := j.world
	at := slices.IndexFunc(w.instances, func(i *instance) bool { return share.Life(i.id()) == name })
	if at < 0 { // somebody who watched others
		return
	}
	i := w.instances[at]
	j.buried[i] = append(j.buried[i], time.Now())
	j.showBuried(i)
	if i.up {
		j.saw["burial of an instance that is alive"]++
	}
	if i.up && j.innocent(i) && !i.ending.Load() && w.weather.refused+w.weather.broken+w.weather.slow == 0 && !j.swallowed() {
		j.accuse("instance %d, which was not struck, is buried", i.number)
	}
}

// expectAlive expects that no run begins under a lease whose holder was buried since it was taken, whatever the clocks are set to: others may have
// started jobs under the next one.
func (j *judge) expectAlive(r *run) {
	if j.configOf(r.jobType).MinLockSecond > 0 { // nobody takes such a lease from its holder
		return
	}
	for _, at := range j.buried[r.by] {
		if taken := j.termTaken[leaseTerm{r.lease.lease, r.term}]; !taken.IsZero() && taken.Before(at) {
			j.accuse("a run of %s under term %d of %s: instance %d was buried %v ago, and had the lease before", r.history.name(), r.term, r.lease.lease,
				r.by.number, time.Since(at))
		}
	}
}

// expectRestOver expects that nobody takes over a row whose holder may still run it, as the table says.
func (j *judge) expectRestOver(h *history, c change) {
	w := j.world.weather
	if c.before.Term == 0 || j.late || w.stepped || w.edited || !j.world.plan.lives {
		return
	}
	t := j.takingOf(h, c.before.Term)
	if t.by == nil || t.by == j.actor {
		return
	}
	rest, there := j.world.table.Lease(share.Remains(t.lease, c.before.Term))
	j.saw["run again in a world of lives"]++
	if there && rest.Owner != "" && rest.Until > j.world.clock().Unix()+1 {
		j.accuse("%s is marked under term %d, and the rest of %s under term %d has not ended", h.name(), c.term, t.lease, c.before.Term)
	}
}
