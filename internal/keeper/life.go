package keeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// A life, in time. S is 2.5 s, for which a beat counts. X is killed behind its beat of second 1, and Y looks twice a second.
//
//	                  0         1         2         3         4         5                 its leases' end
//	X beats           ╵         ╵  ✕
//	X may start       ├──────────────────────────────┤ 1 + .9 S, from the sending of the beat
//	Y has seen it                ├────────────────────────┤ for S. It counts no more by the database's clock, either: bury, copy, free, take
//	Y starts jobs                                          ├────────────────────────────────────────────────────────►
//	Y runs what X ran                                                                               ├───────────────►
//
//	X is frozen, or the wire is cut   The others do the same. X may be there again: its next beat finds no row that is alive, and whatever of it
//	                                  comes late changes nothing: a renewal does not count, a mark is late. It starts nothing under its leases.
//	                                  What runs goes on until their end, under the names of the rests (adopt), and nobody runs that again before.
//	                                  Then X begins another life. Takings are numbered: what was taken before a life began is of an earlier one.
//	each answer takes d               A beat waits 3 d for its answer, and counts for 3 d more, or 5 d, up to the length of the leases.
//	the connection for beats is dead  If a beat has no answer for a moment, a look through the connection of the leases says whether the database
//	                                  is slow. If not, beats go that way, too.
//	nothing can be written            Nobody's beats are answered, so nobody starts jobs when they do not count any more. Whoever has no prompt
//	                                  answers to its own beats for 1.2 s has missed nobody, and buries nobody.
//	the row live-X is locked          X starts nothing when its beat does not count any more. Nobody can bury it. Renewals do not count, so its
//	                                  leases end if that lasts as long as they do.
//	a clock is set                    Of X or Y: it is not asked, but for X's wall clock, which may only end starts sooner. Of the database: a burial
//	                                  takes S of Y's clock as well, and names the beat. Only a mark that a proxy holds until X is buried and
//	                                  the clock was set back behind that may still be made.
//	a failover loses writes           Of a burial, too: X and Y may both start jobs until one of them hears of the other, S at most.
//
// So beats cost a statement a second for an instance that has leases, and nothing for others until they miss somebody.
const (
	beatEvery    = time.Second
	beatAgain    = 100 * time.Millisecond // after a beat without an answer
	beatLater    = beatEvery / 2          // the same, when jobs may not start any more
	beatPatience = 600 * time.Millisecond // without an answer, or longer, if answers take long: then the connection may be dead
	patienceMost = 5 * time.Second        // while it waits for a lost beat, an instance sends no other
	beatCounts   = 2500 * time.Millisecond
	beatSlow     = 100 * time.Millisecond // answers that take longer make beats count for longer
	promptly     = time.Second            // whoever has no answer within this time judges nobody
	firstBeat    = 1                      // the row of a life is made with that number
	besideFor    = 10 * time.Second       // beats go through the connection of the leases, after that for beats has failed

	// ShortestGoverned is the shortest lease that is taken from an instance that is buried. Shorter ones end as soon.
	ShortestGoverned = 4 * time.Second
	buriedAlive      = 10 * time.Minute // for how long the beats of an instance count twice as long that was buried, and was alive
)

// Beats is what writes the life of an instance, on a connection that no statement about leases uses. [store.Store] implements it; the contracts
// are at its methods.
type Beats interface {
	Rise(ctx context.Context, name, owner string, number, counts, lockSeconds int64) error
	Beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (alive bool, err error)
}

// life is the right of an instance to start jobs, in one piece. A life that is over never comes back: neither do starts under its leases.
type life struct {
	owner   string
	until   atomic.Int64 // the end of the right to start, in nanoseconds after epoch …
	wall    atomic.Int64 // … and by the wall clock, in unix nanoseconds: the other clock may stand still while a machine is suspended
	matched atomic.Int64 // when the last beat was sent that has found the row, in nanoseconds after epoch
	over    atomic.Bool  // somebody has buried the instance
}

// lasts reports whether jobs may start at a moment.
func (f *life) lasts(now time.Time) bool {
	return int64(now.Sub(epoch)) < f.until.Load() && now.UnixNano() < f.wall.Load() && !f.over.Load()
}

