package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	lookForWorkEvery = 10 * time.Second // in the table, for all dormant types
	lookForWorkAgain = time.Second      // after an error
	typesTogether    = 1000             // are asked about in one statement
)

// LooksForOthers reports whether this instance looks for new jobs although it holds no lease of a type.
func (c *Coordinator) LooksForOthers() bool {
	here := c.presence.Load()
	return c.dormancy.any.Load() && here != nil && here.Context().Err() == nil
}

// AskWhileDormant has all dormant types looked at: the tail begins, and has seen no row of theirs.
func (c *Coordinator) AskWhileDormant() {
	if c.dormancy.any.Load() {
		c.dormancy.ask(true)
	}
}

// NoteWork notes that there is work of a type that no member of this instance wants. If the type is dormant, the next look at the leases
// wakes it, and comes at once.
func (c *Coordinator) NoteWork(jobType int32) {
	if !c.dormancy.any.Load() {
		return
	}
	if cfg := c.types.configOf(jobType); cfg != nil && c.types.mayBeDormant(cfg) {
		c.dormancy.note(jobType)
	}
}

// wakeNoted wakes the dormant types of which work was noted before a look at the leases was sent, and returns them.
func (c *Coordinator) wakeNoted(
	ctx context.Context, sent time.Time, there map[string]bool, layouts map[int32]share.Layout,
) (woken map[int32]bool, err error) {
	if c.leaving() {
		return nil, nil
	}
	types := c.dormancy.heed(sent, func(jobType int32) bool { return there[share.TypeLease(jobType)] || layouts[jobType] > 0 })
	if len(types) == 0 {
		return nil, nil
	}
	woken = map[int32]bool{}
	var names, own []string
	for _, jobType := range types {
		woken[jobType] = true
		name := share.TypeLease(jobType)
		if names = append(names, name); c.types.configOf(jobType) != nil {
			own = append(own, name)
		}
	}
	if err = c.process.Keeper.Wake(ctx, names); err == nil && len(own) > 0 {
		err = c.process.Keeper.Make(ctx, own) // of types that were never awake
	}
	if err != nil {
		return nil, err
	}
	for _, jobType := range types {
		c.dormancy.forget(jobType)
	}
	return woken, nil
}

// asleep says which types are dormant from now on. Another instance has laid the type down; or this instance holds it, it has had nothing
// to do for long enough, and the table has no job of it. asleep looks at a few types at a time: each that is laid down takes some
// statements, and there may be thousands whose work ended together.
func (c *Coordinator) asleep(v *share.View) (types map[int32]bool) {
	if !c.dormancy.any.Load() {
		return nil
	}
	c.dormancy.first.Store(!slices.ContainsFunc(v.Present, func(id string) bool { return id < c.process.Keeper.ID() }))
	awake := map[int32]bool{}
	for _, l := range v.Leases {
		awake[l.JobType] = true
	}
	was, without := c.dormancy.idle, c.dormancy.without()
	c.dormancy.idle, types = map[*seat]idle{}, map[int32]bool{}
	seats := c.seats.All()
	const few, oneOf = 3, 200
	most := max(few, len(seats)/oneOf)
	for _, s := range seats {
		switch {
		case !c.types.mayBeDormant(s.cfg) || s.Layout != share.Undivided || s.retired() || v.Layouts[s.JobType] > 0:
		case !s.serves() && !awake[s.JobType]:
			types[s.JobType] = true
		case s.serves():
			next := idle{since: time.Now()}
			ended, isIdle := s.Idle()
			if last, known := was[s]; known && last.ended == ended && isIdle {
				next.since = last.since
			}
			next.ended = ended
			c.dormancy.idle[s] = next
			switch {
			case time.Since(next.since) < max(s.cfg.DormantAfter, s.minLock()):
			case without[s.JobType]:
				types[s.JobType] = true
			case most > 0:
				c.dormancy.ask(false, s.JobType)
				most--
			}
		}
	}
	return types
}

// layDown gives up the lease of a type that has had nothing to do, so that nobody takes it, and looks once more whether there is work.
func (c *Coordinator) layDown(s *seat, lease *keeper.Lease) {
	c.lastly(s.About(), lease, func(ctx context.Context) error {
		err := c.process.Keeper.LayDown(ctx, lease)
		if work, errWork := c.process.Tables.Dormancy.HaveWork(ctx, []int32{s.JobType}); errWork != nil || work[s.JobType] {
			c.dormancy.note(s.JobType)
		}
		return err
	})
}

// AskForNew has LookForWork look whether types have work that are new here, and are in the table by now.
func (c *Coordinator) AskForNew(configs []queue_job.Config) {
	for _, cfg := range configs {
		if c.types.mayBeDormant(&cfg) {
			c.dormancy.ask(false, cfg.JobType)
		}
	}
}

// LookForWork looks, until ctx ends, whether types have work about which somebody asks. Every now and then, one instance asks for all
// types, even if it has no configuration for them.
func (c *Coordinator) LookForWork(ctx context.Context) {
	var looks ground.Looks
	for next := time.Now(); ctx.Err() == nil; {
		if !time.Now().Before(next) {
			next = time.Now().Add(lookForWorkEvery)
			if c.dormancy.first.Load() {
				c.dormancy.ask(true)
			}
		}
		wait, asked := time.Until(next), c.dormancy.look
		if c.process.Errlog.On(ctx, "look for work of dormant types", c.answerAsked(&looks)) {
			wait, asked = lookForWorkAgain, nil // what has failed has been asked for again
		}
		ground.Wait(ctx, wait, asked)
	}
}

// answerAsked looks for what was asked. Types that have work, and that this instance does not serve, are noted.
func (c *Coordinator) answerAsked(looks *ground.Looks) error {
	asked, all := c.dormancy.takeAsked()
	for types := range slices.Chunk(asked, typesTogether) {
		if err := c.lookForWorkOf(looks, types); err != nil {
			c.dormancy.ask(all, asked...)
			return err
		}
	}
	if !all {
		return nil
	}
	err := c.lookForWorkOf(looks, nil)
	if err != nil {
		c.dormancy.ask(true)
	}
	return err
}

func (c *Coordinator) lookForWorkOf(looks *ground.Looks, types []int32) error {
	var work map[int32]bool
	served, holding := c.held(), c.Holding()
	err := looks.Look(holding, func(ctx context.Context) (err error) {
		work, err = c.process.Tables.Dormancy.HaveWork(ctx, types)
		return err
	})
	none := map[int32]bool{}
	for jobType, has := range work {
		switch {
		case !has:
			none[jobType] = true
		case !served[jobType]:
			c.dormancy.note(jobType)
		}
	}
	if len(types) > 0 {
		c.dormancy.mu.Lock()
		c.dormancy.none = none
		c.dormancy.mu.Unlock()
	}
	return ground.UnlessOver(holding, err)
}
