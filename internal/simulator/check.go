package simulator

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// judge watches the world and knows what may happen. It is told of every event, and looks at the tables at the end.
type judge struct {
	world     *world
	actor     *instance   // whose statement is applied; nil: a change by hand
	late      bool        // the sender of that statement had given up
	setBacks  []time.Time // when the clock was set back from far ahead
	stalls    []stall
	keptBack  map[string]time.Time // when somebody last could not give a lease back
	aim       aim                  // the marks that the statement was about when it was sent
	truncated bool

	histories   []*history
	active      []*run
	takings     map[tenure][]taking // of the leases of job types
	latest      map[string]int64    // the largest term of each lease
	takenAt     map[string]time.Time
	looked      map[looker]time.Time  // when each last asked which jobs are the first of their keys
	starts      map[int32][]time.Time // of runs, within the last second
	keyStarts   map[string][]time.Time
	pausedTypes map[int32]*pause
	limits      map[int32]*limiting
	heard       map[looker]*hearing // of pauses
	handed      map[*queue_job.Job]*run
	cameOrWent  time.Time                 // when an instance last came or went, and as moved
	recast      time.Time                 // when an instance last got the configuration of a type anew: its lines begin as behind a start
	moved       time.Time                 // when a type was last divided anew, or a lease to be handed over, or an instance drained
	asked       map[leaseTerm]time.Time   // when somebody asked for a lease to be handed over
	drained     map[*instance]drained     // who was to be drained last, and when
	broken      map[leaseTerm]*breaking   // leases that somebody has broken, or locked
	toldLost    map[tenant]time.Time      // when an instance heard from a renewal that it does not have a lease
	buried      map[*instance][]time.Time // when
	brokenAt    map[int32]time.Time       // when a lease of a type was last broken, or a lock on its row ended that may have cost it
	termTaken   map[leaseTerm]time.Time   // when a lease was taken
	disturbed   time.Time                 // until then, some instance is struck
	disturbance int
	accusations []string
	brokenEvent int            // how many events there were at the first accusation
	saw         map[string]int // how often each case came up: a check without a case proves nothing
	look        func(Sight)    // nil: nobody does
}

// tenure is a job type and a term under which somebody took leases of it.
type tenure struct {
	jobType int32
	term    int64
}

// leaseTerm is a lease and a term under which somebody took it.
type leaseTerm struct {
	lease string
	term  int64
}

// taking is a lease that somebody took.
type taking struct {
	lease  string
	layout share.Layout
	by     *instance
}

// takingOf is the taking of the lease under which a row may be worked with a term; its holder is nil if there is none.
func (j *judge) takingOf(h *history, term int64) taking {
	for _, t := range j.takings[tenure{h.order.row.JobType, term}] {
		if t.covers(h) {
			return t
		}
	}
	return taking{}
}

// takingUnder is the taking of a lease under a term; its holder is nil if there is none.
func (j *judge) takingUnder(l leaseTerm) taking {
	jobType, _ := typeOf(l.lease)
	for _, t := range j.takings[tenure{jobType, l.term}] {
		if t.lease == l.lease {
			return t
		}
	}
	return taking{}
}

// covers reports whether a row belongs to the shard.
func (t taking) covers(h *history) bool {
	return t.by != nil && t.layout.Leases(h.order.row.JobType)[share.ShardOf(h.id, h.order.row.Group(), t.layout.Shards())] == t.lease
}

// looker is an instance that looks at a type: for the first job of a key, or, without a key, at all of it.
type looker struct {
	by      *instance
	jobType int32
	key     string
}

// history has everything that happened to one row.
type history struct {
	order     *order
	id        uint64
	committed bool
	inserted  time.Time
	since     time.Time // when it was committed, or retried by hand
	gone      bool      // deleted
	byHand    bool      // changed or deleted by hand
	tooSoon   bool      // marked long before its time, by an instance that had not heard yet that the clock was set back
	stoodAt   time.Time // when somebody last read how the row stands
	tried     time.Time // when somebody first marked it, or tried to, after it was changed while it waited in memory
	final     bool
	due       float64
	latest    int64     // the largest term of its marks
	looked    time.Time // the last look for the first job of its key before it was first marked
	mark      *mark     // the mark that stands on it now
	marks     []*mark   // all marks that ever stood on it
	losses    []*loss
	putBacks  int
	runs      []*run
	retried   int32
	deferred  int32
	failure   *failure // the failed status that the row has; nil: none
	died      *death   // nil: it was not lost too often
	expires   int64    // unix milliseconds of its end; 0: none
	expiry    *expiry  // nil: it has not been cancelled because of its end
	revived   bool     // somebody had it run again after it was final
	revivedAt time.Time
	params    string // that somebody has given it since; empty: none

	records map[string]record // its steps
	effects map[string]int    // of its steps in transactions
	signals map[string]*heardOf
	did     int   // how often a step was done
	sleeps  int64 // until this millisecond of unix time, unless somebody has given it another time

	hasEnded, hasSucceeded bool // of a job of a flow: once, whatever it is now
	endedAt                time.Time
	endedBy                *instance // whose settle it was; nil: somebody else's
}

// mark is a mark that stands on a row, or stood on it.
type mark struct {
	term      int64
	attempt   int // number of the attempt
	by        *instance
	at        time.Time
	run       *run      // started under this mark
	givenBack bool      // the number of the attempt is free again
	taken     time.Time // when a cancellation or a later term took it from its holder
	cancelled bool
	heard     time.Time // when its holder heard that it was cancelled
	late      bool      // its sender had given it up
}

// loss is a mark that a later holder found on a row.
type loss struct {
	*mark
	noticed *instance
	under   int64     // the term of that holder
	at      time.Time // when it was noticed
	late    bool      // the sender of that statement may never have learned its result
}

// run is one run of a handler.
type run struct {
	history   *history
	ctx       context.Context
	nth       int // from 1
	by        *instance
	jobType   int32
	term      int64
	lease     taking
	suspect   bool
	began     time.Time
	attempt   int   // its number in the table
	mark      *mark // under which the run was started; nil: there is none
	over      bool  // the run has ended, or its process has
	ended     bool
	verdict   verdict
	finished  time.Time           // when the run ended
	completes bool                // the handler ends the job, or tries to …
	gives     queue_job.JobStatus // … with this status
	logged    bool                // if the outcome is written, the log must have a row about it
	completed time.Time           // when the handler's own transaction completed the job
	written   int                 // how many outcomes the table took
	wrote     queue_job.JobStatus
	told      []told
	cutOff    bool // a stop did not wait for it
	hooks     hooksTold
	asleep    *queue_job.Outcome // of a sleep that has ended it; nil: there was none
	staged    bool               // jobs follow it, if it succeeds
}

