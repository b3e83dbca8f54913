package cluster

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	takeMax  = time.Second     // taking leases must not keep renewals waiting
	leaveMax = time.Second     // how long Stop waits for others to ask for the leases; until then, jobs still start here
	lieMax   = 5 * time.Second // how long a lease lies until an instance takes it that is drained
	turnsMax = 1000            // seats that give their leases away one after the other

	// stopPatience is how long a statement may take that gives a lease back, although everything else ends.
	stopPatience = 2 * time.Second
)

// Coordinator is this instance's part in sharing out the leases of the database. It looks at them every now and then, takes what is
// free, asks for what others have too much of, and gives what others ask for; package share has the rules.
type Coordinator struct {
	Process
	types
	pace
	farewell
	pauses   pausing
	dormancy dormancy
	laying   laying
	seats    *ground.List[*seat]          // retired ones stay until what they have run is written
	byName   map[string]*seat             // that have not retired, by their leases
	seen     *snapshot                    // the last one
	open     map[string]open              // since when a lease has been seen free, or to be handed over
	asked    []keeper.Asked               // what this instance has asked for, and not got yet
	idle     map[*seat]idle               // of seats that serve
	tidied   bool                         // the rows of instances that are no more were deleted
	presence atomic.Pointer[keeper.Lease] // says that this instance is here; nil: it was not taken yet
	orders   chan order
	keeping  context.Context // of the loop; nil: it has not begun
}

// New makes a coordinator, with seats for the types that are never dormant.
func New(p Process, configs []queue_job.Config) (*Coordinator, error) {
	c := &Coordinator{
		Process: p, types: types{casts: map[int32]int{}}, pace: newPace(), dormancy: newDormancy(), laying: laying{again: map[int32]*later{}},
		farewell: farewell{leaves: make(chan struct{}), gone: make(chan struct{})},
		seats:    ground.NewList(func(a, b *seat) int { return a.compare(b.Spec) }), byName: map[string]*seat{},
		seen: &snapshot{}, open: map[string]open{}, orders: make(chan order),
	}
	c.configure(configs)
	var specs []Spec
	for _, cfg := range c.Configured() {
		if !c.mayBeDormant(&cfg) {
			specs = append(specs, Spec{JobType: cfg.JobType, Layout: share.Undivided})
		} else if err := c.Members.Try(&cfg); err != nil { // it is dormant, until it has a job
			return nil, err
		}
	}
	_, err := c.make(specs)
	return c, err
}

// Without has the coordinator not work some of its types. It has not begun.
func (c *Coordinator) Without(others func(jobType int32) bool) {
	c.configure(slices.DeleteFunc(slices.Clone(c.given), func(cfg queue_job.Config) bool { return others(cfg.JobType) }))
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
	for c.keeping.Err() == nil && c.Life.Err() == nil {
		leaving, leaves := c.leaving(), c.leaves
		if leaving {
			leaves = nil // it is closed
			if c.leftAt.IsZero() {
				c.leftAt = time.Now()
			}
		}
		alone, err := c.look(leaving)
		c.Looked(err)
		c.Errlog.On(c.Life, "take leases", err)
		if leaving && !c.over && (alone || err != nil || len(c.held()) == 0) {
			c.over = true
			close(c.gone)
		}
		c.tidy()
		timer := time.NewTimer(c.rest())
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
	statement, cancel := context.WithTimeout(c.Life, takeMax)
	defer cancel()
	if leaving {
		c.sayFarewell(statement)
	}
	v, err := c.see(statement)
	if err != nil {
		return false, err
	}
	c.seen = v
	c.heedOver(v.over)
	p := c.picture(&v.View, leaving)
	free := p.Take()
	if leaving {
		c.reconcile(&v.View, nil, nil, leaving)
	} else {
		c.heedLimits(v.limits)
		c.reconcile(&v.View, free, c.asleep(&v.View), leaving)
	}
	c.dividing = c.layOut(statement, &v.View, leaving)
	c.heedRemains(&v.View)
	c.company = !p.Alone() || len(p.Leavers) > 0
	c.heedExpiry(v.rows)
	for _, name := range p.Give() {
		c.give(c.byName[name], &p)
	}
	taken, err := c.take(statement, leaving, free, v.rows)
	switch {
	case len(taken) > 0:
		c.soonSince = time.Time{} // what comes next has its own time
		for _, lease := range taken {
			c.byName[lease.Name].take(lease)
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

// snapshot is what one look has shown.
type snapshot struct {
	share.View
	rows   []store.Seen
	limits map[int32]store.Limits
	over   []int32 // types whose pause is over
}

// see looks at the leases, and at the database's clock, and tells the members which types are paused, before it sends anything else. If
// a type is not divided and has no lease yet, the lease is free, unless the type is dormant. If somebody has seen work of a dormant
// type, see wakes it.
func (c *Coordinator) see(ctx context.Context) (*snapshot, error) {
	sent := time.Now()
	fleet, err := c.Keeper.Look(ctx, share.Prefixes)
	if err != nil {
		return nil, err
	}
	answered := time.Now()
	c.Clock.Reading(fleet.Now, sent, answered)
	c.hear(&Pauses{fleet.Paused, sent, answered.Sub(sent)})
	c.ClockRead()
	if err = c.Keeper.EndStrays(ctx, fleet.Leases); err != nil {
		return nil, err
	}
	rows := make([]share.Row, 0, len(fleet.Leases))
	service, here := c.Service, share.Presence(c.Keeper.ID())
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
		if row.Name == here && owner.Instance == c.Keeper.ID() {
			service = owner.Service // as it stands there: a long name is cut
		}
	}
	woken, err := c.wakeNoted(ctx, sent, there, layouts)
	if err != nil {
		return nil, err
	}
	for cfg := range c.withLeases(layouts, woken) {
		if name := share.TypeLease(cfg.JobType); layouts[cfg.JobType] == 0 && !there[name] {
			rows = append(rows, share.Row{Name: name, Free: true, Layout: share.Undivided})
		}
	}
	return &snapshot{share.See(c.Keeper.ID(), service, rows, layouts), fleet.Leases, fleet.Limits, fleet.Over}, nil
}

// picture is what a view says about who has what.
func (c *Coordinator) picture(v *share.View, leaving bool) share.Picture {
	p := v.Picture
	p.Leaving = leaving
	p.Mine = func(jobType int32) bool { return c.configOf(jobType) != nil }
	c.heedDrain(p.Drained)
	c.heedOpen(p.Leases, p.Drained)
	return p
}

// held are the types of which this instance serves a lease, or would but for a moment.
func (c *Coordinator) held() map[int32]bool {
	types := map[int32]bool{}
	for _, s := range c.seats.All() {
		if s.held() != nil {
			types[s.JobType] = true
		}
	}
	return types
}

// Holding is the context of the lease that says that this instance is here. It stands for the other leases: they are renewed together.
// If there is none, one of those does.
func (c *Coordinator) Holding() context.Context {
	if here := c.presence.Load(); here != nil && here.Context().Err() == nil {
		return here.Context()
	}
	for _, s := range c.seats.All() {
		if lease := s.held(); lease != nil {
			return lease.Context()
		}
	}
	return c.Life
}
