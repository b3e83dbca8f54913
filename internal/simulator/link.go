package simulator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// verb names a statement, in the trace and in the dice.
type verb string

const (
	newest          verb = "newest"
	tailJobs        verb = "tail"
	sweepJobs       verb = "sweep"
	pageJobs        verb = "page"
	clampPriorities verb = "clamp"
	firstOfKeys     verb = "first of keys"
	runningOfKeys   verb = "running of keys"
	countOld        verb = "abandoned"
	markJobs        verb = "mark"
	readMarked      verb = "read back"
	seeUnlocked     verb = "see unlocked"
	readLong        verb = "read long parameters"
	unmarkJobs      verb = "unmark"
	finish          verb = "finish"
	putBack         verb = "put back"
	failLost        verb = "fail lost"
	logAttempts     verb = "log attempts"
	readStandings   verb = "standings"
	readPaused      verb = "paused"
	endPauses       verb = "end pauses"
	seeLeases       verb = "see leases"
	makeLeases      verb = "make leases"
	takeLeases      verb = "take leases"
	keepLeases      verb = "keep leases"
	releaseLease    verb = "release lease"
	abandonLeases   verb = "abandon leases"
	lookAtFleet     verb = "look at the fleet"
	moveLease       verb = "move lease"
	noteRunning     verb = "note what runs"
	dropLease       verb = "drop lease"
	writeRestRuns   verb = "tell keys of a rest"
	dropRestRuns    verb = "drop keys of a rest"
	readRestRuns    verb = "keys of rests"
	seeEnded        verb = "see ended leases"
	dropEnded       verb = "drop ended leases"
	setLayout       verb = "set layout"
	makeClosed      verb = "make closed leases"
	closeLeases     verb = "close leases"
	closeLease      verb = "close lease"
	openLeases      verb = "open leases"
	layDown         verb = "lay a type down"
	wakeTypes       verb = "wake types"
	rise            verb = "rise"
	beat            verb = "beat"
	riseBeside      verb = "rise, through the connection of leases"
	beatBeside      verb = "beat, through the connection of leases"
	bury            verb = "bury"
	buryDead        verb = "bury the dead"
	copyLeases      verb = "copy leases"
	freeLeases      verb = "free leases"
	lookForWork     verb = "look for work"
	commit          verb = "commit"
	byHand          verb = "by hand"
	reschedule      verb = "reschedule"
	findAhead       verb = "find jobs put off ahead of the clock"
	mendAhead       verb = "mend jobs put off ahead of the clock"
	cancelJob       verb = "cancel"
	retryJob        verb = "retry"
	setPriority     verb = "set priority"
	completeJob     verb = "complete"
	commitJob       verb = "commit complete"
	recordStep      verb = "record a step"
	recordInTx      verb = "record a step in a transaction"
	commitStep      verb = "commit a step"
	endWait         verb = "end a wait"
	sendSignal      verb = "send a signal"
	readSteps       verb = "read steps"
	seeStanding     verb = "standing of a step"
	forgetStray     verb = "forget stray steps"
	anyFlow         verb = "look for a flow"
	lookAtNodes     verb = "look at nodes"
	readEnds        verb = "read ends"
	countEnds       verb = "count ends"
	bearNodes       verb = "bear"
	refuseNode      verb = "refuse a node"
	readFlows       verb = "read flows"
	readLive        verb = "read what is left of a flow"
	stopFlow        verb = "stop a flow"
	putFlowOff      verb = "put a flow off"
	cancelJobs      verb = "cancel what waits of a flow"
	turnFlow        verb = "turn a flow"
)

var (
	errRefused = errors.New("connection refused")             // nothing has happened
	errBroken  = errors.New("connection reset by peer")       // nobody knows what has happened
	errKilled  = errors.New("the process is no longer there") // nobody hears this error
)

// link is one instance's way to the tables. It decides the fate of each statement.
type link struct {
	world    *world
	instance *instance
	killed   chan struct{}
	sessions [reserveds]session

	mu          sync.Mutex
	sent        map[kind]uint64
	inARow      map[verb]int // failures
	frozenUntil time.Time
	noWayUntil  time.Time // statements do not arrive
	noBackUntil time.Time // answers do not arrive
	stormUntil  time.Time // many statements are slow
	silentUntil time.Time // beats do not arrive
	pens        map[int32]*pen
}

func newLink(w *world, i *instance) *link {
	l := &link{world: w, instance: i, killed: make(chan struct{}), sent: map[kind]uint64{}, inARow: map[verb]int{}, pens: map[int32]*pen{}}
	for s := range l.sessions {
		l.sessions[s].turn = make(chan struct{}, 1)
	}
	return l
}

