package cluster

import (
	"context"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
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
	Hears
}

// Tables is what the coordinator reads and writes besides the leases. *store.Store has it; its methods carry the contracts.
type Tables struct {
	Pauses   Pausing
	Layouts  Layouts  // of the types that are divided into shards
	Dormancy Dormancy // nil: no type is ever dormant
	RestKeys RestKeys // nil: nobody tells which keys handlers have whose lease was given away
}

// Pausing says which types are paused, and ends pauses that are over.
type Pausing interface {
	Paused(ctx context.Context) ([]int32, error)
	EndPauses(ctx context.Context, types []int32) (ended int, err error)
}

// Hears is what the process wants to hear.
type Hears struct {
	Looked    func(err error)               // a look is over; nil: it has shown the leases, and this instance has taken its part of the free ones
	ClockRead func()                        // a look has read the database's clock
	Here      func(context.Context)         // the lease was taken that says that this instance is here
	Came      func([]queue_job.Config)      // types were added, or have other configurations
	Taken     func(working context.Context) // leases of types were taken, and their members know
}

// LeaseLog notes who gets a lease and how it ends.
type LeaseLog interface {
	Taken(m Member, lease *keeper.Lease)
	Ended(lease *keeper.Lease, how string, at int64)
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

	Bears(*keeper.Lease) bool                              // something was marked under it and is not written yet, or may still be marked
	Running(*keeper.Lease) int                             // handlers that run under it
	KeysUnder(*keeper.Lease) (keys []string, limited bool) // which they have; not limited: nobody need know
	Busy() bool                                            // handlers run, or are about to
	Handlers() int                                         // how many
	Knows(row uint64) bool                                 // it has the row in memory
	Idle() (ended Ended, idle bool)                        // it has nothing in memory, and every outcome is written

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
