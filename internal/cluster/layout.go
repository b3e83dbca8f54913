package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
)

// step is what is to be done next about the leases of a type.
type step struct {
	jobType int32
	do      func(context.Context) error
}

// layOut has the next steps done about types that are divided anew. It reports whether there are any: then leases of these types are not for
// anybody yet, and the next look comes soon. No look waits for a step, unless a stop does, since a step may wait for a row that somebody
// has locked.
func (c *Coordinator) layOut(ctx context.Context, v *share.View, leaving bool) (more bool) {
	var steps []step
	if !leaving {
		steps = c.seed(v)
	}
	steps = append(steps, c.divisions(v, steps)...)
	if len(steps) == 0 || c.laying.busy.Swap(true) {
		return len(steps) > 0
	}
	begun := c.process.Working(func(working context.Context) {
		c.process.Go(func() { c.doSteps(working, steps) })
	})
	if !begun {
		c.doSteps(ctx, steps)
	}
	return true
}

// doSteps does a step of each type. What fails is in the next look again, and is tried again later and later: a server may go on waiting for a
// lock for which nobody waits any more.
func (c *Coordinator) doSteps(ctx context.Context, steps []step) {
	defer c.laying.busy.Store(false)
	for _, s := range steps {
		again := c.laying.again[s.jobType]
		if again != nil && time.Now().Before(again.at) {
			continue
		}
		statement, cancel := context.WithTimeout(ctx, c.patience.span())
		err := s.do(statement)
		cancel()
		if !c.process.Errlog.On(ctx, "divide types", err) {
			delete(c.laying.again, s.jobType)
			continue
		}
		if again == nil {
			again = &later{Backoff: ground.Backoff{First: takeMax, Longest: endLongest}}
			c.laying.again[s.jobType] = again
		}
		again.at = time.Now().Add(again.Next())
	}
}

// seed is what writes the layout of types whose configuration asks for shards, if nobody has done that yet. If the configuration of this
// instance allows fewer shards than the table says, it lowers the number.
func (c *Coordinator) seed(v *share.View) (steps []step) {
	for cfg := range c.types.withLeases(v.Layouts, nil) {
		layout := v.LayoutOf(cfg.JobType)
		was, wanted := layout.Shards(), layout.Shards()
		most := share.ShardsMax(cfg.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst, cfg.BatchSize)
		switch {
		case v.Layouts[cfg.JobType] == 0 && cfg.Shards > 1:
			wanted = cfg.Shards
		case wanted > most:
			wanted = most
		}
		if wanted == was {
			continue
		}
		steps = append(steps, step{cfg.JobType, func(ctx context.Context) error {
			changed, err := c.process.Tables.Layouts.SetLayout(ctx, cfg.JobType, int64(v.Layouts[cfg.JobType]), int64(layout.Next(wanted)))
			if changed && was > most {
				c.process.Log.Error(c.process.About, fmt.Sprintf("job %s had %d shards, and the configuration allows %d (WorkerPoolCapacity %d, RateBurst %d): "+
					"the number was lowered; raise them, and then call SetShards",
					typeText(cfg), was, most, cfg.WorkerPoolCapacity, cfg.RateBurst))
			}
			return err
		}})
	}
	return steps
}

// divisions is what does the next step towards each layout that this instance knows of, but for types that get another one now.
func (c *Coordinator) divisions(v *share.View, seeded []step) (steps []step) {
	for i := range v.Changes {
		change := &v.Changes[i]
		isSeeded := slices.ContainsFunc(seeded, func(s step) bool { return s.jobType == change.JobType })
		if c.types.configOf(change.JobType) != nil && !isSeeded {
			steps = append(steps, step{change.JobType, func(ctx context.Context) error {
				return divide(ctx, c.process.Tables.Layouts, change, v.Layouts[change.JobType])
			}})
		}
	}
	return steps
}

// divide does the next step towards a layout. The table has noted another one, or none (0).
func divide(ctx context.Context, layouts Layouts, c *share.Change, noted share.Layout) (err error) {
	if c.Note > 0 {
		_, err = layouts.SetLayout(ctx, c.JobType, int64(noted), int64(c.Note))
		return err
	}
	if len(c.Make) > 0 {
		err = layouts.MakeClosed(ctx, c.Make, int64(c.Layout))
	}
	if err == nil && len(c.Close) > 0 {
		err = layouts.CloseLeases(ctx, c.Close, int64(c.Layout))
	}
	if err == nil && len(c.Open) > 0 {
		err = layouts.OpenLeases(ctx, c.Open, int64(c.Layout), c.Term)
	}
	return err
}