// told is one call of OnFinished about a run.
type told struct {
	queue_job.Finished
	at         time.Time
	lookAt     time.Time // when somebody last read how the row stands, before that
	unanswered bool      // the database stood still when the run had ended
}

// verdict is the outcome that the engine has to write about a run.
type verdict struct {
	status   queue_job.JobStatus
	retried  int32
	wait     time.Duration
	deferred int32
}

func newJudge(w *world) *judge {
	return &judge{world: w, takings: map[tenure][]taking{}, latest: map[string]int64{}, keptBack: map[string]time.Time{},
		takenAt: map[string]time.Time{},
		looked:  map[looker]time.Time{}, starts: map[int32][]time.Time{}, pausedTypes: map[int32]*pause{}, limits: map[int32]*limiting{},
		heard: map[looker]*hearing{}, handed: map[*queue_job.Job]*run{}, asked: map[leaseTerm]time.Time{}, drained: map[*instance]drained{},
		keyStarts: map[string][]time.Time{}, broken: map[leaseTerm]*breaking{}, brokenAt: map[int32]time.Time{}, toldLost: map[tenant]time.Time{},
		buried:    map[*instance][]time.Time{},
		termTaken: map[leaseTerm]time.Time{}, saw: map[string]int{}}
}

// accuse notes that something happened that must not happen. After a TRUNCATE the ids begin anew, and engines may take
// new rows for old rows that they have in memory. From then on, the world only has to go on.
func (j *judge) accuse(what string, args ...any) {
	if j.truncated {
		j.saw["broken by TRUNCATE"]++
		return
	}
	accusation := fmt.Sprintf(what, args...)
	j.world.trace.add(event{what: "BROKEN: " + accusation})
	j.accusations = append(j.accusations, accusation)
	if len(j.accusations) == 1 {
		j.brokenEvent = len(j.world.trace.events)
	}
}

func (h *history) name() string { return fmt.Sprintf("%s (row %d)", h.order.label, h.id) }

func (j *judge) now() float64 { return float64(j.world.clock().UnixMicro()) / 1e6 }

// innocent reports whether an instance has no excuse for a lost or repeated run.
func (j *judge) innocent(i *instance) bool {
	w := j.world.weather
	return !i.struck.Load() && !w.stepped && !w.edited
}

func (j *judge) inserted(o *order) *history {
	h := &history{order: o, inserted: time.Now()}
	j.histories = append(j.histories, h)
	return h
}

// changed is told of every row that a statement changed.
func (j *judge) changed(c change) {
	h := c.before.history
	if h == nil {
		return
	}
	j.saw[string(c.verb)]++
	j.noteEnd(h, c)
	if j.changedByOthers(h, c) {
		return
	}
	if h.order.ignored {
		j.accuse("%s of %s, which is nobody's", c.verb, h.name())
	}
	if !c.before.pending() {
		j.accuse("%s of %s, which was final", c.verb, h.name())
	}
	switch c.verb {
	case markJobs:
		j.marked(h, c)
	case unmarkJobs:
		j.expectOwnMark(h, c)
		if h.mark != nil && h.mark.run != nil {
			j.accuse("the mark of %s was taken back, and its run had started", h.name())
		}
		if h.mark != nil {
			h.mark.givenBack = c.after.Attempts < c.before.Attempts
		}
		h.mark = nil
	case finish, putBack:
		j.expectOwnMark(h, c)
		j.settled(h, c)
	case failLost:
		j.expectHit(h)
		if int(c.after.Lost) < j.configOf(h.order.row.JobType).LostLimit {
			j.accuse("%s has failed after %d losses", h.name(), c.after.Lost)
		}
		j.expectBrokenHadStarted(h)
		j.noteLoss(h, c)
		j.failed(h, c)
		h.mark, h.final, h.died = nil, true, &death{by: j.actor}
	}
}

// changedByOthers deals with a change that no holder makes, and reports whether it is one.
func (j *judge) changedByOthers(h *history, c change) bool {
	switch c.verb {
	case commit:
		h.committed, h.since, h.due, h.expires = true, time.Now(), c.after.Due, c.after.endsAt()
	case reschedule, mendAhead:
		h.due, h.sleeps = c.after.Due, 0
	case setPriority:
	case sendSignal:
		h.due = c.after.Due
	case cancelJob:
		j.cancelled(h)
	case retryJob:
		j.retriedByHand(h, c)
	case completeJob:
		j.completed(h, queue_job.JobStatus(c.after.Status))
	case byHand:
		h.byHand = true
		h.gone = c.after.history == nil
		h.final = !h.gone && !c.after.pending()
		if m := h.mark; m != nil && h.order.ofFlow { // somebody may retry it
			m.cancelled, m.taken = true, time.Now()
		}
	default:
		return false
	}
	return true
}

func (j *judge) marked(h *history, c change) {
	j.show(h, c.before.Row, j.actor, false)
	h.tooSoon = h.tooSoon || c.before.Due > j.now()+farAhead
	switch {
	case c.before.Term >= c.term:
		j.accuse("%s was marked under term %d after term %d", h.name(), c.term, c.before.Term)
	case c.term < h.latest && j.innocent(j.actor) && !j.underBroken(j.leaseOf(h, c.term), time.Now()):
		j.accuse("%s was marked under term %d after term %d, by an instance that was not struck", h.name(), c.term, h.latest)
	}
	if c.before.Term != 0 {
		j.saw["lost"]++
		j.expectHit(h)
		j.expectNotCutOff(h)
		j.expectLostHadStarted(h)
		j.expectBrokenHadStarted(h)
		if c.after.Lost != c.before.Lost+1 {
			j.accuse("the loss of %s was not counted", h.name())
		}
	} else if c.after.Lost != c.before.Lost {
		j.accuse("a loss of %s was counted, and there was none", h.name())
	}
	if j.takingOf(h, c.term).by != j.actor {
		j.accuse("%s was marked under term %d, which is not the instance's", h.name(), c.term)
	}
	j.expectFirst(h)
	h.latest = max(h.latest, c.term)
	j.expectRestOver(h, c)
	j.expectNothingSince(h)
	j.noteLoss(h, c)
	h.mark = &mark{term: c.term, attempt: int(c.after.Attempts), by: j.actor, at: time.Now(), late: j.late}
	h.marks = append(h.marks, h.mark)
}

