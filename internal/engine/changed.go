package engine

// replace swaps an earlier reading of a row, which waits here with another time, priority or parameters, for a newer one. The
// mark of the earlier one would fail, but perhaps only after a long wait, and the row may be urgent by now. A row that is being marked
// or runs is not replaced: its mark fails, or it is read again after its run. Neither is a suspect, or a row that is parked behind
// another of its key: its turn comes as it was read, and if its mark fails then, it is read again.
func (q *queue) replace(t *task) {
	old := q.takeOutLocked(t.ID)
	for i := 0; old == nil && i < levels; i++ {
		old = q.levels[i].takeOut(t.ID)
	}
	if old != nil {
		q.known[t.ID] = t.Changes
		q.waiting--
		t.hasSlot = old.hasSlot
		q.push(t)
	}
}
