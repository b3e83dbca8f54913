package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Decisions of others about jobs and types (pauses, cancellations, retries), and business code that holds a row locked.

// drawSteering draws what others decide, from dice of its own, so worlds without such decisions do not depend on it.
// Many worlds with decisions have few workers and long runs, so that rows, marked or not, wait in memory while others
// change them.
func (p *plan) drawSteering(d *dice) {
	if p.weather.truncated || d.chance(500) {
		return
	}
	w := &p.weather
	w.steered, w.long = true, d.chance(600)
	w.stray = d.upTo(60)
	if w.long {
		for i := range p.configs {
			p.configs[i].WorkerPoolCapacity = oneOf(d, 1, 1, 2, 3)
		}
	}
	calm := p.calmAt
	moment := func() time.Duration { return d.between(200*time.Millisecond, calm) }
	for range d.upTo(4) {
		p.drawPause(d, moment())
	}
	for range d.upTo(8) {
		p.drawCancellation(d, moment())
	}
	for range d.upTo(5) {
		p.drawLock(d, moment())
	}
	for range d.upTo(6) {
		among, priority := d.next(), int32(d.upTo(4))-1
		p.at(moment(), func(w *world) { w.prioritise(among, priority) }, "give a job the priority %d", priority)
	}
	for range d.upTo(3) {
		p.drawLockedThenPaused(d, moment())
	}
	if w.long {
		p.drawTransaction(d, moment()/4, 3+d.upTo(10), 0)
	}
	if w.gentle {
		if d.chance(60) {
			p.drawSluggish(d)
		}
		return
	}
	p.drawStrikes(d, moment)
}

// drawStrikes draws what befalls holders, of whatever place they are then.
func (p *plan) drawStrikes(d *dice, moment func() time.Duration) {
	lock := p.longestLock()
	for range d.upTo(5) {
		at, among := moment(), d.next()
		switch d.upTo(4) {
		case 0, 1: // for longer than its lease: its successor has read the rows, and waits for a worker
			for_ := d.between(lock, 5*lock/2)
			p.at(at, func(w *world) { w.freeze(w.holder(among), for_) }, "freeze a holder for %v", for_)
		case 2:
			p.at(at, func(w *world) {
				if i := w.holder(among); i != nil {
					w.kill(i)
					time.AfterFunc(lock/2+time.Duration(among%uint64(lock)), func() { w.start(i.place) })
				}
			}, "kill a holder")
		case 3: // while handlers wait for their commits
			patience := d.between(time.Millisecond, time.Second)
			p.at(at, func(w *world) {
				if i := w.holder(among); i != nil {
					w.stop(i.place, patience)
					time.AfterFunc(3*time.Second+patience, func() { w.start(i.place) })
				}
			}, "stop a holder with a patience of %v", patience)
		}
	}
}

// drawSluggish draws a time in which only the tables of jobs are slow. Then jobs are slow too, but go on.
func (p *plan) drawSluggish(d *dice) {
	const for_ = 20 * time.Second
	p.weather.sluggish = d.between(100*time.Millisecond, 800*time.Millisecond)
	p.drawTransaction(d, p.calmAt, 20+d.upTo(20), 0)
	p.calmAt += for_
	p.at(p.calmAt-time.Millisecond, func(w *world) { w.judge.expectProgress(for_ - 8*time.Second) }, "slow tables have been slow for %v", for_)
}

// drawHandOvers draws that somebody asks for leases to be handed over, from dice of its own.
func (p *plan) drawHandOvers(d *dice) {
	if d.chance(600) {
		return
	}
	for range 1 + d.upTo(6) {
		jobType := int32(1 + d.upTo(len(p.configs)))
		p.at(d.between(200*time.Millisecond, p.calmAt), func(w *world) { w.handOver(jobType) }, "ask for %s to be handed over", leaseName(jobType))
	}
}

