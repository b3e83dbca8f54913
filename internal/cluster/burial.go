package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

const unneededFor = 10 * time.Second // an instance without leases goes on to say that it lives, since it may get one

// bury buries the instances that are not heard of. If there are none, it takes the leases of buried instances. It reports whether to look again,
// since the look shows the table as it was before. A statement may wait for a row of the dead that somebody has locked, and the rest of the look
// must not: so bury takes a part of the time at most, and its errors end nothing.
func (c *Coordinator) bury(ctx context.Context, seen []store.Seen) (again bool) {
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	buried, err := c.process.Keeper.Bury(ctx, seen)
	c.tellBurials(buried)
	if again = len(buried) > 0; err == nil && !again {
		again, err = c.process.Keeper.Evict(ctx, seen)
	}
	c.process.Errlog.On(c.process.Life, "take the leases of the dead", err)
	return again
}

// tellBurials tells the log whom this instance has buried, and has it written down.
func (c *Coordinator) tellBurials(buried []keeper.Burial) {
	if len(buried) == 0 {
		return
	}
	const precisely = 100 * time.Millisecond
	who, now := make([]string, len(buried)), c.process.Clock.Now()
	for i, b := range buried {
		c.process.LeaseLog.Buried(b, now)
		id, _ := share.ParseLife(b.Life)
		silent := time.Duration(max(0, now-b.Beat)) * time.Millisecond
		who[i] = fmt.Sprintf("%s (%s), not heard of for %v", share.Readable(b.Owner), id, silent.Round(precisely))
	}
	c.process.Log.Warn(c.process.About, fmt.Sprintf("buried %s; others take the leases, and what may still run under them is left alone until "+
		"they would have ended; if that process was alive: it was frozen, or could not write to shedlock_tab each second; its own log says which",
		strings.Join(who, "; ")))
}

// heedBurial has the seats give up the leases of a life that is over: others take them, and what runs under them runs on.
func (c *Coordinator) heedBurial() {
	for _, s := range c.seats.All() {
		if t := s.latest.Load(); s.serves() && !t.is(offered) && t.lease.Over() && !t.wanted.Swap(true) {
			text := "lease %s is given up: others have not heard of this instance, and have buried it; what runs, runs on"
			c.process.Log.Warn(s.About(), fmt.Sprintf(text, s.name))
			t.giveUp()
			c.pace.soonSince = time.Time{}
		}
	}
}

// Wake has the next look come at once.
func (c *Coordinator) Wake() { ground.Signal(c.dormancy.wake) }

// heedLife has the instance say that it lives, as long as it has leases for which it has to, also if those are of a life that is over: so the others
// hear of it again, and count what it runs. Without such a lease, and with nobody to bury, it says so for a while, and no more.
func (c *Coordinator) heedLife(ctx context.Context) {
	needs, lives := c.process.Keeper.NeedsLife(), c.process.Keeper.Lives()
	_, silent := c.process.Keeper.Silent()
	switch {
	case needs && !lives:
		c.process.Errlog.On(ctx, "rise", c.process.Keeper.Rise(ctx))
	case needs || silent || !lives:
		c.needless = time.Time{}
	case c.needless.IsZero():
		c.needless = time.Now()
	case time.Since(c.needless) >= unneededFor:
		c.process.Errlog.On(ctx, "depart", c.process.Keeper.Depart(ctx))
	}
}

// heedPredecessors has the first look show which earlier instances with this one's identity there are. They are watched beside all else: this
// instance need not wait for that, and what is free is for everybody. Its own life tells the others that there will be something to take soon.
func (c *Coordinator) heedPredecessors(ctx context.Context, seen []store.Seen) {
	if c.heeded {
		return
	}
	c.heeded = true
	lives := c.process.Keeper.Predecessors(seen)
	if len(lives) == 0 {
		return
	}
	seen = slices.Clone(seen)
	c.process.Working(func(working context.Context) {
		c.process.Go(func() {
			err := c.process.Keeper.Succeed(working, lives, seen, c.heedPredecessor)
			if working.Err() == nil {
				c.process.Errlog.On(working, "watch the instance whose place this one takes", err)
			}
		})
	})
	c.process.Errlog.On(ctx, "rise", c.process.Keeper.Rise(ctx))
}

// heedPredecessor is told what an earlier instance with this one's identity is.
func (c *Coordinator) heedPredecessor(who string, buried bool) {
	if !buried {
		c.process.Log.Warn(c.process.About, fmt.Sprintf("%s has the identity of this instance, and says that it lives: two processes have one "+
			"identity. It is left alone, like any other instance. Give each process that runs at the same time an identity of its own in WithIdentity, such "+
			"as the UID of its pod with the name of its container", who))
		return
	}
	c.process.Log.Info(c.process.About, fmt.Sprintf("%s had the identity of this instance, and is silent: its leases end, and what it ran runs again",
		who))
	c.Wake()
}
