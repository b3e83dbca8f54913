package engine

// replace puts a row in the place of an earlier reading of it, which waits here with another time, priority or parameters.
// The earlier one could not be marked any more; but it might be long until that is tried, and the row may be urgent by now.
// One that is not found is being marked or runs: then the mark, or the next reading after the run, settles it.
func (q *queue) replace(t *task) {
	for i := range q.levels {
		if old := q.levels[i].takeOut(t.ID); old != nil {
			q.known[t.ID] = t.Changes
			t.hasSlot = old.hasSlot
			q.push(t)
			return
		}
	}
}