// noteLoss notes that a later holder marks a row, and so takes it from the holder of the earlier mark.
func (j *judge) noteLoss(h *history, c change) {
	if h.mark == nil {
		return
	}
	h.mark.taken = time.Now()
	if c.before.Term != 0 {
		l := &loss{h.mark, j.actor, c.term, time.Now(), j.late}
		h.losses = append(h.losses, l)
		j.expectLossLogged(h, l)
	}
}

// lookedForFirst is told that an instance looks for the first jobs of a type's keys. The world stands still.
func (j *judge) lookedForFirst(i *instance, jobType int32, keys []string) {
	for _, key := range append(keys, "") {
		j.looked[looker{i, jobType, key}] = time.Now()
	}
}

// lookFor is when the instance that acts looked for the first job of a key. A look may be about other keys. But what was seen a second ago is no
// reason to mark a job.
func (j *judge) lookFor(o *order) time.Time {
	at := j.looked[looker{j.actor, o.row.JobType, ""}]
	if own := j.looked[looker{j.actor, o.row.JobType, o.row.Group()}]; time.Since(own) < time.Second {
		return own
	}
	return at
}

// expectFirst expects, if the type is in order, that a marked job is the first of its key that could be seen.
func (j *judge) expectFirst(h *history) {
	if !j.ordered(h) || j.late || j.world.weather.stepped || j.world.weather.edited { // two instances may hold the lease
		return
	}
	looked := j.lookFor(h.order)
	for _, other := range j.histories {
		if j.before(other, h) && !other.byHand && other.since.Before(looked) && !j.tooLate(other) && !j.upset(h.order.row.JobType) {
			j.accuse("%s was marked before %s of its key", h.name(), other.name())
		}
	}
	j.saw["in order"]++
	if h.looked.IsZero() {
		h.looked = looked
	}
}

// tooLate reports whether a job was committed after the look that let a later job of its key be marked.
func (j *judge) tooLate(h *history) bool {
	return slices.ContainsFunc(j.histories, func(later *history) bool {
		a, b := h.order.row, later.order.row
		return !later.looked.IsZero() && later.id > h.id && a.JobType == b.JobType && a.Group() == b.Group() && !h.since.Before(later.looked)
	})
}

func (j *judge) ordered(h *history) bool {
	o := h.order
	return !o.ignored && o.row.Group() != "" && j.configOf(o.row.JobType).OrderedByKey
}

// before reports whether one job is pending and holds the other job back, if their type is in order.
func (j *judge) before(one, other *history) bool {
	a, b := one.order, other.order
	return one.committed && one.id < other.id && !a.ignored && a.row.JobType == b.row.JobType && a.row.Group() == b.row.Group() && !one.final &&
		!one.gone && !j.tooOld(one)
}

// expectHit expects that the instance that marked the row was struck, because nothing else may lose a run.
func (j *judge) expectHit(h *history) {
	if h.mark == nil {
		j.accuse("%s was lost, and was not marked", h.name())
	} else if j.innocent(h.mark.by) && !j.excuses(h, h.mark) {
		j.accuse("%s was lost by instance %d, which was not struck", h.name(), h.mark.by.number)
	}
}

func (j *judge) expectOwnMark(h *history, c change) {
	if h.mark == nil || h.mark.term != c.term || h.mark.by != j.actor {
		j.accuse("%s of %s under term %d, whose mark does not stand on it", c.verb, h.name(), c.term)
		return
	}
	if aimed := j.aim[h.id]; aimed != nil && aimed != h.mark {
		j.accuse("%s of %s, sent for its attempt %d, met attempt %d under the same term", c.verb, h.name(), aimed.attempt, h.mark.attempt)
	}
}

// verdict is what a change says of a run.
func (c *change) verdict() verdict {
	return verdict{queue_job.JobStatus(c.after.Status), c.retried, time.Duration(math.Round(c.wait * float64(time.Second))), c.deferred}
}

// settled expects that the outcome that is written is the run's verdict.
func (j *judge) settled(h *history, c change) {
	if m := h.mark; m != nil {
		wrote := c.verdict()
		if m.run != nil && h.expires > 0 && wrote.wait < m.run.verdict.wait && c.after.Due*1000 > float64(h.expires-1) {
			wrote.wait = m.run.verdict.wait // it falls due at its end
		}
		switch {
		case j.hasExpired(h, c), j.cutsOff(h, c), j.late:
		case m.run == nil || !m.run.ended:
			j.accuse("%s of %s, whose run has not ended", c.verb, h.name())
		case m.run.verdict != wrote && !m.run.inDoubt(wrote):
			j.accuse("%s was settled as %v; its run came to %v", h.name(), wrote, m.run.verdict)
		}
	}
	if m := h.mark; m != nil && m.run != nil {
		m.run.written++
		m.run.wrote = queue_job.JobStatus(c.after.Status)
		j.fallsAsleep(h)
	}
	j.failed(h, c)
	h.mark = nil
	if c.verb == finish {
		h.final = true
		return
	}
	h.putBacks++
	h.retried += c.retried
	h.deferred += c.deferred
	h.due = c.after.Due
}

// remains reports whether a run's holder has given its lease away and keeps the run's term.
func (j *judge) remains(r *run) bool {
	l, ok := j.world.table.Lease(share.Remains(r.lease.lease, r.term))
	return ok && l.Until > j.world.clock().Unix()
}

// took is told of leases that were taken. The holder before must have noticed by then.
func (j *judge) took(i *instance, terms map[string]int64, layout share.Layout) {
	w := j.world.weather
	for name, term := range terms {
		jobType, ok := typeOf(name)
		if !ok {
			continue // its term says nothing
		}
		for _, r := range j.active {
			if r.lease.lease == name && r.by != i && j.outlivesAKey(r) {
				j.saw["key whose handler outlives its row, as the lease moves"]++
			}
			same := r.lease.lease == name && r.lease.layout == layout && r.term != term
			if r.jobType == jobType && (same || r.lease.layout != layout) && r.ctx.Err() == nil && !w.stepped && !w.edited && !j.remains(r) &&
				!j.stillUnaware(r) {
				j.accuse("instance %d takes %s, and a run of %s by instance %d trusts in the lease before", i.number, name, r.history.name(), r.by.number)
			}
		}
		j.expectOneLayout(i, jobType, layout)
		j.expectMove(i, name)
		j.expectHandOver(i, name, layout)
		j.expectNotDrained(i, name)
		if term <= j.latest[name] && !j.world.weather.edited {
			j.accuse("lease %s: term %d after term %d", name, term, j.latest[name])
		}
		if term > j.latest[name] {
			j.latest[name], j.takenAt[name], j.termTaken[leaseTerm{name, term}] = term, time.Now(), time.Now()
		}
		key := tenure{jobType, term}
		for _, other := range j.takings[key] {
			if other.lease != name && !w.edited && !w.stepped {
				j.accuse("%s and %s both had the term %d", other.lease, name, term)
			}
		}
		j.takings[key] = append(j.takings[key], taking{name, layout, i})
	}
}

