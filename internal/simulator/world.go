package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

// world is the database, the instances and all that happens to them, under virtual time.
type world struct {
	*plan
	seed  uint64
	began time.Time
	table *Table
	ahead atomic.Int64 // nanoseconds by which the database's clock is ahead of ours …
	far   atomic.Int64 // … and of what those believe who add jobs and name times, for a moment

	mu    sync.Mutex // held while anything happens that the judge or the trace sees
	judge *judge
	trace trace

	places    map[int]*instance
	instances []*instance
	running   sync.WaitGroup
	handlers  sync.WaitGroup
	over      bool                 // no more instances are started
	locked    map[uint64]time.Time // rows that business code locks, and when the lock ends

	lockedLeases map[string]time.Time // rows of leases, the same

	lag atomic.Pointer[lag] // all answers are late; nil: they never were

	writesFrom, answersFrom atomic.Pointer[time.Time] // the database stands still until then: for statements that write, and for all; nil: never
}

// simulate lets a world live from its beginning to its end, in a bubble of virtual time.
func simulate(seed uint64) *world {
	w := newWorld(seed)
	w.live()
	return w
}

func newWorld(seed uint64) *world { return worldOf(draw(seed), seed) }

func worldOf(p *plan, seed uint64) *world {
	w := &world{plan: p, seed: seed, began: time.Now(), places: map[int]*instance{}, locked: map[uint64]time.Time{},
		lockedLeases: map[string]time.Time{}}
	w.trace.began = w.began
	w.ahead.Store(int64(throw(seed, 3).between(0, time.Second))) // so that the world's start is not the start of a second
	w.table = NewTable(w.clock)
	w.judge = newJudge(w)
	w.table.watch = w.judge.changed
	w.table.recorded = w.judge.recorded
	w.table.born = w.judge.born
	w.table.bornOf, w.table.calledOff = w.judge.bornOf, func() { w.judge.saw["job that a count calls off"]++ }
	w.table.flowBecame = w.judge.flowBecame
	w.table.bornMost = 3 // so that some are left
	w.table.refuses = func(o *order) bool { return time.Since(w.began) < o.refused }
	w.table.lapsed = w.lapsed
	w.table.passing = w.passingLocked
	w.table.locked = func(lease string) bool { return w.lockedLeases[lease].After(time.Now()) }
	return w
}

func (w *world) live() {
	w.plan.at(w.plan.calmAt, func(w *world) { w.ensureOneRuns() }, "calm")
	slices.SortStableFunc(w.steps, func(a, b step) int { return int(a.at - b.at) })
	for _, s := range w.steps {
		time.Sleep(time.Until(w.began.Add(s.at)))
		w.say(0, s.what)
		s.do(w)
	}
	w.awaitDone()
	w.end()
	w.judge.conclude()
}

func (w *world) clock() time.Time  { return w.belief().Add(time.Duration(w.far.Load())) }
func (w *world) belief() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
func (w *world) calmAt() time.Time { return w.began.Add(w.plan.calmAt) }
func (w *world) calm() bool        { return !time.Now().Before(w.calmAt()) }
func (w *world) say(who int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.add(event{who: who, what: what})
}

// awaitDone waits until all required jobs are done, but not without end: the judge asks again. As long as runs begin or end, it waits longer: a
// single worker may have work for an hour.
func (w *world) awaitDone() {
	const patience = 12 * time.Minute // jobs of one key, one after the other, may snooze
	asked := time.Now()
	patient := func(since time.Time) bool {
		return time.Since(since) < patience || time.Since(since) < 5*patience && time.Since(w.judge.lastRun()) < standstill
	}
	for since := asked; patient(since) && w.judge.unfinished() > 0; {
		time.Sleep(50 * time.Millisecond)
		if time.Since(asked) >= standstill/4 {
			w.judge.expectNoStandstill()
			asked = time.Now()
		}
	}
}

// end stops all instances in good order.
func (w *world) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	for n, i := range w.instances {
		time.Sleep(time.Millisecond + time.Duration(n))
		i.order(time.Minute)
	}
	w.running.Wait()
	w.handlers.Wait() // Stop may have given up some handlers
}

