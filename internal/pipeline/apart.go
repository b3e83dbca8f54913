package pipeline

import (
	"context"
	"slices"
	"sync/atomic"
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

// Permit is the engine's one permit to run a suspect. The task that has it gives it back.
type Permit struct {
	place chan struct{} // full: a task has it
	of    atomic.Pointer[task]
}

func NewPermit() *Permit { return &Permit{place: make(chan struct{}, 1)} }

// take gives the permit to the task that pick returns, unless another one has it. It returns that task; nil: none may run.
func (p *Permit) take(pick func() *task) *task {
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

func (p *Permit) has(t *task) bool { return p.of.Load() == t }

// giveBack takes the permit from a task, if the task has it.
func (p *Permit) giveBack(t *task) {
	if p.of.CompareAndSwap(t, nil) {
		<-p.place
	}
}

// lockedTask is a task whose row another transaction has locked. A mark passes over such rows. They wait apart, where they are in no
// mark's way and take no slot of their key. A read finds out which of them are free again: a thousand rows with one statement, at
// first after 20 ms, later once a second. Only then they are marked again.
type lockedTask struct {
	task   *task
	lookAt time.Time
}

const lookAtLockedMax = time.Second // for the read

// lock lets picked rows wait until their locks are gone.
func (q *queue) lock(now time.Time, tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		q.locked = append(q.locked, lockedTask{t, now.Add(t.refusal(ground.RetryLongest))})
		q.known[t.row.ID] = t.row.Changes
		q.leaveWaiting(t)
	}
	q.waiting += len(tasks)
	slices.SortStableFunc(q.locked, func(a, b lockedTask) int { return a.lookAt.Compare(b.lookAt) })
}

// takeLocked takes at most n locked rows whose time to be looked at has come, or comes within ten milliseconds.
func (q *queue) takeLocked(now time.Time, n int) (tasks []*task) {
	const soon = 10 * time.Millisecond
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.locked) == 0 || now.Before(q.locked[0].lookAt) {
		return nil
	}
	for len(tasks) < min(n, len(q.locked)) && q.locked[len(tasks)].lookAt.Before(now.Add(soon)) {
		tasks = append(tasks, q.locked[len(tasks)].task)
	}
	q.locked = slices.Delete(q.locked, 0, len(tasks))
	q.waiting -= len(tasks)
	return tasks
}

// lookAtLockedIn is how long until locked rows are to be looked at.
func (q *queue) lookAtLockedIn(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.locked) == 0 {
		return time.Hour
	}
	return q.locked[0].lookAt.Sub(now)
}

// takeOutLocked takes a row out of the locked ones; nil if it is not there.
func (q *queue) takeOutLocked(id uint64) *task {
	i := slices.IndexFunc(q.locked, func(l lockedTask) bool { return l.task.row.ID == id })
	if i < 0 {
		return nil
	}
	t := q.locked[i].task
	q.locked = slices.Delete(q.locked, i, i+1)
	return t
}

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