// typeOf returns the job type that a lease is of.
func typeOf(lease string) (jobType int32, ok bool) {
	_, err := fmt.Sscanf(lease, "job-%d", &jobType)
	return jobType, err == nil
}

// expectOneLayout expects that all leases of a type that are held are of one layout: otherwise two of them could be about the same
// row.
func (j *judge) expectOneLayout(i *instance, jobType int32, layout share.Layout) {
	if j.world.weather.edited || j.world.weather.stepped {
		return
	}
	if layout.Shards() > 1 {
		j.saw["taking of a shard"]++
	}
	for name, l := range j.world.table.LeasesOf(jobType) {
		if l.Layout > 0 && share.Layout(l.Layout) != layout && l.Until > j.world.clock().Unix() {
			j.accuse("instance %d takes a lease of type %d in layout %d, and %s is held in layout %d", i.number, jobType, layout, name, l.Layout)
		}
	}
}

// expectMove expects that leases of job types change hands only soon after instances have come or gone. A lease
// whose taking had an unknown outcome, or that could not be given back, may have to expire first. In a world with dormant types, it expects
// nothing: whenever a type is laid down or wakes, the others are shared out anew.
func (j *judge) expectMove(i *instance, name string) {
	w := j.world
	within := 5 * time.Second
	for _, cfg := range w.plan.configs {
		if jobType, _ := typeOf(name); cfg.JobType == jobType {
			within += time.Duration(cfg.LockSecond+cfg.MinLockSecond) * time.Second
		}
	}
	goes := func(i *instance) bool { return i.ending.Load() && !i.stopped }
	if w.anyDormant() || !w.weather.gentle || !w.calm() || w.over || slices.ContainsFunc(w.instances, goes) {
		return
	}
	j.saw["move"]++
	if since := time.Since(later(j.cameOrWent, j.keptBack[name])); since > within {
		j.accuse("instance %d takes %s, and for %v no instance has come or gone", i.number, name, since)
	}
}

// handOverLasts is for how long somebody asks for a hand-over.
const handOverLasts = 5 * time.Second

// handOver is told that somebody asks for a lease to be handed over. The world stands still.
func (j *judge) handOver(name string, term int64) {
	j.hasMoved()
	j.asked[leaseTerm{name, term}] = time.Now()
}

// expectHandOver expects, if an instance takes a lease that was to be handed over, that it is not the instance that had it, unless
// there is nobody else, or statements have failed: a lease that is not freed ends by itself, perhaps after the wish. A wish ends with a whole
// second, so it is heeded for four seconds at least.
func (j *judge) expectHandOver(i *instance, name string, layout share.Layout) {
	before := leaseTerm{name, j.latest[name]}
	at, asked := j.asked[before]
	was := j.takingUnder(before)
	holder := was.by
	if !asked || holder == nil || was.layout != layout {
		return
	}
	delete(j.asked, before)
	w := j.world
	others := slices.ContainsFunc(w.instances, func(other *instance) bool {
		return other != holder && other.up && !other.ending.Load() && !other.struck.Load() && other.since.Before(at) && j.drained[other].until.Before(at)
	})
	switch {
	case holder != i:
		j.saw["hand-over"]++
	case others && time.Since(at) < handOverLasts-time.Second && w.weather.gentle && w.weather.refused+w.weather.broken == 0 && !holder.ending.Load():
		j.accuse("instance %d takes %s, which it was asked to hand over, and there are others", i.number, name)
	}
}

// drained is a time for which somebody drains an instance.
type drained struct{ from, until time.Time }

// drains is told that somebody drains an instance. The world stands still.
func (j *judge) drains(i *instance, for_ time.Duration) {
	j.hasMoved()
	j.drained[i] = drained{time.Now(), time.Now().Add(for_)}
}

// isDrained reports whether an instance has been drained for this long, and will be for a second.
func (j *judge) isDrained(i *instance, for_ time.Duration) bool {
	d := j.drained[i]
	return !d.from.IsZero() && time.Since(d.from) >= for_ && time.Until(d.until) > time.Second // a lease ends with a whole second
}

// expectNotDrained expects that an instance that is drained takes nothing, unless there is nobody else, or statements have failed.
func (j *judge) expectNotDrained(i *instance, name string) {
	const within = time.Second // it looks every half a second
	if was := j.takingUnder(leaseTerm{name, j.latest[name]}).by; was != nil && was != i && j.isDrained(was, 0) {
		j.saw["taking from a drained instance"]++
	}
	w := j.world
	others := slices.ContainsFunc(w.instances, func(other *instance) bool {
		return other != i && other.up && !other.ending.Load() && !other.struck.Load() && time.Since(other.since) > within &&
			j.drained[other].until.Before(time.Now())
	})
	if others && j.isDrained(i, within) && w.weather.gentle && w.weather.refused+w.weather.broken == 0 {
		j.accuse("instance %d takes %s, and it has been drained for %v", i.number, name, time.Since(j.drained[i].from))
	}
}

