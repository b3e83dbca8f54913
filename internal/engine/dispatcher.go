package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	batchRowsMax  = 1000             // rows of one mark or settle
	unsettledMax  = 2 * batchRowsMax // outcomes that wait to be written before new marks stop
	inFlightMax   = 3 * batchRowsMax // these, and rows that are marked ahead of busy workers
	aloneWaitsFor = 10 * time.Second // for the neighbours to end, and again for the suspect itself
	markMax       = 3 * time.Second  // the same for a mark: in some servers, it waits for a locked row, and all others wait for it
	markInTime    = markMax * 5 / 6  // later, no row is marked; what was marked before has the rest for its commit
	lockedLongest = 20 * time.Second // the same for a row that business code may have locked
)

// dispatcher marks due rows and hands them to the workers, for as long as one lease lasts. During a mark, workers become idle
// and rows come in, so marks grow with the traffic.
type dispatcher struct {
	*line
	lease      *keeper.Lease
	markTakes  time.Duration  // of late
	size       batchSize      // of the next mark
	again      ground.Backoff // after a mark that failed
	turns      *keyTurns      // nil: keys are not looked at
	admissions []admission
}

func newDispatcher(l *line, lease *keeper.Lease) *dispatcher {
	d := &dispatcher{line: l, lease: lease, size: newBatchSize()}
	if l.queue.keys.most > 0 {
		d.turns = &keyTurns{d: d}
	}
	d.admissions = admissionsOf(d)
	return d
}

// loop dispatches until ctx ends or the lease is not trusted any more.
func (d *dispatcher) loop(ctx context.Context) {
	defer d.admitNone()
	for ctx.Err() == nil && d.lease.Trusted() {
		turn := time.Now()
		if !d.starts.allowedAt(turn) {
			d.awaitAllowed(ctx)
			continue
		}
		d.tidy(ctx, turn)
		batch, spare := d.pickBatch()
		if len(batch) > 0 {
			d.markAndStart(ctx, batch)
		} else if spare.picked == 0 {
			d.awaitWork(ctx, spare)
		}
	}
}

// tidy serves the rows that are in memory already, before others are picked.
func (d *dispatcher) tidy(ctx context.Context, turn time.Time) {
	if d.workers.keepWaiting() {
		d.workers.start(d.clock.Now())
		d.giveBackSurplus(turn)
	}
	if _, apart := d.queue.waits(); apart > 0 {
		d.lookApart(ctx)
	}
}

// lookApart looks at the rows that wait apart from the others.
func (d *dispatcher) lookApart(ctx context.Context) {
	if suspect := d.permitSuspect(); suspect != nil {
		d.runAlone(ctx, suspect)
	}
	if d.turns != nil {
		d.turns.lookAtParked()
	}
	d.lookAtLocked()
}

// pickBatch takes the rows to mark now. These are rows that are due or, if there are none, rows that soon fall due. They are as many as
// there is room for, and all admissions admit them.
func (d *dispatcher) pickBatch() (batch []*task, s spare) {
	for _, a := range d.admissions {
		a.begin()
	}
	var idle int
	s.room, idle = d.room()
	batch, blocked := d.queue.pick(d.clock.Now(), min(s.room, d.size.rows), idle)
	if len(batch) == 0 && s.room > 0 { // without room, early rows would start before the rows that are due already
		if rows, _ := d.queue.waits(); rows > 0 {
			batch = d.pickEarly(&s)
		}
	}
	if blocked {
		s.room = 0 // until a worker ends, which wakes us
	}
	if s.picked = len(batch); s.picked > 0 {
		ground.Signal(d.roomCame)
	}
	for _, a := range d.admissions {
		batch = a.admit(batch, s)
	}
	return batch, s
}

// pickEarly takes rows that soon fall due.
func (d *dispatcher) pickEarly(s *spare) (batch []*task) {
	s.early = d.roomForEarly()
	batch = d.queue.pickEarly(d.clock.Now()+markedEarly.Milliseconds(), min(s.early, d.size.rows))
	s.ahead = len(batch) > 0
	return batch
}

