package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// take takes the free leases that are this instance's to take, and the one that says that it is here. It returns the leases of
// job types.
func (c *Coordinator) take(ctx context.Context, leaving bool, free []string, seen []store.Seen) (taken []*keeper.Lease, err error) {
	if here := c.presence.Load(); !leaving && (here == nil || here.Context().Err() != nil) {
		want := keeper.Want{Name: share.Presence(c.process.Keeper.ID()), Holder: c.process.Instance, Lock: c.types.shortestLock(), Once: true}
		leases, err := c.process.Keeper.TakeSeen(ctx, []keeper.Want{want}, seen)
		if err != nil {
			return nil, err
		}
		for _, lease := range leases {
			c.presence.Store(lease)
			c.process.Hears.Here(lease.Context())
		}
	}
	var wants []keeper.Want
	for _, name := range free {
		if s := c.byName[name]; s != nil && !s.serves() {
			wants = append(wants, s.want())
		}
	}
	if len(wants) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(wants, keeper.Want.TwoEnds) {
		if err := c.process.Keeper.Rise(ctx); err != nil {
			return nil, err
		}
	}
	return c.process.Keeper.TakeSeen(ctx, wants, seen)
}

func (c *Coordinator) releaseAll(leases []*keeper.Lease) {
	for _, lease := range leases {
		c.Release(lease)
	}
}

// ask asks the holders of these leases for them.
func (c *Coordinator) ask(ctx context.Context, names []string, seen []store.Seen) error {
	if len(names) == 0 {
		return nil
	}
	wants := make([]keeper.Want, len(names))
	for i, name := range names {
		wants[i] = keeper.Want{Name: share.Asking(name), Holder: c.process.Instance, Lock: askLasts}
	}
	c.pace.askedAt = time.Now()
	asked, err := c.process.Keeper.Ask(ctx, wants, seen)
	c.pace.asked = append(c.pace.asked, asked...)
	return err
}

// unask takes back what this instance has asked for and has got: if it stops soon, others need not wait until they can ask.
func (c *Coordinator) unask(ctx context.Context, taken []*keeper.Lease) {
	got, others := ground.Divide(c.pace.asked, func(a keeper.Asked) bool {
		return slices.ContainsFunc(taken, func(l *keeper.Lease) bool { return share.Asking(l.Want.Name) == a.Name })
	})
	if time.Since(c.pace.askedAt) > askLasts {
		others = nil // they have ended
	}
	if c.pace.asked = others; len(others) == 0 {
		c.pace.askedAt = time.Time{}
	}
	c.process.Errlog.On(ctx, "take back asks", c.process.Keeper.Unask(ctx, got))
}

// give has a seat start no more jobs, and give its lease away.
func (c *Coordinator) give(s *seat, p *share.Picture) {
	if s == nil {
		return
	}
	t := s.latest.Load()
	if t == nil || t.is(offered) || t.lease.Context().Err() != nil || !p.Leaving && time.Since(t.since) < s.minLock() || t.wanted.Swap(true) {
		return
	}
	c.process.Log.Info(s.About(), fmt.Sprintf("lease %s is given to the instance that asks for it: %s", s.name, why(p, s.name)))
	t.giveUp()
	c.pace.soonSince = time.Time{} // as if it had been taken here
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

// serve has each seat whose lease was taken serve under it, and give the lease away at the end. If a stop waits for the seats already, it
// gives the leases back.
func (c *Coordinator) serve(taken []*keeper.Lease) {
	begun := c.process.Working(func(working context.Context) {
		for _, lease := range taken {
			s := c.byName[lease.Want.Name]
			ctx, leave := context.WithCancel(working)
			t := s.begin(leave)
			serve := s.Hold(lease)
			c.process.LeaseLog.Taken(s.Member, lease)
			s.Hear(c.pauses.latest.Load()) // it serves already, so it misses no later answer
			c.process.Go(func() {
				defer leave()
				serve(ctx)
				t.state.Store(int32(draining))
				c.giveAway(s, t)
				c.finishIfFree(s)
			})
		}
		c.process.Hears.Taken(working)
	})
	if !begun {
		c.releaseAll(taken)
	}
}

// tidy deletes, once, the rows of instances that are no more.
func (c *Coordinator) tidy() {
	if c.tidied {
		return
	}
	err := c.patiently(func(statement context.Context) error {
		return c.process.Keeper.DropEnded(statement, share.Prefixes[1:], share.Ephemeral)
	})
	c.tidied = !c.process.Errlog.On(c.process.Life, "delete ended leases", err)
}
