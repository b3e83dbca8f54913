package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// dispatcher marks due rows and hands them to the workers, for as long as one lease lasts. During a mark, workers become idle
// and rows come in, so marks grow with the traffic.
type dispatcher struct {
	process    *Process
	part       *part
	lease      *keeper.Lease
	queue      *queue
	marker     *marker
	workers    *workers
	settler    *settler
	starts     *starts
	wake       chan struct{}  // the queue, or what may be marked, has changed
	roomCame   chan struct{}  // the loader: rows have left the queue
	markTakes  time.Duration  // of late
	rows       int            // of the next mark, at most
	again      ground.Backoff // after a mark that failed
	turns      *keyTurns      // nil: keys are not looked at
	sieve      sieve
	admissions []admission
	fills      *filling // among the admissions; nil: rows do not wait for a full call
}

func admissionsOf(d *dispatcher) (list []admission) {
	if d.part.cfg.BatchWait > 0 {
		d.fills = newFilling(&d.part.cfg, d.queue, d.workers.opens)
		list = append(list, d.fills)
	}
	if d.workers.places != nil {
		list = append(list, &claims{workers: d.workers, queue: d.queue, clock: d.process.Clock, fills: d.fills})
	}
	if d.turns != nil {
		list = append(list, d.turns)
	}
	return list
}

// loop dispatches until ctx ends, which it does when the lease is not trusted any more.
func (d *dispatcher) loop(ctx context.Context) {
	defer d.admitNone()
	var last found
	for ctx.Err() == nil {
		turn := time.Now()
		if !d.starts.allowedAt(turn) || !d.lease.MayStart() {
			d.awaitAllowed(ctx)
			continue
		}
		if last.apart > 0 {
			d.lookApart(ctx)
		}
		if d.sieve.due {
			d.siftDue()
			continue
		}
		var batch []*task
		if batch, last = d.pickBatch(turn); len(batch) > 0 {
			d.markAndStart(ctx, batch)
		} else if last.picked == 0 {
			d.awaitWork(ctx, last)
		}
	}
}

// lookApart looks at the rows that wait apart from the others. That may take long, so marked tasks that can start go first.
func (d *dispatcher) lookApart(ctx context.Context) {
	d.workers.start(d.process.Clock.At(time.Now()))
	if suspect := d.permitSuspect(); suspect != nil {
		d.runAlone(ctx, suspect)
	}
	if d.turns != nil {
		d.turns.lookAtParked()
	}
	d.queue.openKeys()
	d.lookAtLocked()
}

// pickBatch takes the rows to mark now. These are rows that are due or, if there are none, rows that soon fall due. They are as many as
// there is room for, and all admissions admit them. Marked tasks that can start go first.
func (d *dispatcher) pickBatch(turn time.Time) (batch []*task, f found) {
	now := d.process.Clock.At(time.Now())
	if f.marked = d.workers.start(now); f.marked {
		d.giveBackSurplus(turn)
	}
	for _, a := range d.admissions {
		a.begin()
	}
	var idle int
	if unsettled := int(d.settler.unwritten.Load()); unsettled <= unsettledMax {
		f.room, idle = d.workers.room(d.markTakes, inFlightMax-unsettled)
		if f.room == 0 && d.part.cfg.FairByGroup {
			f.room = d.roomForTurn(inFlightMax - unsettled)
		}
	}
	if d.fills != nil && d.fills.full() { // until it goes
		f.room = 0
	}
	batch, f.unpicked = d.queue.pick(now, 0, min(f.room, d.rows), idle)
	switch {
	case f.blocked:
		f.room = 0 // until a worker ends, which wakes us
	case len(batch) == 0 && f.rows > 0 && f.room > 0: // without room, early rows would start before the rows that are due already
		batch = d.pickEarly(now, &f)
	}
	if f.picked = len(batch); f.picked > 0 {
		ground.Signal(d.roomCame)
	}
	f.markTakes = d.markTakes
	for _, a := range d.admissions {
		batch = a.admit(batch, f)
		f.picked = max(f.picked, len(batch)) // rows that were kept go on, and the next admission may put them back: f.unpicked does not know them
	}
	return batch, f
}

// roomForTurn is how many rows to mark for the sake of a group that has none ready.
func (d *dispatcher) roomForTurn(most int) int {
	group, ok := d.queue.nextGroup()
	if !ok {
		return 0
	}
	return d.workers.roomForTurn(group, d.markTakes, most)
}

// admitNone puts back what admissions keep.
func (d *dispatcher) admitNone() {
	for _, a := range d.admissions {
		a.keepNone()
	}
}