// Events that happen to instances.

func (w *world) start(place int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := w.places[place]; w.over || i != nil && !i.ending.Load() {
		return
	}
	i := newInstance(w, place)
	w.places[place] = i
	w.instances = append(w.instances, i)
	if takes, _ := w.answersTake(); takes > 0 {
		i.hit()
	}
	w.running.Go(i.live)
}

func (w *world) at(place int) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places[place]
}

func (w *world) ensureOneRuns() {
	w.mu.Lock()
	runs := slices.ContainsFunc(w.instances, func(i *instance) bool { return !i.ending.Load() })
	w.mu.Unlock()
	if runs {
		w.judge.expectFlow()
	} else {
		w.start(0)
	}
}

func (w *world) stop(place int, patience time.Duration) {
	if i := w.at(place); i != nil {
		w.disturb(0)
		i.order(patience)
	}
}

func (w *world) kill(i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i != nil && !i.link.dead() {
		w.trace.add(event{who: i.number, what: "is killed"})
		w.judge.expectTakeover(i)
		w.judge.disturb(0)
		i.kill()
	}
}

func (w *world) freeze(i *instance, for_ time.Duration) {
	w.strike(i, for_, "frozen", func(l *link, until time.Time) { l.frozenUntil = until })
}

func (w *world) cutOff(i *instance, for_ time.Duration, statements, answers bool) {
	w.strike(i, for_, "cut off", func(l *link, until time.Time) {
		if statements {
			l.noWayUntil = until
		}
		if answers {
			l.noBackUntil = until
		}
	})
}

func (w *world) storm(i *instance, for_ time.Duration) {
	w.strike(i, for_, "slow", func(l *link, until time.Time) { l.stormUntil = until })
}

func (w *world) strike(i *instance, for_ time.Duration, what string, how func(l *link, until time.Time)) {
	if i == nil {
		return
	}
	until := time.Now().Add(for_)
	if until.After(w.calmAt()) {
		until = w.calmAt()
	}
	w.say(i.number, fmt.Sprintf("is %s for %v", what, time.Until(until)))
	w.disturb(time.Until(until))
	i.hit()
	i.link.mu.Lock()
	defer i.link.mu.Unlock()
	how(i.link, until)
}

func (w *world) disturb(for_ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.disturb(for_)
}

func (w *world) stepClock(by time.Duration) { w.ahead.Add(int64(by)) }

// putFarAhead puts the database's clock far ahead, or back again.
func (w *world) putFarAhead(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.far.Add(int64(by)); by < 0 {
		w.judge.setBacks = append(w.judge.setBacks, time.Now())
	}
}

func (w *world) skipIDs(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.SkipIDs(n)
}

func (w *world) deleteLease(jobType int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.DeleteLease(leaseName(jobType))
}

func (w *world) freeLease(jobType int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l, ok := w.table.Lease(leaseName(jobType)); ok && l.Layout > 0 {
		l.Until = w.clock().Unix()
		w.table.SetLease(leaseName(jobType), l)
	}
}

// divide divides a job type into so many shards, as queue_job does.
func (w *world) divide(jobType int32, shards int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, _ := w.table.Layout(context.Background(), jobType)
	w.table.SetLayout(context.Background(), jobType, now, int64(max(share.Layout(now), share.Undivided).Next(shards)))
	w.judge.hasMoved()
	w.judge.saw["divided anew"]++
}

// recast has an instance give a job type its configuration anew, or give the type up and take it on again.
func (w *world) recast(among uint64, jobType int32, remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.oneUp(among)
	if i == nil {
		return
	}
	w.judge.hasMoved()
	w.judge.recast = time.Now()
	w.judge.saw["recast"]++
	go i.recast(jobType, remove)
}

// oneUp is one of the instances that have started and are not to end; nil: there is none.
func (w *world) oneUp(among uint64) *instance {
	up := slices.DeleteFunc(slices.Clone(w.instances), func(i *instance) bool { return i.engine == nil || i.ending.Load() })
	if len(up) == 0 {
		return nil
	}
	return up[among%uint64(len(up))]
}

