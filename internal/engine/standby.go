package engine

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	standbyEvery = 500 * time.Millisecond    // between looks at the leases
	standbySoon  = 20 * time.Millisecond     // while a lease is about to change hands
	soonMax      = 10 * time.Second          // if it has not changed hands by then, whoever has it may be frozen, or what is written has no effect
	soonOver     = 2*askLasts + standbyEvery // whoever asks in vain asks again within that time: in some databases, an ask lasts for half a second longer
	standbyFirst = 100 * time.Millisecond    // for arriveMax after the start, if others are there
	takeMax      = time.Second               // taking leases must not keep renewals waiting
	askLasts     = time.Second               // then the asker asks again, if it still wants the lease
	arriveMax    = time.Second               // how long another instance may be stopping that did not see this one come
	leaveMax     = time.Second               // how long Stop waits for others to ask for the leases; until then, jobs still start here
	lieMax       = 5 * time.Second           // how long a lease lies until an instance takes it that is drained
)

// standBy is this instance's part in sharing out the leases of the database. It looks at them every now and then, takes what is
// free, asks for what others have too much of, and gives what others ask for; package share has the rules.
type standBy struct {
	*database
	working    context.Context // jobs are started while it lives
	began      time.Time
	chance     *rand.Rand
	byName     map[string]*line
	open       map[string]open // since when a lease has been seen free, or to be handed over
	dividing   bool            // a type is being divided anew: the next step is near
	asked      []keeper.Asked  // what this instance has asked for, and not got yet
	askedAt    time.Time
	soonSince  time.Time              // a lease has been about to change hands since then; zero: none is
	soonAt     time.Time              // when that was seen last
	castAt     time.Time              // when a type last got another configuration: its lease is about to come free
	expires    time.Time              // when the first lease of another instance does, as it looks now
	leftAt     time.Time              // when it was first seen that Stop was called
	drainAt    time.Time              // when it was first seen that this instance is drained; zero: it is not
	said       bool                   // farewell
	over       bool                   // nobody is expected to take over what is left
	away       bool                   // a lease of this instance is to be handed over
	tidied     bool                   // the rows of instances that are no more were deleted
	company    bool                   // the last look showed other instances, even if they are about to stop
	idle       map[*line]idle         // of lines that this instance serves
	seen       share.View             // the last look
	limits     map[int32]store.Limits // that it has shown
	casts      map[int32]int          // how often types have got another configuration, or other limits
	ending     atomic.Bool            // a statement that ends pauses is under way
	setBack    [aheadMost]time.Time   // when the database's clock was found to have been set back, the last few times
	mending    bool                   // what was written while the database's clock was ahead is being mended
	looksAhead int                    // how many of the looks for that have begun since the clock was set back last; both guarded by draining
}

// open is a lease that waits for somebody to take it, or to ask for it.
type open struct {
	free  bool
	since time.Time
}

func newStandBy(d *database, working context.Context) *standBy {
	s := &standBy{database: d, working: working, began: time.Now(), chance: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)), byName: map[string]*line{}, open: map[string]open{}, idle: map[*line]idle{}, casts: map[int32]int{}}
	for _, l := range d.lines.all() {
		s.byName[l.name] = l
	}
	return s
}

