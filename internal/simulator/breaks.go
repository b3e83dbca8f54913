package simulator

import (
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Somebody breaks leases: at once, or in a transaction that stays open for seconds and may be rolled back. Until it ends, the row of the
// lease is locked.

// drawBreaks draws that somebody breaks leases, mostly while jobs come, from dice of its own. Some of these types give a job up when it
// was lost once.
func (p *plan) drawBreaks(d *dice) {
	if d.chance(700) || p.weather.truncated {
		return
	}
	for i := range p.configs {
		if d.chance(400) {
			p.configs[i].LostLimit = 1
		}
	}
	for range 1 + d.upTo(3) {
		jobType, open, back := int32(1+d.upTo(len(p.configs))), time.Duration(0), false
		if d.chance(500) {
			open, back = d.between(50*time.Millisecond, oneOf(d, time.Second, 3*time.Second, 7*time.Second)), d.chance(300)
		}
		at := d.between(200*time.Millisecond, p.calmAt)
		p.at(at, func(w *world) { w.breakLease(jobType, min(open, time.Until(w.calmAt())), back) },
			"break a lease of type %d; the transaction takes %v, rolled back %v", jobType, open, back)
		for range d.upTo(4) {
			p.drawTransaction(d, min(p.calmAt, at+open+d.between(0, 700*time.Millisecond)), 1+d.upTo(4), 0)
		}
	}
}

// breakLease breaks the first lease of a type that somebody holds, as queue_job does.
func (w *world) breakLease(jobType int32, open time.Duration, back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, leases := w.clock().Unix(), w.table.LeasesOf(jobType)
	held := func(name string) bool {
		_, locked := w.lockedLeases[name]
		return leases[name].Until > now && leases[name].Layout > 0 && !locked
	}
	names := slices.Sorted(maps.Keys(leases))
	i := slices.IndexFunc(names, held)
	if i < 0 {
		return
	}
	name, lease := names[i], leases[names[i]]
	b := w.judge.breaks(name, lease.Term)
	w.trace.add(event{what: "breaks", about: about{term: lease.Term, note: name}})
	end := func() {
		delete(w.lockedLeases, name)
		if b.until = time.Now(); back || !w.table.Break(name, lease.Owner, now) {
			if w.judge.mayHaveExpired(name, b) {
				w.judge.brokenAt[jobType] = time.Now()
			}
			return
		}
		w.trace.add(event{what: "has broken", about: about{term: lease.Term, note: name}})
		b.at = time.Now()
		w.judge.hasBroken(name, lease.Term, open)
	}
	if open <= 0 {
		end()
		return
	}
	w.lockedLeases[name] = time.Now().Add(open)
	b.until = w.lockedLeases[name]
	time.AfterFunc(open, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		end()
	})
}

// Break ends a lease under its owner, as of this second.
func (t *Table) Break(name, owner string, now int64) (broken bool) {
	l, ok := t.leases[name]
	if !ok || l.Owner != owner || l.Layout < 0 {
		return false
	}
	l.Until, l.Running = min(l.Until, now), store.Broken
	t.leases[name], t.freed[name] = l, true
	return true
}

// leasesLockedUntil returns when the last lock of these leases ends, if the statement waits for it. Most leave locked rows out.
func (w *world) leasesLockedUntil(v verb, names []string) (until time.Time) {
	switch v {
	case abandonLeases, openLeases, wakeTypes, dropLease, noteRunning:
	default:
		return until
	}
	for _, name := range names {
		if at := w.lockedLeases[name]; at.After(until) {
			until = at
		}
	}
	return until
}

// breaking is what somebody does to a lease that is held under a term.
type breaking struct {
	from, until time.Time // its row is locked
	at          time.Time // when the lease was broken; zero: it was not
}

// breaks is told that somebody breaks a lease. The world stands still.
func (j *judge) breaks(name string, term int64) *breaking {
	l := leaseTerm{name, term}
	if j.broken[l] == nil {
		j.broken[l] = &breaking{from: time.Now(), until: time.Now()}
	}
	return j.broken[l]
}

