package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/logger"
)

// leaseNews tells whoever wants to know how the leases of types come and go.
type leaseNews struct {
	counts leaseCounts
	losses losses
	hook   *hook[leaseChange] // nil: no observer is told
	log    *upkeep.LeaseLog   // nil: nobody writes it down
	clock  *ground.Clock
	came   chan struct{} // the watch of cancellations: there may be something at work
}

// changed is told that the lease of a type was taken, or that nothing is started under it any more.
func (n *leaseNews) changed(jobType int32, shard int, held bool) {
	n.counts.note(jobType, held)
	if n.hook != nil {
		n.hook.Add(leaseChange{jobType, shard, held})
	}
	if held {
		ground.Signal(n.came)
	}
}

// Taken writes down who has got a lease.
func (n *leaseNews) Taken(m cluster.Member, lease *keeper.Lease) {
	n.log.Taken(upkept{m.(*member)}, lease.Term, lease.Owner(), n.clock.Now())
}

// Ended writes down how a lease has ended.
func (n *leaseNews) Ended(lease *keeper.Lease, how string, at int64) {
	n.log.Ended(lease.Want.Name, lease.Term, how, at)
}

// Buried writes down that this instance has buried another one.
func (n *leaseNews) Buried(b keeper.Burial, at int64) {
	n.log.Buried(b.Life, b.Term, b.By, b.Beat, at)
}

// leaseCounts counts, by job type, how many leases this process has taken and no longer has, since it started.
type leaseCounts struct {
	mu     sync.Mutex
	counts map[int32]takenAndEnded
}

type takenAndEnded struct{ taken, ended uint64 }

func (c *leaseCounts) note(jobType int32, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[int32]takenAndEnded{}
	}
	n := c.counts[jobType]
	if held {
		n.taken++
	} else {
		n.ended++
	}
	c.counts[jobType] = n
}

func (c *leaseCounts) of(jobType int32) takenAndEnded {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[jobType]
}

// losses tells the log which leases were lost. Leases are renewed together and lost together, so one line names all of a moment.
type losses struct {
	log   logger.Logger
	about context.Context

	mu    sync.Mutex
	names []string
	cause error
	timer *time.Timer
}

// losesTogether is how far apart the losses of a line may be.
const losesTogether = 200 * time.Millisecond

func (l *losses) add(name string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.cause = append(l.names, name), cause
	if len(l.names) == 1 {
		l.timer = time.AfterFunc(losesTogether, l.tell)
	}
}

// tell tells at once.
func (l *losses) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 5
	if len(l.names) == 0 {
		return
	}
	l.timer.Stop()
	slices.Sort(l.names)
	text := strings.Join(l.names[:min(len(l.names), most)], ", ")
	if more := len(l.names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	l.log.Warn(l.about, fmt.Sprintf("lost leases %s: %v; another instance may take over", text, l.cause))
	l.names = nil
}