func (i *instance) recast(jobType int32, remove bool) {
	ctx, cancel := context.WithTimeout(i.alive, 10*time.Second)
	defer cancel()
	all := i.configs() // the handlers have addresses of its elements
	at := slices.IndexFunc(all, func(cfg queue_job.Config) bool { return cfg.JobType == jobType })
	configs := all[at : at+1]
	var err error
	if remove {
		if _, err = i.engine.Remove(ctx, []int32{jobType}); err == nil {
			err = i.engine.Add(ctx, configs)
		}
	} else {
		err = i.engine.Replace(ctx, configs)
	}
	if err != nil && !i.ending.Load() {
		i.world.say(i.number, fmt.Sprintf("type %d keeps its configuration, or is gone: %v", jobType, err))
	}
}

// Events that happen to jobs.

type insertion struct {
	*world
	*Transaction
	orders []*order
	opened time.Time
}

func (w *world) insert(orders []*order) *insertion {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &insertion{w, w.table.Begin(), orders, time.Now()}
	now := w.belief().Unix()
	for _, o := range orders {
		row := o.row
		row.CreateTime = now - int64(o.old)*24*60*60
		switch {
		case o.due > 0:
			row.StartTime = now + int64(o.due/time.Second) + 1
		case o.due < 0:
			row.StartTime = row.CreateTime + int64(o.due/time.Second)
		}
		o.history = w.judge.inserted(o)
		row.history = o.history
		row.MaxRetries, row.Extra = store.NotSet, o.withEnd(w.clock())
		o.history.id = x.Insert(row)
	}
	return x
}

func (x *insertion) commit(notify bool) {
	x.mu.Lock()
	x.Commit()
	x.judge.expectAwake(x)
	x.mu.Unlock()
	if notify {
		wake.Notify()
	}
}

func (x *insertion) rollback() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Rollback()
}

func (w *world) finishByHand(o *order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Change(o.history.id, func(j *Job) {
		if j.pending() {
			j.setStatus(int32(queue_job.JobStatusCancelled))
		}
	})
}

func (w *world) reschedule(o *order, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Reschedule(o.history.id, w.belief().Add(after).Unix()+1)
}

func (w *world) deleteByHand(o *order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Delete(o.history.id)
}

func (w *world) truncate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.truncated = w.table.Truncate() || w.judge.truncated
}

// instance is one process with an engine.
type instance struct {
	world  *world
	place  int
	number int // instances are numbered from 1 as they start
	link   *link
	alive  context.Context
	die    context.CancelFunc
	born   time.Time
	orders chan time.Duration // to stop, with this much patience
	ending atomic.Bool
	struck atomic.Bool  // from then on it may lose leases and repeat runs
	first  atomic.Int64 // when it was first struck, in nanoseconds of the wall clock
	hasty  atomic.Bool  // a Stop that has lost its patience is all that has befallen it

	impatient atomic.Bool // its Stop has lost its patience

	// Guarded by world.mu.
	up         bool
	stopped    bool
	since      time.Time      // when it came up
	asked      time.Time      // when it sent the latest question that was answered which types are paused
	ended      time.Time      // when it was killed, or Stop gave up
	gone       time.Time      // when it was killed, or Stop returned
	killer     *run           // the run whose handler killed it; nil: none
	identity   string         // what it says it is; empty: nothing
	unreleased bool           // a lease could not be given back
	engine     *engine.Engine // nil: it has not started yet
}

func newInstance(w *world, place int) *instance {
	i := &instance{world: w, place: place, number: len(w.instances) + 1, born: time.Now(), orders: make(chan time.Duration, 1)}
	i.alive, i.die = context.WithCancel(context.Background())
	i.link = newLink(w, i)
	i.identity = w.identityOf(i)
	return i
}

// id is the same in each simulation of the world: instances are served in the order of their ids.
func (i *instance) id() string {
	return fmt.Sprintf("%012x", hash(fmt.Sprint(i.world.seed, i.number))>>16)
}

