package engine

import (
	"container/heap"
	"slices"
)

// replace puts a row in the place of an earlier reading of it, which waits here with another time, priority or parameters.
// The earlier one could not be marked any more; but it might be long until that is tried, and the row may be urgent by now.
// One that is not found is being marked or runs: then the mark, or the next reading after the run, settles it.
func (q *queue) replace(t *task) {
	for i := range q.levels {
		if q.levels[i].takeOut(t.ID) {
			q.known[t.ID] = t.Changes
			q.push(t)
			return
		}
	}
}

// takeOut takes a row out from wherever it waits in the level, and reports whether it did.
func (v *level) takeOut(id uint64) bool {
	is := func(t *task) bool { return t.ID == id }
	if i := slices.IndexFunc(v.fresh, is); i >= 0 {
		v.fresh = slices.Delete(v.fresh, i, i+1)
		return true
	}
	if i := slices.IndexFunc(v.timed, is); i >= 0 {
		heap.Remove(&v.timed, i)
		return true
	}
	return false
}
