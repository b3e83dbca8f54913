package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

// Dormancy says which types have work. *store.Store has it. What changes the leases is the keeper's.
type Dormancy interface {
	HaveWork(ctx context.Context, types []int32) (map[int32]bool, error)
}

// dormancy is what an instance knows of types that may be dormant. A dormant type has no lease that anybody could take, and no member.
//
// The holder lays a type down: it looks whether the type has a pending job, gives up the lease under another name, and looks again. A
// job that is committed before that second look is found by it. The tail of every instance sees a later one, among the rows that no
// member there wants, and has the type woken. What neither sees, a look at the table finds, which one of the instances takes every
// ten seconds: a job that was retried, or comes from a long transaction, or whose instance has died between the two looks.
//
//	         nothing to do for DormantAfter, and no pending job             a tail, or a look at the table, has seen a job
//	job-7 ──────────────────────────────────────────────────► dormant-7 ──────────────────────────────────────────────────► job-7
//	                                                          no look at the leases reads it; the term stays
//
// So ten thousand types cost what those cost that are awake.
type dormancy struct {
	any   atomic.Bool   // there are types that may be dormant
	first atomic.Bool   // this instance is the one that looks at the table for all
	wake  chan struct{} // the loop: work was noted, or a pause has ended
	look  chan struct{} // LookForWork: somebody has asked

	mu       sync.Mutex
	noted    map[int32]time.Time // types that had work at that moment, and may be dormant
	asked    map[int32]bool      // types that have had nothing to do, or are new here
	askedAll bool
	none     map[int32]bool // types of those asked about last that have no work
}

func newDormancy() dormancy {
	return dormancy{wake: make(chan struct{}, 1), look: make(chan struct{}, 1), noted: map[int32]time.Time{}}
}

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
	if cfg := c.configOf(jobType); cfg != nil && c.mayBeDormant(cfg) {
		c.dormancy.note(jobType)
	}
}

func (d *dormancy) note(jobType int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.noted[jobType]; !known {
		d.noted[jobType] = time.Now()
		ground.Signal(d.wake)
	}
}

// heed compares what was noted with what a look at the leases has shown that was sent at a moment, and returns the types to wake. If
// a type was awake after its work was noted, and is laid down later, its holder looks for work after that.
func (d *dormancy) heed(sent time.Time, awake func(jobType int32) bool) (asleep []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for jobType, at := range d.noted {
		switch {
		case at.After(sent):
			ground.Signal(d.wake)
		case awake(jobType):
			delete(d.noted, jobType)
		default:
			asleep = append(asleep, jobType)
		}
	}
	slices.Sort(asleep)
	return asleep
}

func (d *dormancy) forget(jobType int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.noted, jobType)
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
		if names = append(names, name); c.configOf(jobType) != nil {
			own = append(own, name)
		}
	}
	if err = c.Keeper.Wake(ctx, names); err == nil && len(own) > 0 {
		err = c.Keeper.Make(ctx, own) // of types that were never awake
	}
	if err != nil {
		return nil, err
	}
	for _, jobType := range types {
		c.dormancy.forget(jobType)
	}
	return woken, nil
}

// idle is since when a member has had nothing to do, as looks at the leases have seen it.
type idle struct {
	since time.Time
	ended Ended
}

// asleep says which types are dormant from now on. Another instance has laid the type down; or this instance holds it, it has had nothing
// to do for long enough, and the table has no job of it. asleep looks at a few types at a time: each that is laid down takes some
// statements, and there may be thousands whose work ended together.
func (c *Coordinator) asleep(v *share.View) (types map[int32]bool) {
	if !c.dormancy.any.Load() {
		return nil
	}
	c.dormancy.first.Store(!slices.ContainsFunc(v.Present, func(id string) bool { return id < c.Keeper.ID() }))
	awake := map[int32]bool{}
	for _, l := range v.Leases {
		awake[l.JobType] = true
	}
	was, without := c.idle, c.dormancy.without()
	c.idle, types = map[*seat]idle{}, map[int32]bool{}
	seats := c.seats.All()
	const few, oneOf = 3, 200
	most := max(few, len(seats)/oneOf)
	for _, s := range seats {
		switch {
		case !c.mayBeDormant(s.cfg) || s.Layout != share.Undivided || s.retired() || v.Layouts[s.JobType] > 0:
		case !s.serves() && !awake[s.JobType]:
			types[s.JobType] = true
		case s.serves():
			next := idle{since: time.Now()}
			ended, isIdle := s.Idle()
			if last, known := was[s]; known && last.ended == ended && isIdle {
				next.since = last.since
			}
			next.ended = ended
			c.idle[s] = next
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
		err := c.Keeper.LayDown(ctx, lease)
		if work, errWork := c.Tables.Dormancy.HaveWork(ctx, []int32{s.JobType}); errWork != nil || work[s.JobType] {
			c.dormancy.note(s.JobType)
		}
		return err
	})
}

// ask has LookForWork look whether types have work; all: whether any has.
func (d *dormancy) ask(all bool, types ...int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = map[int32]bool{}
	}
	for _, jobType := range types {
		d.asked[jobType] = true
	}
	d.askedAll = d.askedAll || all
	ground.Signal(d.look)
}

// AskForNew has LookForWork look whether types have work that are new here, and are in the table by now.
func (c *Coordinator) AskForNew(configs []queue_job.Config) {
	for _, cfg := range configs {
		if c.mayBeDormant(&cfg) {
			c.dormancy.ask(false, cfg.JobType)
		}
	}
}

// takeAsked returns the types that were asked for since the last call, and whether all were.
func (d *dormancy) takeAsked() (types []int32, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	types, all = slices.Sorted(maps.Keys(d.asked)), d.askedAll
	d.asked, d.askedAll = nil, false
	return types, all
}

// without returns the types without work that the last answer has named, once.
func (d *dormancy) without() map[int32]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	none := d.none
	d.none = nil
	return none
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
		rest, asked := time.Until(next), c.dormancy.look
		if c.Errlog.On(ctx, "look for work of dormant types", c.answerAsked(&looks)) {
			rest, asked = lookForWorkAgain, nil // what has failed has been asked for again
		}
		ground.Wait(ctx, rest, asked)
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
		work, err = c.Tables.Dormancy.HaveWork(ctx, types)
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