// hasBroken is told that a lease was broken.
func (j *judge) hasBroken(name string, term int64, open time.Duration) {
	j.hasMoved()
	j.disturb(0)
	delete(j.asked, leaseTerm{name, term})
	jobType, _ := typeOf(name)
	j.brokenAt[jobType] = time.Now()
	if j.saw["broken lease"]++; open > 0 {
		j.saw["lease broken by a transaction of seconds"]++
	}
	if slices.ContainsFunc(j.active, func(r *run) bool { return r.lease.lease == name && r.term == term }) {
		j.saw["broken lease under which jobs run"]++
	}
}

// heededBy is when the holder of a broken lease must have noticed. It looks twice a second, and doubts a look for as long as the lease is
// younger than a second. If looks fail, the next renewal says it.
func (j *judge) heededBy(l leaseTerm, b *breaking) time.Time {
	const looks = 600 * time.Millisecond
	jobType, _ := typeOf(l.lease)
	if w := j.world.weather; w.refused+w.broken+w.slow > 0 {
		return b.at.Add(time.Duration(j.configOf(jobType).LockSecond) * time.Second)
	}
	return later(b.at, j.termTaken[l].Add(time.Second)).Add(looks)
}

// underBroken reports whether what a holder did under a term at a moment is excused, since somebody had broken its lease, and it could not
// know yet; or had locked its row for so long that it expired.
func (j *judge) underBroken(l leaseTerm, moment time.Time) bool {
	b := j.broken[l]
	if b == nil {
		return false
	}
	return j.mayHaveExpired(l.lease, b) || !b.at.IsZero() && !moment.After(j.heededBy(l, b))
}

// mayHaveExpired reports whether a lease may have ended because its row was locked: the lock kept at least one renewal from it.
func (j *judge) mayHaveExpired(name string, b *breaking) bool {
	jobType, _ := typeOf(name)
	return b.until.Sub(b.from) >= time.Duration(j.configOf(jobType).LockSecond)*time.Second/3
}

// lockedSince reports whether somebody has had the row of a lease locked after the moment.
func (j *judge) lockedSince(name string, moment time.Time) bool {
	for l, b := range j.broken {
		if l.lease == name && b.until.After(moment) {
			return true
		}
	}
	return false
}

// leaseOf is the lease under which a row was marked with a term.
func (j *judge) leaseOf(h *history, term int64) leaseTerm {
	return leaseTerm{j.takingOf(h, term).lease, term}
}

// excuses reports whether a break excuses what befell a mark.
func (j *judge) excuses(h *history, m *mark) bool {
	if m == nil {
		return false
	}
	l := j.leaseOf(h, m.term)
	b := j.broken[l]
	return j.underBroken(l, m.at) || m.late && b != nil && !b.at.IsZero() // it was sent before that, and waited for a locked row
}

// everBroken reports whether a mark of the row was made under a lease that somebody broke.
func (j *judge) everBroken(h *history) bool {
	return slices.ContainsFunc(h.marks, func(m *mark) bool { return j.excuses(h, m) })
}

// stillUnaware reports whether a run is of a holder whose lease was broken, and who cannot know it yet: nobody could ask while the database stood
// still.
func (j *judge) stillUnaware(r *run) bool {
	l := leaseTerm{r.lease.lease, r.term}
	b, lock := j.broken[l], time.Duration(j.configOf(r.jobType).LockSecond)*time.Second
	struck := b != nil && (r.by.struck.Load() || j.stoodStill(b.at, time.Now()))
	return j.underBroken(l, time.Now()) || struck && time.Since(b.at) < lock || j.brokenAgain(r)
}

// brokenAgain reports whether the holder of a run had taken the lease again when it was broken, and it was broken again, which it cannot know yet.
func (j *judge) brokenAgain(r *run) bool {
	for l := range j.broken {
		if l.lease == r.lease.lease && l.term > r.term && j.underBroken(l, time.Now()) &&
			slices.ContainsFunc(j.takings[tenure{r.jobType, l.term}], func(t taking) bool { return t.by == r.by && t.lease == l.lease }) {
			return true
		}
	}
	return false
}