// started is told of every run, before the run does anything.
func (j *judge) started(ctx context.Context, i *instance, cfg *queue_job.Config, job *queue_job.Job) *run {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	n := slices.IndexFunc(j.histories, func(h *history) bool { return h.order.label == labelOf(job.JobParams) })
	if n < 0 {
		j.accuse("a run of %q, which nobody inserted", job.JobParams)
		panic("no such job")
	}
	h := j.histories[n]
	r := &run{history: h, ctx: ctx, nth: len(h.runs) + 1, by: i, jobType: cfg.JobType, term: job.Term, attempt: job.Attempt + int(h.deferred),
		suspect: cfg.LostLimit > 1 && job.Lost >= min(2, cfg.LostLimit-1), began: time.Now(), lease: j.takingOf(h, job.Term)}
	r.mark = h.markOf(r)
	j.handed[job] = r
	w.trace.add(event{who: i.number, what: "run", about: about{ids: []uint64{job.Id}, term: job.Term,
		note: fmt.Sprintf("%s attempt %d", job.JobParams, job.Attempt)}})
	j.expectRow(r, job)
	j.expectParams(h, job)
	j.showStart(h, i, job)
	j.expectNumber(r)
	j.expectNotCancelled(r)
	j.expectNotPaused(r)
	j.expectTime(r)
	j.expectInTime(r)
	j.expectRested(r)
	j.expectNotToldLost(r)
	j.expectAlive(r)
	j.expectNoDuplicate(r)
	j.expectRoom(r, cfg)
	j.expectAlone(r)
	j.expectPlace(r, cfg)
	j.expectRate(r, cfg)
	j.expectKeyRate(r, cfg)
	j.expectNoted(r)
	j.expectNoneBehind(r)
	j.expectFair(r)
	if w.weather.gentle && !h.byHand && !j.everBroken(h) && r.mark != nil &&
		(r.attempt != r.nth+h.unstarted(r.mark) || int32(job.Retries) != h.retried && !r.mark.cancelled || job.Lost != 0) {
		j.accuse("%s: attempt %d, retries %d, lost %d; it is its run %d, %d were retries, and %d deferred", h.name(), job.Attempt, job.Retries, job.Lost,
			r.nth, h.retried, h.deferred)
	}
	if r.mark != nil {
		r.mark.run = r
	}
	h.runs = append(h.runs, r)
	j.active = append(j.active, r)
	return r
}

// expectRow expects that the run's row is there and is the instance's, and that nobody has taken the lease since.
func (j *judge) expectRow(r *run, job *queue_job.Job) {
	h, w := r.history, j.world
	switch {
	case !h.committed:
		j.accuse("a run of %s, which is not committed", h.name())
	case h.order.ignored || job.JobType != h.order.row.JobType || r.jobType != job.JobType:
		j.accuse("a run of %s as type %d", h.name(), r.jobType)
	case job.Id != h.id:
		j.accuse("a run of %s as row %d", h.name(), job.Id)
	case h.byHand: // perhaps between the mark and the start
	case w.weather.stepped || w.weather.edited: // two instances may hold the lease
	case r.mark != nil && r.mark.cancelled: // expectNotCancelled
	case j.stillUnaware(r):
	case h.final:
		j.accuse("a run of %s, which is final", h.name())
	case h.mark == nil || h.mark.term != job.Term || h.mark.by != r.by:
		j.accuse("a run of %s under term %d, whose mark does not stand on it", h.name(), job.Term)
	}
	name, lock := r.lease.lease, time.Duration(j.configOf(r.jobType).LockSecond)*time.Second
	if lease, _ := w.table.Lease(name); (lease.Term > job.Term || lease.Layout > int64(r.lease.layout)) && !j.remains(r) && !j.stillUnaware(r) &&
		(!w.weather.stepped && !w.weather.edited || time.Since(j.takenAt[name]) > lock) {
		j.accuse("a run of %s under term %d, and the lease bears term %d", h.name(), job.Term, lease.Term)
	}
	if r.lease.by != r.by {
		j.accuse("a run of %s under term %d, which is not the instance's", h.name(), job.Term)
	}
	if r.by.stopped {
		j.accuse("a run of %s after Stop", h.name())
	}
}

// expectTime expects that no run starts before its job is due, although the engine only estimates the database's clock.
func (j *judge) expectTime(r *run) {
	h, w := r.history, j.world.weather
	const slack = 0.002 // rounding
	if early := h.due - j.now(); early > slack && !h.byHand && !w.stepped && !w.edited && (r.mark == nil || !r.mark.cancelled) &&
		!j.excuses(h, r.mark) { // expectNotCancelled
		j.accuse("a run of %s %.3f s before it is due", h.name(), early)
	}
	if j.tooOld(h) && h.putBacks == 0 && h.since.Before(r.by.born) {
		j.accuse("a run of %s, which had been due for %d days when instance %d started", h.name(), h.order.old, r.by.number)
	}
}

// tooOld reports whether FirstPullDay excludes a job, if the job is there when an instance starts.
func (j *judge) tooOld(h *history) bool {
	days := j.configOf(h.order.row.JobType).FirstPullDay
	return days > 0 && h.order.old > days && h.order.due <= 0 && h.putBacks == 0 // a job that was put back is due anew
}

func (j *judge) configOf(jobType int32) *queue_job.Config {
	return &j.world.plan.configs[jobType-1]
}

// expectNoDuplicate expects that the verdict on the run before asks for another run, unless its instance was struck.
func (j *judge) expectNoDuplicate(r *run) {
	h := r.history
	if len(h.runs) == 0 {
		return
	}
	last := h.runs[len(h.runs)-1]
	if last.mark != nil && last.mark.cancelled || r.mark != nil && r.mark.cancelled || last.ended && h.revivedAt.After(last.finished) ||
		!last.completed.IsZero() && h.revivedAt.After(last.completed) {
		return
	}
	again := last.ended && (last.verdict.status == queue_job.JobStatusContinue || last.verdict.status == queue_job.JobStatusRetry)
	if again {
		return
	}
	j.saw["repeated run"]++
	if !last.over {
		j.saw["run beside another of the same job"]++
	}
	if j.innocent(last.by) && !j.excuses(h, last.mark) && !j.excuses(h, r.mark) {
		j.accuse("%s runs again under term %d; its run under term %d came to %v, and instance %d was not struck", h.name(), r.term, last.term,
			last.verdict.status, last.by.number)
	}
}

// expectAlone expects that no other handler has the job, also if somebody has cancelled and retried it, wherever its lease has gone since. A
// handler that goes on for long after that is not waited for.
func (j *judge) expectAlone(r *run) {
	const deaf = 9 * time.Second // or a second more
	h := r.history
	for _, other := range j.active {
		if other.history != h || !j.innocent(other.by) || !j.innocent(r.by) || j.excuses(h, other.mark) || j.excuses(h, r.mark) {
			continue
		}
		if m := other.mark; m == nil || !m.cancelled || time.Since(m.taken) < deaf {
			j.accuse("%s runs under term %d beside itself: its run under term %d, by instance %d, goes on", h.name(), r.term, other.term, other.by.number)
		}
	}
}

