package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// New makes a coordinator, with seats for the types that are never dormant.
func New(p Process, configs []queue_job.Config) (*Coordinator, error) {
	c := &Coordinator{
		process: p, types: types{casts: map[int32]int{}, sleep: p.Tables.Dormancy != nil}, pace: newPace(),
		farewell: farewell{leaves: make(chan struct{}), gone: make(chan struct{})}, dormancy: newDormancy(), laying: laying{again: map[int32]*later{}},
		seats: ground.NewList(func(a, b *seat) int { return a.compare(b.Spec) }), byName: map[string]*seat{}, unaware: map[string]unaware{},
		seen: &snapshot{}, orders: make(chan order),
	}
	c.configure(configs)
	var specs []Spec
	for _, cfg := range c.types.configured() {
		if !c.types.mayBeDormant(&cfg) {
			specs = append(specs, Spec{JobType: cfg.JobType, Layout: share.Undivided})
		} else if err := c.process.Members.Try(&cfg); err != nil { // it is dormant, until it has a job
			return nil, err
		}
	}
	_, err := c.make(specs)
	return c, err
}

// Without has the coordinator not work some of its types. It has not begun.
func (c *Coordinator) Without(others func(jobType int32) bool) {
	c.configure(slices.DeleteFunc(slices.Clone(c.types.given), func(cfg queue_job.Config) bool { return others(cfg.JobType) }))
	for _, s := range c.seats.All() {
		if others(s.JobType) {
			c.seats.Remove(s)
			delete(c.byName, s.name)
		}
	}
}

// Begin has the members write outcomes. Run is called then.
func (c *Coordinator) Begin(keeping context.Context) {
	c.keeping = keeping
	c.begin(c.seats.All())
}

// Run takes and gives until the context of Begin or the process's patience ends. After Leave was called it only gives, so an instance that
// starts then need not wait until the handlers here have ended.
func (c *Coordinator) Run() {
	for c.keeping.Err() == nil && c.process.Life.Err() == nil {
		leaving, leaves := c.leaving(), c.farewell.leaves
		if leaving {
			leaves = nil // it is closed
			if c.pace.leftAt.IsZero() {
				c.pace.leftAt = time.Now()
			}
		}
		alone, err := c.look(leaving)
		c.process.Hears.Looked(err)
		c.process.Errlog.On(c.process.Life, "take leases", err)
		if leaving && !c.farewell.over && (alone || err != nil || len(c.held()) == 0) {
			c.farewell.over = true
			close(c.farewell.gone)
		}
		c.tidy()
		timer := time.NewTimer(c.pace.wait())
		select {
		case <-timer.C:
		case o := <-c.orders:
			o.answer <- c.carryOut(o, leaving)
		case <-leaves:
		case <-c.dormancy.wake:
		case <-c.keeping.Done():
		}
		timer.Stop()
	}
}

// look looks at the leases once, and takes, gives or asks accordingly. It reports whether there is no other instance.
func (c *Coordinator) look(leaving bool) (alone bool, err error) {
	began := time.Now()
	err = c.patiently(func(statement context.Context) (err error) {
		alone, err = c.lookOnce(statement, leaving)
		return err
	})
	if err == nil {
		c.patience.sufficed(time.Since(began))
	}
	return alone, err
}

func (c *Coordinator) lookOnce(statement context.Context, leaving bool) (alone bool, err error) {
	if leaving {
		c.sayFarewell(statement)
	}
	v, err := c.see(statement)
	if err != nil {
		return false, err
	}
	c.seen = v
	c.heedBurial()
	c.heedOver(v.over)
	p := c.picture(&v.View, leaving)
	free := p.Take()
	if leaving {
		c.reconcile(&v.View, nil, nil, leaving)
	} else {
		c.heedLimits(v.limits)
		c.reconcile(&v.View, free, c.asleep(&v.View), leaving)
	}
	c.pace.dividing = c.layOut(statement, &v.View, leaving)
	c.heedRemains(&v.View)
	c.pace.company = !p.Alone() || len(p.Leavers) > 0
	c.heedExpiry(v.rows)
	c.pace.succession = c.process.Keeper.Succession()
	c.heedLife(statement)
	for _, name := range p.Give() {
		c.give(c.byName[name], &p)
	}
	taken, err := c.take(statement, leaving, free, v.rows)
	switch {
	case len(taken) > 0:
		c.pace.soonSince = time.Time{} // what comes next has its own time
		for _, lease := range taken {
			name := lease.Want.Name
			if of := c.byName[name].take(lease, c.unaware[name]); !of.until.IsZero() {
				c.unaware[name] = of
			}
		}
		if errLook := c.lookAgain(); errLook != nil { // nobody knows what still runs elsewhere
			c.releaseAll(taken)
			return false, errLook
		}
		c.serve(taken)
		c.unask(statement, taken)
	case err == nil:
		err = c.ask(statement, p.Ask(), v.rows)
	}
	return p.Alone(), err
}

