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
	if ctx.Err() != nil { // it need not start here, and the log may not say what was lost
		d.settler.undo(d.lease, marked...)
		return
	}
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

// sieve finds out which rows others have locked, by looks that mark nothing. A mark is about as many rows as workers are idle, and needs five
// statements if it finds all of them locked. So after a mark that has mostly found locked rows, the rows behind are looked at first, four times
// as many with each look, until one is free: ten thousand locked rows take a dozen looks.
//
// Rows that are known to be locked are looked at again and again. These looks take a fifth of the time at most. Each is about so few rows that
// its answer comes soon, because new jobs wait for that answer.
type sieve struct {
	due     bool      // the rows behind the last mark are to be looked at
	rows    int       // of the last such look; 0: the last mark has found no locked row
	most    int       // rows of a look, by how long the last ones took; 0: as many as a mark may have
	restEnd time.Time // until then, nothing is looked at that is known to be locked
}

const (
	lookAtLockedMax   = time.Second         // for the read
	lookAtLockedTakes = lookAtLockedMax / 5 // and no longer, if it can be helped
	lookAtLockedLeast = 50                  // rows: fewer would hardly be faster
	siftGrows         = 4
)

// marked heeds what a mark has found.
func (s *sieve) marked(rows, locked int) {
	switch {
	case locked == 0:
		s.due, s.rows = false, 0
	case 2*locked >= rows:
		s.due, s.rows = true, max(s.rows, rows)
	}
}

// next is how many rows to look at before the next mark.
func (s *sieve) next() int {
	s.rows = min(siftGrows*s.rows, batchRowsMax)
	return min(s.rows, s.limit())
}

func (s *sieve) limit() int {
	if s.most == 0 {
		return batchRowsMax
	}
	return s.most
}

// looked heeds how long a look at some rows took.
func (s *sieve) looked(rows int, took time.Duration, failed bool) {
	switch most := s.limit(); {
	case failed:
		s.most = smaller(min(rows, most))
	case took > lookAtLockedTakes:
		s.most = max(lookAtLockedLeast, min(rows, most)/2)
	case rows == most:
		s.most = min(2*most, batchRowsMax)
	}
}

// siftDue looks which of the rows that are due next are locked.
func (d *dispatcher) siftDue() {
	d.workers.start(d.process.Clock.At(time.Now()))
	tasks := d.queue.takeDue(d.process.Clock.Now(), d.sieve.next())
	if len(tasks) == 0 {
		d.sieve.due = false
		return
	}
	ground.Signal(d.roomCame)
	free, err := d.look(tasks)
	if err != nil {
		d.queue.back(tasks...) // marks will tell
	}
	d.sieve.due = err == nil && free == 0
}

// lookAtLocked lets rows go on whose locks are gone.
func (d *dispatcher) lookAtLocked() {
	began := time.Now()
	if began.Before(d.sieve.restEnd) {
		return
	}
	tasks := d.queue.takeLocked(began, d.sieve.limit())
	if len(tasks) == 0 {
		return
	}
	free, err := d.look(tasks)
	if err != nil {
		d.queue.lock(time.Now(), tasks...)
	}
	if free == 0 {
		const rests = 4
		d.sieve.restEnd = time.Now().Add(rests * time.Since(began))
	}
}

// lookAtLockedIn is how long until locked rows are to be looked at.
func (d *dispatcher) lookAtLockedIn(now time.Time) time.Duration {
	return max(d.queue.lookAtLockedIn(now), d.sieve.restEnd.Sub(now))
}

// look asks which tasks are locked. Locked tasks wait apart, and free tasks go on; it returns how many are free. After an error, it has done nothing.
func (d *dispatcher) look(tasks []*task) (free int, err error) {
	began := time.Now()
	statement, cancel := context.WithTimeout(d.lease.Context(), lookAtLockedMax)
	ids, err := d.process.Jobs.Unlocked(statement, idsOf(tasks))
	cancel()
	d.sieve.looked(len(tasks), time.Since(began), err != nil)
	if d.process.Errlog.On(d.lease.Context(), "look at locked jobs", err) {
		return 0, err
	}
	slices.Sort(ids)
	unlocked, others := ground.Divide(tasks, func(t *task) bool {
		_, is := slices.BinarySearch(ids, t.row.ID)
		return is
	})
	d.queue.back(unlocked...)
	d.marker.passedOver(d.lease, others)
	return len(unlocked), nil
}