// answered notes that a beat has found the row. It counts from its sending on.
func (f *life) answered(sent time.Time, counts time.Duration) {
	until := trustedFor(sent, counts)
	f.matched.Store(int64(sent.Sub(epoch)))
	f.until.Store(int64(until.Sub(epoch)))
	f.wall.Store(until.Round(0).UnixNano())
}

// mayCount notes that a beat is sent. If it counts for less than the last one, and takes effect, and nobody hears of that, jobs must not start for
// longer.
func (f *life) mayCount(sent time.Time, counts time.Duration) {
	until := trustedFor(sent, counts)
	f.until.Store(min(f.until.Load(), int64(until.Sub(epoch))))
	f.wall.Store(min(f.wall.Load(), until.Round(0).UnixNano()))
}

// trustedFor is until when jobs may start after a beat. The rest covers what our clock cannot measure, see package lease.
func trustedFor(sent time.Time, counts time.Duration) time.Time { return sent.Add(counts - counts/10) }

// pulse is what a keeper knows of its own life.
type pulse struct {
	beats   Beats // nil: it has no connection of its own for that, and its leases have one end
	failed  func(error)
	now     atomic.Pointer[life]
	risen   chan struct{} // a life has begun
	buried  func()        // is told that it was buried
	diedAt  atomic.Int64  // when it was buried last, in unix nanoseconds; 0: never
	slowest atomic.Int64  // nanoseconds that answers have taken of late
	chain   atomic.Int64  // since when each beat was answered promptly, in nanoseconds after epoch; 0: the last one was not
	latest  atomic.Int64  // when the last of these was answered, the same
	beside  atomic.Int64  // until then, beats go through the connection of the leases, in unix nanoseconds
	probes  probes
}

// probes are looks that say whether the connection for beats is dead, or the database slow. One at a time is under way.
type probes struct {
	context.Context
	end  context.CancelFunc
	turn chan struct{}
	took atomic.Int64 // nanoseconds that the look took which was answered while the last beat was not; 0: none was
}

// BeatThrough has the keeper say each second that it is alive, as long as it needs a life. Failed is told how each beat has ended: nil, if it was
// answered. Buried is told if others have buried the instance. BeatThrough is to be called before anything else.
func (k *Keeper) BeatThrough(beats Beats, failed func(error), buried func()) {
	k.pulse.beats, k.pulse.failed, k.pulse.buried = beats, failed, buried
	k.pulse.probes.turn = make(chan struct{}, 1)
	k.pulse.probes.Context, k.pulse.probes.end = context.WithCancel(context.WithoutCancel(k.parent))
}

// TwoEnds reports whether others may take the lease from an instance that is buried. It stands in the owner, so that all decide alike.
func (w Want) TwoEnds() bool { return w.Governed && w.Lock >= ShortestGoverned && w.MinLock == 0 }

// lifeOf is the life that governs a lease which was just taken; nil: the lease has one end.
func (k *Keeper) lifeOf(owner string) *life {
	if _, _, governed := share.TakingOf(owner); governed {
		return k.pulse.now.Load()
	}
	return nil
}

// MayStart reports whether a job may start under the lease at this moment: the lease is certainly held, and nobody can have buried the instance.
func (l *Lease) MayStart() bool {
	now := time.Now()
	return int64(now.Sub(epoch)) < l.until.Load() && l.ctx.Err() == nil && !l.starts.left.Load() && (l.starts.life == nil || l.starts.life.lasts(now))
}

// StartsFor is for how long jobs may start under the lease, unless somebody hears of the instance: an hour if nobody has to.
func (l *Lease) StartsFor() time.Duration {
	if l.starts.life == nil {
		return time.Hour
	}
	return max(0, time.Duration(min(l.until.Load(), l.starts.life.until.Load()))-time.Since(epoch))
}

// Over reports whether the life is over in which the lease was taken. Nothing starts under it any more, and somebody else may have taken its
// name. What runs under it runs on.
func (l *Lease) Over() bool { return l.starts.life != nil && l.starts.life.over.Load() }