// markAndStart marks the tasks and hands them to the workers. Tasks that were read in one version, mostly all, are marked
// together. Each group starts before the next is marked, since a locked row may hold that mark up; but a batch handler's calls
// are filled from all groups. If statements failed and nothing was marked, it waits before it returns.
func (d *dispatcher) markAndStart(ctx context.Context, batch []*task) {
	sent, any, ok := time.Now(), false, true
	var marked []*task
	slices.SortFunc(batch, func(a, b *task) int { return cmp.Compare(a.row.ID, b.row.ID) })
	groups := [][]*task{batch}
	if slices.ContainsFunc(batch, func(t *task) bool { return t.row.Version() != batch[0].row.Version() || t.row.HasLong() }) {
		groups = byVersion(batch)
	}
	locked := 0
	for i, tasks := range groups {
		sent := time.Now()
		some, fine := d.marker.mark(ctx, d.lease, tasks)
		locked += d.marker.locked
		ground.Smooth(&d.markTakes, time.Since(sent))
		d.starts.marks.Store(int64(d.markTakes))
		marked = append(marked, some...)
		any, ok = any || len(some) > 0, ok && fine
		if d.part.cfg.BatchSize <= 1 || i == len(groups)-1 {
			d.workers.start(d.process.Clock.At(time.Now()), marked...)
			marked = nil
		}
	}
	if locked > 0 || d.sieve.rows > 0 {
		d.sieve.marked(len(batch), locked)
	}
	if ok {
		d.rows = min(batchRowsMax, 2*d.rows)
	} else {
		d.rows = smaller(d.rows)
	}
	if ok || any {
		d.again = ground.Backoff{}
		return
	}
	ground.Sleep(ctx, min(d.again.Next()-time.Since(sent), d.nextMarked()))
}