func (i *instance) hit() {
	i.first.CompareAndSwap(0, time.Now().UnixNano())
	i.struck.Store(true)
	i.hasty.Store(false)
}

// struckAt returns when the instance was first struck, or the present moment if it was not.
func (i *instance) struckAt() time.Time {
	if at := i.first.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Now()
}

// outOfReachSince reports whether the instance has been frozen, cut off or slowed down after a moment.
func (i *instance) outOfReachSince(moment time.Time) bool {
	l := i.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozenUntil.After(moment) || l.noWayUntil.After(moment) || l.noBackUntil.After(moment) || l.stormUntil.After(moment)
}

// order tells the instance to stop.
func (i *instance) order(patience time.Duration) {
	i.ending.Store(true)
	select {
	case i.orders <- patience:
	default: // it is stopping
	}
}

// kill ends the process: nothing that it does from now on has an effect. Its goroutines end.
func (i *instance) kill() {
	i.hit()
	i.ending.Store(true)
	i.world.judge.killed(i)
	close(i.link.killed)
	i.die()
}

// live is the life of an instance.
func (i *instance) live() {
	defer i.die()
	e := i.start()
	if e == nil {
		return
	}
	i.world.mu.Lock()
	i.engine = e
	i.world.mu.Unlock()
	var patience time.Duration
	select {
	case patience = <-i.orders:
	case <-i.alive.Done():
	}
	ctx, cancel := context.WithTimeout(i.alive, patience)
	defer cancel()
	impatient := time.AfterFunc(patience, func() {
		hit := i.struck.Load()
		i.hit()
		i.hasty.Store(!hit)
		i.impatient.Store(true)
	})
	err := e.Stop(ctx)
	impatient.Stop()
	i.world.judge.hasStopped(i, err)
}

// start tries to start the engine until it succeeds or is told to stop.
func (i *instance) start() *engine.Engine {
	trying, giveUp := context.WithCancel(i.alive)
	defer giveUp()
	for {
		ctx, cancel := context.WithTimeout(trying, 10*time.Second)
		opened := func(context.Context, queue_job.Config) (engine.Tables, error) {
			t := &Table{tables: i.world.table.tables, link: i.link}
			tables := engine.Tables{Jobs: t, Run: runs{i.link}, Leases: t, RestRuns: t, Layouts: t, Dormancy: t, Ahead: t, Close: func() {}, ID: i.id()}
			if flowing(i.world.seed) {
				tables.Flows = t
			}
			if i.speaks() {
				tables.Beats = &Table{tables: t.tables, link: i.link, pulse: true}
			}
			return tables, nil
		}
		e, err := engine.Start(ctx, opened, i.configs(), i.options(), journal{i})
		cancel()
		if err == nil {
			i.world.judge.isUp(i)
			return e
		}
		i.world.say(i.number, fmt.Sprintf("does not start: %v", err))
		retry := time.NewTimer(200 * time.Millisecond)
		select {
		case <-retry.C:
		case <-i.orders:
			return nil
		case <-i.alive.Done():
			return nil
		}
	}
}

// hooked reports whether the application has hooks: with them, the settler reads more.
func (w *world) hooked() bool { return w.seed%2 == 0 }

func (i *instance) options() engine.Options {
	if !i.world.hooked() {
		return engine.Options{MaxWorkers: i.world.plan.maxWorkers, Identity: i.identity}
	}
	hear := func(hook string) func(context.Context, []queue_job.Settled) {
		return func(_ context.Context, settled []queue_job.Settled) {
			if !i.link.dead() {
				i.world.judge.settledTold(i, hook, settled)
			}
		}
	}
	return engine.Options{MaxWorkers: i.world.plan.maxWorkers, Identity: i.identity, OnSettled: hear(onSettled), OnDead: hear(onDead)}
}