// rest is the name under which what still runs keeps its term, when somebody else has the name of the lease.
func (l *Lease) rest() string { return share.Remains(l.Want.Name, l.Term) }

// Rise begins a life, unless there is one that is not over. It is to be called before leases of job types are taken.
func (k *Keeper) Rise(ctx context.Context) error {
	p := &k.pulse
	if f := p.now.Load(); p.beats == nil || f != nil && !f.over.Load() {
		return nil
	}
	f, counts, sent := &life{owner: k.ownerOfLife()}, p.counts(k.longest()), time.Now()
	err := k.through(ctx, func(ctx context.Context, way Beats) error {
		sent = time.Now()
		return way.Rise(ctx, share.Life(k.id), f.owner, firstBeat+k.takings.Add(1), counts.Milliseconds(), seconds(k.longest()))
	})
	if err != nil {
		k.mu.Lock()
		k.unsure.note(f.owner, time.Now()) // if it takes effect later, nobody beats, and others would bury this instance
		k.mu.Unlock()
		return err
	}
	f.answered(sent, counts)
	p.answered(sent)
	p.now.Store(f)
	select {
	case p.risen <- struct{}{}:
	default:
	}
	return nil
}

// longest is the length of the longest lease that is held: for so long others have to know that the instance was buried.
func (k *Keeper) longest() time.Duration {
	longest := lease.DefaultLock
	for _, l := range k.all() {
		longest = max(longest, l.Want.Lock)
	}
	return longest
}

// shortest is the length of the shortest lease that is held.
func (k *Keeper) shortest() time.Duration {
	shortest := time.Hour
	for _, l := range k.all() {
		shortest = min(shortest, l.Want.Lock)
	}
	return shortest
}

func seconds(span time.Duration) int64 { return int64((span + time.Second - 1) / time.Second) }

// counts is for how long a beat counts that is sent now: longer, if answers take long, or if the instance was buried alive a while ago.
func (p *pulse) counts(longest time.Duration) time.Duration {
	counts := beatCounts
	if slow := time.Duration(p.slowest.Load()); slow > beatSlow {
		counts += 3*slow + 2*max(0, slow-promptly) // a mark may take two statements
	}
	if died := p.diedAt.Load(); died != 0 && time.Since(time.Unix(0, died)) < buriedAlive {
		counts *= 2
	}
	return min(counts, max(beatCounts, longest))
}

// patience is how long a beat waits for its answer, and for how long it has none until its connection may be dead.
func (p *pulse) patience() (whole, first time.Duration) {
	slow := time.Duration(p.slowest.Load())
	return min(max(2*beatPatience, 3*slow), patienceMost), min(max(beatPatience, 3*slow/2), patienceMost*4/5)
}

// answered notes that a beat was answered that was sent at that moment.
func (p *pulse) answered(sent time.Time) {
	now := time.Now()
	took := now.Sub(sent)
	p.slowest.Store(int64(max(took, time.Duration(p.slowest.Load())/2)))
	at := int64(now.Sub(epoch))
	switch broken := at-p.latest.Load() > int64(beatEvery+promptly); {
	case took > promptly:
		p.chain.Store(0)
	case broken || p.chain.Load() == 0:
		p.chain.Store(at)
	}
	p.latest.Store(at)
}

// promptFor is for how long each beat of this instance was answered promptly: how long it could have seen the beats of another one. Late: one
// was not, so what was not seen says nothing.
func (p *pulse) promptFor(now time.Time) (span time.Duration, late bool) {
	at, chain, f := int64(now.Sub(epoch)), p.chain.Load(), p.now.Load()
	if f == nil {
		return 0, false
	}
	if f.over.Load() || chain == 0 || at-p.latest.Load() > int64(beatEvery+promptly) {
		return 0, true
	}
	return time.Duration(at - chain), false
}

// live sends beats until ctx ends.
func (k *Keeper) live(ctx context.Context) {
	p, wait := &k.pulse, time.Hour
	defer func() {
		p.probes.end()
		p.probes.turn <- struct{}{} // for good
	}()
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.risen:
			wait = beatEvery
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if f := p.now.Load(); timer.Stop() {
			continue // it has risen, which was a beat
		} else if f == nil || f.over.Load() {
			wait = time.Hour
		} else {
			wait = k.beat(ctx, f)
		}
	}
}