// expectRoom expects no more runs at a time than the configuration allows, and none beside a suspect.
func (j *judge) expectRoom(r *run, cfg *queue_job.Config) {
	const patience = 10 * time.Second // a suspect waits no longer than this for other runs, and they for it
	beside, here, calls := 0, 0, map[context.Context]bool{r.ctx: true}
	for _, other := range j.active {
		call := 1 // all runs of a call of a batch handler take one worker
		if calls[other.ctx] {
			call = 0
		}
		calls[other.ctx] = true
		if other.by != r.by {
			if other.jobType == r.jobType && j.innocent(r.by) && j.innocent(other.by) && !j.upset(r.jobType) &&
				j.broken[leaseTerm{other.lease.lease, other.term}] == nil { // it has given the lease away
				j.saw["run beside a run elsewhere"]++
				beside += call
			}
			continue
		}
		here += call
		recent := time.Since(other.began) < patience
		if r.suspect && other.suspect && recent {
			j.accuse("the suspects %s and %s run at a time", r.history.name(), other.history.name())
		}
		if other.jobType != r.jobType {
			continue
		}
		beside += call
		if call == 0 {
			j.saw["run beside another of its call"]++
		}
		if (r.suspect || other.suspect) && recent && r.term == other.term && r.lease == other.lease { // runs under an earlier lease are not waited for
			j.accuse("%s runs beside %s, and one of them is a suspect", r.history.name(), other.history.name())
		}
	}
	if r.suspect {
		j.saw["suspect"]++
	}
	if most := j.world.plan.maxWorkers; most > 0 {
		if here+1 == most {
			j.saw["as many runs as a process may have"]++
		}
		if here >= most {
			j.accuse("%d runs of an instance beside %s; a process may have %d", here, r.history.name(), most)
		}
	}
	if beside >= cfg.WorkerPoolCapacity && !j.upset(r.jobType) {
		j.accuse("%d runs of type %d beside %s; the capacity is %d", beside, cfg.JobType, r.history.name(), cfg.WorkerPoolCapacity)
	}
	j.expectWithin(r, cfg, beside)
}

// limitsHeeded is how long it takes at most until all instances keep to limits that somebody has set, if they can see them.
const limitsHeeded = time.Second

// limiting is what somebody has limited a type to.
type limiting struct {
	store.Limits
	since time.Time
}

// limitedSince is what the type of a run has been limited to for a while; nil: nothing, or the run's instance may not know of it.
func (j *judge) limitedSince(r *run, while time.Duration) *limiting {
	w, l := &j.world.weather, j.limits[r.jobType]
	if l == nil || time.Since(l.since) < while || !w.gentle || w.refused+w.broken > 0 || w.slowTables() || r.by.ending.Load() ||
		j.world.table.layouts[r.jobType] > 0 {
		return nil
	}
	return l
}

// expectWithin expects that no run begins beyond what somebody has limited its type to.
func (j *judge) expectWithin(r *run, cfg *queue_job.Config, beside int) {
	l := j.limitedSince(r, limitsHeeded)
	if l == nil || l.Workers == 0 || j.upset(r.jobType) {
		return
	}
	j.saw["run of a limited type"]++
	if beside >= l.Workers {
		j.accuse("%d runs of type %d beside %s; it was limited to %d %v ago", beside, cfg.JobType, r.history.name(), l.Workers, time.Since(l.since))
	}
}

// expectPlace expects no more runs of a key at a time than are allowed. A struck instance does not know others' runs.
func (j *judge) expectPlace(r *run, cfg *queue_job.Config) {
	most := cfg.MaxPerKey
	if cfg.OrderedByKey {
		most = 1
	}
	key := r.history.order.row.Group()
	if most == 0 || key == "" || j.upset(r.jobType) {
		return
	}
	beside := 0
	for _, other := range j.active {
		if other.jobType == r.jobType && other.history.order.row.Group() == key && (other.by == r.by || j.world.weather.gentle) {
			beside++
		}
	}
	j.saw["run of a key"]++
	if beside >= most {
		j.accuse("%d runs of key %s beside %s; it has %d places", beside, key, r.history.name(), most)
	}
}

// expectRate expects no more starts in a second than are allowed.
func (j *judge) expectRate(r *run, cfg *queue_job.Config) {
	allowed := *cfg
	if l := j.limitedSince(r, limitsHeeded+time.Second); l != nil && l.Rate > 0 {
		allowed = queue_job.Limits{RatePerSecond: l.Rate}.Apply(allowed)
		j.saw["run at a limited rate"]++
	}
	if allowed.RatePerSecond == 0 || j.upset(r.jobType) || j.world.weather.edited || j.world.weather.stepped {
		return
	}
	starts := append(slices.DeleteFunc(j.starts[r.jobType], func(at time.Time) bool { return r.began.Sub(at) >= time.Second }), r.began)
	j.starts[r.jobType] = starts
	j.saw["run at a rate"]++
	if most := int(allowed.RatePerSecond) + allowed.RateBurst; len(starts) > most {
		j.accuse("%d runs of type %d began within a second; the rate allows %d", len(starts), r.jobType, most)
	}
}

// ended is told how a run ended.
func (j *judge) ended(r *run, cfg *queue_job.Config, job *queue_job.Job, b *behaviour, interrupted bool) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	r.ended, r.finished = true, time.Now()
	r.verdict = verdictOn(cfg, job.Retries, b, interrupted)
	r.logged = b.ends == endsInError || b.ends == endsInPanic || b.ends == endsInGoexit || b.ends == endsRetried || b.ends == endsFailed
	if b.sleeps() { // the log says so if the handler has kept it to itself
		r.logged = b.ends != endsAsleep
	}
	j.leave(r)
	w.trace.add(event{who: r.by.number, what: "ran", about: about{ids: []uint64{job.Id}, term: job.Term,
		note: fmt.Sprintf("%s: %v", job.JobParams, r.verdict.status)}})
}

func (j *judge) leave(r *run) {
	r.over = true
	j.active = slices.DeleteFunc(j.active, func(other *run) bool { return other == r })
}