// loop takes and gives until ctx or Stop's patience ends. After Stop was called it only gives, so an instance that starts then
// need not wait until the handlers here have ended.
func (s *standBy) loop(ctx context.Context) {
	for ctx.Err() == nil && s.patience.Err() == nil {
		leaving, leaves := s.leaving(), s.leaves
		if leaving {
			leaves = nil // it is closed
			if s.leftAt.IsZero() {
				s.leftAt = time.Now()
			}
		}
		alone, err := s.look(leaving)
		if s.health.heed(err); err == nil {
			s.looked()
		}
		s.errlog.On(s.patience, "take leases", err)
		if leaving && !s.over && (alone || err != nil || len(s.heldLines()) == 0) {
			s.over = true
			close(s.gone)
		}
		s.tidy()
		timer := time.NewTimer(s.rest())
		select {
		case <-timer.C:
		case r := <-s.recasts:
			r.answer <- s.recast(r, leaving)
		case <-leaves:
		case <-s.dormant.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// rest is how long until the next look. Instances that started together need not look together.
func (s *standBy) rest() time.Duration {
	lately := func(at time.Time, span time.Duration) bool { return time.Since(at) < span }
	soon := s.dividing || s.away || lately(s.leftAt, leaveMax) || lately(s.drainAt, leaveMax) || lately(s.askedAt, askLasts) || lately(s.castAt, askLasts)
	if !lately(s.soonAt, soonOver) {
		s.soonSince = time.Time{}
	}
	if soon {
		if s.soonAt = time.Now(); s.soonSince.IsZero() {
			s.soonSince = s.soonAt
		}
		if lately(s.soonSince, soonMax) {
			return standbySoon
		}
	}
	if s.company && lately(s.began, arriveMax) {
		return standbyFirst
	}
	rest := standbyEvery*3/4 + time.Duration(s.chance.Int64N(int64(standbyEvery/4)))
	if left := time.Until(s.expires); left > 0 { // a holder that lives renews its lease long before
		const little = 2 * time.Millisecond
		rest = min(rest, left+little)
	}
	return rest
}

// look looks at the leases once, and takes, gives or asks accordingly. It reports whether there is no other instance.
func (s *standBy) look(leaving bool) (alone bool, err error) {
	statement, cancel := context.WithTimeout(s.patience, takeMax)
	defer cancel()
	if leaving {
		s.farewell(statement)
	}
	v, fleet, err := s.see(statement)
	if err != nil {
		return false, err
	}
	s.seen = v
	seen := fleet.Leases
	s.heedOver(fleet.Over)
	p := s.picture(&v, leaving)
	free := p.Take()
	if leaving {
		s.reconcile(&v, nil, nil, leaving)
	} else {
		s.heedLimits(fleet.Limits)
		s.reconcile(&v, free, s.asleep(&v), leaving)
	}
	if s.dividing, err = s.layOut(statement, &v, leaving); err != nil {
		return false, err
	}
	s.heedRemains(&v)
	s.company = !p.Alone() || len(p.Leavers) > 0
	s.heedExpiry(seen)
	for _, name := range p.Give() {
		s.give(s.byName[name], &p)
	}
	taken, err := s.take(statement, leaving, free, seen)
	switch {
	case len(taken) > 0:
		s.soonSince = time.Time{} // what comes next has its own time
		for _, lease := range taken {
			s.byName[lease.Name].follow(lease)
		}
		if errLook := s.lookAgain(); errLook != nil { // nobody knows what still runs elsewhere
			s.releaseAll(s.patience, taken)
			return false, errLook
		}
		s.serve(taken)
		s.unask(statement, taken)
	case err == nil:
		err = s.ask(statement, p.Ask(), seen)
	}
	return p.Alone(), err
}

// see looks at the leases, and at the database's clock, and tells the held lines which types are paused, before it sends anything else. If
// a type is not divided and has no lease yet, the lease is free, unless the type is dormant. If somebody has seen work of a dormant
// type, see wakes it.
func (s *standBy) see(ctx context.Context) (v share.View, fleet store.Fleet, err error) {
	sent := time.Now()
	fleet, err = s.keeper.Look(ctx, share.Prefixes)
	if err != nil {
		return v, fleet, err
	}
	answered := time.Now()
	s.clock.Reading(fleet.Now, sent, answered)
	s.hear(newPauses(fleet.Paused, sent, answered))
	s.heedSetBack()
	if err = s.keeper.EndStrays(ctx, fleet.Leases); err != nil {
		return v, fleet, err
	}
	rows := make([]share.Row, 0, len(fleet.Leases))
	service, here := s.service, share.Presence(s.keeper.ID())
	there, layouts := map[string]bool{}, map[int32]share.Layout{}
	for jobType, layout := range fleet.Layouts {
		layouts[jobType] = share.Layout(layout)
	}
	for _, row := range fleet.Leases {
		owner := share.OwnerOf(row.Owner)
		rows = append(rows, share.Row{Name: row.Name, Free: row.Free, Instance: owner.Instance, Service: owner.Service, Term: row.Term, Running: row.Running, Layout: share.Layout(row.Layout)})
		there[row.Name] = true
		if row.Name == here && owner.Instance == s.keeper.ID() {
			service = owner.Service // as it stands there: a long name is cut
		}
	}
	woken, err := s.wakeNoted(ctx, sent, there, layouts)
	if err != nil {
		return v, fleet, err
	}
	for cfg := range s.withLeases(layouts, woken) {
		if name := share.TypeLease(cfg.JobType); layouts[cfg.JobType] == 0 && !there[name] {
			rows = append(rows, share.Row{Name: name, Free: true, Layout: share.Undivided})
		}
	}
	return share.See(s.keeper.ID(), service, rows, layouts), fleet, nil
}

// withLeases yields the configured types whose leases must be there: types that are never dormant, types that are divided, and types that
// were woken just now. Thousands of others may be dormant.
func (s *standBy) withLeases(layouts map[int32]share.Layout, woken map[int32]bool) iter.Seq[*queue_job.Config] {
	return func(yield func(*queue_job.Config) bool) {
		configs := s.configured()
		for _, place := range s.constant {
			if !yield(&configs[place]) {
				return
			}
		}
		others := slices.Concat(slices.Collect(maps.Keys(layouts)), slices.Collect(maps.Keys(woken)))
		slices.Sort(others)
		for _, jobType := range slices.Compact(others) {
			if cfg := s.configOf(jobType); cfg != nil && s.mayBeDormant(cfg) && !yield(cfg) {
				return
			}
		}
	}
}

// picture is what a view says about who has what.
func (s *standBy) picture(v *share.View, leaving bool) share.Picture {
	p := v.Picture
	p.Leaving = leaving
	p.Mine = func(jobType int32) bool { return s.configOf(jobType) != nil }
	s.heedDrain(p.Drained)
	s.heedOpen(p.Leases, p.Drained)
	return p
}

// heedRemains lets the lines heed what still runs elsewhere.
func (s *standBy) heedRemains(v *share.View) {
	lines := s.lines.all()
	busy := slices.DeleteFunc(slices.Clone(lines), func(l *line) bool { return !l.workers.busy() })
	for _, l := range lines {
		l.heedRemains(l.remainsFor(v.Rests, s.keeper.ID(), busy))
	}
}

// heedExpiry notes when the first lease of a job type expires that another instance has, so that the next look may come right
// behind.
func (s *standBy) heedExpiry(seen []store.Seen) {
	s.expires = time.Time{}
	now := time.Now()
	for _, row := range seen {
		if row.Free || s.serves(row.Name) {
			continue
		}
		if jobType, _, ok := share.ParseType(row.Name); !ok || s.configOf(jobType) == nil {
			continue
		}
		if at := now.Add(time.Duration(row.Left * float64(time.Second))); s.expires.IsZero() || at.Before(s.expires) {
			s.expires = at
		}
	}
}

// serves reports whether this instance serves the lease of a type.
func (s *standBy) serves(lease string) bool {
	l := s.byName[lease]
	return l != nil && l.serving.Load()
}

// heedDrain notes when this instance began to be drained, and says so.
func (s *standBy) heedDrain(drained bool) {
	switch {
	case drained && s.drainAt.IsZero():
		s.drainAt = time.Now()
		s.log.Info(s.about, "this instance is drained: it gives its leases to the others, until Undrain is called or the time is over")
	case !drained && !s.drainAt.IsZero():
		s.drainAt = time.Time{}
		s.log.Info(s.about, "this instance is drained no more: it takes its part of the leases again")
	}
}

// heedOpen notes since when leases have been free or to be handed over, and which of them others have let lie. What an instance that
// is drained took too soon, it would have to give away again.
func (s *standBy) heedOpen(leases []share.Lease, drained bool) {
	lies := standbyEvery / 2
	if drained {
		lies = lieMax
	}
	s.away = false
	now := time.Now()
	for i := range leases {
		l := &leases[i]
		s.away = s.away || l.Away && l.Holder == s.keeper.ID()
		was, known := s.open[l.Name]
		switch {
		case !l.Free && !l.Away:
			delete(s.open, l.Name)
		case !known || was.free != l.Free:
			s.open[l.Name] = open{l.Free, now}
		case l.Left == s.keeper.ID(): // it has handed the lease over, and whoever asked for it may be gone
			l.Waited = now.Sub(was.since) >= max(2*standbyEvery, lies)
		default:
			l.Waited = now.Sub(was.since) >= lies
		}
	}
}

// lookAgain looks once more, after leases were taken: whatever their last holders have left running was in the table before the
// leases came free. It tries for takeMax.
func (s *standBy) lookAgain() error {
	ctx, cancel := context.WithTimeout(s.patience, takeMax)
	defer cancel()
	return ground.Retry(ctx, ground.Backoff{Longest: takeMax}, func() error {
		v, _, err := s.see(ctx)
		if err == nil {
			s.heedRemains(&v)
		}
		return err
	})
}

// take takes the free leases that are this instance's to take, and the one that says that it is here. It returns the leases of
// job types.
func (s *standBy) take(ctx context.Context, leaving bool, free []string, seen []store.Seen) (taken []*keeper.Lease, err error) {
	if here := s.presence.Load(); !leaving && (here == nil || here.Context().Err() != nil) {
		leases, err := s.keeper.TakeSeen(ctx, []keeper.Want{{Name: share.Presence(s.keeper.ID()), Holder: s.instance, Lock: s.shortestLock(), Once: true}}, seen)
		if err != nil {
			return nil, err
		}
		for _, lease := range leases {
			s.presence.Store(lease)
			s.finder.Here(lease.Context())
		}
	}
	var wants []keeper.Want
	for _, name := range free {
		if l := s.byName[name]; l != nil && !l.serving.Load() {
			wants = append(wants, l.want())
		}
	}
	if len(wants) == 0 {
		return nil, nil
	}
	return s.keeper.TakeSeen(ctx, wants, seen)
}

func (s *standBy) releaseAll(ctx context.Context, leases []*keeper.Lease) {
	for _, lease := range leases {
		s.release(ctx, lease)
	}
}

// ask asks the holders of these leases for them.
func (s *standBy) ask(ctx context.Context, names []string, seen []store.Seen) error {
	if len(names) == 0 {
		return nil
	}
	wants := make([]keeper.Want, len(names))
	for i, name := range names {
		wants[i] = keeper.Want{Name: share.Asking(name), Holder: s.instance, Lock: askLasts}
	}
	s.askedAt = time.Now()
	asked, err := s.keeper.Ask(ctx, wants, seen)
	s.asked = append(s.asked, asked...)
	return err
}

// unask takes back what this instance has asked for and has got: if it stops soon, others need not wait until they can ask.
func (s *standBy) unask(ctx context.Context, taken []*keeper.Lease) {
	got, rest := ground.Divide(s.asked, func(a keeper.Asked) bool {
		return slices.ContainsFunc(taken, func(l *keeper.Lease) bool { return share.Asking(l.Name) == a.Name })
	})
	if time.Since(s.askedAt) > askLasts {
		rest = nil // they have ended
	}
	if s.asked = rest; len(rest) == 0 {
		s.askedAt = time.Time{}
	}
	s.errlog.On(ctx, "take back asks", s.keeper.Unask(ctx, got))
}

// give has a line start no more jobs, and give its lease away.
func (s *standBy) give(l *line, p *share.Picture) {
	if l == nil || l.lease == nil || l.lease.Context().Err() != nil || !p.Leaving && time.Since(l.since) < l.want().MinLock || l.wanted.Swap(true) {
		return
	}
	l.log.Info(l.about, fmt.Sprintf("lease %s is given to the instance that asks for it: %s", l.lease.Name, why(p, l.lease.Name)))
	l.leave()
	s.soonSince = time.Time{} // as if it had been taken here
}

// why says why an instance gives a lease.
func why(p *share.Picture, name string) string {
	switch {
	case p.Leaving:
		return "this instance stops"
	case p.Drained:
		return "this instance is drained"
	case slices.ContainsFunc(p.Leases, func(l share.Lease) bool { return l.Name == name && l.Away }):
		return "HandOver was called"
	default:
		return "this instance has more than its part"
	}
}

// serve has each line whose lease was taken work its job type, and give the lease away at the end. If Stop waits for the lines
// already, it gives the leases back.
func (s *standBy) serve(taken []*keeper.Lease) {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.working.Err() != nil {
		s.releaseAll(s.patience, taken)
		return
	}
	for _, lease := range taken {
		l := s.byName[lease.Name]
		serving, end := context.WithCancel(s.working)
		l.leave = end
		in := l.hold(lease)
		s.leaseLog.Taken(upkeptLine{l}, lease.Term, lease.Owner(), s.clock.Now())
		l.heedPause(s.pauses.Load()) // held already, so it misses no later answer
		s.loops.Go(func() {
			defer end()
			l.serve(serving, lease, in)
			s.giveAway(l, lease)
			s.finishIfFree(l)
		})
	}
	s.loops.Go(func() { s.finder.Look(s.working) })
}

// tidy deletes, once, the rows of instances that are no more.
func (s *standBy) tidy() {
	if s.tidied {
		return
	}
	statement, cancel := context.WithTimeout(s.patience, takeMax)
	defer cancel()
	s.tidied = !s.errlog.On(s.patience, "delete ended leases", s.keeper.DropEnded(statement, share.Prefixes[1:], share.Ephemeral))
}

// shortestLock is the length of the lease that says that this instance is here. It ends when the first of its other leases does.
func (d *database) shortestLock() time.Duration {
	shortest := time.Duration(bridge.QueueJob.WithDefaults(queue_job.Config{}).LockSecond) * time.Second
	for i, cfg := range d.configured() {
		if lock := time.Duration(cfg.LockSecond) * time.Second; i == 0 || lock < shortest {
			shortest = lock
		}
	}
	return shortest
}

// farewell says that this instance is about to stop: leases do not fall to it any more, and others ask for what it has.
func (s *standBy) farewell(ctx context.Context) {
	here := s.presence.Load()
	if s.said || here == nil || here.Context().Err() != nil {
		return
	}
	s.said = !s.errlog.On(ctx, "say farewell", s.keeper.NoteRunning(ctx, here, share.Leaves))
}
