package pipeline

import "time"

// pickEarly takes rows that soon fall due. If keys decide who may start, it takes none: an early row would take the turn of another.
func (d *dispatcher) pickEarly(now int64, f *found) (batch []*task) {
	if d.turns == nil {
		f.early = d.workers.roomForEarly()
	}
	if f.early > 0 {
		batch, f.left = d.queue.pick(now, markedEarly.Milliseconds(), min(f.early, d.rows), f.early)
	}
	f.ahead = len(batch) > 0
	return batch
}

// roomForEarly is how many rows to mark before their time. If a rate decides who may start, there is no room: an early row
// would take the turn of another.
func (w *workers) roomForEarly() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != nil {
		return 0
	}
	capacity, cycle := w.pace()
	most := earlyMax // nothing has run yet, so nobody knows: if it turns out to be too many, they go back
	switch {
	case cycle > 0:
		most = min(most, int(time.Duration(capacity)*markedEarly/cycle))
	case w.places != nil:
		most = 0
	}
	return max(0, min(batchRowsMax, capacity-w.alive+w.coming+most-len(w.ready)-len(w.early)))
}

// giveBackSurplus takes back the marks of tasks that will not start soon.
func (d *dispatcher) giveBackSurplus(turn time.Time) {
	for _, t := range d.workers.surplus(turn, d.process.Clock.At(turn)) {
		d.marker.takeBack(d.lease, t)
	}
}

// surplus takes marked tasks that will not start soon: a marked row cannot be changed, and counts as lost if the process dies.
// If the database's clock, in milliseconds, was set back, the early tasks are surplus too.
func (w *workers) surplus(now time.Time, database int64) (surplus []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	surplus = w.waitsTooLong(now)
	if len(w.early) > 0 && w.early[0].dueMillis > database+surplusAfter.Milliseconds() {
		surplus = append(surplus, w.early...)
		w.early = nil
	}
	return surplus
}

// waitsTooLong takes the ready tasks when the first of them has waited for long, because runs have turned out to be slow.
// The caller holds the lock.
func (w *workers) waitsTooLong(now time.Time) (surplus []*task) {
	waited := w.readyFor(now)
	if waited < surplusAfter {
		return nil
	}
	if stuck := min(waited, now.Sub(w.runs.ended)); stuck >= surplusAfter && w.places != nil {
		w.places.turnTakes = max(w.places.turnTakes, stuck)
	} else if stuck >= surplusAfter { // no run has ended since
		w.runs.take = max(w.runs.take, stuck)
	}
	surplus, w.ready = w.ready, nil
	return surplus
}

// readyFor is how long the first ready task has waited while all workers are at work. It is 0 if there is none, or a worker is
// idle. The caller holds the lock.
func (w *workers) readyFor(now time.Time) time.Duration {
	if capacity, _ := w.pace(); len(w.ready) == 0 || w.alive-w.coming < capacity || w.alive < w.most && !w.places.lacking() {
		return 0
	}
	return max(1, now.Sub(w.ready[0].run.since))
}

// nextMarked is how long until something has to be done about marked tasks.
func (d *dispatcher) nextMarked() time.Duration { return d.workers.nextDue(d.process.Clock.Now()) }

// nextDue is how long until something has to be done about marked tasks: the first early one falls due, or the ready ones have
// waited too long. It is an hour if there are none.
func (w *workers) nextDue(database int64) time.Duration {
	wait := time.Hour
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.early) > 0 {
		wait = min(wait, time.Duration(w.early[0].dueMillis-database)*time.Millisecond, surplusAfter)
	}
	switch waited := w.readyFor(time.Now()); {
	case waited == 0:
	case waited < surplusAfter:
		wait = min(wait, surplusAfter-waited)
	default:
		wait = min(wait, surplusAfter)
	}
	return wait
}