// upset reports whether two instances may start jobs of a type, because a lease was broken lately, or has expired while its row was locked.
func (j *judge) upset(jobType int32) bool {
	at, lock := j.brokenAt[jobType], time.Duration(j.configOf(jobType).LockSecond)*time.Second
	return !at.IsZero() && time.Since(at) < lock+2*time.Second
}

// expectNotExpired expects that no lease of an instance that was not struck expires, but one whose row was locked: a lock, or a break, costs
// no other lease.
func (j *judge) expectNotExpired(l leaseTerm) {
	w := j.world.weather
	was := j.takingUnder(l).by
	stalled := j.saw["stall"] > 0 // what gives a lease back may have been given up
	if was == nil || !was.up || was.ending.Load() || !j.innocent(was) || w.refused+w.broken+w.slow > 0 || j.broken[l] != nil || stalled {
		return
	}
	j.accuse("%s of instance %d, which was not struck, has expired", l.lease, was.number)
}

// renews is told of each renewal. The world stands still.
func (j *judge) renews(names []string) {
	if len(names) > 1 && slices.ContainsFunc(names, j.world.table.locked) {
		j.saw["renewal beside a locked lease"]++
	}
}

// expectOwnLeases expects that a renewal keeps no lease that another instance has taken since.
func (j *judge) expectOwnLeases(i *instance, kept map[string]time.Duration) {
	if j.world.weather.edited {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if by := j.takingUnder(leaseTerm{name, j.latest[name]}).by; by != nil && by != i {
			j.accuse("instance %d has renewed %s, which instance %d has taken", i.number, name, by.number)
		}
	}
}

// renewed is told of the answer to a renewal, as its instance hears it: a lease that the answer leaves out is lost.
func (j *judge) renewed(i *instance, names []string, kept map[string]time.Duration) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	for _, name := range names {
		if _, is := kept[name]; !is {
			j.toldLost[tenant{i, name}] = time.Now()
		}
	}
}

// tenant is an instance and the name of a lease that it has, or had.
type tenant struct {
	by    *instance
	lease string
}

// expectNotToldLost expects that no run begins under a lease of which its instance has heard that it is lost.
func (j *judge) expectNotToldLost(r *run) {
	const slack = time.Millisecond
	l := leaseTerm{r.lease.lease, r.term}
	at := j.toldLost[tenant{r.by, l.lease}]
	if at.IsZero() || time.Since(at) < slack || !j.termTaken[l].Before(at) || j.remains(r) {
		return
	}
	j.accuse("a run of %s under term %d of %s: a renewal has said %v ago that instance %d does not have it any more", r.history.name(), l.term,
		l.lease, time.Since(at), r.by.number)
}

// expectBrokenHadStarted expects that a job counts as lost after its lease was broken only if a run of it has begun: a holder that looks
// takes back what it has not started, before anybody counts it.
func (j *judge) expectBrokenHadStarted(h *history) {
	m, w := h.mark, j.world.weather
	if m == nil {
		return
	}
	l := j.leaseOf(h, m.term)
	b := j.broken[l]
	if b == nil || b.at.IsZero() || j.twoHolders() {
		return
	}
	j.saw["lost after its lease was broken"]++
	if m.at.After(b.at) {
		j.saw["lost, and was marked after its lease was broken"]++
	}
	if m.run != nil {
		return
	}
	j.saw["lost after its lease was broken, and never began"]++
	if w.refused+w.broken+w.slow+w.stray > 0 || len(j.world.locked) > 0 || m.by.struck.Load() || !m.by.up {
		return
	}
	j.accuse("%s counts as lost, and never began: its lease %s was broken %v ago, and it was marked %v ago", h.name(), l.lease, time.Since(b.at),
		time.Since(m.at))
}

// lapsed is told of a lease that was taken, and that nobody had freed.
func (w *world) lapsed(name string, term int64) {
	if _, _, ok := share.ParseType(name); ok {
		w.judge.expectNotExpired(leaseTerm{name, term})
	}
}