// drawDrains draws that somebody drains instances for a while, from dice of its own.
func (p *plan) drawDrains(d *dice) {
	if d.chance(700) {
		return
	}
	for range 1 + d.upTo(3) {
		among, for_ := d.next(), time.Duration(1+d.upTo(4))*time.Second
		p.at(d.between(200*time.Millisecond, p.calmAt), func(w *world) { w.drain(among, for_) }, "drain an instance for %v", for_)
	}
}

// drawRecasts draws that instances get the configuration of a type anew, or give the type up and take it on again, from dice of its
// own.
func (p *plan) drawRecasts(d *dice) {
	if d.chance(600) {
		return
	}
	for range 1 + d.upTo(6) {
		jobType, among, remove := int32(1+d.upTo(len(p.configs))), d.next(), d.chance(300)
		p.at(d.between(200*time.Millisecond, p.calmAt), func(w *world) { w.recast(among, jobType, remove) }, "recast type %d, %v", jobType, remove)
	}
}

// drawLimits draws that somebody limits types more than their configurations do, from dice of its own.
func (p *plan) drawLimits(d *dice) {
	if d.chance(600) {
		return
	}
	for range 1 + d.upTo(5) {
		jobType, limits := int32(1+d.upTo(len(p.configs))), store.Limits{Workers: d.upTo(3)}
		if d.chance(500) {
			limits.Rate = float64(1 + d.upTo(4))
		}
		p.at(d.between(200*time.Millisecond, p.calmAt), func(w *world) { w.limit(jobType, limits) }, "limit type %d to %+v", jobType, limits)
	}
	for _, cfg := range p.configs {
		p.at(p.calmAt, func(w *world) { w.limit(cfg.JobType, store.Limits{}) }, "limit type %d no more", cfg.JobType)
	}
}

func (p *plan) drawPause(d *dice, at time.Duration) {
	jobType := int32(1 + d.upTo(len(p.configs)))
	p.at(at, func(w *world) { w.pause(jobType, true) }, "pause type %d", jobType)
	p.at(min(p.calmAt, at+d.between(time.Millisecond, 4*time.Second)), func(w *world) { w.pause(jobType, false) }, "resume type %d", jobType)
}

// drawPausesWithAnEnd draws that somebody pauses types for a while, from dice of its own. Such a pause may replace another. Nobody resumes
// the types, unless somebody sets the clock by which the pauses end.
func (p *plan) drawPausesWithAnEnd(d *dice) {
	if d.chance(600) || p.weather.sluggish > 0 {
		return
	}
	last := p.calmAt - time.Second // an end is a whole second
	for range 1 + d.upTo(4) {
		jobType, at := int32(1+d.upTo(len(p.configs))), d.between(200*time.Millisecond, last)
		for_ := min(d.between(time.Millisecond, 4*time.Second), last-at)
		p.at(at, func(w *world) { w.pauseFor(jobType, for_) }, "pause type %d for %v", jobType, for_)
		if p.weather.stepped {
			p.at(p.calmAt, func(w *world) { w.pause(jobType, false) }, "resume type %d", jobType)
		}
	}
}

// drawCancellation draws that a job in flight is cancelled, and mostly retried so soon that no instance has noticed.
func (p *plan) drawCancellation(d *dice, at time.Duration) {
	among, begun, again := d.next(), d.chance(500), d.chance(700)
	after := d.between(time.Millisecond, oneOf(d, 50*time.Millisecond, 400*time.Millisecond, 2*time.Second))
	var h *history
	p.at(at, func(w *world) { h = w.cancel(among, begun) }, "cancel a job in flight")
	if again {
		p.at(at+after, func(w *world) { w.retry(h) }, "retry it")
	}
}

// drawLock draws that business code locks a row for a while, which may be longer than the dispatcher waits for a mark.
func (p *plan) drawLock(d *dice, at time.Duration) {
	among, marked := d.next(), d.chance(300)
	for_ := d.between(50*time.Millisecond, oneOf(d, time.Second, 2500*time.Millisecond, 4*time.Second))
	p.at(at, func(w *world) { w.lock(among, marked, for_) }, "lock a row for %v", for_)
}

