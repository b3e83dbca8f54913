package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	batchRowsMax  = 1000                  // rows of one mark or settle
	unsettledMax  = 2 * batchRowsMax      // outcomes that wait to be written before new marks stop
	aloneWaitsFor = 10 * time.Second      // for the neighbours to end, and again for the suspect itself
	statementMax  = 10 * time.Second      // a statement that takes longer is given up and sent again
	markMax       = 3 * time.Second       // the same for a mark: one that waits for a locked row keeps others waiting
	retryFirst    = 20 * time.Millisecond // wait before a failed statement is sent again …
	retryLongest  = time.Second           // … doubling up to this
	lockedLongest = 20 * time.Second      // the same for a row that business code may have locked
)

// aheadOf says for how many calls to mark rows ahead of free workers so that none waits for a mark: as many as the workers
// finish while so many marks are under way. One mark takes a few times as long as another, and calls end in bunches, for
// timers and the scheduler wake several at a time.
//
// A row that is marked cannot be changed, and counts as lost if the process dies. So none is marked that is not about to
// start: if runs are long, the workers wait for a mark, which is short beside a run.
func aheadOf(workers int, runTakes, markTakes time.Duration) int {
	const marks, bunch, soon = 5, time.Millisecond, 250 * time.Millisecond
	if runTakes <= 0 {
		return 0 // nothing has run yet
	}
	perWorker := min(marks*float64(markTakes+bunch), float64(soon)) / float64(runTakes)
	if float64(workers)*float64(soon) < float64(runTakes) {
		return 0
	}
	return int(min(batchRowsMax, math.Ceil(float64(workers)*perWorker)))
}

// batchSize is how many rows go into one statement. One that fails may do so because of a single row, which is locked by
// business code or refused by a trigger: the next one is smaller, until the others pass that row by.
type batchSize struct{ rows int }

func newBatchSize() batchSize { return batchSize{batchRowsMax} }

func (b *batchSize) after(ok bool) {
	if ok {
		b.rows = min(batchRowsMax, 2*b.rows)
	} else {
		b.rows = max(1, b.rows/8)
	}
}

// smooth follows a quantity that wavers.
func smooth(mean *time.Duration, took time.Duration) {
	const weight = 8
	if *mean == 0 {
		*mean = took
	}
	*mean = max(1, *mean+(took-*mean)/weight)
}

// dispatch marks due rows and hands them to the workers, until ctx ends. While a mark is under way, workers become free
// and rows come in, so marks grow with the traffic.
func (l *line) dispatch(ctx context.Context, lease *keeper.Lease) {
	var markTakes time.Duration
	size, wait, filling := newBatchSize(), retryFirst, newFilling(&l.cfg)
	defer func() { l.queue.waitOn(filling.take()...) }()
	for ctx.Err() == nil && lease.Trusted() {
		turn := time.Now()
		if !l.isOpenAt(turn) {
			l.queue.waitOn(filling.take()...)
			l.holdStill(ctx, lease)
			continue
		}
		l.start(l.fallenDue()) // none, perhaps: a worker may have left before its time
		l.giveBackSurplus(lease, turn)
		if suspect := l.permitSuspect(); suspect != nil {
			l.runAlone(ctx, lease, suspect)
		}
		l.lookAtHeld(lease)
		room, free, early := l.roomForMarks(markTakes), 0, 0
		if room > 0 { // else the rows at hand would wait behind those that have yet to fall due
			free, early = l.freeForMarks(), l.roomForEarly()
		}
		batch, held := l.queue.pick(l.clock.now(), min(room, size.rows), free)
		if held {
			room = 0 // for the time being; a worker that ends says so
		}
		if len(batch) == 0 {
			batch = l.queue.pickEarly(l.clock.now()+markedEarly.Milliseconds(), min(early, size.rows))
		}
		picked, now := len(batch), time.Now()
		if picked > 0 {
			signal(l.roomCame)
		}
		if batch = l.onlyFirst(lease, filling.add(now, batch, room > 0)); len(batch) == 0 {
			if l.queue.keys.most > 0 {
				signal(l.roomCame) // rows were parked, or went back to the table
			}
			if picked == 0 {
				l.awaitWork(ctx, room, early, filling.goesIn(now, room > 0))
			}
			continue
		}
		sent := time.Now()
		any, ok := l.markAndStart(ctx, lease, batch, &markTakes)
		size.after(ok)
		if ok || any {
			wait = retryFirst
			continue
		}
		// Where each is refused, they do not follow each other as fast as they can.
		sleep(ctx, min(wait-time.Since(sent), l.nextForEarly(l.clock.now(), 0)))
		wait = min(2*wait, retryLongest)
	}
}