func (i *instance) configs() []queue_job.Config {
	configs := slices.Clone(i.world.plan.configs)
	for c := range configs {
		cfg := &configs[c]
		cfg.ServiceName = "simulated"
		cfg.Db = nowhere{}
		if cfg.BatchSize > 0 {
			cfg.HandleBatchFunc = func(ctx context.Context, jobs []*queue_job.Job) error { return i.handleBatch(ctx, cfg, jobs) }
		} else {
			cfg.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error { return i.handle(ctx, cfg, job) }
		}
		cfg.OnFinished = func(_ context.Context, job *queue_job.Job, f queue_job.Finished) { i.finished(job, f) }
	}
	return configs
}

// nowhere is a database handle without a database, because every configuration must have a handle.
type nowhere struct{ queue_job.DB }

var errHandler = errors.New("the handler's error")

// handle is the handler of every job. What it does follows from the seed, the job and how often it has run.
func (i *instance) handle(ctx context.Context, cfg *queue_job.Config, job *queue_job.Job) error {
	if i.link.dead() {
		return errKilled
	}
	i.world.handlers.Add(1)
	defer i.world.handlers.Done()
	run := i.world.judge.started(ctx, i, cfg, job)
	if run.history.order.deadly {
		return i.killedBy(run, job)
	}
	b := behave(i.world, run)
	if !i.act(ctx, job, run, &b) {
		return errKilled
	}
	job.Status = b.ends.status()
	i.world.judge.ended(run, cfg, job, &b, ctx.Err() != nil)
	switch b.ends {
	case endsInPanic:
		panic(errHandler)
	case endsInGoexit:
		runtime.Goexit()
	}
	return b.result()
}

// killedBy has a run kill its process. Another one starts in its place.
func (i *instance) killedBy(r *run, job *queue_job.Job) error {
	i.world.say(i.number, "is killed by "+job.JobParams)
	i.world.judge.kills(r)
	i.world.kill(i)
	time.AfterFunc(time.Duration(hash(job.JobParams)%uint64(time.Second)), func() { i.world.start(i.place) })
	return errKilled
}

// act has the time of a run pass, and its handler complete the job if that is drawn; it reports false if the process was killed.
func (i *instance) act(ctx context.Context, job *queue_job.Job, r *run, b *behaviour) bool {
	outlives := b.outlive(r, i.link)
	i.haveFollow(job, r)
	if len(r.history.order.parts) > 0 && !i.takeParts(ctx, job, r, b) || !b.pass(ctx, i.link) {
		return false
	}
	i.link.holdStill(b.reacts)
	if i.link.dead() {
		return false
	}
	if b.heeds && ctx.Err() != nil {
		b.ends = endsInError
	} else if c := cmp.Or(outlives, i.link.drawCompletion(r)); c != nil && b.ends == endsWell {
		r.completes, r.gives = true, c.to
		if err := c.complete(ctx, job); i.link.dead() {
			return false
		} else if err != nil {
			b.ends = endsInError
		} else if !b.linger(i.world, r, i.link) {
			return false
		}
	}
	return true
}

// result is what a handler returns.
func (b *behaviour) result() error {
	switch b.ends {
	case endsInError, endsInPanic, endsInGoexit:
		return cmp.Or(b.failed, errHandler)
	case endsAsleep:
		return b.asleep
	case endsSnoozed:
		return queue_job.Snooze(b.snoozes)
	case endsDeferred:
		return queue_job.Defer(b.snoozes)
	}
	return nil
}

// finished is called by the engine as OnFinished.
func (i *instance) finished(job *queue_job.Job, f queue_job.Finished) {
	if !i.link.dead() {
		i.world.judge.told(i, job, f)
	}
}

// ending is how a handler ends.
type ending int

const (
	endsWell ending = iota
	endsInError
	endsInPanic
	endsInGoexit
	endsContinued
	endsRetried
	endsFailed
	endsCancelled
	endsSnoozed
	endsDeferred
	endsAsleep
)

func (e ending) status() queue_job.JobStatus {
	switch e {
	case endsContinued:
		return queue_job.JobStatusContinue
	case endsRetried:
		return queue_job.JobStatusRetry
	case endsFailed:
		return queue_job.JobStatusFailed
	case endsCancelled:
		return queue_job.JobStatusCancelled
	}
	return queue_job.JobStatusInit
}