// see looks at the leases, and at the database's clock, and tells the members which types are paused, before it sends anything else. If
// a type is not divided and has no lease yet, the lease is free, unless the type is dormant. If somebody has seen work of a dormant
// type, see wakes it.
func (c *Coordinator) see(ctx context.Context) (*snapshot, error) {
	fleet, sent, err := c.fleet(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]share.Row, 0, len(fleet.Leases))
	service, here := c.process.Service, share.Presence(c.process.Keeper.ID())
	there, layouts := map[string]bool{}, map[int32]share.Layout{}
	for jobType, layout := range fleet.Layouts {
		layouts[jobType] = share.Layout(layout)
	}
	for _, row := range fleet.Leases {
		owner := share.OwnerOf(row.Owner)
		rows = append(rows, share.Row{
			Name: row.Name, Free: row.Free, Instance: owner.Instance, Service: owner.Service,
			Term: row.Term, Running: row.Running, Layout: share.Layout(row.Layout),
		})
		there[row.Name] = true
		if row.Name == here && owner.Instance == c.process.Keeper.ID() {
			service = owner.Service // as it stands there: a long name is cut
		}
	}
	woken, err := c.wakeNoted(ctx, sent, there, layouts)
	if err != nil {
		return nil, err
	}
	for cfg := range c.types.withLeases(layouts, woken) {
		if name := share.TypeLease(cfg.JobType); layouts[cfg.JobType] == 0 && !there[name] {
			rows = append(rows, share.Row{Name: name, Free: true, Layout: share.Undivided})
		}
	}
	return &snapshot{share.See(c.process.Keeper.ID(), service, rows, layouts), fleet.Leases, fleet.Limits, fleet.Over}, nil
}

// fleet looks at the leases, and again as long as that shows what the dead have, and nobody has taken it from them yet.
func (c *Coordinator) fleet(ctx context.Context) (fleet store.Fleet, sent time.Time, err error) {
	const most = 3 // one shows who is not heard of, the next one what they had, and the last one that it is noted what they may still run
	again := true
	for n := 0; n < most && again && err == nil; n++ {
		sent = time.Now()
		if fleet, err = c.process.Keeper.Look(ctx, share.Prefixes); err != nil {
			break
		}
		answered := time.Now()
		c.process.Clock.Reading(fleet.Now, sent, answered)
		c.hear(&Pauses{fleet.Paused, sent, answered.Sub(sent)})
		c.process.Hears.ClockRead()
		c.heedPredecessors(ctx, fleet.Leases)
		if err = c.process.Keeper.EndStrays(ctx, fleet.Leases); err == nil {
			again = c.bury(ctx, fleet.Leases)
		}
	}
	return fleet, sent, err
}

// lookAgain looks once more, after leases were taken: whatever their last holders have left running was in the table before the
// leases came free. It tries for as long as a look may take.
func (c *Coordinator) lookAgain() error {
	return c.patiently(func(ctx context.Context) error {
		return ground.Retry(ctx, ground.Backoff{Longest: takeMax}, func() error {
			v, err := c.see(ctx)
			if err == nil {
				c.heedRemains(&v.View)
			}
			return err
		})
	})
}

// picture is what a view says about who has what.
func (c *Coordinator) picture(v *share.View, leaving bool) share.Picture {
	p := v.Picture
	p.Leaving = leaving
	p.Mine = func(jobType int32) bool { return c.types.configOf(jobType) != nil }
	c.heedDrain(p.Drained)
	c.heedOpen(p.Leases, p.Drained)
	return p
}

// heedExpiry notes when the first lease of a job type expires that another instance has, or the first rest, or when another instance is to be
// buried, so that the next look may come right behind.
func (c *Coordinator) heedExpiry(seen []store.Seen) {
	c.pace.expires = time.Time{}
	now := time.Now()
	for _, row := range seen {
		lease, _, rest := share.ParseRemains(row.Name)
		if !rest {
			lease = row.Name
		}
		if jobType, _, is := share.ParseType(lease); row.Free || !is || !rest && c.serves(lease) || c.types.configOf(jobType) == nil {
			continue
		}
		if at := now.Add(time.Duration(row.Left * float64(time.Second))); c.pace.expires.IsZero() || at.Before(c.pace.expires) {
			c.pace.expires = at
		}
	}
	if in, silent := c.process.Keeper.Silent(); silent && (c.pace.expires.IsZero() || now.Add(in).Before(c.pace.expires)) {
		c.pace.expires = now.Add(in)
	}
}

// serves reports whether this instance serves the lease of a type.
func (c *Coordinator) serves(lease string) bool {
	s := c.byName[lease]
	return s != nil && s.serves()
}

// heedDrain notes when this instance began to be drained, and says so.
func (c *Coordinator) heedDrain(drained bool) {
	switch {
	case drained && c.pace.drainAt.IsZero():
		c.pace.drainAt = time.Now()
		c.process.Log.Info(c.process.About, "this instance is drained: it gives its leases to the others, until Undrain is called or the time is over")
	case !drained && !c.pace.drainAt.IsZero():
		c.pace.drainAt = time.Time{}
		c.process.Log.Info(c.process.About, "this instance is drained no more: it takes its part of the leases again")
	}
}

// heedOpen notes since when leases have been free or to be handed over, and which of them others have let lie. What an instance that
// is drained took too soon, it would have to give away again.
func (c *Coordinator) heedOpen(leases []share.Lease, drained bool) {
	lies := LookEvery / 2
	if drained {
		lies = lieMax
	}
	c.pace.away = false
	now := time.Now()
	for i := range leases {
		l := &leases[i]
		c.pace.away = c.pace.away || l.Away && l.Holder == c.process.Keeper.ID()
		was, known := c.pace.open[l.Name]
		switch {
		case !l.Free && !l.Away:
			delete(c.pace.open, l.Name)
		case !known || was.free != l.Free:
			c.pace.open[l.Name] = open{l.Free, now}
		case l.Left == c.process.Keeper.ID(): // it has handed the lease over, and whoever asked for it may be gone
			l.Waited = now.Sub(was.since) >= max(2*LookEvery, lies)
		default:
			l.Waited = now.Sub(was.since) >= lies
		}
	}
}
