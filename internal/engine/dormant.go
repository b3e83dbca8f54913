package engine

import (
	"context"
	"fmt"
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

// Dormancy is what the engine needs of the tables to let types be dormant. *store.Store has it. What changes the leases is the
// keeper's.
type Dormancy interface {
	HaveWork(ctx context.Context, types []int32) (map[int32]bool, error)
}

// dormancy is what a database knows of types that may be dormant. A dormant type has no lease that anybody could take, and no line.
//
// The holder lays a type down: it looks whether the type has a pending job, gives up the lease under another name, and looks again. A
// job that is committed before that second look is found by it. The tail of every instance sees a later one, among the rows that no line
// of the instance wants, and has the type woken. What neither sees, a look at the table finds, which one of the instances takes every
// ten seconds: a job that was retried, or comes from a long transaction, or whose instance has died between the two looks.
type dormancy struct {
	any   atomic.Bool   // there are types that may be dormant
	first atomic.Bool   // this instance is the one that looks at the table for all
	wake  chan struct{} // standBy: work was noted, or a pause has ended
	look  chan struct{} // lookForWork: somebody has asked

	mu       sync.Mutex
	noted    map[int32]time.Time // types that had work at that moment, and may be dormant
	asked    map[int32]bool      // types that have had nothing to do, or are new here
	askedAll bool
	none     map[int32]bool // types of those asked about last that have no work
}

func newDormancy() dormancy {
	return dormancy{wake: make(chan struct{}, 1), look: make(chan struct{}, 1), noted: map[int32]time.Time{}}
}

// mayBeDormant reports whether a type is dormant if it has no lease. If the type is divided, or ever was, its leases stay.
func (d *database) mayBeDormant(cfg *queue_job.Config) bool {
	return cfg.DormantAfter > 0 && d.tables.Dormancy != nil
}

// looksForOthers reports whether this instance looks for new jobs although it holds no lease of a type.
func (d *database) looksForOthers() bool {
	here := d.presence.Load()
	return d.dormant.any.Load() && here != nil && here.Context().Err() == nil
}

// askWhileDormant has all dormant types looked at: the tail begins, and has seen no row of theirs.
func (d *database) askWhileDormant() {
	if d.dormant.any.Load() {
		d.dormant.ask(true)
	}
}

// noteWork notes that there is work of a type that no line of this instance wants. If the type is dormant, the next look at the leases
// wakes it, and comes at once.
func (d *database) noteWork(jobType int32) {
	if !d.dormant.any.Load() {
		return
	}
	if cfg := d.configOf(jobType); cfg != nil && d.mayBeDormant(cfg) {
		d.dormant.note(jobType)
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
func (s *standBy) wakeNoted(ctx context.Context, sent time.Time, there map[string]bool, layouts map[int32]share.Layout) (woken map[int32]bool, err error) {
	if s.leaving() {
		return nil, nil
	}
	types := s.dormant.heed(sent, func(jobType int32) bool { return there[share.TypeLease(jobType)] || layouts[jobType] > 0 })
	if len(types) == 0 {
		return nil, nil
	}
	woken = map[int32]bool{}
	var names, own []string
	for _, jobType := range types {
		woken[jobType] = true
		name := share.TypeLease(jobType)
		if names = append(names, name); s.configOf(jobType) != nil {
			own = append(own, name)
		}
	}
	if err = s.keeper.Wake(ctx, names); err == nil && len(own) > 0 {
		err = s.keeper.Make(ctx, own) // of types that were never awake
	}
	if err != nil {
		return nil, err
	}
	for _, jobType := range types {
		s.dormant.forget(jobType)
	}
	return woken, nil
}

// idle is since when a line has had nothing to do, as looks at the leases have seen it.
type idle struct {
	since time.Time
	ended ends
}

// asleep says which types are dormant from now on: those that others have laid down, and those that this instance holds, and that have had
// nothing to do for long enough and have no job in the table. It looks at a few types at a time: each that is laid down takes some
// statements, and there may be thousands whose work ended together.
func (s *standBy) asleep(v *share.View) (types map[int32]bool) {
	if !s.dormant.any.Load() {
		return nil
	}
	s.dormant.first.Store(!slices.ContainsFunc(v.Present, func(id string) bool { return id < s.keeper.ID() }))
	awake := map[int32]bool{}
	for _, l := range v.Leases {
		awake[l.JobType] = true
	}
	was, without := s.idle, s.dormant.without()
	s.idle, types = map[*line]idle{}, map[int32]bool{}
	lines := s.lines.all()
	const few, oneOf = 3, 200
	most := max(few, len(lines)/oneOf)
	for _, l := range lines {
		switch {
		case !s.mayBeDormant(&l.cfg) || l.layout != share.Undivided || l.retired() || v.Layouts[l.jobType] > 0:
		case !l.serving.Load() && !awake[l.jobType]:
			types[l.jobType] = true
		case l.serving.Load():
			next := idle{time.Now(), l.counts.ends()}
			if last, known := was[l]; known && last.ended == next.ended && l.queue.inMemory() == 0 && l.quiet() {
				next.since = last.since
			}
			s.idle[l] = next
			switch {
			case time.Since(next.since) < max(l.cfg.DormantAfter, l.want().MinLock):
			case without[l.jobType]:
				types[l.jobType] = true
			case most > 0:
				s.dormant.ask(false, l.jobType)
				most--
			}
		}
	}
	return types
}

// layDown gives up the lease of a type that has had nothing to do, so that nobody takes it, and looks once more whether there is work.
func (d *database) layDown(l *line, lease *keeper.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.patience), stopPatience)
	defer cancel()
	if err := d.keeper.LayDown(ctx, lease); err != nil {
		d.log.Warn(l.about, fmt.Sprintf("%s: %v; it expires by itself", lease.Name, err))
	}
	if work, err := d.tables.Dormancy.HaveWork(ctx, []int32{l.cfg.JobType}); err != nil || work[l.cfg.JobType] {
		d.dormant.note(l.cfg.JobType)
	}
}

// ask has lookForWork look whether types have work; all: whether any has.
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

// askForNew has lookForWork look whether types have work that are new here, and are in the table by now.
func (d *database) askForNew(configs []queue_job.Config) {
	for _, cfg := range configs {
		if d.mayBeDormant(&cfg) {
			d.dormant.ask(false, cfg.JobType)
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

// lookForWork looks, until ctx ends, whether types have work about which somebody asks. Every now and then, one instance asks for all
// types, even if it has no configuration for them.
func (d *database) lookForWork(ctx context.Context) {
	var looks ground.Looks
	for next := time.Now(); ctx.Err() == nil; {
		if !time.Now().Before(next) {
			next = time.Now().Add(lookForWorkEvery)
			if d.dormant.first.Load() {
				d.dormant.ask(true)
			}
		}
		rest := time.Until(next)
		if d.errlog.On(ctx, "look for work of dormant types", d.answerAsked(&looks)) {
			rest = lookForWorkAgain
		}
		ground.Wait(ctx, rest, d.dormant.look)
	}
}

// answerAsked looks for what was asked. Types that have work, and that this instance does not serve, are noted.
func (d *database) answerAsked(looks *ground.Looks) error {
	asked, all := d.dormant.takeAsked()
	for types := range slices.Chunk(asked, typesTogether) {
		if err := d.lookForWorkOf(looks, types); err != nil {
			d.dormant.ask(all, asked...)
			return err
		}
	}
	if !all {
		return nil
	}
	err := d.lookForWorkOf(looks, nil)
	if err != nil {
		d.dormant.ask(true)
	}
	return err
}

func (d *database) lookForWorkOf(looks *ground.Looks, types []int32) error {
	var work map[int32]bool
	lines := d.heldLines()
	holding := d.holding(lines)
	err := looks.Look(holding, func(ctx context.Context) (err error) {
		work, err = d.tables.Dormancy.HaveWork(ctx, types)
		return err
	})
	none := map[int32]bool{}
	for jobType, has := range work {
		switch {
		case !has:
			none[jobType] = true
		case len(lines.ofType(jobType)) == 0:
			d.dormant.note(jobType)
		}
	}
	if len(types) > 0 {
		d.dormant.mu.Lock()
		d.dormant.none = none
		d.dormant.mu.Unlock()
	}
	return ground.UnlessOver(holding, err)
}
