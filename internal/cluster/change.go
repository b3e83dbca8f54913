package cluster

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Change carries out a change. It returns the members of types that are removed, which go on until what they run is written.
func (c *Coordinator) Change(ctx context.Context, change Change) (retired []Member, err error) {
	o := order{change, make(chan answer, 1)}
	select {
	case c.orders <- o:
		done := <-o.answer
		return done.retired, done.err
	case <-c.process.Life.Done():
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
		if err := c.process.Members.Try(&o.Cast[i]); err != nil {
			return answer{err: err}
		}
		gone[o.Cast[i].JobType] = true
	}
	for _, jobType := range o.Remove {
		gone[jobType] = true
	}
	stay := slices.DeleteFunc(slices.Clone(c.types.given), func(cfg queue_job.Config) bool { return gone[cfg.JobType] })
	c.configure(append(stay, o.Cast...))
	c.limit(maps.Keys(c.types.limits))
	for i := range o.Cast {
		c.types.casts[o.Cast[i].JobType]++
	}
	if c.reconcile(&c.seen.View, nil, nil, false) > 0 {
		c.pace.castAt = time.Now()
	}
	for _, s := range c.seats.All() { // of earlier configurations, too
		if slices.Contains(o.Remove, s.JobType) {
			done.retired = append(done.retired, s.Member)
		}
	}
	c.process.Hears.Came(o.Cast)
	return done
}

func (c *Coordinator) configure(configs []queue_job.Config) {
	sorted := slices.Clone(configs)
	slices.SortFunc(sorted, func(a, b queue_job.Config) int { return cmp.Compare(a.JobType, b.JobType) })
	c.types.given = sorted
	c.types.within.Store(&sorted)
	c.types.constant = nil
	for i := range sorted {
		if !c.types.mayBeDormant(&sorted[i]) {
			c.types.constant = append(c.types.constant, i)
		}
	}
	c.dormancy.any.Store(len(c.types.constant) < len(sorted))
}

// heedLimits applies what a look has shown of limits. If somebody has changed the limits of a type, the type gets other members. A look
// takes leases only after that, so none starts a job beyond the limits that the look has shown.
func (c *Coordinator) heedLimits(limits map[int32]store.Limits) {
	if len(limits)+len(c.types.limits) == 0 {
		return
	}
	types := maps.Clone(limits)
	maps.Copy(types, c.types.limits)
	c.types.limits = limits
	for _, cfg := range c.limit(maps.Keys(types)) {
		text := queue_job.Limits{Workers: cfg.WorkerPoolCapacity, RatePerSecond: cfg.RatePerSecond}.String()
		c.process.Log.Info(c.process.Members.About(&cfg), "limits: "+text)
		c.types.casts[cfg.JobType]++
	}
}

// limit has this instance work types within the limits that the last look has shown, and returns the configurations that are others now. What
// the application gave stays as it is.
func (c *Coordinator) limit(types iter.Seq[int32]) (changed []queue_job.Config) {
	configs := c.types.configured()
	for _, jobType := range slices.Sorted(types) {
		place, found := placeIn(configs, jobType)
		if !found {
			continue
		}
		was, is := &configs[place], limited(c.types.given[place], c.types.limits[jobType], c.seen.LayoutOf(jobType).Shards())
		if was.WorkerPoolCapacity == is.WorkerPoolCapacity && was.RatePerSecond == is.RatePerSecond && was.RateBurst == is.RateBurst {
			continue
		}
		if len(changed) == 0 {
			configs = slices.Clone(configs)
		}
		configs[place] = is
		changed = append(changed, is)
	}
	if len(changed) > 0 {
		c.types.within.Store(&configs)
	}
	return changed
}