// drawLockedThenPaused draws that business code adds jobs and locks one of them, that the type is paused while the mark
// of that row waits, and that the lock ends when no job may start any more.
func (p *plan) drawLockedThenPaused(d *dice, at time.Duration) {
	jobType := int32(1 + d.upTo(len(p.configs)))
	orders := make([]*order, 1+d.upTo(3))
	for i := range orders {
		orders[i] = p.drawOrder(d, false)
		orders[i].due, orders[i].old, orders[i].ignored, orders[i].row.JobType = 0, 0, false, jobType
		orders[i].row.Status = 0
	}
	for_ := d.between(300*time.Millisecond, 2900*time.Millisecond)
	p.at(at, func(w *world) {
		w.insert(orders).commit(true)
		w.lockRow(orders[0].history, for_)
	}, "insert %s to %s, and lock the first for %v", orders[0].label, orders[len(orders)-1].label, for_)
	at = min(p.calmAt, at+d.between(time.Millisecond, 200*time.Millisecond))
	p.at(at, func(w *world) { w.pause(jobType, true) }, "pause type %d", jobType)
	p.at(min(p.calmAt, at+for_+d.between(time.Millisecond, time.Second)), func(w *world) { w.pause(jobType, false) }, "resume type %d", jobType)
}

// drawLockedThenMoved draws, from dice of its own, that business code adds a job and locks it for longer than anybody waits for the
// answer to its mark, and that the lease moves meanwhile, to another instance or to another line of the same one.
func (p *plan) drawLockedThenMoved(d *dice) {
	const given = 3 * time.Second // up: the mark
	if p.calmAt < 5*time.Second || d.chance(600) {
		return
	}
	o := p.drawOrder(d, false)
	jobType := int32(1 + d.upTo(len(p.configs)))
	o.due, o.old, o.ignored, o.row.JobType, o.row.Status = 0, 0, false, jobType, 0
	at, for_ := d.between(500*time.Millisecond, p.calmAt-4500*time.Millisecond+time.Second), given+d.between(400*time.Millisecond, 1400*time.Millisecond)
	p.at(at, func(w *world) {
		w.insert([]*order{o}).commit(true)
		w.lockRow(o.history, for_)
	}, "insert and lock %s for %v", o.label, for_)
	among, moved := d.next(), min(p.calmAt, at+given+d.between(20*time.Millisecond, 300*time.Millisecond))
	if d.chance(500) {
		p.at(moved, func(w *world) { w.handOver(jobType) }, "ask for %s to be handed over", leaseName(jobType))
	} else {
		p.at(moved, func(w *world) { w.recast(among, jobType, false) }, "recast type %d", jobType)
	}
}

// drawLockedWhileRunning draws, from dice of its own, that business code locks the rows of some jobs in flight for longer than anybody waits
// for the answer to an outcome.
func (p *plan) drawLockedWhileRunning(d *dice) {
	if p.calmAt < 5*time.Second || d.chance(500) {
		return
	}
	at, for_ := d.between(300*time.Millisecond, p.calmAt-4*time.Second), d.between(3500*time.Millisecond, 7*time.Second)
	for range 2 + d.upTo(6) {
		among := d.next()
		p.at(at, func(w *world) { w.lock(among, true, for_) }, "lock a row in flight for %v", for_)
		at += d.between(0, 50*time.Millisecond)
	}
}

func (w *world) pause(jobType int32, paused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if paused {
		_, _ = w.table.Pause(context.Background(), jobType)
	} else {
		_, _ = w.table.Resume(context.Background(), jobType)
	}
	w.judge.pausedOrResumed(jobType, paused)
}

// pauseFor pauses a type for a while, as queue_job does. It ends by itself.
func (w *world) pauseFor(jobType int32, for_ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := w.clock().Add(for_ + time.Second - 1).Unix()
	_, _ = w.table.PauseUntil(context.Background(), jobType, until)
	w.judge.pausedOrResumed(jobType, true)
	w.judge.pauseEnds(jobType, until)
}

