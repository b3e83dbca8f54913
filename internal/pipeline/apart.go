package pipeline

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// permitSuspect returns a suspect that may run now, with the engine's one permit to run a suspect.
func (d *dispatcher) permitSuspect() *task {
	if due, ok := d.queue.nextSuspect(); !ok || due > d.process.Clock.Now() {
		return nil
	}
	suspect := d.process.Permit.take(func() *task { return d.queue.pickSuspect(d.process.Clock.Now()) })
	ground.Signal(d.roomCame)
	return suspect
}

// pickSuspect takes one suspect that is due, or nil.
func (q *queue) pickSuspect(now int64) *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range q.suspects {
		if t.dueMillis <= now && q.keys.take(t) {
			q.suspects = slices.Delete(q.suspects, i, i+1)
			q.waiting--
			return t
		}
	}
	return nil
}

// nextSuspect is when the first suspect falls due whose key has a slot; false if there is none.
func (q *queue) nextSuspect() (due int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.suspects {
		if (!ok || t.dueMillis < due) && q.keys.wouldTake(t) {
			due, ok = t.dueMillis, true
		}
	}
	return due, ok
}

// runAlone runs a suspect while nothing else of this job type runs, and everything that ran is written: so the death of
// the process can be held against this job alone. A hung neighbour, or a suspect that takes its time, holds the line up for
// aloneWaitsFor at most, and the suspects of other lines as long. The marks of rows that have not started are taken back first. Otherwise these
// rows would start beside the suspect, and count as lost if the process dies.
func (d *dispatcher) runAlone(ctx context.Context, suspect *task) {
	started := false
	defer func() {
		if !started {
			d.process.Permit.giveBack(suspect)
		}
	}()
	if d.turns != nil && len(d.turns.mayMark([]*task{suspect})) == 0 {
		return
	}
	d.settler.handBack(d.lease, d.workers.takeUnstarted()...)
	d.awaitQuiet(ctx, nil)
	if !d.awaitPlace(ctx) || !d.starts.allowed() {
		d.marker.refuse([]*task{suspect}, ground.RetryLongest)
		return
	}
	if d.turns != nil && len(d.turns.mayMark([]*task{suspect})) == 0 { // the wait may have been long
		return
	}
	marked, _ := d.marker.mark(ctx, d.lease, []*task{suspect})
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
	for !quiet(d.workers, d.settler) && ctx.Err() == nil {
		begun := suspect != nil && suspect.run.begun.Load()
		if !begun && !d.starts.allowed() {
			return
		}
		d.workers.start(d.process.Clock.Now())
		switch {
		case begun:
			until = suspect.run.started.Add(aloneWaitsFor)
		case suspect != nil:
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
	return await(waiting, d.wake, d.workers.places.claimOne)
}

// awaitNoted waits until the log says that earlier runs were lost: the next one may take the process along. A log that cannot
// be written holds nobody up for longer than a moment.
func (d *dispatcher) awaitNoted(ctx context.Context) {
	const moment = 200 * time.Millisecond
	noted, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	await(noted, d.wake, func() bool { return d.settler.log.unnoted() == 0 })
}

const lookAtLockedMax = time.Second // for the read

// lookAtLocked lets rows go on whose locks are gone.
func (d *dispatcher) lookAtLocked() {
	tasks := d.queue.takeLocked(time.Now(), batchRowsMax)
	if len(tasks) == 0 {
		return
	}
	statement, cancel := context.WithTimeout(d.lease.Context(), lookAtLockedMax)
	ids, err := d.process.Jobs.Unlocked(statement, idsOf(tasks))
	cancel()
	if d.process.Errlog.On(d.lease.Context(), "look at locked jobs", err) {
		d.queue.lock(time.Now(), tasks...)
		return
	}
	slices.Sort(ids)
	var free, others []*task
	for _, t := range tasks {
		if _, ok := slices.BinarySearch(ids, t.row.ID); ok {
			free = append(free, t)
		} else {
			others = append(others, t)
		}
	}
	d.queue.back(free...)
	d.marker.passedOver(d.lease, others)
}
