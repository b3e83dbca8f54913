package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

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

// Change carries out a change. It returns the members of types that are removed, which go on until what they run is written.
func (c *Coordinator) Change(ctx context.Context, change Change) (retired []Member, err error) {
	o := order{change, make(chan answer, 1)}
	select {
	case c.orders <- o:
		done := <-o.answer
		return done.retired, done.err
	case <-c.Life.Done():
		return nil, ErrStopped
	case <-c.keeping.Done():
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Coordinator) carryOut(o order, leaving bool) (done answer) {
	if leaving {
		return answer{err: ErrStopped}
	}
	gone := map[int32]bool{}
	for i := range o.Cast { // before anything changes: if one is refused, all stays as it is
		if err := c.Members.Try(&o.Cast[i]); err != nil {
			return answer{err: err}
		}
		gone[o.Cast[i].JobType] = true
	}
	for _, jobType := range o.Remove {
		gone[jobType] = true
	}
	stay := slices.DeleteFunc(slices.Clone(c.given), func(cfg queue_job.Config) bool { return gone[cfg.JobType] })
	c.configure(append(stay, o.Cast...))
	c.limit(maps.Keys(c.limits))
	for i := range o.Cast {
		c.casts[o.Cast[i].JobType]++
	}
	if c.reconcile(&c.seen.View, nil, nil, false) > 0 {
		c.pace.castAt = time.Now()
	}
	for _, s := range c.seats.All() { // of earlier configurations, too
		if slices.Contains(o.Remove, s.JobType) {
			done.retired = append(done.retired, s.Member)
		}
	}
	c.Came(o.Cast)
	return done
}