// limit limits a type, as queue_job does.
func (w *world) limit(jobType int32, limits store.Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.table.limit(jobType, limits) {
		return
	}
	w.judge.hasMoved()
	w.judge.recast = time.Now().Add(limitsHeeded)
	w.judge.limits[jobType] = &limiting{limits, time.Now()}
}

// handOver asks the holder of a lease to give it to anybody else, as queue_job does.
func (w *world) handOver(jobType int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, leases := w.clock().Unix(), w.table.LeasesOf(jobType)
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		if l := leases[name]; l.Until > now && l.Layout > 0 {
			w.judge.handOver(name, l.Term)
			w.table.SetLease(share.HandOver(name, l.Term), Lease{Until: now + int64(handOverLasts/time.Second), Since: now, Owner: "somebody", Layout: 1})
			return
		}
	}
}

// drain asks an instance to give away all that it has, as queue_job does.
func (w *world) drain(among uint64, for_ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.oneUp(among)
	if i == nil {
		return
	}
	now := w.clock().Unix()
	w.table.SetLease(share.Drain(i.id()), Lease{Until: now + int64(for_/time.Second), Since: now, Owner: "somebody", Layout: 1})
	w.judge.drains(i, for_)
	time.AfterFunc(for_, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.judge.hasMoved() // it takes its part again
	})
}

// cancel cancels a job in flight; begun says whether its run has to have begun.
func (w *world) cancel(among uint64, begun bool) *history {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.judge.oneOf(among, func(h *history) bool {
		return h.mark != nil && (h.mark.run != nil && !h.mark.run.over) == begun && h.order.old == 0 && !w.locked[h.id].After(time.Now())
	})
	if h != nil {
		w.trace.add(event{what: "cancels", about: about{ids: []uint64{h.id}, note: h.order.label}})
		w.table.Cancel(h.id)
	}
	return h
}

func (w *world) retry(h *history) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h != nil {
		w.trace.add(event{what: "retries", about: about{ids: []uint64{h.id}, note: h.order.label}})
		w.table.Retry(h.id)
	}
}

// prioritise gives a job another priority, in flight or not.
func (w *world) prioritise(among uint64, priority int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.judge.oneOf(among, func(h *history) bool { return !w.locked[h.id].After(time.Now()) }); h != nil {
		w.trace.add(event{what: "changes", about: about{ids: []uint64{h.id}, note: h.order.label}})
		w.table.SetPriority(h.id, priority)
	}
}

// lock makes business code lock a row: statements that write it wait.
func (w *world) lock(among uint64, marked bool, for_ time.Duration) {
	w.mu.Lock()
	h := w.judge.oneOf(among, func(h *history) bool { return (h.mark != nil) == marked })
	w.mu.Unlock()
	w.lockRow(h, for_)
}

func (w *world) lockRow(h *history, for_ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h != nil {
		w.trace.add(event{what: "is locked", about: about{ids: []uint64{h.id}, note: fmt.Sprintf("%s for %v", h.order.label, for_)}})
		w.locked[h.id] = time.Now().Add(min(for_, time.Until(w.calmAt())))
		w.judge.saw["lock"]++
	}
}

// lockedUntil returns when the last lock of the rows ends, if the statement waits for them.
func (w *world) lockedUntil(v verb, about about) (until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := about.ids
	switch v {
	case markJobs:
		if w.passes() {
			return until
		}
		fallthrough
	case unmarkJobs, finish, putBack, failLost, completeJob, recordStep, recordInTx, endWait:
		for _, id := range ids {
			if at := w.locked[id]; at.After(until) {
				until = at
			}
		}
	case countEnds, bearNodes, stopFlow, putFlowOff, cancelJobs, turnFlow:
		return w.flowsLockedUntil(about)
	default:
		return w.leasesLockedUntil(v, about.leases)
	}
	return until
}

// passes reports whether marks leave out locked rows. In the other worlds they wait, as in old servers.
func (w *world) passes() bool { return throw(w.seed, 15).chance(500) }

// passingLocked returns the rows that nobody has locked; in worlds where statements wait for locks, all. The caller holds world.mu.
func (w *world) passingLocked(ids []uint64) []uint64 {
	if len(w.locked) == 0 || !w.passes() {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return w.locked[id].After(time.Now()) })
}

