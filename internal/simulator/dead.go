package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/witness"
)

// Two know that a process is gone: the instance that is started in its place, with the same identity, and an operator. Operators also try to bury
// instances that live. By the contract, nobody buries an instance whose process is not gone. What a dead instance had ends soon.

// drawDead draws that, in worlds in which instances say that they live, from dice of its own.
func (p *plan) drawDead(d *dice) {
	p.identified = d.chance(600)
	if p.identified && !p.weather.gentle {
		for range d.upTo(4) {
			slot, at, soon := d.upTo(4), d.between(time.Second, p.calmAt), d.between(time.Millisecond, oneOf(d, 500*time.Millisecond, 8*time.Second))
			p.at(at, func(w *world) { w.kill(w.at(slot)) }, "kill place %d, which is started again", slot)
			p.at(at+soon, func(w *world) { w.start(slot) }, "start in place %d again", slot)
			if d.chance(300) {
				for_ := d.between(300*time.Millisecond, 4*time.Second)
				p.at(at+d.between(0, soon), func(w *world) { w.stall(for_, true) }, "the database stands still for %v at a restart", for_)
			}
		}
	}
	for range d.upTo(4) {
		slot, at, kills := d.upTo(4), d.between(time.Second, p.calmAt), d.chance(600) && !p.weather.gentle
		p.at(at, func(w *world) {
			i := w.at(slot)
			if kills {
				w.kill(i)
			}
			w.buryByHand(i)
		}, "somebody buries place %d, killed before %v", slot, kills)
	}
}

// identityOf is what an instance says it is: the same as the one before in its place, if that is gone. The world stands still.
func (w *world) identityOf(i *instance) string {
	if !w.plan.identified {
		return ""
	}
	if before := w.places[i.place]; before != nil && (before.link.dead() || before.stopped) {
		return before.identity
	}
	return fmt.Sprintf("place %d, instance %d", i.place, i.number)
}

// buryByHand buries an instance, as queue_job does. If it turns out to be silent, and its process is not gone, the operator knows better in the
// last moment, unless nothing has befallen it.
func (w *world) buryByHand(i *instance) {
	if i == nil {
		return
	}
	life, there := w.lifeOf(i)
	if !there {
		return
	}
	operator := &instance{world: w, place: -1, number: 1000 + i.number}
	operator.ending.Store(true)
	operator.link = newLink(w, operator)
	operator.alive, operator.die = context.WithCancel(context.Background())
	table := &Table{tables: w.table.tables, link: operator.link}
	id := fmt.Sprintf("%012x", hash(fmt.Sprint(w.seed, "operator", i.number))>>16)
	of := &witness.Witness{Table: table, Name: share.Life(id), Lapses: 5, Owner: "operator#" + id + "." + share.Taking(1, lease.DefaultLock)}
	enough := func(life store.Seen) time.Duration {
		return max(2500*time.Millisecond, time.Duration(life.Running)*time.Millisecond)
	}
	w.running.Go(func() {
		defer operator.die()
		silent := false
		err := of.Watch(operator.alive, []store.Seen{life}, enough, func(seen store.Seen, v witness.Verdict) { life, silent = seen, v == witness.Silent })
		w.judge.watched(i, silent, err)
		if silent && i.link.dead() {
			table.BuryDead(operator.alive, life.Name, life.Owner, life.Term, 60, false)
		}
	})
}

func (w *world) lifeOf(i *instance) (life store.Seen, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, there := w.table.Lease(share.Life(i.id()))
	if !there || l.Until <= w.clock().Unix() || l.Running <= store.Dead {
		return life, false
	}
	return store.Seen{Name: share.Life(i.id()), Owner: l.Owner, Term: l.Term, Running: l.Running}, true
}

// watched is told what somebody has found out of an instance.
func (j *judge) watched(i *instance, silent bool, err error) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, witness.ErrUnanswered):
		j.saw["nothing found out of an instance"]++
	case silent:
		j.saw["silence of an instance"]++
		if i.up && j.innocent(i) && !i.ending.Load() && w.weather.refused+w.weather.broken+w.weather.slow == 0 {
			j.accuse("instance %d, which was not struck, is said to be silent", i.number)
		}
	default:
		j.saw["word of an instance"]++
	}
}

// hasBuriedDead is told that an instance was buried whose process is gone, and expects that all that it had ends soon. The world stands still.
func (j *judge) hasBuriedDead(name string) {
	j.saw["burial of the dead"]++
	w := j.world
	at := slices.IndexFunc(w.instances, func(i *instance) bool { return share.Life(i.id()) == name })
	if at < 0 {
		j.accuse("%s is said to be dead, and is nobody", name)
		return
	}
	i := w.instances[at]
	j.buried[i] = append(j.buried[i], time.Now())
	if !i.link.dead() && !i.stopped {
		j.accuse("instance %d is said to be dead, and its process is not gone", i.number)
	}
	if !j.quiet() {
		return
	}
	const within = 1200 * time.Millisecond
	heir := slices.IndexFunc(w.instances, func(i *instance) bool {
		return i.up && !i.ending.Load() && i.speaks() && time.Since(i.since) > time.Second
	})
	if heir < 0 {
		return
	}
	disturbance, id, said := j.disturbance, i.id(), time.Now()
	time.AfterFunc(within+10*w.weather.latency, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if j.disturbance != disturbance || w.instances[heir].ending.Load() {
			return
		}
		j.saw["end of all that the dead had"]++
		for name, l := range w.table.leases {
			if w.lockedLeases[name].After(said) { // by a transaction of somebody who breaks it
				continue
			}
			if share.EndsWithProcess(id, name, l.Owner) && l.Layout >= 0 && l.Until > w.clock().Unix() {
				j.accuse("%s of instance %d, which is dead, has not ended %v after that was said", name, i.number, within)
			}
		}
	})
}

// quiet reports whether nothing goes wrong that could excuse a delay.
func (j *judge) quiet() bool {
	bad := j.world.weather
	return bad.refused+bad.broken+bad.slow+bad.stray == 0 && !bad.edited && !bad.stepped && !time.Now().Before(j.disturbed)
}

// expectSuccession expects that an instance ends soon what the one before it with its identity has left. The world stands still.
func (j *judge) expectSuccession(i *instance) {
	w := j.world
	if i.identity == "" || !i.speaks() || !j.quiet() {
		return
	}
	const within = 3 * time.Second
	disturbance := j.disturbance
	time.AfterFunc(within+10*w.weather.latency, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if j.disturbance != disturbance || i.ending.Load() {
			return
		}
		for _, before := range w.instances {
			if before == i || before.identity != i.identity || !before.speaks() || !before.link.dead() {
				continue
			}
			j.saw["succession"]++
			if l, there := w.table.Lease(share.Life(before.id())); there && l.Until > w.clock().Unix() && l.Running > store.Dead {
				j.accuse("instance %d has the identity of instance %d, which was killed, and has not buried it in %v", i.number, before.number, within)
			}
		}
	})
}