// kind is a verb and its subject.
type kind struct {
	verb
	key uint64
}

// fate says what happens to a statement.
type fate struct {
	out, back   time.Duration
	refused     bool          // it fails before it does anything
	broken      bool          // it takes effect, and the answer is an error
	late        bool          // it takes effect even if its sender has given up
	inattentive bool          // the sender overlooks this time that its context has ended
	stray       time.Duration // if not 0: the sender gets an error, and the statement takes effect this much later
	blow        blow
	span        time.Duration // of the blow
}

// blow strikes an instance in the middle of a statement, after it was applied and before its answer. A random moment
// would hardly ever fall there.
type blow int

const (
	none   blow = iota
	freeze      // the instance is frozen
	kill        // the instance is killed
	cutOff      // the answer is slow, and nothing gets through after it
	delay       // the statement takes effect only when its sender has given up
)

// fate draws the fate of a statement: the n-th of its kind about this row, type or lease. So loops that send at the
// same moment do not change each other's fates.
func (l *link) fate(v verb, about about) (f fate) {
	w := l.world
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := kind{v, about.key()}
	l.sent[kind]++
	d := throw(w.seed, uint64(l.instance.number), hash(string(v)), kind.key, l.sent[kind])
	f.out, f.back = d.between(20*time.Microsecond, w.weather.latency), d.between(20*time.Microsecond, w.weather.latency)
	if w.calm() {
		return f
	}
	lag, _ := w.answersTake()
	f.out, f.back = f.out+lag/2, f.back+lag/2
	f.refused, f.broken, f.late, f.inattentive = d.chance(w.weather.refused), d.chance(w.weather.broken), d.chance(500), d.chance(500)
	if w.weather.gentle && v == keepLeases && l.inARow[v] >= 2 {
		f.refused, f.broken = false, false // a third failure would cost the lease
	}
	if l.inARow[v]++; !f.refused && !f.broken {
		l.inARow[v] = 0
	}
	if !v.aboutLeases() && !v.saysLife() {
		f.out, f.back = f.out+w.weather.sluggish, f.back+w.weather.sluggish
	}
	if v == writeRestRuns {
		f.out += w.slowToTell(throw(w.seed, 18, uint64(l.instance.number), kind.key, l.sent[kind]))
	}
	f.stray = l.stray(v, throw(w.seed, 7, uint64(l.instance.number), hash(string(v)), kind.key, l.sent[kind]))
	slow := w.weather.slow
	if time.Now().Before(l.stormUntil) {
		slow = 300
	}
	if d.chance(slow) {
		f.out += d.between(0, w.weather.slowest)
		l.instance.hit()
	}
	if d.chance(slow) {
		f.back += d.between(0, w.weather.slowest)
		l.instance.hit()
	}
	w.drawBlow(d, v, &f)
	return f
}

// drawBlow draws what else happens to the sender of a statement: more where the harm is greatest.
func (w *world) drawBlow(d *dice, v verb, f *fate) {
	blows := w.weather.blows
	switch v {
	case markJobs, takeLeases, moveLease, releaseLease, abandonLeases, closeLeases, closeLease, openLeases, bury, buryDead, copyLeases, freeLeases,
		recordStep, recordInTx, endWait, countEnds, bearNodes, stopFlow, cancelJobs, turnFlow:
		blows *= 5
	case keepLeases:
		blows *= 10
	}
	if v.writes() && d.chance(blows) {
		f.blow = oneOf(d, freeze, kill, cutOff)
		switch v {
		case markJobs:
			f.blow = oneOf(d, freeze, freeze, kill, delay)
		case keepLeases:
			f.blow = oneOf(d, cutOff, cutOff, cutOff, freeze, kill)
		}
		f.span = d.between(w.longestLock()/2, 2*w.longestLock())
	}
	if f.blow == delay { // a little longer than the dispatcher waits
		f.out, f.late = d.between(3*time.Second, 3500*time.Millisecond), true
	}
	if f.blow == cutOff { // as long as the keeper still waits
		f.back += d.between(w.longestLock()/8, w.longestLock()/6)
		f.span += w.longestLock()
	}
}

// stray draws how long after the sender's error (the connection broke) a statement takes effect. By then, the statement
// may have been sent again, and the row may have run again. If it is a mark, its sender may have given its lease away.
func (l *link) stray(v verb, d *dice) time.Duration {
	w := l.world
	switch v {
	case markJobs, unmarkJobs, finish, putBack, failLost, logAttempts, recordStep, countEnds, bearNodes, stopFlow, cancelJobs, turnFlow:
	default:
		return 0
	}
	chance := w.weather.stray
	if v == unmarkJobs { // such statements are few
		chance *= 4
	}
	if !d.chance(chance) {
		return 0
	}
	return d.between(time.Millisecond, oneOf(d, 50*time.Millisecond, 500*time.Millisecond, 3*time.Second))
}