// beat sends a beat, and returns when to send the next one.
func (k *Keeper) beat(ctx context.Context, f *life) (next time.Duration) {
	p, sent := &k.pulse, time.Now()
	counts := p.counts(k.longest())
	patience, _ := p.patience()
	statement, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var alive bool
	err := k.through(statement, func(statement context.Context, way Beats) (err error) {
		sent = time.Now()
		f.mayCount(sent, counts)
		alive, err = way.Beat(statement, share.Life(k.id), f.owner, firstBeat+k.takings.Add(1), counts.Milliseconds(), seconds(k.longest()))
		return err
	})
	if ctx.Err() != nil {
		return beatAgain
	}
	p.failed(err)
	switch took := time.Since(sent); {
	case err != nil:
		p.chain.Store(0) // also if it was refused at once: then others are refused, too, perhaps
		if took > promptly/2 {
			p.slowest.Store(max(cmp.Or(p.probes.took.Load(), int64(took)), p.slowest.Load()/2))
		}
		if !f.lasts(time.Now()) { // there is nothing to save any more, and a server that comes back has enough to do
			return beatLater
		}
		return beatAgain
	case !alive:
		k.end(f)
		return beatAgain
	default:
		f.answered(sent, counts)
		p.answered(sent)
		select {
		case k.changed <- struct{}{}: // renewals that did not count yet may count now
		default:
		}
		return beatEvery - min(took, beatEvery)
	}
}

// through sends a statement through the connection for beats. If the server refuses it, or no answer comes on this connection alone, the leases'
// connection serves for a while, unless it is busy. If that does not answer soon, either, something else is wrong, and the leases must not wait.
func (k *Keeper) through(ctx context.Context, send func(context.Context, Beats) error) (err error) {
	p, now := &k.pulse, time.Now().UnixNano()
	p.probes.took.Store(0)
	if now >= p.beside.Load() {
		err = k.throughOwn(ctx, send)
		if err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		p.beside.Store(time.Now().Add(besideFor).UnixNano())
	}
	_, patience := p.patience()
	ctx, cancel := context.WithTimeout(ctx, min(patience, max(beatPatience, k.shortest()/8))) // a renewal waits for a sixth
	defer cancel()
	if err = send(ctx, k.leases); err != nil {
		p.beside.Store(0)
	}
	return err
}

// throughOwn has a statement sent through the connection for beats, and gives it up if only that has no answer. A statement that is given up costs
// its connection, and if all answers take long, the next one would come long after.
func (k *Keeper) throughOwn(ctx context.Context, send func(context.Context, Beats) error) error {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	_, first := k.pulse.patience()
	probe := time.AfterFunc(first, func() {
		k.pulse.chain.Store(0) // whoever has no answer judges nobody
		if k.answers(ctx) {
			giveUp()
		}
	})
	defer probe.Stop()
	return send(ctx, k.pulse.beats)
}

// answers reports whether the connection of the leases answers, unless somebody asks that already. The look goes on when ctx has ended, since that
// would cost the connection. But that one may be dead, too, and renewals wait for it. They take two answers within half of the shortest lease, at
// most, so if one takes longer than a quarter, nothing is left to save.
func (k *Keeper) answers(ctx context.Context) bool {
	p := &k.pulse.probes
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	default:
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	look, cancel := context.WithTimeout(p, min(patienceMost, k.shortest()/4))
	defer cancel()
	asked := time.Now()
	if _, err := k.leases.SeeLeases(look, []string{share.Life(k.id)}); err != nil {
		return false
	}
	took := int64(time.Since(asked)) + 1
	if ctx.Err() != nil { // the beat has been given up: the next one has a longer patience
		k.pulse.slowest.Store(max(took, k.pulse.slowest.Load()))
		return false
	}
	p.took.Store(took)
	return true
}