// admitNone puts back what admissions keep.
func (d *dispatcher) admitNone() {
	for _, a := range d.admissions {
		a.back()
	}
}

// room is how many rows to mark now, and how many of them the workers would start at once.
func (d *dispatcher) room() (rows, atOnce int) {
	unsettled := d.settler.waiting()
	if unsettled > unsettledMax {
		return 0, 0
	}
	return d.workers.room(d.markTakes, inFlightMax-unsettled)
}

// roomForEarly is how many rows to mark before their time. If keys decide who may start, there is no room: an early row would
// take the turn of another.
func (d *dispatcher) roomForEarly() int {
	if d.turns != nil {
		return 0
	}
	return d.workers.roomForEarly()
}

// markAndStart marks the tasks and hands them to the workers. Tasks that were read in one version, mostly all, are marked
// together. Each group starts before the next is marked, since a locked row may hold that mark up; but a batch handler's calls
// are filled from all groups. If statements failed and nothing was marked, it waits before it returns.
func (d *dispatcher) markAndStart(ctx context.Context, batch []*task) {
	sent, any, ok := time.Now(), false, true
	var marked []*task
	groups := alike(batch)
	for i, tasks := range groups {
		sent := time.Now()
		some, fine := d.mark(ctx, d.lease, tasks)
		ground.Smooth(&d.markTakes, time.Since(sent))
		d.starts.marks.Store(int64(d.markTakes))
		marked = append(marked, some...)
		any, ok = any || len(some) > 0, ok && fine
		if d.cfg.BatchSize <= 1 || i == len(groups)-1 {
			d.workers.start(d.clock.Now(), marked...)
			marked = nil
		}
	}
	d.size.after(ok)
	if ok || any {
		d.again = ground.Backoff{}
		return
	}
	ground.Sleep(ctx, min(d.again.Next()-time.Since(sent), d.nextMarked()))
}

// nextMarked is how long until something has to be done about marked tasks.
func (d *dispatcher) nextMarked() time.Duration { return d.workers.nextDue(d.clock.Now()) }

