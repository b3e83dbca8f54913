package find

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	RowsMax     = 1000 // of each kind, that a look at the due index brings
	horizonSpan = int64(ground.Horizon / time.Second)
)

// Tables is what the finder reads, and sets right. *store.Store has it; its methods carry the contracts.
type Tables interface {
	Tail(ctx context.Context, from uint64, gaps []store.Gap, wanted []store.Wanted, horizon int64, limit int) ([]store.TailRow, error)
	SweepAll(ctx context.Context, types []int32, horizon int64, limit int) (rows []store.Row, more bool, err error)
	Page(ctx context.Context, jobType int32, shard store.Shard, places []store.Place, horizon int64, limit int) ([][]store.Row, error)
	Abandoned(ctx context.Context, jobType int32, lane store.Lane, before int64, upTo uint64) (store.Place, int, error)
	ClampPriorities(ctx context.Context, types []int32) error
}

// Process is what the finder needs of the process that it works for.
type Process struct {
	Tables   Tables
	Newest   func(context.Context) (id uint64, err error)                     // the largest id of the table
	HaveWork func(ctx context.Context, types []int32) (map[int32]bool, error) // which of the types have a pending row; nil: nobody can say
	Life     context.Context                                                  // of the process
	Go       func(func())                                                     // starts a goroutine for which the process waits
	Clock    *ground.Clock
	Errlog   *ground.Errlog
	Idle     func() bool // no job waits or runs
	Strays   Strays
}

// Strays are rows that no sink wants. A type without work may have no sink in any process, until it has a row again.
type Strays struct {
	Wanted func() bool         // the tail follows although there is no sink
	Begin  func()              // the tail begins; it does not know what came before
	Came   func(jobType int32) // a row
}

// Finder finds the rows of all sinks on one database.
type Finder struct {
	process   Process
	reads     *Reads
	tail      tail
	sweepSoon chan struct{}                   // rows of a sink may run again
	here      atomic.Pointer[context.Context] // of the lease that says that this process is here; nil: it was not taken yet

	mu      sync.Mutex
	list    intakes // never changed in place
	changed bool    // the list lacks one, or has one that has ended
	added   intakes // what the list lacks
	unseen  intakes // nobody has looked at their rows
}

// tail finds new rows of all types by their ids, with one query by primary key. It is the fast path: milliseconds
// apart while there is traffic. What it misses, the sweep finds.
type tail struct {
	above atomic.Uint64 // the largest id seen
	born  int64         // when its row was created; 0: not known
	gaps  gaps
	crowd int         // rows of other types that the last poll saw
	jobAt time.Time   // when a job was found last
	swept atomic.Bool // a sweep has found one since
	looks ground.Looks
	wake  chan struct{} // there is somebody to look for
}

// New returns a finder that numbers its reads in reads. Its tail has seen the rows up to an id.
func New(p Process, reads *Reads, newest uint64) *Finder {
	f := &Finder{process: p, reads: reads, sweepSoon: make(chan struct{}, 1), tail: tail{jobAt: time.Now(), wake: make(chan struct{}, 1)}}
	f.tail.above.Store(newest)
	return f
}

// Key says which rows belong to an intake: those of a job type or, if it is divided into shards, of one of them.
type Key struct {
	JobType int32
	Layout  share.Layout
	Shard   int
}

// Intake is what comes in under one lease: it joins the sink with the rows that it is to have.
type Intake struct {
	Key
	finder  *Finder
	sink    Sink
	lease   context.Context
	backlog *Backlog
	ended   atomic.Bool
	leave   func() bool // the lease
}

// Add has the rows of a key offered to a sink until the lease ends, or End is called. The rows that are there already are found by
// Look.
func (f *Finder) Add(key Key, lease context.Context, sink Sink, backlog *Backlog) *Intake {
	in := &Intake{Key: key, finder: f, sink: sink, lease: lease, backlog: backlog}
	in.leave = context.AfterFunc(lease, in.end)
	backlog.begin(f.sweepSoon)
	f.mu.Lock()
	f.added, f.unseen, f.changed = append(f.added, in), append(f.unseen, in), true
	f.mu.Unlock()
	ground.Signal(f.tail.wake)
	return in
}

// End has no more rows offered.
func (in *Intake) End() {
	in.leave()
	in.end()
}

func (in *Intake) end() {
	in.finder.mu.Lock()
	defer in.finder.mu.Unlock()
	in.ended.Store(true)
	in.finder.changed = true
}

// offer offers a row to the sink, unless it is left alone. False: the sink has no room for it.
func (in *Intake) offer(row *store.Row) (accepted bool) {
	if in.backlog.since.Load() != 0 && in.backlog.Abandoned(row) {
		return true
	}
	return in.sink.Offer(row)
}

// over reports whether nobody marks rows under the lease any more.
func (in *Intake) over() bool { return in.ended.Load() || in.lease.Err() != nil }

// Here says that the process has the lease that says that it is here.
func (f *Finder) Here(lease context.Context) {
	f.here.Store(&lease)
	ground.Signal(f.tail.wake)
}

// intakes stand in the order of their keys, so a statement about the same types has the same text each time.
type intakes []*Intake

// intakes returns those that have not ended. The list stays as it is.
func (f *Finder) intakes() intakes {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed {
		f.list = slices.DeleteFunc(slices.Concat(f.list, f.added), func(in *Intake) bool { return in.ended.Load() })
		slices.SortStableFunc(f.list, compare)
		f.added, f.changed = nil, false
	}
	return f.list
}

func compare(a, b *Intake) int {
	return cmp.Or(cmp.Compare(a.JobType, b.JobType), cmp.Compare(a.Layout, b.Layout), cmp.Compare(a.Shard, b.Shard))
}

// types are the job types, each once.
func (list intakes) types() []int32 {
	types := make([]int32, len(list))
	for i := range list {
		types[i] = list[i].JobType
	}
	return slices.Compact(types)
}

// of returns the intake to which a row belongs; nil: there is none.
func (list intakes) of(row *store.Row) *Intake {
	i, found := slices.BinarySearchFunc(list, row.JobType, func(in *Intake, jobType int32) int { return cmp.Compare(in.JobType, jobType) })
	if !found {
		return nil
	}
	shard := 0
	if n := list[i].Layout.Shards(); n > 1 {
		shard = share.ShardOf(row.ID, row.Group(), n)
	}
	for ; i < len(list) && list[i].JobType == row.JobType; i++ {
		if list[i].Shard == shard {
			return list[i]
		}
	}
	return nil
}

// holding returns the context of the lease that says that this process is here. It stands for the leases of the intakes: they are
// renewed together. If there is none, the lease of an intake does.
func (f *Finder) holding(list intakes) context.Context {
	if here := f.here.Load(); here != nil && (*here).Err() == nil {
		return *here
	}
	for _, in := range list {
		if !in.over() {
			return in.lease
		}
	}
	return f.process.Life
}

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
