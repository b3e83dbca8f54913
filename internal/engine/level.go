package engine

import (
	"cmp"
	"container/heap"
	"slices"
)

const (
	levels = 4
	// passes is how many rows of higher levels a row of a lower one lets pass.
	passes = 10
)

// level holds the rows of one priority that wait.
type level struct {
	fresh    []*task
	timed    dueHeap
	unparked []*task // they were parked, and have their slot now
	turn     int     // whose turn it is
	passed   int     // rows of higher levels that were picked while some waited here
}

func (v *level) rows() int { return len(v.fresh) + len(v.timed) + len(v.unparked) }

func (v *level) lane(timed bool) int {
	if timed {
		return len(v.timed)
	}
	return len(v.fresh)
}

// hasDue reports whether a row waits that is due, or may be picked before.
func (v *level) hasDue(now, ahead int64) bool {
	return len(v.fresh)+len(v.unparked) > 0 || len(v.timed) > 0 && v.timed[0].dueFrom(ahead) <= now
}

// pick takes such a row, from the three lists by turns. It must have one (hasDue).
func (v *level) pick(now, ahead int64) *task {
	v.passed = 0
	for {
		v.turn++
		switch v.turn % 3 {
		case 0:
			if len(v.timed) > 0 && v.timed[0].dueFrom(ahead) <= now {
				return heap.Pop(&v.timed).(*task)
			}
		case 1:
			if len(v.fresh) > 0 {
				return shift(&v.fresh)
			}
		case 2:
			if len(v.unparked) > 0 {
				return shift(&v.unparked)
			}
		}
	}
}

// putIn puts a row where it belongs among the others.
func (v *level) putIn(t *task) {
	if t.timed() {
		heap.Push(&v.timed, t)
	} else {
		v.insert(t)
	}
}

// insert puts a fresh row where it stands among the others.
func (v *level) insert(t *task) {
	i, _ := slices.BinarySearchFunc(v.fresh, t.ID, func(t *task, id uint64) int { return cmp.Compare(t.ID, id) })
	v.fresh = slices.Insert(v.fresh, i, t)
}

func shift(list *[]*task) (first *task) {
	first, (*list)[0] = (*list)[0], nil
	*list = (*list)[1:]
	return first
}

// levelOf is the level in which rows of a priority wait, or the nearest one if the priority is out of range.
func levelOf(priority int32) int { return min(max(0, int(2-priority)), levels-1) }

// takeOut takes a row out of the level; nil if it does not wait there.
func (v *level) takeOut(id uint64) *task {
	is := func(t *task) bool { return t.ID == id }
	for _, lane := range []*[]*task{&v.fresh, &v.unparked} {
		if i := slices.IndexFunc(*lane, is); i >= 0 {
			t := (*lane)[i]
			*lane = slices.Delete(*lane, i, i+1)
			return t
		}
	}
	if i := slices.IndexFunc(v.timed, is); i >= 0 {
		return heap.Remove(&v.timed, i).(*task)
	}
	return nil
}

// dueHeap orders tasks by when they fall due.
type dueHeap []*task

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].dueMillis < h[j].dueMillis || h[i].dueMillis == h[j].dueMillis && h[i].ID < h[j].ID
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(t any)   { *h = append(*h, t.(*task)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
