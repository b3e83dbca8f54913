package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
)

// doubts are marks that may still be carried out: the connection broke, and the table does not show them. As long as the lease is
// held, that does no harm: whichever of two marks comes first, the other finds another version of the row. But whoever gives the
// lease away waits until they would be late, and takes back those that were carried out after all.
type doubts struct {
	any  atomic.Bool // there are some; so that marks cost nothing
	mu   sync.Mutex
	list []mayBeMarked
}

type mayBeMarked struct {
	*task // a copy, as it is if it was marked
	lease *keeper.Lease
	until time.Time
}

// add notes tasks for whose marks that is so.
func (d *doubts) add(lease *keeper.Lease, until time.Time, tasks []*task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := idsOf(tasks)
	slices.Sort(known)
	d.list = slices.DeleteFunc(d.list, func(old mayBeMarked) bool {
		_, again := slices.BinarySearch(known, old.ID) // whichever of the two is carried out, the other does nothing
		return again && old.lease == lease || old.lease.Context().Err() != nil
	})
	for _, t := range tasks {
		marked := &task{Row: t.Row, left: true}
		marked.Attempts++
		d.list = append(d.list, mayBeMarked{marked, lease, until})
	}
	d.any.Store(len(d.list) > 0)
}

// resolve forgets what is known by now.
func (d *doubts) resolve(tasks ...*task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := idsOf(tasks)
	slices.Sort(ids)
	d.list = slices.DeleteFunc(d.list, func(old mayBeMarked) bool {
		_, known := slices.BinarySearch(ids, old.ID)
		return known
	})
	d.any.Store(len(d.list) > 0)
}

// under reports whether marks under a lease are still in doubt. It returns, once, the marks whose deadline is over.
func (d *doubts) under(lease *keeper.Lease) (any bool, over []*task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(one mayBeMarked) bool {
		switch {
		case one.lease != lease:
			return false
		case time.Now().Before(one.until):
			any = true
			return false
		}
		over = append(over, one.task)
		return true
	})
	d.any.Store(len(d.list) > 0)
	return any, over
}