// markAndStart marks the tasks and hands them to the workers, those together that were read in one version: mostly all. Each
// such group starts before the next one is marked, which a locked row may hold up; but the calls of a batch handler are
// filled from all of them. Any is true if one was marked, ok if no statement failed.
func (l *line) markAndStart(ctx context.Context, lease *keeper.Lease, batch []*task, markTakes *time.Duration) (any, ok bool) {
	ok = true
	var marked []*task
	groups := alike(batch)
	for i, tasks := range groups {
		sent := time.Now()
		some, fine := l.mark(ctx, lease, tasks)
		smooth(markTakes, time.Since(sent))
		marked = append(marked, some...)
		any, ok = any || len(some) > 0, ok && fine
		if l.cfg.BatchSize <= 1 || i == len(groups)-1 {
			l.start(l.holdEarly(marked))
			marked = nil
		}
	}
	return any, ok
}

// alike groups tasks by the version in which they were read; the group with the smallest id goes first.
func alike(batch []*task) (groups [][]*task) {
	slices.SortFunc(batch, func(a, b *task) int { return cmp.Compare(a.ID, b.ID) })
	if !slices.ContainsFunc(batch, func(t *task) bool { return t.Version() != batch[0].Version() }) {
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
	return groups
}

// holdStill waits while the type is paused, or while that is not known. What is marked and not started waits in the table
// like the rest.
func (l *line) holdStill(ctx context.Context, lease *keeper.Lease) {
	l.settler.undo(lease, l.takeReady()...)
	var again <-chan time.Time
	if l.openTill.Load() != nil { // the last answer has become too old, and the next may come at this very moment
		timer := time.NewTimer(watchEvery)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-l.rowsCame: // the watch signals it
	case <-again:
	case <-ctx.Done():
	}
}

// roomForMarks is how many rows to mark now. What is marked ahead is filled up when half of it is gone: each mark is a
// commit, and who marks one row for each that ends keeps the database busy with that.
func (l *line) roomForMarks(markTakes time.Duration) int {
	if l.settler.waiting() > unsettledMax {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	perCall, free := max(1, l.cfg.BatchSize), l.startedAtOnce()
	ahead := min(batchRowsMax, perCall*aheadOf(l.cfg.WorkerPoolCapacity, l.runTakes, markTakes))
	if len(l.ready)-free > ahead/2 {
		return 0
	}
	now := time.Now()
	if free <= 0 && now.Sub(l.ranLast) >= surplusAfter {
		ahead = 0 // the workers are stuck, and nobody knows for how long
	}
	return max(0, min(batchRowsMax, l.gate.marks(now, len(l.ready)), free+ahead-len(l.ready)))
}

// freeForMarks is how many more rows the workers would start at once if they were marked now.
func (l *line) freeForMarks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.startedAtOnce()-len(l.ready))
}

// startedAtOnce is how many rows the workers would start at once if none were ready. The caller holds the lock.
func (l *line) startedAtOnce() int { return max(1, l.cfg.BatchSize) * l.freeWorkers() }

