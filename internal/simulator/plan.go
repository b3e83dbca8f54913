package simulator

import (
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// weather is how bad the network and the database are, until calm comes.
type weather struct {
	gentle          bool          // no instance is hit so hard that it loses a lease or repeats a run
	latency         time.Duration // of a statement, and again of its answer, at most
	refused, broken int           // statements of a thousand
	slow            int           // statements of a thousand that are slow to arrive or to be answered
	slowest         time.Duration
	blows           int  // statements of a thousand during which their instance is struck
	stepped         bool // somebody sets the database's clock
	edited          bool // somebody edits the leases
	truncated       bool
	steered         bool          // others pause types, cancel jobs and lock rows
	long            bool          // most runs take long, and there are few workers
	stray           int           // statements of a thousand that arrive although their sender has got an error
	hasty           bool          // a Stop does not wait for long handlers, of which there are many
	sluggish        time.Duration // by which each statement about jobs arrives later, and each answer too
	lagging         bool          // all answers take long for a while
}

// slowTables reports whether the tables of jobs are slow, always or for a while, and nothing else need be wrong.
func (w *weather) slowTables() bool { return w.sluggish > 0 || w.lagging }

// plan says what happens in a world. The seed decides all of it.
type plan struct {
	weather weather
	configs []queue_job.Config
	calmAt  time.Duration
	steps   []step
	orders  []*order
	keys    []string // of the jobs; empty: none

	maxWorkers int  // of an instance; 0: without limit
	slowKeys   bool // what a holder tells of keys is slow to arrive, now and then
	unique     bool // some keys are
	identified bool // instances say what they are
	lives      bool // leases are long, and instances say that they live …
	older      bool // … but for those of an older version
}

// step is an event that happens to the world at a moment.
type step struct {
	at   time.Duration
	what string
	do   func(*world)
}

// order is a row that somebody inserts.
type order struct {
	label    string
	row      Job
	due      time.Duration // after the insert; 0: at once
	ignored  bool          // it has no configuration, or an unknown status: it is never touched
	old      int           // days for which the job has been due when it is inserted
	lengthy  bool          // its first run takes longer than ten leases
	deadly   bool          // it kills its process
	outlived time.Duration // its handler goes on for so long when it has completed the job; 0: it does not
	unique   bool          // its key is
	restored bool          // it is archived, restored, and retried with other parameters
	takes    time.Duration // each run, and ends well; 0: as it is drawn
	first    time.Duration // the same for its first run
	backlog  []*order      // a long one that it belongs to
	small    []*order      // it belongs to a large group, and these to a small one
	behind   []*order      // it belongs to a small group, and these to a large one
	expires  time.Duration // after the insert; 0: it has no end
	parts    []part        // the steps of its handler
	follow   []*order      // when it has succeeded
	ofFlow   bool          // it is one of a flow
	refused  time.Duration // up to this moment of the world, the database refuses to add it
	changed  time.Time     // when it was changed while it waited in memory

	history *history // nil until it is inserted
}

func draw(seed uint64) *plan {
	d := throw(seed, 1)
	p := &plan{}
	p.weather = weather{gentle: d.chance(500), latency: d.between(100*time.Microsecond, oneOf(d, time.Millisecond, 5*time.Millisecond))}
	if d.chance(700) {
		p.weather.refused, p.weather.broken = d.upTo(200), d.upTo(100)
	}
	p.calmAt = d.between(2*time.Second, 8*time.Second)
	p.drawConfigs(d)
	p.drawDispatching(throw(seed, 4))
	if batched(seed) {
		p.drawBatches(throw(seed, 27))
	}
	p.drawOrders(d)
	if p.weather.gentle {
		p.drawRollout(d)
	} else {
		p.drawFaults(d)
	}
	p.drawSteering(throw(seed, 5))
	p.drawShards(throw(seed, 8))
	p.drawHandOvers(throw(seed, 9))
	p.drawRecasts(throw(seed, 10))
	p.drawDormant(throw(seed, 11))
	p.drawDrains(throw(seed, 12))
	p.drawLimits(throw(seed, 13))
	p.drawPausesWithAnEnd(throw(seed, 14))
	p.drawLockedThenMoved(throw(seed, 16))
	p.drawBreaks(throw(seed, 17))
	p.drawHasty(throw(seed, 18))
	p.drawOutlived(throw(seed, 18))
	p.drawUnique(throw(seed, 19))
	p.drawRestored(throw(seed, 20))
	p.drawBehind(throw(seed, 21))
	p.drawLockedWhileRunning(throw(seed, 22))
	p.drawWakers(throw(seed, 23))
	p.drawRush(throw(seed, 24))
	p.drawLives(throw(seed, 25), throw(seed, 26))
	if batched(seed) {
		p.drawCalls(throw(seed, 28))
	}
	p.drawSlow(throw(seed, 29))
	p.drawKinds(seed)
	if d := throw(seed, 8); d.chance(300) {
		p.maxWorkers = oneOf(d, 1, 1, 2, 3, 5)
	}
	return p
}

// drawKinds draws what only some worlds have, each from dice of its own.
func (p *plan) drawKinds(seed uint64) {
	if fairly(seed) {
		p.drawFair(throw(seed, 30))
	}
	if expiring(seed) {
		p.drawEnds(throw(seed, 31))
	}
	if stepping(seed) {
		p.drawParts(throw(seed, 32))
	}
	if keyRated(seed) {
		p.drawKeyRates(throw(seed, 33))
	}
	if signalling(seed) {
		p.drawSignals(throw(seed, 35))
	}
	if following(seed) {
		p.drawFollowers(throw(seed, 34))
	}
	if flowing(seed) {
		p.drawFlows(throw(seed, 36))
	}
}

func (p *plan) at(moment time.Duration, do func(*world), what string, args ...any) {
	p.steps = append(p.steps, step{moment, fmt.Sprintf(what, args...), do})
}

func (p *plan) drawConfigs(d *dice) {
	lock := uint32(2 + d.upTo(3))
	for jobType := range 1 + d.upTo(3) {
		cfg := queue_job.Config{
			JobType:            int32(jobType + 1),
			NeedRetry:          d.chance(700),
			MaxRetries:         d.upTo(4),
			WaitTime:           oneOf(d, 0, 0, 50*time.Millisecond, time.Second, 2500*time.Millisecond, 4200*time.Millisecond),
			WorkerPoolCapacity: oneOf(d, 1, 2, 3, 5, 10),
			FirstPullDay:       oneOf(d, -1, 1, 7),
			LockSecond:         lock,
		}
		if d.chance(300) {
			cfg.LockSecond = uint32(2 + d.upTo(3))
		}
		if d.chance(300) {
			cfg.QueueMaxSize = oneOf(d, 1, 2, 4, 10)
		}
		if d.chance(300) {
			cfg.LoadLimit = oneOf(d, 1, 2, 5)
		}
		if d.chance(100) {
			cfg.MinLockSecond = uint32(1 + d.upTo(3))
		}
		p.configs = append(p.configs, bridge.QueueJob.WithDefaults(cfg))
	}
}

// drawDispatching draws limits, from dice of its own, so worlds without limits do not depend on it.
func (p *plan) drawDispatching(d *dice) {
	p.keys = []string{""}
	if d.chance(600) {
		return
	}
	p.keys = []string{"", "a", "b", "c", "d"}[:2+d.upTo(4)]
	for i := range p.configs {
		switch cfg := &p.configs[i]; d.upTo(4) {
		case 0, 1:
			cfg.OrderedByKey = true
		case 2:
			cfg.MaxPerKey = 1 + d.upTo(2)
		case 3:
			cfg.RatePerSecond, cfg.RateBurst = float64(10+d.upTo(90)), 1+d.upTo(5)
		}
	}
}

// drawRush draws, from dice of its own, that a type with a rate gets more jobs at once than the rate lets start in a second.
func (p *plan) drawRush(d *dice) {
	for _, cfg := range p.configs {
		if cfg.RatePerSecond == 0 || d.chance(500) {
			continue
		}
		orders := make([]*order, int(cfg.RatePerSecond)+cfg.RateBurst+10)
		for i := range orders {
			o := p.drawOrder(d, false)
			o.due, o.old, o.ignored, o.lengthy, o.deadly, o.takes = 0, 0, false, false, false, time.Millisecond
			o.row.JobType, o.row.Status, o.row.NoStart = cfg.JobType, 0, false
			orders[i] = o
		}
		p.at(d.between(0, p.calmAt), func(w *world) { w.insert(orders).commit(true) }, "insert %s to %s, more than a rate lets start in a second",
			orders[0].label, orders[len(orders)-1].label)
	}
}

// drawShards draws into how many shards types are divided, at the start and later, from dice of its own.
func (p *plan) drawShards(d *dice) {
	if d.chance(600) {
		return
	}
	for i := range p.configs {
		cfg := &p.configs[i]
		shards := func() int {
			return 1 + d.upTo(min(4, share.ShardsMax(cfg.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst, cfg.BatchSize)))
		}
		if d.chance(400) {
			cfg.Shards = shards()
		}
		for range d.upTo(4) {
			n := shards()
			if d.chance(50) { // more than the configuration allows
				n = 8
			}
			p.at(d.between(0, p.calmAt), func(w *world) { w.divide(cfg.JobType, n) }, "divide type %d into %d shards", cfg.JobType, n)
		}
	}
}

func (p *plan) longestLock() (longest time.Duration) {
	for _, cfg := range p.configs {
		longest = max(longest, time.Duration(cfg.LockSecond)*time.Second)
	}
	return longest
}

// drawOrders draws the work of producers: a backlog before the instances, then transactions of few rows or of many.
func (p *plan) drawOrders(d *dice) {
	if d.chance(500) {
		p.drawTransaction(d, 0, 1+d.upTo(30), 0)
	}
	if d.chance(150) {
		p.drawTransaction(d, d.between(1, 10*time.Millisecond), 1+d.upTo(5), 0)
	}
	rollbacks := oneOf(d, 0, 0, 300)
	for range 3 + d.upTo(12) {
		rows := 1
		if d.chance(200) {
			rows = 2 + d.upTo(25)
		}
		p.drawTransaction(d, d.between(0, p.calmAt), rows, rollbacks)
	}
	if d.chance(100) {
		jump := oneOf[uint64](d, 1, 3, 1000, 1<<40)
		p.at(d.between(0, p.calmAt), func(w *world) { w.skipIDs(jump) }, "%d ids are skipped", jump)
	}
	if d.chance(30) && !p.weather.gentle {
		p.weather.truncated = true
		p.at(d.between(0, p.calmAt), func(w *world) { w.truncate() }, "TRUNCATE")
	}
}

func (p *plan) drawTransaction(d *dice, at time.Duration, rows, rollbacks int) {
	orders := make([]*order, rows)
	for i := range orders {
		orders[i] = p.drawOrder(d, at == 0)
	}
	open := d.between(0, 2*time.Millisecond)
	switch {
	case d.chance(150):
		open = d.between(2*time.Millisecond, 4*time.Second)
	case d.chance(20):
		open = d.between(4*time.Second, 8*time.Second)
	}
	back, notify := d.chance(rollbacks), d.chance(100)
	end := min(at+open, p.calmAt+open%time.Millisecond)
	var x *insertion
	p.at(at, func(w *world) { x = w.insert(orders) }, "insert %s to %s", orders[0].label, orders[rows-1].label)
	if back {
		p.at(end, func(w *world) { x.rollback() }, "roll back %s to %s", orders[0].label, orders[rows-1].label)
		return
	}
	p.at(end, func(w *world) { x.commit(notify) }, "commit %s to %s", orders[0].label, orders[rows-1].label)
	for _, o := range orders {
		if d.chance(20) {
			p.at(d.between(end, p.calmAt+time.Second), func(w *world) { w.finishByHand(o) }, "finish %s by hand", o.label)
		} else if d.chance(10) {
			p.at(d.between(end, p.calmAt+time.Second), func(w *world) { w.deleteByHand(o) }, "delete %s", o.label)
		} else if d.chance(50) && o.old == 0 && !o.ignored && end < p.calmAt {
			after := d.between(0, 6*time.Second)
			p.at(d.between(end, p.calmAt), func(w *world) { w.reschedule(o, after) }, "reschedule %s, %v later", o.label, after)
		}
	}
}

func (p *plan) drawOrder(d *dice, backlog bool) *order {
	o := &order{label: fmt.Sprintf("j%d", len(p.orders))}
	p.orders = append(p.orders, o)
	o.row.Params = o.label
	if hash("long "+o.label)%4 == 0 {
		o.row.Params, o.row.LongParams = store.SeeLongParams, o.label
	}
	o.row.JobType = int32(1 + d.upTo(len(p.configs)))
	o.row.NoStatus = d.chance(150)
	o.row.Key = p.keys[hash(o.label)%uint64(len(p.keys))]
	if o.row.Key != "" && hash(o.label)/8%3 == 0 {
		o.row.Key, o.row.Extra = o.label, &store.Extra{Group: o.row.Key}
	}
	switch {
	case d.chance(100):
		o.row.NoStart = true
	case d.chance(250):
		o.due = d.between(0, oneOf(d, 2*time.Second, 6*time.Second, 6*time.Second, p.calmAt+6*time.Second))
	case d.chance(80):
		o.due = -d.between(0, time.Minute)
	}
	switch {
	case d.chance(20):
		o.ignored = true
		o.row.JobType = 99
	case d.chance(10):
		o.ignored = true
		o.row.Status, o.row.NoStatus = 9, false
	case d.chance(80) && (backlog || o.due < 0): // create_time grows with the ids
		o.old = oneOf(d, 2, 8)
	}
	if !p.weather.gentle {
		o.lengthy, o.deadly = d.chance(1), d.chance(3)
	}
	return o
}

// drawRollout draws when the instances of a gentle world start, and when they stop in good order.
func (p *plan) drawRollout(d *dice) {
	for n := range 1 + d.upTo(4) {
		slot, at := n, time.Duration(0)
		if d.chance(500) {
			at = d.between(0, p.calmAt)
		}
		for range 1 + d.upTo(3) {
			p.at(at, func(w *world) { w.start(slot) }, "start in place %d", slot)
			at += d.between(500*time.Millisecond, p.calmAt)
			if at > p.calmAt || d.chance(300) {
				break
			}
			p.at(at, func(w *world) { w.stop(slot, time.Minute) }, "stop place %d", slot)
			at += d.between(time.Millisecond, time.Second)
		}
	}
}

// drawHasty draws, for some gentle worlds, that a Stop does not wait for long handlers, and nothing else goes wrong, from dice of its own.
func (p *plan) drawHasty(d *dice) {
	if !p.weather.gentle || d.chance(930) {
		return
	}
	p.weather.gentle, p.weather.refused, p.weather.broken, p.weather.hasty = false, 0, 0, true
	for range 1 + d.upTo(3) {
		slot, at, patience := d.upTo(3), d.between(0, p.calmAt), d.between(time.Millisecond, 2*time.Second)
		p.at(at, func(w *world) { w.stop(slot, patience) }, "stop place %d with a patience of %v", slot, patience)
		p.at(at+d.between(time.Millisecond, 2*time.Second), func(w *world) { w.start(slot) }, "start in place %d", slot)
	}
}

// drawFaults draws the faults that hit the instances of a rough world.
func (p *plan) drawFaults(d *dice) {
	places := 1 + d.upTo(4)
	for slot := range places {
		at := time.Duration(0)
		if d.chance(300) {
			at = d.between(0, p.calmAt)
		}
		p.at(at, func(w *world) { w.start(slot) }, "start in place %d", slot)
	}
	lock := p.longestLock()
	span := func() time.Duration { return d.between(50*time.Millisecond, oneOf(d, lock/2, lock, 2*lock)) }
	if d.chance(300) {
		p.weather.slow, p.weather.slowest = d.upTo(50), d.between(time.Millisecond, 6*time.Second)
	} else {
		p.weather.slowest = time.Second
	}
	faults := 1 + d.upTo(8)
	switch {
	case d.chance(250): // one thing at a time
		faults = 1
		p.weather.refused, p.weather.broken, p.weather.slow = 0, 0, 0
	case d.chance(700):
		p.weather.blows = 1 + d.upTo(40)
	}
	for range faults {
		slot, at := d.upTo(places), d.between(0, p.calmAt)
		switch d.upTo(10) {
		case 0, 1, 2:
			p.at(at, func(w *world) { w.kill(w.at(slot)) }, "kill place %d", slot)
			p.at(at+d.between(time.Millisecond, 2*lock), func(w *world) { w.start(slot) }, "start in place %d", slot)
		case 3, 4:
			for_ := span()
			p.at(at, func(w *world) { w.freeze(w.at(slot), for_) }, "freeze place %d for %v", slot, for_)
		case 5, 6:
			for_, way := span(), d.upTo(3)
			p.at(at, func(w *world) { w.cutOff(w.at(slot), for_, way != 1, way != 2) }, "cut place %d off for %v: statements %v, answers %v", slot, for_,
				way != 1, way != 2)
		case 7:
			for_ := span()
			p.at(at, func(w *world) { w.storm(w.at(slot), for_) }, "place %d is slow for %v", slot, for_)
		case 8:
			patience := d.between(0, 3*time.Second)
			p.at(at, func(w *world) { w.stop(slot, patience) }, "stop place %d with a patience of %v", slot, patience)
			p.at(at+d.between(time.Millisecond, time.Second), func(w *world) { w.start(slot) }, "start in place %d", slot)
		case 9:
			p.drawMeddling(d, at)
		}
	}
}

func (p *plan) drawMeddling(d *dice, at time.Duration) {
	jobType := int32(1 + d.upTo(len(p.configs)))
	// If the lease's row is gone, the new term comes from the clock, so the clock must not be set as well.
	switch n := d.upTo(4); {
	case n == 0 && !p.weather.stepped:
		p.weather.edited = true
		p.at(at, func(w *world) { w.deleteLease(jobType) }, "delete the lease %s", leaseName(jobType))
	case n == 1 && !p.weather.stepped:
		p.weather.edited = true
		p.at(at, func(w *world) { w.freeLease(jobType) }, "set the lease %s free", leaseName(jobType))
	case !p.weather.edited:
		p.weather.stepped = true
		by := d.between(100*time.Millisecond, 20*time.Second)
		if d.chance(500) {
			by = -min(by, 5*time.Second)
		}
		p.at(at, func(w *world) { w.stepClock(by) }, "the database's clock is set by %v", by)
		if by > 0 && by.Milliseconds()%4 < 2 { // it is far ahead, for a moment
			far, lasts := oneOf(throw(uint64(by)), time.Hour, 24*time.Hour, 365*24*time.Hour), time.Second+by/8
			for _, at := range []time.Duration{at + lasts, max(p.calmAt, at+2*lasts) + time.Second} { // and once more when somebody is there who sees it
				p.at(at, func(w *world) { w.putFarAhead(far) }, "the database's clock is set by %v", far)
				p.at(at+lasts, func(w *world) { w.putFarAhead(-far) }, "the database's clock is set by %v", -far)
			}
		}
	}
}

func leaseName(jobType int32) string { return fmt.Sprintf("job-%d", jobType) }