// end notes that a life is over: others may take its leases, and what runs under them has other names then.
func (k *Keeper) end(f *life) {
	if f.over.Swap(true) {
		return
	}
	k.pulse.diedAt.Store(time.Now().UnixNano())
	k.census.died.Add(1)
	k.mu.Lock()
	for _, l := range k.held {
		if l.starts.life == f && l.row == l.Want.Name && l.maybe == "" {
			l.maybe = l.rest()
		}
	}
	k.mu.Unlock()
	k.pulse.buried()
}

// Lives reports whether the instance has a life that is not over.
func (k *Keeper) Lives() bool {
	f := k.pulse.now.Load()
	return f != nil && !f.over.Load()
}

// Depart ends a life that the instance needs no more: nobody need wait for it.
func (k *Keeper) Depart(ctx context.Context) error {
	f := k.pulse.now.Swap(nil)
	if f == nil || f.over.Swap(true) {
		return nil
	}
	err := k.leases.DropLease(ctx, share.Life(k.id), f.owner)
	if err != nil { // nobody beats any more, and others would bury this instance
		k.mu.Lock()
		k.unsure.note(f.owner, time.Now())
		k.mu.Unlock()
	}
	return err
}

// NeedsLife reports whether leases are held that others take, or have taken, if the instance is not heard of.
func (k *Keeper) NeedsLife() bool {
	return slices.ContainsFunc(k.all(), func(l *Lease) bool { return l.starts.life != nil })
}

// adopt has a lease live on as its rest, of which there is a row under its owner, unless it was given back or moved meanwhile. Somebody has taken
// its name from this instance.
func (k *Keeper) adopt(l *Lease) {
	k.mu.Lock()
	still := k.held[l.row] == l && l.row == l.Want.Name
	if still {
		delete(k.held, l.row)
		l.row, l.maybe = l.rest(), ""
		k.held[l.row] = l
	}
	k.mu.Unlock()
	if still {
		k.end(l.starts.life)
	}
}

// livesOn reports whether a lease whose name is somebody else's, or free, lives on as its rest, by rows that have been read. If somebody has broken
// the lease, it does not.
func (l *Lease) livesOn(rows []store.Seen) (is bool) {
	for i := 0; i < len(rows) && l.starts.life != nil; i++ {
		row := &rows[i]
		switch ours := takingOf(row.Owner) == takingOf(l.owner); {
		case ours && row.Name == l.Want.Name && row.Running == store.Broken:
			return false
		case ours && row.Name == l.rest() && !row.Free:
			is = true
		}
	}
	return is
}

// heedLeft finds out what becomes of leases whose names are somebody else's, as renewals have said: each lives on as its rest, or it is lost.
func (k *Keeper) heedLeft(ctx context.Context, left []*Lease) {
	if len(left) == 0 {
		return
	}
	var names []string
	for _, l := range left {
		names = append(names, l.Want.Name, l.rest())
	}
	statement, cancel := context.WithTimeout(ctx, promptly)
	defer cancel()
	rows, err := k.leases.SeeLeases(statement, names)
	for _, l := range left {
		switch {
		case err != nil:
			l.renewal.at = time.Now().Add(beatAgain)
		case l.livesOn(rows):
			k.adopt(l)
			l.renewal.at = time.Now()
		default:
			k.drop(l)
			l.end(ErrLost)
		}
	}
}

// later notes a renewal that took effect when the instance may have been buried. It counts as soon as it is known that it was not: the right to
// start has not ended, or a beat has found the row that was sent later.
func (l *Lease) later(at time.Time) {
	l.renewal.doubtful, l.renewal.doubtfulSince = at, time.Now()
	l.renewal.at = l.renewal.doubtfulSince.Add(lease.RenewEvery(l.Want.Lock))
}

// countLater counts such renewals.
func (k *Keeper) countLater() {
	for _, l := range k.all() {
		if l.renewal.doubtful.IsZero() || l.starts.life.over.Load() {
			continue
		}
		if l.starts.life.lasts(time.Now()) || l.starts.life.matched.Load() >= int64(l.renewal.doubtfulSince.Sub(epoch)) {
			l.renewed(l.renewal.doubtful)
			l.renewal.doubtful = time.Time{}
		}
	}
}