// oneOf picks a pending job for which of is true; nil: there is none. The caller holds world.mu.
func (j *judge) oneOf(among uint64, of func(*history) bool) *history {
	some := slices.DeleteFunc(slices.Clone(j.histories), func(h *history) bool {
		return !h.committed || h.gone || h.byHand || h.final || h.order.ignored || !of(h)
	})
	if len(some) == 0 {
		return nil
	}
	return some[among%uint64(len(some))]
}

// holder picks an instance that holds a lease; nil: there is none.
func (w *world) holder(among uint64) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	var holders []*instance
	for _, cfg := range w.plan.configs {
		for _, i := range w.instances {
			if !i.ending.Load() && len(w.judge.heldBy(i, cfg.JobType)) > 0 {
				holders = append(holders, i)
			}
		}
	}
	if len(holders) == 0 {
		return nil
	}
	return holders[among%uint64(len(holders))]
}

// Pause pauses a type until somebody resumes it, as queue_job does.
func (t *Table) Pause(ctx context.Context, jobType int32) (changed bool, err error) {
	return t.PauseUntil(ctx, jobType, 0)
}

// PauseUntil pauses a type until a second of unix time, as queue_job does; 0: until somebody resumes it.
func (t *Table) PauseUntil(_ context.Context, jobType int32, until int64) (changed bool, err error) {
	if slices.Contains(t.paused, jobType) && t.until[jobType] == until {
		return false, nil
	}
	t.resume(jobType)
	if t.until == nil {
		t.until = map[int32]int64{}
	}
	t.paused, t.until[jobType] = append(t.paused, jobType), until
	return true, nil
}

// Resume resumes a type, as queue_job does.
func (t *Table) Resume(_ context.Context, jobType int32) (changed bool, err error) {
	return t.resume(jobType), nil
}

func (t *Table) resume(jobType int32) (changed bool) {
	paused := len(t.paused)
	t.paused = slices.DeleteFunc(t.paused, func(other int32) bool { return other == jobType })
	delete(t.until, jobType)
	return len(t.paused) < paused
}

// limit gives a type limits. It reports whether they were others.
func (t *Table) limit(jobType int32, limits store.Limits) (changed bool) {
	if t.limits == nil {
		t.limits = map[int32]store.Limits{}
	}
	changed = t.limits[jobType] != limits
	if t.limits[jobType] = limits; limits == (store.Limits{}) {
		delete(t.limits, jobType)
	}
	return changed
}

// Cancel ends a pending row, as queue_job does.
func (t *Table) Cancel(id uint64) {
	if j := t.find(id); j != nil && j.pending() {
		t.write([]*Job{j}, change{verb: cancelJob}, func(j *Job) { j.setStatus(int32(queue_job.JobStatusCancelled)) })
	}
}

// SetPriority gives a pending row another priority, as queue_job does.
func (t *Table) SetPriority(id uint64, priority int32) {
	if j := t.find(id); j != nil && j.pending() {
		t.write([]*Job{j}, change{verb: setPriority}, func(j *Job) {
			j.Priority = priority
			j.Changes++
		})
	}
}

// Retry lets a failed or cancelled row run once more, as queue_job does.
func (t *Table) Retry(id uint64) {
	if j := t.find(id); j != nil && (j.Status == int16(queue_job.JobStatusFailed) || j.Status == int16(queue_job.JobStatusCancelled)) {
		if t.isUndone(j) || !t.givesKeyBack(j) {
			return
		}
		now := t.now()
		t.write([]*Job{j}, change{verb: retryJob}, func(j *Job) {
			j.Changes = j.ownChanges()
			if j.Term != 0 && j.Written > now-runIsOver {
				j.Changes |= besideRun
			}
			j.setStatus(0)
			j.StartTime, j.NoStart, j.Due = now, false, float64(now)
			j.Term, j.Retries, j.Lost = 0, 0, 0
			j.liftEnd()
			j.Changes++
		})
	}
}