// behaviour says what one run of a handler does.
type behaviour struct {
	takes   time.Duration
	heeds   bool          // it reacts to its context
	reacts  time.Duration // this long after its context has ended
	ends    ending
	snoozes time.Duration
	failed  error              // of a step
	asleep  *queue_job.Outcome // of a sleep; nil: the run goes on
}

// longestUsualRun is the longest run of a job that is not lengthy, in a world whose instances are not struck.
const longestUsualRun = 3 * time.Second

func behave(w *world, r *run) (b behaviour) {
	const runsMax = 6 // the last run succeeds
	if o := r.history.order; o.takes > 0 {
		b.takes = o.takes
		if o.first > 0 && r.nth == 1 {
			b.takes = o.first
		}
		return b
	}
	d := throw(w.seed, 2, hash(r.history.order.label), uint64(r.nth))
	switch n := d.upTo(100); {
	case n < 25: // at once
	case n < 70:
		b.takes = d.between(10*time.Microsecond, 5*time.Millisecond)
	case n < 94:
		b.takes = d.between(5*time.Millisecond, 300*time.Millisecond)
	default:
		b.takes = d.between(300*time.Millisecond, 2*time.Second)
		if !w.weather.gentle && d.chance(500) { // its context shows whether the lease is still trusted
			b.takes += w.longestLock()
		}
	}
	if r.history.order.lengthy && r.nth == 1 {
		b.takes = d.between(10, 12) * w.longestLock()
	}
	if long := throw(w.seed, 19, hash(r.history.order.label), uint64(r.nth)); w.weather.hasty && long.chance(200) {
		b.takes += long.between(time.Second, 2*w.longestLock())
	}
	b.heeds, b.reacts = d.chance(600), d.between(time.Microsecond, time.Millisecond)
	if r.nth < runsMax {
		b.ends = oneOf(d, endsWell, endsWell, endsWell, endsWell, endsWell, endsWell, endsWell, endsInError, endsInError,
			endsInPanic, endsInGoexit, endsContinued, endsRetried, endsFailed, endsCancelled)
	}
	if w.weather.steered {
		b.steer(w, throw(w.seed, 6, hash(r.history.order.label), uint64(r.nth)), r.nth < runsMax)
	}
	return b
}

// steer makes most runs long, and some end with a snooze or are deferred; their wait may be far longer than any other wait, so that a
// start before its time is seen.
func (b *behaviour) steer(w *world, d *dice, mayRunAgain bool) {
	if w.weather.long && d.chance(600) {
		b.takes = d.between(100*time.Millisecond, oneOf(d, 500*time.Millisecond, 1500*time.Millisecond, 3*time.Second))
	}
	if mayRunAgain && d.chance(150) {
		b.ends, b.snoozes = oneOf(d, endsSnoozed, endsDeferred), oneOf(d, 0, 20*time.Millisecond, 2*time.Second, 10*time.Second, 10*time.Second)
	}
}

// linger lets a handler go on for a while, mostly, when it has completed its job; it reports false if the process was killed.
func (b *behaviour) linger(w *world, r *run, l *link) bool {
	if for_ := r.history.order.outlived; for_ > 0 {
		rest := behaviour{takes: for_}
		return rest.pass(context.Background(), l)
	}
	d := throw(w.seed, 15, hash(r.history.order.label), uint64(r.nth))
	if d.chance(300) {
		return true
	}
	rest := behaviour{takes: d.between(time.Millisecond, oneOf(d, 100*time.Millisecond, longestUsualRun))}
	return rest.pass(context.Background(), l)
}

// pass lets the time of a run pass; it reports false if the process was killed before the end.
func (b *behaviour) pass(ctx context.Context, l *link) bool {
	if b.takes == 0 {
		return true
	}
	timer := time.NewTimer(b.takes)
	defer timer.Stop()
	done := ctx.Done()
	if !b.heeds {
		done = nil
	}
	select {
	case <-timer.C:
		return true
	case <-done:
		time.Sleep(b.reacts)
		return !l.dead()
	case <-l.killed:
		return false
	}
}