// verdictOn implements the contract of queue_job.Job a second time, in other words.
func verdictOn(cfg *queue_job.Config, retries int, b *behaviour, interrupted bool) verdict {
	if b.sleeps() {
		return verdict{status: queue_job.JobStatusContinue, wait: b.asleep.Wait}
	}
	switch e := b.ends; e {
	case endsSnoozed:
		return verdict{status: queue_job.JobStatusContinue, wait: b.snoozes}
	case endsDeferred:
		return verdict{status: queue_job.JobStatusContinue, wait: b.snoozes, deferred: 1}
	case endsWell:
		return verdict{status: queue_job.JobStatusSuccess}
	case endsFailed, endsCancelled:
		return verdict{status: e.status()}
	case endsContinued:
		return verdict{status: queue_job.JobStatusContinue, wait: cfg.WaitTime}
	case endsInError, endsInPanic, endsInGoexit:
		if interrupted {
			return verdict{status: queue_job.JobStatusRetry}
		}
	}
	if cfg.NeedRetry && retries < cfg.MaxRetries {
		return verdict{status: queue_job.JobStatusRetry, retried: 1, wait: cfg.WaitTime}
	}
	return verdict{status: queue_job.JobStatusFailed}
}

// The lives of instances.

func (j *judge) isUp(i *instance) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	i.up, i.since = true, time.Now()
	j.cameOrWent = i.since
	j.world.trace.add(event{who: i.number, what: "is up"})
	j.expectSuccession(i)
}

// killed, expectTakeover and disturb are called while the world stands still.
func (j *judge) killed(i *instance) {
	for _, r := range slices.Clone(j.active) {
		if r.by == i {
			j.leave(r)
		}
	}
	i.up, i.ended, i.gone = false, time.Now(), time.Now()
	j.cameOrWent = i.ended
	j.saw["kill"]++
}

// hasStopped is told what Stop returned. After a good Stop, nothing of the instance is left, here or in the tables.
func (j *judge) hasStopped(i *instance, err error) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	i.up = false
	if i.link.dead() {
		return
	}
	i.gone = time.Now()
	w.trace.add(event{who: i.number, what: "has stopped", about: about{note: fmt.Sprint(err)}})
	j.cameOrWent = time.Now()
	if err != nil {
		j.saw["bad stop"]++
		i.ended = time.Now()
		if !i.struck.Load() {
			j.accuse("instance %d, which was not struck: %v", i.number, err)
		}
		return
	}
	j.saw["good stop"]++
	i.stopped = true
	for _, r := range j.active {
		if r.by == i {
			j.accuse("%s runs after Stop", r.history.name())
		}
	}
	if !j.innocent(i) {
		return
	}
	for _, h := range j.histories {
		if h.mark != nil && h.mark.by == i && !h.final && !h.gone && !j.excuses(h, h.mark) {
			j.accuse("%s bears the mark of instance %d, which has stopped in good order", h.name(), i.number)
		}
	}
	for _, cfg := range w.plan.configs {
		for name, l := range j.heldBy(i, cfg.JobType) {
			if cfg.MinLockSecond == 0 && !i.unreleased && j.broken[leaseTerm{name, l.Term}] == nil {
				j.accuse("instance %d has stopped in good order, and still holds the lease %s", i.number, name)
			}
		}
	}
}

// heldBy returns the leases of a type that an instance holds.
func (j *judge) heldBy(i *instance, jobType int32) map[string]Lease {
	held := j.world.table.LeasesOf(jobType)
	maps.DeleteFunc(held, func(name string, l Lease) bool {
		is := slices.ContainsFunc(j.takings[tenure{jobType, l.Term}], func(t taking) bool { return t.lease == name && t.by == i })
		return !is || l.Layout < 0 || l.Until <= j.world.clock().Unix()
	})
	return held
}

// disturb notes that some instance is struck for this time.
func (j *judge) disturb(for_ time.Duration) {
	j.disturbance++
	if until := time.Now().Add(for_); until.After(j.disturbed) {
		j.disturbed = until
	}
}

// expectTakeover expects that another instance has the leases of a killed one within LockSecond + 1 s, and sooner if both say that they live, if
// there is another and nothing else is wrong.
func (j *judge) expectTakeover(dying *instance) {
	w := j.world
	bad := w.weather
	if bad.refused+bad.broken+bad.slow > 0 || bad.edited || bad.stepped || time.Now().Before(j.disturbed) || !dying.up {
		return
	}
	index := slices.IndexFunc(w.instances, func(i *instance) bool { return i != dying && i.up && !i.ending.Load() })
	if index < 0 {
		return
	}
	heir, disturbance := w.instances[index], j.disturbance+1 // the kill itself
	heard := dying.speaks() && heir.speaks() && time.Since(heir.since) > time.Second
	for _, cfg := range w.plan.configs {
		within := time.Duration(cfg.LockSecond)*time.Second + time.Second + 10*w.weather.latency
		if heard && cfg.MinLockSecond == 0 {
			within = min(within, j.takeoverOf(dying)+10*w.weather.latency)
		}
		for name, l := range j.heldBy(dying, cfg.JobType) {
			time.AfterFunc(within, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				if j.disturbance != disturbance || heir.ending.Load() {
					return
				}
				j.saw["takeover in time"]++
				if heard {
					j.saw["takeover long before the leases have ended"]++
				}
				if now, _ := w.table.Lease(name); now.Term == l.Term && now.Layout == l.Layout {
					j.accuse("lease %s of instance %d, which was killed, is not taken over %v later", name, dying.number, within)
				}
			})
		}
	}
}

