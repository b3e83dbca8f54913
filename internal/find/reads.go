package find

import (
	"slices"
	"sync"
)

// Reads knows which reads of the table are under way. A read is a picture of the past: it may show as pending a job that has
// been finished here since. So the id of a forgotten job stays known until every read that began before is over.
type Reads struct {
	mu     sync.Mutex
	last   uint64   // number of the read that began last
	active []uint64 // numbers of the reads that are under way, ascending
}

// Begin numbers a read; the function ends it.
func (r *Reads) Begin() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	number := r.last
	r.active = append(r.active, number)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		i, _ := slices.BinarySearch(r.active, number)
		r.active = slices.Delete(r.active, i, i+1)
	}
}

// Span returns the number of the newest read and that of the oldest one under way, or a later one if none is.
func (r *Reads) Span() (newest, oldest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.active) == 0 {
		return r.last, r.last + 1
	}
	return r.last, r.active[0]
}
