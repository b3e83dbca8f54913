package cluster

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// dormancy is what an instance knows of types that may be dormant. A dormant type has no lease that anybody could take, and no member.
//
// The holder lays a type down: it looks whether the type has a pending job, gives up the lease under another name, and looks again. A
// job that is committed before that second look is found by it. The tail of every instance sees a later one, among the rows that no
// member there wants, and has the type woken. What neither sees, a look at the table finds, which one of the instances takes every
// ten seconds: a job that was retried, or comes from a long transaction, or whose instance has died between the two looks.
//
//	         nothing to do for DormantAfter, and no pending job             a tail, or a look at the table, has seen a job
//	job-7 ──────────────────────────────────────────────────► dormant-7 ──────────────────────────────────────────────────► job-7
//	                                                          no look at the leases reads it; the term stays
//
// So ten thousand types cost what those cost that are awake.
type dormancy struct {
	any   atomic.Bool    // there are types that may be dormant
	first atomic.Bool    // this instance is the one that looks at the table for all
	idle  map[*seat]idle // of seats that serve
	wake  chan struct{}  // the loop: work was noted, or a pause has ended
	look  chan struct{}  // LookForWork: somebody has asked

	mu       sync.Mutex
	noted    map[int32]time.Time // types that had work at that moment, and may be dormant
	asked    map[int32]bool      // types that have had nothing to do, or are new here
	askedAll bool
	none     map[int32]bool // types of those asked about last that have no work
}

func newDormancy() dormancy {
	return dormancy{wake: make(chan struct{}, 1), look: make(chan struct{}, 1), noted: map[int32]time.Time{}}
}

func (d *dormancy) note(jobType int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.noted[jobType]; !known {
		d.noted[jobType] = time.Now()
		ground.Signal(d.wake)
	}
}

// heed compares what was noted with what a look at the leases has shown that was sent at a moment, and returns the types to wake. If
// a type was awake after its work was noted, and is laid down later, its holder looks for work after that.
func (d *dormancy) heed(sent time.Time, awake func(jobType int32) bool) (asleep []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for jobType, at := range d.noted {
		switch {
		case at.After(sent):
			ground.Signal(d.wake)
		case awake(jobType):
			delete(d.noted, jobType)
		default:
			asleep = append(asleep, jobType)
		}
	}
	slices.Sort(asleep)
	return asleep
}

func (d *dormancy) forget(jobType int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.noted, jobType)
}

// idle is since when a member has had nothing to do, as looks at the leases have seen it.
type idle struct {
	since time.Time
	ended Ended
}

// ask has LookForWork look whether types have work; all: whether any has.
func (d *dormancy) ask(all bool, types ...int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = map[int32]bool{}
	}
	for _, jobType := range types {
		d.asked[jobType] = true
	}
	d.askedAll = d.askedAll || all
	ground.Signal(d.look)
}

// takeAsked returns the types that were asked for since the last call, and whether all were.
func (d *dormancy) takeAsked() (types []int32, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	types, all = slices.Sorted(maps.Keys(d.asked)), d.askedAll
	d.asked, d.askedAll = nil, false
	return types, all
}

// without returns the types without work that the last answer has named, once.
func (d *dormancy) without() map[int32]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	none := d.none
	d.none = nil
	return none
}