// do carries out a statement in one step: at once, or as the fate of the sender's link has it. Then the judge hears of it.
func do[T any](ctx context.Context, t *Table, v verb, about about, apply func() (T, error)) (got T, err error) {
	l := t.link
	if l == nil {
		t.alone.Lock()
		defer t.alone.Unlock()
		return apply()
	}
	var answered func()
	sent := time.Now()
	judged := func() (T, error) {
		got, err := apply()
		answered = l.world.judge.applied(l.instance, v, about, sent, got)
		return got, err
	}
	if about.logs && l.fate(logAttempts, about).refused {
		judged = func() (got T, err error) { return got, store.ErrNotLogged }
	}
	switch v {
	case unmarkJobs, finish, putBack, failLost, logAttempts:
		written := l.writes(v, about.ids[0])
		defer func() { written(err) }()
	case releaseLease, abandonLeases, closeLease, layDown:
		defer func() { l.mayHold(about.leases, err) }()
	}
	if got, err = send(ctx, l, v, about, judged); err == nil && answered != nil {
		answered()
	}
	return got, err
}

// carryOut carries out a statement of which only the error is of interest.
func carryOut(ctx context.Context, t *Table, v verb, about about, apply func() error) error {
	_, err := do(ctx, t, v, about, func() (struct{}, error) { return struct{}{}, apply() })
	return err
}

// send sends a statement, which is applied when it arrives. The context works as in database/sql: a sender
// that gives up gets an error at once, and does not know whether the statement took effect.
func send[T any](ctx context.Context, l *link, v verb, about about, apply func() (T, error)) (got T, err error) {
	var none T
	leave, err := l.enter(ctx, v)
	if err != nil {
		return none, err
	}
	defer func() { leave(ctx.Err() != nil && err != nil) }()
	if err := ctx.Err(); err != nil {
		return none, err
	}
	w, f := l.world, l.fate(v, about)
	l.holdStill(f.out)
	if ctx.Err() != nil && !f.inattentive || l.dead() {
		return none, l.gaveUp(ctx)
	}
	arrival := l.arrival(f.out, func() time.Time {
		until := later(l.noWayUntil, w.stalledUntil(v))
		if v.saysLife() {
			until = later(until, l.silentUntil)
		}
		return until
	})
	aim := l.aim(v, about)
	for at := arrival; ; {
		if !l.await(ctx, at, ctx.Err() != nil) {
			if f.late && v.writes() {
				l.applyLate(at, v, about, aim, func() { apply() })
			}
			return none, l.gaveUp(ctx)
		}
		if f.refused {
			return none, errRefused
		}
		if f.stray > 0 {
			l.applyLate(time.Now().Add(f.stray), v, about, aim, func() { apply() })
			l.await(ctx, time.Now().Add(f.back), false)
			l.holdStill(f.back)
			return none, errBroken
		}
		if at = w.lockedUntil(v, about); !at.After(time.Now()) {
			break
		}
		at = at.Add(f.out % time.Millisecond)
	}
	l.apply(v, about, aim, false, func() { got, err = apply() })
	answered := l.arrival(f.back, func() time.Time { return l.noBackUntil })
	l.strike(f)
	came := l.await(ctx, answered, false)
	l.holdStill(f.back)
	switch {
	case !came || l.dead() || ctx.Err() != nil && !f.inattentive:
		return none, l.gaveUp(ctx)
	case f.broken:
		return none, errBroken
	}
	return got, err
}

func (l *link) strike(f fate) {
	w, i := l.world, l.instance
	if f.blow == none || i.ending.Load() {
		return
	}
	w.mu.Lock()
	w.judge.saw["blow"]++
	w.mu.Unlock()
	switch f.blow {
	case freeze:
		w.freeze(i, f.span)
	case kill:
		w.kill(i)
		time.AfterFunc(f.span, func() { w.start(i.place) })
	case cutOff:
		w.cutOff(i, f.span, true, true)
	}
}

func (v verb) writes() bool {
	switch v {
	case newest, tailJobs, sweepJobs, pageJobs, firstOfKeys, runningOfKeys, countOld, readMarked, seeUnlocked, readLong,
		readStandings, readPaused, seeLeases, lookAtFleet, seeEnded, readSteps, seeStanding,
		anyFlow, lookAtNodes, readEnds, readFlows, readLive:
		return false
	}
	return true
}

