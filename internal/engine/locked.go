package engine

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// lockedTask is a task whose row another transaction has locked. A mark passes over such rows. They wait apart, where they are in no
// mark's way and take no slot of their key. A read finds out which of them are free again: a thousand rows with one statement, at
// first after 20 ms, later once a second. Only then they are marked again.
type lockedTask struct {
	*task
	lookAt time.Time
}

const lookAtLockedMax = time.Second // for the read

// lock lets picked rows wait until their locks are gone.
func (q *queue) lock(now time.Time, tasks ...*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		q.locked = append(q.locked, lockedTask{t, now.Add(t.refusal(ground.RetryLongest))})
		q.known[t.ID] = t.Changes
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
	i := slices.IndexFunc(q.locked, func(l lockedTask) bool { return l.ID == id })
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
	ids, err := d.jobs.Unlocked(statement, idsOf(tasks))
	cancel()
	if d.errlog.On(d.lease.Context(), "look at locked jobs", err) {
		d.queue.lock(time.Now(), tasks...)
		return
	}
	slices.Sort(ids)
	var free, others []*task
	for _, t := range tasks {
		if _, ok := slices.BinarySearch(ids, t.ID); ok {
			free = append(free, t)
		} else {
			others = append(others, t)
		}
	}
	d.queue.back(free...)
	d.marker.passedOver(d.lease, others)
}
