package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
// timers and the scheduler wake several at a time. When jobs are long that is one or two, and few marks are lost with a
// process.
func aheadOf(workers int, runTakes, markTakes time.Duration) int {
	const marks, bunch = 5, time.Millisecond
	if runTakes <= 0 {
		return 0 // nothing has run yet
	}
	return int(min(batchRowsMax, math.Ceil(marks*float64(workers)*float64(markTakes+bunch)/float64(runTakes))))
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
	size, wait := newBatchSize(), retryFirst
	for ctx.Err() == nil && lease.Trusted() {
		if !l.open.Load() {
			l.holdStill(ctx, lease)
			continue
		}
		l.start(l.fallenDue()) // none, perhaps: a worker may have left before its time
		l.giveBackSurplus(lease, markTakes)
		if suspect := l.permitSuspect(); suspect != nil {
			l.runAlone(ctx, lease, suspect)
		}
		l.lookAtHeld(lease)
		room, early := l.roomForMarks(markTakes), 0
		if room > 0 { // else the rows at hand would wait behind those that have yet to fall due
			early = l.roomForEarly()
		}
		batch := l.queue.pick(l.clock.now(), min(room, size.rows))
		if len(batch) == 0 {
			batch = l.queue.pickEarly(l.clock.now()+markedEarly.Milliseconds(), min(early, size.rows))
		}
		picked := len(batch)
		if batch = l.onlyFirst(lease, batch); len(batch) == 0 {
			if l.queue.keys.most > 0 {
				signal(l.roomCame) // rows were parked, or went back to the table
			}
			if picked == 0 {
				l.awaitWork(ctx, room, early)
			}
			continue
		}
		signal(l.roomCame)
		sent := time.Now()
		marked, ok := l.mark(ctx, lease, batch)
		size.after(ok)
		smooth(&markTakes, time.Since(sent))
		l.start(l.holdEarly(marked))
		if ok || len(marked) > 0 {
			wait = retryFirst
			continue
		}
		// Where each is refused, they do not follow each other as fast as they can.
		sleep(ctx, min(wait-time.Since(sent), l.nextForEarly(l.clock.now(), 0)))
		wait = min(2*wait, retryLongest)
	}
}

// holdStill waits while the type is paused. What is marked and not started waits in the table like the rest.
func (l *line) holdStill(ctx context.Context, lease *keeper.Lease) {
	l.settler.undo(lease, l.takeReady()...)
	select {
	case <-l.rowsCame: // the watch signals it
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
	perCall := max(1, l.cfg.BatchSize)
	ahead := min(batchRowsMax, perCall*aheadOf(l.cfg.WorkerPoolCapacity, l.runTakes, markTakes))
	free := perCall * l.freeWorkers()
	if len(l.ready)-free > ahead/2 {
		return 0
	}
	return min(batchRowsMax, l.gate.marks(time.Now(), len(l.ready)), free+ahead-len(l.ready))
}

// awaitWork waits until a row falls due or something has changed.
func (l *line) awaitWork(ctx context.Context, room, early int) {
	wait := min(time.Hour, l.gateOpensIn())
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

// mark marks the tasks and returns those that are now ours to run. The others are final, gone or marked by a later
// term, and forgotten. When ctx ends meanwhile, a mark that was sent is still heard out, and taken back: a clean stop
// leaves no marks behind. Ok is false if the statement failed.
func (l *line) mark(ctx context.Context, lease *keeper.Lease, batch []*task) (ours []*task, ok bool) {
	slices.SortFunc(batch, func(a, b *task) int { return cmp.Compare(a.ID, b.ID) })
	statement, cancel := context.WithTimeout(lease.Context(), markMax)
	marked, err := l.sendMarks(statement, lease, batch)
	cancel()
	if err == nil && marked == len(batch) {
		for _, t := range batch {
			l.nowOurs(t, lease, t.Attempts+1, lostIfMarked(&t.Row, lease.Term))
		}
		ours = batch
	} else {
		ours = l.markedFor(ctx, lease, batch, err)
	}
	if ctx.Err() != nil {
		l.settler.undo(lease, ours...)
		return nil, false
	}
	return ours, err == nil
}

// sendMarks marks the tasks, those together that have been changed the same number of times: mostly never.
func (l *line) sendMarks(ctx context.Context, lease *keeper.Lease, batch []*task) (marked int, err error) {
	alike := map[int32][]*task{}
	for _, t := range batch {
		alike[t.Changes] = append(alike[t.Changes], t)
	}
	for _, changes := range slices.Sorted(maps.Keys(alike)) {
		tasks := alike[changes]
		n, err := l.jobs.Mark(ctx, idsOf(tasks), createdBy(tasks), changes, lease.Term)
		if marked += n; err != nil {
			return marked, err
		}
	}
	return marked, nil
}

// markedFor finds out which tasks bear our term, after a statement that did not say so.
func (l *line) markedFor(ctx context.Context, lease *keeper.Lease, batch []*task, err error) (ours []*task) {
	if err != nil && lease.Trusted() {
		l.log.Warn(l.about, fmt.Sprintf("%v; reading back", err))
	}
	ours, rest, errBack := l.readBack(lease, batch)
	switch {
	case errBack != nil: // the lease is over, and nobody knows
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
	if !l.open.Load() {
		l.queue.forget(suspect)
		<-l.alone
		return
	}
	marked, _ := l.mark(ctx, lease, []*task{suspect})
	if len(marked) == 0 {
		<-l.alone
		return
	}
	suspect.alone = true
	l.start(marked)
	l.awaitQuiet(ctx, suspect)
}

// awaitQuiet waits until the line is quiet, but not for ever. If it is for a suspect, the time counts from its start: the
// rate may hold that up.
func (l *line) awaitQuiet(ctx context.Context, suspect *task) {
	until := time.Now().Add(aloneWaitsFor)
	for !l.quiet() && l.open.Load() && ctx.Err() == nil {
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