// aboutLeases reports whether the statement shares the connection of leases, where nobody waits for the tables of jobs.
func (v verb) aboutLeases() bool {
	switch v {
	case seeLeases, makeLeases, takeLeases, keepLeases, releaseLease, abandonLeases, lookAtFleet, moveLease, noteRunning, dropLease,
		seeEnded, dropEnded, setLayout, makeClosed, closeLeases, closeLease, openLeases, layDown, wakeTypes,
		bury, buryDead, copyLeases, freeLeases, riseBeside, beatBeside:
		return true
	}
	return false
}

// saysLife reports whether the statement says that an instance lives.
func (v verb) saysLife() bool { return v == rise || v == beat || v == riseBeside || v == beatBeside }

// arrival returns when a statement or an answer arrives that is sent now.
func (l *link) arrival(takes time.Duration, blocked func() time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now().Add(takes)
	if until := blocked(); at.Before(until) {
		at = until.Add(takes % time.Millisecond)
	}
	// When calm comes, everything that is under way arrives at once.
	if calm := l.world.calmAt().Add(takes % (5 * time.Millisecond)); at.After(calm) && time.Now().Before(calm) {
		at = calm
	}
	return at
}

// await waits for the moment. It reports false if the caller dies or gives up before; a frozen caller does when it
// thaws.
func (l *link) await(ctx context.Context, moment time.Time, heedless bool) (came bool) {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	done := ctx.Done()
	if heedless {
		done = nil
	}
	var thaw <-chan time.Time
	for {
		select {
		case <-timer.C:
			return true
		case <-done:
			frozen := l.frozenFor()
			if frozen <= 0 {
				return false
			}
			done, thaw = nil, time.After(frozen)
		case <-thaw:
			return false
		case <-l.killed:
			return false
		}
	}
}

func (l *link) gaveUp(ctx context.Context) error {
	if l.dead() {
		return errKilled
	}
	return ctx.Err()
}

func (l *link) dead() bool {
	select {
	case <-l.killed:
		return true
	default:
		return false
	}
}

// holdStill waits while the process is frozen, and a little longer, so that not all moves in the same nanosecond.
func (l *link) holdStill(after time.Duration) {
	for wait := l.frozenFor(); wait > 0; wait = l.frozenFor() {
		timer := time.NewTimer(wait + after%(100*time.Microsecond))
		select {
		case <-timer.C:
		case <-l.killed:
			timer.Stop()
			return
		}
	}
}

func (l *link) frozenFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.frozenUntil)
}

// apply applies a statement in one step, while the rest of the world stands still.
func (l *link) apply(v verb, about about, aim aim, late bool, do func()) {
	w := l.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.actor, w.judge.late, w.judge.aim = l.instance, late, aim
	w.trace.statement(l.instance, v, about, late)
	do()
	w.judge.actor, w.judge.late, w.judge.aim = nil, false, nil
}

// applyLate applies a statement at a later moment, although nobody waits for it any more.
func (l *link) applyLate(at time.Time, v verb, about about, aim aim, do func()) {
	time.AfterFunc(time.Until(at), func() {
		if until := l.world.lockedUntil(v, about); until.After(time.Now()) {
			l.applyLate(until.Add(time.Duration(about.key()%uint64(time.Millisecond))), v, about, aim, do)
			return
		}
		l.apply(v, about, aim, true, do)
	})
}

// aim has the marks that a statement is about: the marks that stand on its rows when it is sent or, if it is a mark
// itself, the last marks that stood there.
type aim map[uint64]*mark

func (l *link) aim(v verb, about about) aim {
	w := l.world
	w.mu.Lock()
	defer w.mu.Unlock()
	switch v {
	case markJobs:
		return w.judge.lastMarks(about.ids)
	case unmarkJobs, finish, putBack:
		return w.judge.aimAt(l.instance, about)
	}
	return nil
}

// about is what the trace shows of a statement.
type about struct {
	ids    []uint64
	term   int64
	note   string
	leases []string // for locks; the note names them
	layout int64    // that leases must have
	types  []int32
	keys   []string
	nodes  []uint64
	logs   bool // with the status, a row of the log is written, which the log may refuse
}

// ofLeases is what a statement about leases is about.
func ofLeases(names ...string) about { return about{note: joined(names), leases: names} }

func (a about) key() uint64 {
	if len(a.ids) > 0 {
		return a.ids[0]
	}
	return hash(a.note)
}

// mayHold notes that leases were not given back for certain.
func (l *link) mayHold(leases []string, err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	l.instance.unreleased = true
	l.mu.Unlock()
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	for _, name := range leases {
		l.world.judge.keptBack[name] = time.Now()
	}
}