// expectFlow expects, when calm comes, that waiting work begins within LockSecond + 1 s. In a rough world, a loop that
// has met slow statements may rest for five seconds more.
func (j *judge) expectFlow() {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	calm, disturbance := time.Now(), j.disturbance
	for _, cfg := range w.plan.configs {
		busy := slices.ContainsFunc(j.active, func(r *run) bool {
			return r.jobType == cfg.JobType || w.plan.maxWorkers > 0 && r.history.order.lengthy
		})
		waits := slices.IndexFunc(j.histories, func(h *history) bool {
			inFlight := h.mark != nil && h.mark.by.up // its outcome may wait for a lock
			return h.order.row.JobType == cfg.JobType && j.required(h) && !inFlight && !h.final && h.due <= j.now() &&
				!(j.ordered(h) && slices.ContainsFunc(j.histories, func(other *history) bool { return j.before(other, h) }))
		})
		if busy || waits < 0 || w.weather.edited || w.weather.stepped {
			continue
		}
		h := j.histories[waits]
		within := time.Duration(cfg.LockSecond+cfg.MinLockSecond)*time.Second + time.Second + 100*time.Millisecond
		if !w.weather.gentle || w.weather.slowTables() {
			within += 5 * time.Second
		}
		if within += cfg.BatchWait + untilToken(&cfg); cfg.BatchSize > 0 && cfg.RatePerSecond > 0 { // a call waits until all of its jobs may start
			within += time.Duration(float64(cfg.BatchSize) / cfg.RatePerSecond * float64(time.Second))
		}
		if w.plan.maxWorkers > 0 { // the other types have their turns first
			longest := longestUsualRun
			if w.weather.hasty {
				longest += 2 * w.longestLock()
			}
			within += time.Duration(len(w.plan.configs)) * longest
		}
		if cfg.DormantAfter > 0 {
			within += wakesWithin
		}
		if last := h.lastMark(); h.order.row.HasLong() && w.weather.refused > 0 && last != nil && last.givenBack { // its parameters were not read
			within += unreadLongest
		}
		if cfg.QueueMaxSize < 16 { // rows that fall due within three seconds may take all the room
			within += 3 * time.Second
		}
		time.AfterFunc(within, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if j.disturbance != disturbance { // a job has killed its process
				return
			}
			if w.plan.maxWorkers > 0 && slices.ContainsFunc(j.active, func(r *run) bool { return r.history.order.lengthy }) { // it began when calm had come
				return
			}
			j.saw["flow again in time"]++
			began := slices.ContainsFunc(j.histories, func(h *history) bool {
				return h.order.row.JobType == cfg.JobType && slices.ContainsFunc(h.runs, func(r *run) bool { return r.began.After(calm) })
			})
			if !began && !h.final && !h.gone {
				j.accuse("%s waits, and no job of its type has started in %v of calm", h.name(), within)
			}
		})
	}
}

// unreadLongest is how long a job waits at most whose long parameters could not be read some times.
const unreadLongest = 20 * time.Second

// standstill is longer than anything for which work may wait when calm has come, and shorter than the ten minutes after which a
// loader goes over all rows once more.
const standstill = 2 * time.Minute

// expectNoStandstill accuses the engine if a job is due and no job at all is done for two minutes.
func (j *judge) expectNoStandstill() {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	last := later(w.calmAt(), j.lastBeganOrEnded())
	if len(j.active) > 0 || time.Since(last) < standstill || w.weather.edited || w.weather.stepped {
		return
	}
	for _, h := range j.histories {
		if j.required(h) && !h.final && !h.byHand && h.due <= j.now()-standstill.Seconds() {
			j.accuse("%s is due, and nothing has been done for %v", h.name(), time.Since(last).Round(time.Second))
			return
		}
	}
}

// required reports whether a job has to be done.
func (j *judge) required(h *history) bool {
	o := h.order
	// If such a mark is taken back, the row does not say any more that it was written while the clock was ahead.
	if !h.committed || h.gone || o.ignored || h.tooSoon && h.due > j.now() || j.unheeded(h) {
		return false
	}
	runs := slices.ContainsFunc(j.active, func(r *run) bool { return r.history == h }) // it may ask for another run
	unwritten := h.mark != nil && h.mark.by.up                                         // as the one that was just over
	if !j.tooOld(h) || runs || unwritten {
		return true
	}
	// An instance that was up before the job came has to run it. Only a job with a start time may be left to the loader by
	// the tail, and then excluded by the loader.
	return o.due == 0 && !slices.ContainsFunc(j.world.instances, func(i *instance) bool { return i.since.IsZero() || i.since.After(h.inserted) })
}

// lastBeganOrEnded is when a run began or ended last. The world stands still.
func (j *judge) lastBeganOrEnded() (last time.Time) {
	for _, h := range j.histories {
		for _, r := range h.runs {
			last = later(last, later(r.began, r.finished))
		}
	}
	return last
}

// lastRun is the same while the world goes on.
func (j *judge) lastRun() time.Time {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	return j.lastBeganOrEnded()
}

// farAhead is longer, in seconds, than a job waits if the clock is right.
const farAhead = 60

// unheeded reports whether a job was put off while the clock was far ahead, and all that were up when the clock was set back have gone before they
// could notice that and look for such jobs: two looks at the leases and the first look for jobs take less than five seconds.
func (j *judge) unheeded(h *history) bool {
	const heeds = 5 * time.Second
	if len(h.runs) == 0 || len(j.setBacks) == 0 || h.due <= j.now()+farAhead {
		return false
	}
	began, after := h.runs[len(h.runs)-1].began, 0
	for _, at := range j.setBacks {
		if at.Before(began) {
			continue
		}
		after++
		if slices.ContainsFunc(j.world.instances, func(i *instance) bool {
			return !i.since.IsZero() && i.since.Before(at) && (i.gone.IsZero() || i.gone.Sub(at) > heeds)
		}) {
			return false
		}
	}
	j.saw["set back before one who died"] += after
	return after > 0
}

// unfinished counts the jobs that have to be done and are not done yet.
func (j *judge) unfinished() (n int) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	for _, h := range j.histories {
		if j.required(h) && !h.final {
			n++
		}
	}
	return n + j.flowsThatMove()
}

// conclude looks at the tables when all instances have stopped.
func (j *judge) conclude() {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := map[*history]Job{}
	for _, row := range w.table.Jobs() {
		rows[row.history] = row
	}
	for _, h := range j.histories {
		row, there := rows[h]
		switch {
		case there != (h.committed && !h.gone):
			j.accuse("%s: there %v, committed %v, deleted %v", h.name(), there, h.committed, h.gone)
		case !there:
			continue
		case j.required(h) && row.pending():
			j.accuse("%s was never done: %v; it ran %d times", h.name(), row.Row, len(h.runs))
		}
		if w.weather.gentle && !h.byHand && !j.everBroken(h) &&
			(int(row.Attempts) != len(h.runs)+h.unstarted(nil) || row.Retries != h.retried || row.Lost != 0) {
			j.accuse("%s: attempts %d, retries %d, lost %d; it ran %d times, and %d were retries", h.name(), row.Attempts, row.Retries, row.Lost,
				len(h.runs), h.retried)
		}
		if !h.byHand {
			j.expectNumbered(h, row)
			j.expectParts(h, row)
			j.expectFollowers(h)
			j.expectLog(h)
			j.expectReason(h)
		}
	}
	j.expectFlows()
	j.expectTold()
	j.expectSettledTold()
	j.saw["jobs"] += len(j.histories)
}
