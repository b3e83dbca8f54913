package engine

import (
	"slices"
	"sync"
)

// reads knows which reads of the table are under way. A read is a picture of the past: it may show as pending a job that has
// been finished here since. So the id of a forgotten job stays known until every read that began before is over.
type reads struct {
	mu     sync.Mutex
	last   uint64   // number of the read that began last
	active []uint64 // numbers of the reads that are under way, ascending
}

// begin numbers a read; the function ends it.
func (l *reads) begin() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	number := l.last
	l.active = append(l.active, number)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		i, _ := slices.BinarySearch(l.active, number)
		l.active = slices.Delete(l.active, i, i+1)
	}
}

// span returns the number of the newest read and that of the oldest one under way, or a later one if none is.
func (l *reads) span() (newest, oldest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.active) == 0 {
		return l.last, l.last + 1
	}
	return l.last, l.active[0]
}
