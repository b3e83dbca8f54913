package engine

import (
	"container/heap"
	"strings"
)

// keys lets no more jobs of one business key be in flight than it may, and keeps the rows whose key is taken apart, within
// bounds: parked, they are in nobody's way. A place of a key is taken when a row is picked, and given back when it is
// settled, forgotten or put back; then the key's first row that is parked gets it.
//
// In order, a key has one place, and its rows get it by their ids. Whether a row is the first of its key is for the table
// to say, just before the mark: the one before may wait there for its time. A row that is not the first is parked until
// the first is done, or is no more.
type keys struct {
	most    int // places of each key; 0: keys are not looked at
	ordered bool
	limit   int // rows that are parked
	perKey  int // rows of one key that are parked

	taken  map[string]int
	parked map[string]*keyHeap
	rows   int
}

// newKeys leaves at least half of the queue to rows that are not parked, and several keys a part of the other half.
func newKeys(most int, ordered bool, limit int) keys {
	if ordered {
		most = 1
	}
	return keys{most: most, ordered: ordered, limit: max(1, limit/2), perKey: max(1, limit/8), taken: map[string]int{}, parked: map[string]*keyHeap{}}
}

// keyOf is the key by which a row is told from others. Databases do not agree on blanks at its end.
func keyOf(t *task) string { return strings.TrimRight(t.Key, " ") }

// take takes a place for the row, if its key has one and none of its rows that are parked is to go first.
func (k *keys) take(t *task) bool {
	if k.most == 0 || t.Key == "" || t.placed {
		return true
	}
	key := keyOf(t)
	if k.taken[key] >= k.most {
		return false
	}
	if parked := k.parked[key]; k.ordered && parked != nil && parked.rows[0].ID < t.ID {
		return false
	}
	k.place(key, t)
	return true
}

// free reports whether take would succeed. The row has no place yet.
func (k *keys) free(t *task) bool {
	free := k.take(t)
	k.leave(t)
	return free
}

func (k *keys) place(key string, t *task) {
	t.placed = true
	k.taken[key]++
}

// leave gives the row's place back, if it has one.
func (k *keys) leave(t *task) (left bool) {
	if !t.placed {
		return false
	}
	t.placed = false
	key := keyOf(t)
	if k.taken[key]--; k.taken[key] == 0 {
		delete(k.taken, key)
	}
	return true
}

// park keeps a row until its key is free. It reports false if there is no room.
func (k *keys) park(t *task) bool {
	key := keyOf(t)
	rows := k.parked[key]
	if rows == nil {
		rows = &keyHeap{ordered: k.ordered}
	}
	if k.rows >= k.limit || rows.Len() >= k.perKey {
		return false
	}
	k.parked[key] = rows
	heap.Push(rows, t)
	k.rows++
	return true
}

// next takes a place for the first of the key's rows that are parked, and returns it; nil: there is none, or no place.
func (k *keys) next(key string) *task {
	rows := k.parked[key]
	if rows == nil || k.taken[key] >= k.most {
		return nil
	}
	t := heap.Pop(rows).(*task)
	if k.rows--; rows.Len() == 0 {
		delete(k.parked, key)
	}
	k.place(key, t)
	return t
}

// held returns at most n of the keys of which rows are parked and none is in flight: what holds them back is not in
// memory, or waits for its time.
func (k *keys) held(n int) (held []string) {
	for key := range k.parked { // another order each time
		if len(held) == n {
			break
		}
		if k.taken[key] == 0 {
			held = append(held, key)
		}
	}
	return held
}

// clear forgets the rows that are parked, and returns them. Places stay taken by those in flight.
func (k *keys) clear() (rows []*task) {
	for _, parked := range k.parked {
		rows = append(rows, parked.rows...)
	}
	clear(k.parked)
	k.rows = 0
	return rows
}

// keyHeap orders the parked rows of a key: by their ids, and unless that is all that counts, the most urgent first.
type keyHeap struct {
	rows    []*task
	ordered bool
}

func (h *keyHeap) Len() int { return len(h.rows) }
func (h *keyHeap) Less(i, j int) bool {
	a, b := h.rows[i], h.rows[j]
	if !h.ordered && a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.ID < b.ID
}
func (h *keyHeap) Swap(i, j int) { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *keyHeap) Push(t any)    { h.rows = append(h.rows, t.(*task)) }
func (h *keyHeap) Pop() any {
	last := h.rows[len(h.rows)-1]
	h.rows[len(h.rows)-1] = nil
	h.rows = h.rows[:len(h.rows)-1]
	return last
}