// awaitWork waits until a row falls due or something has changed, but no longer than most.
func (l *line) awaitWork(ctx context.Context, room, early int, most time.Duration) {
	wait := min(most, l.gateOpensIn())
	if l.queue.holdsBack() {
		wait = min(wait, lookAtHeldEvery)
	}
	now := l.clock.now()
	if due, ok := l.queue.nextDue(); ok && room > 0 {
		wait = min(wait, time.Duration(due-now)*time.Millisecond)
	}
	wait = min(wait, l.nextForEarly(now, early))
	var permit chan struct{} // nil: none is wanted
	if due, ok := l.queue.nextSuspect(); ok && due <= now {
		permit = l.alone
	} else if ok {
		wait = min(wait, time.Duration(due-now)*time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.rowsCame:
	case permit <- struct{}{}:
		<-permit // free again: the next turn asks for it properly
	case <-ctx.Done():
	}
}

// mark marks the tasks, all of which were read in one version, and returns those that are now ours to run. The others are
// final, gone or written by somebody else since they were read, and are forgotten: a later look brings them as they are. If
// ctx ends during a mark, its answer is still heard, and what it marked is taken back: a clean stop leaves no marks behind.
// Ok is false if the statement failed.
func (l *line) mark(ctx context.Context, lease *keeper.Lease, batch []*task) (ours []*task, ok bool) {
	statement, cancel := context.WithTimeout(lease.Context(), markMax)
	sent := time.Now()
	marked, err := l.jobs.Mark(statement, idsOf(batch), createdBy(batch), batch[0].Version(), lease.Term)
	cancel()
	if err == nil && marked == len(batch) {
		for _, t := range batch {
			l.nowOurs(t, lease, t.Attempts+1, lostIfMarked(&t.Row, lease.Term))
		}
		ours = batch
	} else {
		ours = l.markedFor(ctx, lease, batch, err)
	}
	for _, t := range ours {
		t.run = &run{}
		t.seen.Store(&sent)
	}
	if ctx.Err() != nil {
		l.settler.undo(lease, ours...)
		return nil, false
	}
	return ours, err == nil
}

// markedFor finds out which tasks bear our term, after a statement that did not say so.
func (l *line) markedFor(ctx context.Context, lease *keeper.Lease, batch []*task, err error) (ours []*task) {
	if err != nil && lease.Trusted() {
		l.log.Warn(l.about, fmt.Sprintf("%v; reading back", err))
	}
	ours, rest, errBack := l.readBack(lease, batch)
	switch {
	case errBack != nil: // the lease is over, and nobody knows
		for _, t := range batch {
			t.Attempts++ // if it is marked
		}
		l.settler.undo(lease, batch...)
	case err != nil:
		longest := retryLongest
		if errors.Is(err, context.DeadlineExceeded) { // one of them may be locked
			longest = lockedLongest
		}
		l.queue.putBack(l.clock.now(), rest, longest)
	default:
		l.queue.forget(rest...)
	}
	return ours
}

// readBack divides the tasks into those that bear our term and the rest. It asks until it learns it or the lease ends.
func (l *line) readBack(lease *keeper.Lease, batch []*task) (ours, rest []*task, err error) {
	marked := make(map[uint64]store.Marked, len(batch))
	for wait := retryFirst; ; wait = min(2*wait, retryLongest) {
		statement, cancel := context.WithTimeout(lease.Context(), statementMax)
		rows, err := l.jobs.MarkedRows(statement, idsOf(batch), lease.Term)
		cancel()
		if err == nil {
			for _, row := range rows {
				marked[row.ID] = row
			}
			break
		}
		if !sleep(lease.Context(), wait) {
			return nil, nil, err
		}
	}
	for _, t := range batch {
		if row, ok := marked[t.ID]; ok {
			l.nowOurs(t, lease, row.Attempts, row.Lost)
			ours = append(ours, t)
		} else {
			rest = append(rest, t)
		}
	}
	return ours, rest, nil
}

// nowOurs notes on a task that it bears our term, and in the log that an earlier run of it was lost.
func (l *line) nowOurs(t *task, lease *keeper.Lease, attempts, lost int32) {
	if lost > t.Lost {
		l.settler.noteLost(t, lease)
	}
	t.lease, t.Term, t.Attempts, t.Lost = lease, lease.Term, attempts, lost
	if l.cfg.OrderedByKey {
		l.queue.remember(t)
	}
}

// permitSuspect returns a suspect that may run now: it needs the process's one permit.
func (l *line) permitSuspect() *task {
	if due, ok := l.queue.nextSuspect(); !ok || due > l.clock.now() {
		return nil
	}
	select {
	case l.alone <- struct{}{}:
	default:
		return nil
	}
	suspect := l.queue.pickSuspect(l.clock.now())
	if suspect == nil {
		<-l.alone
	}
	signal(l.roomCame)
	return suspect
}

// runAlone runs a suspect while nothing else of this job type runs, and everything that ran is written: so the death of
// the process can be held against this job alone. A hung neighbour, or a suspect that takes its time, holds the line up
// only for so long. What is marked and not started goes back to the table: it would start meanwhile, and be counted as lost
// with a process that dies. The permit goes back when the run is over.
func (l *line) runAlone(ctx context.Context, lease *keeper.Lease, suspect *task) {
	if len(l.onlyFirst(lease, []*task{suspect})) == 0 {
		<-l.alone
		return
	}
	l.settler.undo(lease, l.takeReady()...)
	l.awaitQuiet(ctx, nil)
	if !l.isOpen() {
		l.queue.forget(suspect)
		<-l.alone
		return
	}
	if len(l.onlyFirst(lease, []*task{suspect})) == 0 { // that took its time
		<-l.alone
		return
	}
	marked, _ := l.mark(ctx, lease, []*task{suspect})
	if len(marked) == 0 {
		<-l.alone
		return
	}
	suspect.alone, suspect.permit = true, true
	l.start(marked)
	l.awaitQuiet(ctx, suspect)
}

// awaitQuiet waits until the line is quiet, but not for ever. If it is for a suspect, the time counts from its start: the
// rate may hold that up.
func (l *line) awaitQuiet(ctx context.Context, suspect *task) {
	until := time.Now().Add(aloneWaitsFor)
	for !l.quiet() && l.isOpen() && ctx.Err() == nil {
		l.start(nil)
		if suspect != nil && !suspect.begun.Load() {
			until = time.Now().Add(aloneWaitsFor)
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		wait := time.NewTimer(min(left, l.gateOpensIn()))
		select {
		case <-l.rowsCame: // workers signal it too
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
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
