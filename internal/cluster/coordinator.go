package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	takeMax  = time.Second     // taking leases must not keep renewals waiting, see patience
	lieMax   = 5 * time.Second // how long a lease lies until an instance takes it that is drained
	turnsMax = 1000            // seats that give their leases away one after the other

	// stopPatience is how long a statement may take that gives a lease back, although everything else ends.
	stopPatience = 2 * time.Second
)

// Coordinator is this instance's part in sharing out the leases of the database. It looks at them every now and then, takes what is
// free, asks for what others have too much of, and gives what others ask for; package share has the rules.
type Coordinator struct {
	process  Process
	types    types
	pace     pace
	patience patience
	farewell farewell
	pauses   pausing
	dormancy dormancy
	laying   laying
	seats    *ground.List[*seat]          // retired ones stay until what they have run is written
	byName   map[string]*seat             // that have not retired, by their leases
	unaware  map[string]unaware           // the last holders of leases that were broken, and then taken by this instance
	seen     *snapshot                    // the last one
	heeded   bool                         // what earlier instances with this one's identity have left behind is known
	tidied   bool                         // the rows of instances that are no more were deleted
	needless time.Time                    // since when this instance has had no lease for which it has to live
	presence atomic.Pointer[keeper.Lease] // says that this instance is here; nil: it was not taken yet
	orders   chan order
	keeping  context.Context // of the loop; nil: it has not begun
}

// snapshot is what one look has shown.
type snapshot struct {
	share.View
	rows   []store.Seen
	limits map[int32]store.Limits
	over   []int32 // types whose pause is over
}

// farewell is how an instance leaves. It first says that it is about to stop, and the others, which look twice a second, ask for what falls
// to them: so a type pauses for a moment, however long its handlers take. If nobody asks within a second, it starts no more jobs, and keeps
// its leases until its handlers have ended. An instance that starts in that time asks for the leases, and gets them at once.
type farewell struct {
	leaves chan struct{} // closed: Stop was called
	gone   chan struct{} // closed: nobody can be expected to take over what this instance still has
	said   bool          // the others know that it leaves
	over   bool          // nobody is expected to take over what is left
}

// pausing is what a coordinator knows of pauses.
type pausing struct {
	latest atomic.Pointer[Pauses] // the latest answer
	looks  ground.Looks           // askForPauses'
	ending atomic.Bool            // a statement that ends pauses is under way
}

// laying is what an instance does about types that are divided anew.
type laying struct {
	busy  atomic.Bool      // a goroutine does the next steps, and has what follows
	again map[int32]*later // by job types
}

// later is when a step is tried again that has failed.
type later struct {
	ground.Backoff
	at time.Time
}

// ErrStopped says that the process stops.
var ErrStopped = errors.New("runner stopped")

// Change is an order to change the job types of an instance while it runs. Only the coordinator's loop carries it out, between two looks at
// the leases: so types, members and leases change in one goroutine.
//
// A type that gets another configuration gets new members. Its earlier ones retire: they start no more jobs, give their leases up as
// if another instance had asked for them, and end when what they ran is written. Until then, what they run counts against the
// limits of the new members, and no job runs twice.
type Change struct {
	Cast   []queue_job.Config // types that are new, or get another configuration
	Remove []int32
}

type order struct {
	Change
	answer chan answer
}

type answer struct {
	retired []Member
	err     error
}

// Instance is what this instance is called as a holder of leases.
func (c *Coordinator) Instance() string { return c.process.Instance }

// Configured are the configurations, within the limits that the table has, in the order of their types.
func (c *Coordinator) Configured() []queue_job.Config { return c.types.configured() }

// ShortestLock is the length of the lease that says that this instance is here. It ends when the first of its other leases does.
func (c *Coordinator) ShortestLock() time.Duration { return c.types.shortestLock() }

// held are the types of which this instance serves a lease, or would but for a moment.
func (c *Coordinator) held() map[int32]bool {
	types := map[int32]bool{}
	for _, s := range c.seats.All() {
		if s.held() != nil {
			types[s.JobType] = true
		}
	}
	return types
}

// Holding is the context of the lease that says that this instance is here. It stands for the other leases: they are renewed together.
// If there is none, one of those does.
func (c *Coordinator) Holding() context.Context {
	if here := c.presence.Load(); here != nil && here.Context().Err() == nil {
		return here.Context()
	}
	for _, s := range c.seats.All() {
		if lease := s.held(); lease != nil {
			return lease.Context()
		}
	}
	return c.process.Life
}

func (c *Coordinator) leaving() bool {
	select {
	case <-c.farewell.leaves:
		return true
	default:
		return false
	}
}

// Release gives a lease back.
func (c *Coordinator) Release(lease *keeper.Lease) {
	c.lastly(c.process.About, lease, func(ctx context.Context) error {
		_, err := c.process.Keeper.Release(ctx, lease)
		return err
	})
}

// lastly sends the last statement about a lease, although the process ends.
func (c *Coordinator) lastly(about context.Context, lease *keeper.Lease, statement func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.process.Life), stopPatience)
	defer cancel()
	if err := statement(ctx); err != nil {
		c.process.Log.Warn(about, fmt.Sprintf("%s: %v; it is given back when the database answers, or it expires", lease.Want.Name, err))
	}
}