// alike groups tasks by the version in which they were read, few of them long; the group with the smallest id goes first.
func alike(batch []*task) (groups [][]*task) {
	slices.SortFunc(batch, func(a, b *task) int { return cmp.Compare(a.ID, b.ID) })
	if !slices.ContainsFunc(batch, func(t *task) bool { return t.Version() != batch[0].Version() || t.HasLong() }) {
		return [][]*task{batch} // mostly
	}
	group := map[store.Version]int{}
	for _, t := range batch {
		i, ok := group[t.Version()]
		if !ok {
			i = len(groups)
			group[t.Version()], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return fewLong(groups)
}

// awaitAllowed waits while no job may start: the type is paused, or nobody knows whether it is. Marks of tasks that have not
// started are taken back.
func (d *dispatcher) awaitAllowed(ctx context.Context) {
	d.admitNone()
	for _, t := range d.workers.takeUnstarted() {
		d.takeBack(d.lease, t)
	}
	var again <-chan time.Time
	if d.queue.inMemory() > 0 {
		timer := time.NewTimer(watchEvery)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-d.wake: // by the watch
	case <-again:
	case <-ctx.Done():
	}
}

// giveBackSurplus takes back the marks of tasks that will not start soon.
func (d *dispatcher) giveBackSurplus(turn time.Time) {
	for _, t := range d.workers.surplus(turn, d.clock.At(turn)) {
		d.takeBack(d.lease, t)
	}
}

// takeBack takes back the mark of a task that may start later. It waits in memory: no sweep has to find it again.
func (l *line) takeBack(lease *keeper.Lease, t *task) {
	if l.permit.has(t) {
		l.settler.undo(lease, t) // another suspect may have the permit
	} else {
		l.settler.handBack(lease, t)
	}
}

// awaitWork waits until a row falls due or something has changed.
func (d *dispatcher) awaitWork(ctx context.Context, s spare) {
	wait := time.Hour
	if d.cfg.RatePerSecond > 0 || d.workers.keepWaiting() {
		wait = min(d.workers.admitsIn(), d.nextMarked())
	}
	for _, a := range d.admissions {
		wait = min(wait, a.in(s))
	}
	var permitted chan struct{} // nil: no suspect waits for the permit
	if rows, apart := d.queue.waits(); apart > 0 {
		var in time.Duration
		in, permitted = d.nextApart()
		wait = min(wait, in, d.nextWaiting(s))
	} else if rows > 0 {
		wait = min(wait, d.nextWaiting(s))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
	case permitted <- struct{}{}:
		<-permitted // the next turn asks for it properly
	case <-ctx.Done():
	}
}

// nextWaiting is how long until a row falls due for which there is room.
func (d *dispatcher) nextWaiting(s spare) time.Duration {
	wait := time.Hour
	if due, ok := d.queue.nextDue(); ok && s.room > 0 {
		wait = min(wait, d.until(due))
	}
	if due, ok := d.queue.nextEarly(); ok && s.early > 0 {
		wait = min(wait, d.until(due)-markedEarly)
	}
	return wait
}

// nextApart is how long until rows are to be looked at that wait apart. If a suspect waits for the permit only, the permit's place is
// returned.
func (d *dispatcher) nextApart() (wait time.Duration, permitted chan struct{}) {
	wait = d.queue.lookAtLockedIn(time.Now())
	if d.queue.hasParked() {
		wait = min(wait, lookAtParkedEvery)
	}
	if due, ok := d.queue.nextSuspect(); ok && d.until(due) <= 0 {
		permitted = d.permit.place
	} else if ok {
		wait = min(wait, d.until(due))
	}
	return wait, permitted
}

// until is how long it takes until a moment of the database's clock.
func (d *dispatcher) until(due int64) time.Duration {
	return time.Duration(due-d.clock.Now()) * time.Millisecond
}

// mark marks the tasks, all of which were read in one version, and returns those that are now ours to run. The others are
// final, gone or written by somebody else since they were read, and are forgotten: a later look brings them as they are. Or they are
// locked, and wait. The mark carries its deadline, by an estimate of the database's clock that is never ahead. If that clock was put
// forward, the mark may find itself late; the clock is read again then. If it was put back, the deadline is as much later. If
// ctx ends during a mark, mark waits for the answer and takes the marks back: a clean stop leaves none behind. If the lease is lost, mark
// waits for it for a moment: whoever lives may take the marks back, before they count as lost. Ok is false if
// the statement failed, or ctx has ended.
func (l *line) mark(ctx context.Context, lease *keeper.Lease, batch []*task) (ours []*task, ok bool) {
	statement, cancel := context.WithTimeout(lease.Lingering(), markMax)
	sent := time.Now()
	marked, err := l.jobs.Mark(statement, idsOf(batch), createdBy(batch), batch[0].Version(), lease.Term, l.clock.At(sent)+markInTime.Milliseconds())
	cancel()
	doing := "mark jobs"
	if len(batch) == 1 && errors.Is(err, context.DeadlineExceeded) { // perhaps it is locked, on a server that has marks wait; the others are well
		doing = "mark a job"
	}
	l.errlog.On(lease.Context(), doing, err)
	if err == nil && marked == len(batch) {
		var spare spareRuns
		for i, t := range batch {
			lost := t.Lost
			if t.wasLost() {
				lost = lostIfMarked(&t.Row, lease.Term)
			}
			l.nowOurs(t, spare.next(len(batch)-i), lease, t.Attempts+1, lost)
		}
		ours = batch
	} else {
		ours = l.markedFor(lease, batch, sent, err)
	}
	if l.doubts.any.Load() {
		l.doubts.resolve(ours...)
	}
	for _, t := range ours {
		t.seen.Store(&sent)
	}
	if ctx.Err() != nil {
		l.settler.undo(lease, ours...)
		return nil, false
	}
	return ours, err == nil
}

// markedFor finds out which tasks bear our term, after a statement that failed or marked too few rows.
func (l *line) markedFor(lease *keeper.Lease, batch []*task, sent time.Time, err error) (ours []*task) {
	marked, errBack := l.readBack(lease, batch)
	if errBack != nil { // the lease is over, and the answer is not known
		l.doubts.resolve(batch...)
		for _, t := range batch {
			t.Attempts++ // if it is marked
		}
		l.settler.undo(lease, batch...)
		return nil
	}
	undone := store.IsRolledBack(err)
	var rest []*task
	for _, t := range batch {
		switch row, ok := marked[t.ID]; {
		case !ok:
			rest = append(rest, t)
		case undone: // by an earlier mark, whose outcome this node of a cluster does not show yet
			t.dueMillis = max(t.dueMillis, l.clock.Now()+shownAgain.Milliseconds())
			l.queue.back(t)
		default:
			l.nowOurs(t, new(run), lease, row.Attempts, row.Lost)
			ours = append(ours, t)
		}
	}
	switch {
	case err != nil:
		if until := sent.Add(markMax); !store.IsAnswered(err) && time.Now().Before(until) {
			l.doubts.add(lease, until, rest)
			time.AfterFunc(time.Until(until)+time.Millisecond, func() { ground.Signal(l.wake) }) // for who gives leases back
		}
		longest := ground.RetryLongest
		if errors.Is(err, context.DeadlineExceeded) { // one of them may be locked
			longest = lockedLongest
		}
		l.refuse(rest, longest)
	default:
		if len(ours) == 0 { // perhaps it came late
			l.readClock(lease)
		}
		l.passedOver(lease, rest)
	}
	return ours
}

// readClock reads the database's clock anew: somebody may have set it.
func (l *line) readClock(lease *keeper.Lease) {
	statement, cancel := context.WithTimeout(lease.Context(), ground.StatementMax)
	defer cancel()
	sent := time.Now()
	if _, now, err := l.jobs.Newest(statement); !l.errlog.On(lease.Context(), "read the clock", err) {
		l.clock.Reading(now, sent, time.Now())
	}
}

// refuse puts tasks whose mark failed back into the queue.
func (l *line) refuse(tasks []*task, longest time.Duration) {
	now := l.clock.Now()
	for _, t := range tasks {
		t.refuse(now, longest)
	}
	l.queue.back(tasks...)
}

// readBack asks the table which tasks bear our term. It asks again until it has an answer or the lease ends.
func (l *line) readBack(lease *keeper.Lease, batch []*task) (marked map[uint64]store.Marked, err error) {
	marked = make(map[uint64]store.Marked, len(batch))
	err = l.errlog.Retry(lease.Context(), "read back marked jobs", ground.Backoff{}, func() error {
		statement, cancel := context.WithTimeout(lease.Lingering(), ground.StatementMax)
		defer cancel()
		rows, err := l.jobs.MarkedRows(statement, idsOf(batch), lease.Term)
		for _, row := range rows {
			marked[row.ID] = row
		}
		return err
	})
	return marked, err
}

// nowOurs notes on a task that it bears our term. If an earlier run of it was lost, the log hears of that.
func (l *line) nowOurs(t *task, r *run, lease *keeper.Lease, attempts int32, lost int16) {
	if lost > t.Lost {
		l.noteLost(t, lease)
	}
	t.run, r.lease = r, lease
	t.Term, t.Attempts, t.Lost = lease.Term, attempts, lost
	if l.cfg.OrderedByKey {
		l.queue.remember(t)
	}
}

// permitSuspect returns a suspect that may run now, with the engine's one permit to run a suspect.
func (d *dispatcher) permitSuspect() *task {
	if due, ok := d.queue.nextSuspect(); !ok || due > d.clock.Now() {
		return nil
	}
	suspect := d.permit.take(func() *task { return d.queue.pickSuspect(d.clock.Now()) })
	ground.Signal(d.roomCame)
	return suspect
}

// runAlone runs a suspect while nothing else of this job type runs, and everything that ran is written: so the death of
// the process can be held against this job alone. A hung neighbour, or a suspect that takes its time, holds the line up for
// aloneWaitsFor at most, and the suspects of other lines as long. The marks of rows that have not started are taken back first. Otherwise these
// rows would start beside the suspect, and count as lost if the process dies.
func (d *dispatcher) runAlone(ctx context.Context, suspect *task) {
	started := false
	defer func() {
		if !started {
			d.permit.giveBack(suspect)
		}
	}()
	if d.turns != nil && len(d.turns.mayMark([]*task{suspect})) == 0 {
		return
	}
	d.settler.handBack(d.lease, d.workers.takeUnstarted()...)
	d.awaitQuiet(ctx, nil)
	if !d.awaitPlace(ctx) || !d.starts.allowed() {
		d.refuse([]*task{suspect}, ground.RetryLongest)
		return
	}
	if d.turns != nil && len(d.turns.mayMark([]*task{suspect})) == 0 { // the wait may have been long
		return
	}
	marked, _ := d.mark(ctx, d.lease, []*task{suspect})
	if len(marked) == 0 {
		return
	}
	d.awaitNoted(ctx)
	suspect.alone, started = true, true
	d.workers.start(suspect.dueMillis, marked...)
	d.awaitQuiet(ctx, suspect)
}

// awaitQuiet waits until the line is quiet, for aloneWaitsFor at most. If it waits for a suspect, the time counts from the
// suspect's start, which the rate may put off; a pause ends the wait only until then, since a suspect that runs, runs on.
func (d *dispatcher) awaitQuiet(ctx context.Context, suspect *task) {
	until := time.Now().Add(aloneWaitsFor)
	for !d.quiet() && ctx.Err() == nil {
		begun := suspect != nil && suspect.begun.Load()
		if !begun && !d.starts.allowed() {
			return
		}
		d.workers.start(d.clock.Now())
		if suspect != nil && !begun {
			until = time.Now().Add(aloneWaitsFor)
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		ground.Wait(ctx, min(left, d.workers.admitsIn()), d.wake) // workers signal it too
	}
}

// awaitPlace waits until the process may have another worker, for aloneWaitsFor at most.
func (d *dispatcher) awaitPlace(ctx context.Context) bool {
	waiting, cancel := context.WithTimeout(ctx, aloneWaitsFor)
	defer cancel()
	return d.await(waiting, d.workers.claimOne)
}

// awaitNoted waits until the log says that earlier runs were lost: the next one may take the process along. A log that cannot
// be written holds nobody up for longer than a moment.
func (d *dispatcher) awaitNoted(ctx context.Context) {
	const moment = 200 * time.Millisecond
	noted, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	d.await(noted, func() bool { return d.settler.log.unnoted() == 0 })
}

// permit is the engine's one permit to run a suspect. The task that has it gives it back.
type permit struct {
	place chan struct{} // full: a task has it
	of    atomic.Pointer[task]
}

func newPermit() *permit { return &permit{place: make(chan struct{}, 1)} }

// take gives the permit to the task that pick returns, unless another one has it. It returns that task; nil: none may run.
func (p *permit) take(pick func() *task) *task {
	select {
	case p.place <- struct{}{}:
	default:
		return nil
	}
	t := pick()
	if t == nil {
		<-p.place
		return nil
	}
	p.of.Store(t)
	return t
}

func (p *permit) has(t *task) bool { return p.of.Load() == t }

// giveBack takes the permit from a task, if the task has it.
func (p *permit) giveBack(t *task) {
	if p.of.CompareAndSwap(t, nil) {
		<-p.place
	}
}

// batchSize is how many rows go into one statement. A single row may make it fail, if business code has locked the row or a
// trigger refuses it. So after a failure, statements are smaller, until the other rows get past that row.
type batchSize struct{ rows int }

func newBatchSize() batchSize { return batchSize{batchRowsMax} }

func (b *batchSize) after(ok bool) {
	if ok {
		b.rows = min(batchRowsMax, 2*b.rows)
	} else {
		b.rows = max(1, b.rows/8)
	}
}

func idsOf(tasks []*task) []uint64 {
	ids := make([]uint64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

// createdBy is the second in which the youngest of the tasks was created.
func createdBy(tasks []*task) (second int64) {
	for _, t := range tasks {
		second = max(second, t.CreateTime)
	}
	return second
}
