package cluster

import (
	"cmp"
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Process is what the coordinator needs of the process that it works for.
type Process struct {
	Tables   Tables
	Keeper   *keeper.Keeper
	Service  string          // of the instance
	Instance string          // what it is called as a holder of leases
	About    context.Context // for messages about the database as a whole
	Log      logger.Logger
	Clock    *ground.Clock
	Errlog   *ground.Errlog
	LeaseLog LeaseLog
	Life     context.Context                  // of the process: handlers and statements end with it
	Go       func(func())                     // starts a goroutine for which a stop waits before it gives leases back
	Working  func(func(context.Context)) bool // runs a function before a stop begins to wait, if none does yet; jobs start while its context lives
	Members  Members
	Hears    Hears
}

// Tables is what the coordinator reads and writes besides the leases. *store.Store has it; its methods carry the contracts.
type Tables struct {
	Pauses   Pausing
	Layouts  Layouts  // of the types that are divided into shards
	Dormancy Dormancy // nil: no type is ever dormant
	RestRuns RestRuns // nil: nobody tells what handlers have whose lease was given away
}

// Pausing says which types are paused, and ends pauses that are over.
type Pausing interface {
	Paused(ctx context.Context) ([]int32, error)
	EndPauses(ctx context.Context, types []int32) (ended int, err error)
}

// Layouts divides job types into shards. *store.Store has it; its methods carry the contracts.
type Layouts interface {
	SetLayout(ctx context.Context, jobType int32, from, to int64) (changed bool, err error)
	MakeClosed(ctx context.Context, names []string, layout int64) error
	CloseLeases(ctx context.Context, names []string, layout int64) error
	OpenLeases(ctx context.Context, names []string, layout, term int64) error
}

// Dormancy says which types have work. *store.Store has it. What changes the leases is the keeper's.
type Dormancy interface {
	HaveWork(ctx context.Context, types []int32) (map[int32]bool, error)
}

// RestRuns is what tells the next holder of a lease which jobs and keys handlers still have: rows of async_job_now_tab, under the name of the
// rest. The rows of jobs do not tell, since a handler may run on when its job is final, deleted, or cancelled and retried. *store.Store has it;
// its methods carry the contracts.
type RestRuns interface {
	WriteRestRuns(ctx context.Context, rest string, rows int, turn int64, runs store.Runs) error
	DropRestRuns(ctx context.Context, rest string, rows int) error
}

// Hears is what the process wants to hear.
type Hears struct {
	Looked    func(err error)               // a look is over; nil: it has shown the leases, and this instance has taken its part of the free ones
	ClockRead func()                        // a look has read the database's clock
	Here      func(context.Context)         // the lease was taken that says that this instance is here
	Came      func([]queue_job.Config)      // types were added, or have other configurations
	Taken     func(working context.Context) // leases of types were taken, and their members know
}

// LeaseLog notes who gets a lease and how it ends, and who was buried.
type LeaseLog interface {
	Taken(m Member, lease *keeper.Lease)
	Ended(lease *keeper.Lease, how string, at int64)
	Buried(b keeper.Burial, at int64)
}

// Members makes members.
type Members interface {
	About(cfg *queue_job.Config) context.Context // for messages about a type
	Try(cfg *queue_job.Config) error             // whether members can be made of a configuration
	New(cfg *queue_job.Config, is Spec) (Member, error)
	Begin(members []Member) // from now on, they write outcomes
}

// Member works a job type, or a shard of it, under one lease after the other. Under a lease that it has given up, it starts nothing, and
// what runs, runs on.
type Member interface {
	About() context.Context // for messages about it

	Hold(*keeper.Lease) (serve func(context.Context)) // it is ready for rows at once; serve starts jobs until its context ends, or the lease
	Hear(*Pauses)                                     // which types are paused
	Heed(Remains)                                     // what still runs elsewhere

	Bears(*keeper.Lease) bool           // something was marked under it and is not written yet, or may still be marked
	Running(*keeper.Lease) int          // handlers that run under it
	RunsUnder(*keeper.Lease) store.Runs // what they have
	Busy() bool                         // handlers run, or are about to
	Handlers() int                      // how many
	Knows(row uint64) bool              // it has the row in memory
	Idle() (ended Ended, idle bool)     // it has nothing in memory, and every outcome is written

	Drain(ctx context.Context, bearsNone func() bool) bool // waits until all is written, and reports whether it is
	End(ended func())                                      // it has no lease any more, and gets none: it ends when all is written
}

// Ended is how many runs of a member have ended, in whatever way.
type Ended struct {
	ByStatus  [queue_job.JobStatusCancelled + 1]int64
	Deferrals int64
}

// Remains is what still runs of a member's jobs under terms that were given away.
type Remains struct {
	Terms     []int64      // under which jobs still run, here or elsewhere
	Elsewhere []share.Rest // what of this belongs to other instances
	Running   int          // jobs of this shard that other instances, or retired members of this process, still run
	Earlier   int          // jobs of earlier layouts, of all shards
	Members   []Member     // the retired members of this process that still run something
}

// Pauses is the table's answer to the question which types are paused.
type Pauses struct {
	Types []int32
	Sent  time.Time // when it was asked
	Took  time.Duration
}

// Spec is what a member is made for: a shard of a job type, with one of the type's configurations. It never changes. If a type is to have
// something else, its members retire, and it gets new ones.
type Spec struct {
	JobType int32
	Layout  share.Layout
	Shard   int
	cast    int // how often the type had got another configuration here, or other limits
}

// Lease is the name of the lease.
func (s Spec) Lease() string { return s.Layout.Leases(s.JobType)[s.Shard] }

func (s Spec) compare(other Spec) int {
	return cmp.Or(cmp.Compare(s.JobType, other.JobType), cmp.Compare(s.Layout, other.Layout), cmp.Compare(s.Shard, other.Shard))
}