// awaitWork waits until a row falls due or something has changed.
func (d *dispatcher) awaitWork(ctx context.Context, f found) {
	wait := time.Hour
	if f.marked || d.part.cfg.RatePerSecond > 0 {
		wait = min(d.workers.admitsIn(), d.nextMarked())
	}
	for _, a := range d.admissions {
		wait = min(wait, a.in(f))
	}
	var permitted chan struct{} // nil: no suspect waits for the permit
	if f.rows > 0 {
		var in time.Duration
		in, permitted = d.nextWaiting(f)
		wait = min(wait, in)
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

// mark marks the tasks, all of which were read in one version, and returns those that are now ours to run. The others are
// final, gone or written by somebody else since they were read, and are forgotten: a later look brings them as they are. Or they are
// locked, or a handler still has them, and they wait. The mark carries its deadline, by an estimate of the database's clock that is never ahead.
// Later, no row is marked: what was marked before has the last sixth for its commit.
// If that clock was put forward, the mark may find itself late; the clock is read again then. If it was put back, the deadline is as much later. If
// ctx ends during a mark, mark waits for the answer and takes the marks back: a clean stop leaves none behind. If the lease is lost, mark
// waits for it for a moment: whoever lives may take the marks back, before they count as lost. Ok is false if
// the statement failed, or ctx has ended.
func (m *marker) mark(ctx context.Context, lease *keeper.Lease, batch []*task) (ours []*task, ok bool) {
	m.locked = 0
	if batch[0].row.Attempts > 0 {
		if batch = m.notRunning(lease, batch); len(batch) == 0 {
			return nil, true
		}
	}
	within := max(markMax, time.Duration(m.longer.Load())) // patience
	statement, cancel := context.WithTimeout(lease.Lingering(), within)
	youngest := slices.MaxFunc(batch, func(a, b *task) int { return cmp.Compare(a.row.CreateTime, b.row.CreateTime) })
	sent := time.Now()
	deadline := m.process.Clock.At(sent) + min(within*5/6, lease.StartsFor()).Milliseconds()
	marked, err := m.process.Jobs.Mark(statement, idsOf(batch), youngest.row.CreateTime, batch[0].row.Version(), lease.Term, deadline)
	cancel()
	doing := "mark jobs"
	if len(batch) == 1 && errors.Is(err, context.DeadlineExceeded) { // perhaps it is locked, on a server that has marks wait; the others are well
		doing = "mark a job"
	}
	m.process.Errlog.On(lease.Context(), doing, err)
	ours = batch
	var told map[uint64]store.Marked // by the table, if the answer does not say it all
	if err != nil || marked != len(batch) {
		ours, told = m.markedFor(lease, batch, sent, within, err)
	}
	if err == nil {
		m.longer.Store(int64(min(3*time.Since(sent), ground.StatementMax)))
	}
	if m.doubts.any.Load() {
		m.doubts.resolve(ours...)
	}
	var runs []run
	for i, t := range ours {
		if len(runs) == 0 {
			runs = make([]run, min(len(ours)-i, runsTogether))
		}
		now, known := told[t.row.ID]
		if !known {
			now.Attempts, now.Lost = t.row.Attempts+1, t.row.Lost
			if t.row.Term != 0 {
				now.Lost = lostIfMarked(&t.row, lease.Term)
			}
		}
		if now.Lost > t.row.Lost { // the log hears of that
			m.settler.log.noteLost(t, lease)
		}
		t.run, runs = &runs[0], runs[1:]
		t.run.lease, t.row.Term, t.row.Attempts, t.row.Lost = lease, lease.Term, now.Attempts, now.Lost
		t.run.watch.seen.Store(&sent)
		t.expired = t.row.Extra != nil && t.isOver(m.process.Clock.At(sent))
		if m.part.cfg.OrderedByKey {
			m.queue.remember(t)
		}
	}
	if ctx.Err() != nil {
		m.settler.undo(lease, ours...)
		return nil, false
	}
	return ours, err == nil
}

// awaitAllowed waits while no job may start: the type is paused, or nobody knows whether it is, or others may have taken the lease. Marks of tasks
// that have not started are taken back.
func (d *dispatcher) awaitAllowed(ctx context.Context) {
	d.admitNone()
	for _, t := range d.workers.takeUnstarted() {
		d.marker.takeBack(d.lease, t)
	}
	var again <-chan time.Time
	if d.queue.InMemory() > 0 {
		wait := WatchEvery
		if d.starts.allowed() {
			wait = lifeLooks
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-d.wake: // by the watch
	case <-again:
	case <-ctx.Done():
	}
}

// nextWaiting is how long until a row falls due for which there is room, or rows are to be looked at that wait apart. If a suspect waits for
// the permit only, the permit's place is returned.
func (d *dispatcher) nextWaiting(f found) (wait time.Duration, permitted chan struct{}) {
	wait = time.Hour
	ahead := int64(0)
	if f.early > 0 {
		ahead = markedEarly.Milliseconds()
	}
	if due, ok := d.queue.nextDue(ahead); ok && f.room > 0 {
		wait = d.until(due)
	}
	if f.apart == 0 {
		return wait, nil
	}
	wait = min(wait, d.lookAtLockedIn(time.Now()))
	if d.queue.hasParked() {
		wait = min(wait, lookAtParkedEvery)
	}
	if due, ok := d.queue.nextSuspect(); ok && d.until(due) <= 0 {
		permitted = d.process.Permit.place
	} else if ok {
		wait = min(wait, d.until(due))
	}
	return min(wait, d.queue.keysOpenIn(time.Now())), permitted
}

// until is how long it takes until a moment of the database's clock.
func (d *dispatcher) until(due int64) time.Duration {
	return time.Duration(due-d.process.Clock.Now()) * time.Millisecond
}

// pickEarly takes rows that soon fall due. If keys decide who may start, it takes none: an early row would take the turn of another.
func (d *dispatcher) pickEarly(now int64, f *found) (batch []*task) {
	if d.queue.keys.most == 0 {
		f.early = d.workers.roomForEarly()
	}
	if f.early > 0 {
		batch, f.unpicked = d.queue.pick(now, markedEarly.Milliseconds(), min(f.early, d.rows), f.early)
	}
	f.ahead = len(batch) > 0
	return batch
}

// giveBackSurplus takes back the marks of tasks that will not start soon.
func (d *dispatcher) giveBackSurplus(turn time.Time) {
	for _, t := range d.workers.surplus(turn, d.process.Clock.At(turn)) {
		d.marker.takeBack(d.lease, t)
	}
}

// nextMarked is how long until something has to be done about marked tasks.
func (d *dispatcher) nextMarked() time.Duration { return d.workers.nextDue(d.process.Clock.Now()) }

// starts says whether jobs of a type may start: the type is not paused, by an answer that is not too old.
type starts struct {
	heeding sync.Mutex
	sent    atomic.Pointer[time.Time] // when the last question was sent that was answered; nil: none was
	till    atomic.Pointer[time.Time] // nil: the type is paused, or nobody has asked yet
	lasts   atomic.Int64              // nanoseconds for which a row that was found ours may start
	marks   atomic.Int64              // nanoseconds that a mark has taken of late
}

// heed takes the answer to a question that was sent at a moment and took a while. It reports whether the answer is another than the last. An
// answer to an earlier question than the last one's is no news.
func (s *starts) heed(paused bool, sent time.Time, took time.Duration) (news bool) {
	s.heeding.Lock()
	defer s.heeding.Unlock()
	if last := s.sent.Load(); last != nil && sent.Before(*last) {
		return false
	}
	s.lasts.Store(int64(allowedFor(max(took, time.Duration(s.marks.Load()))))) // a mark is an answer, too, and may take longer: it is a commit
	s.sent.Store(&sent)
	if paused {
		return s.till.Swap(nil) != nil
	}
	till := sent.Add(allowedFor(took))
	return s.till.Swap(&till) == nil
}

// paused reports whether the last answer was that the type is paused.
func (s *starts) paused() bool { return s.sent.Load() != nil && s.till.Load() == nil }

func (s *starts) allowed() bool { return s.allowedAt(time.Now()) }

func (s *starts) allowedAt(now time.Time) bool {
	till := s.till.Load()
	return till != nil && now.Before(*till)
}

// forget begins a lease: nobody has asked yet.
func (s *starts) forget() { s.till.Store(nil) }

// allowedFor is how long an answer allows jobs to start, from the moment at which it was asked for. If answers take long, it
// lasts until the next one has come, and a little longer: jobs that start late are better than none.
func allowedFor(took time.Duration) time.Duration {
	const little = 200 * time.Millisecond
	return max(heededFor, WatchEvery+2*took+little)
}
