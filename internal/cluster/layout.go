package cluster

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/internal/share"
)

// Layouts divides job types into shards. *store.Store has it; its methods carry the contracts.
type Layouts interface {
	SetLayout(ctx context.Context, jobType int32, from, to int64) (changed bool, err error)
	MakeClosed(ctx context.Context, names []string, layout int64) error
	CloseLeases(ctx context.Context, names []string, layout int64) error
	OpenLeases(ctx context.Context, names []string, layout, term int64) error
}

// layOut does what is to be done about the leases of types that are divided anew. It reports whether more is to be done soon: then leases of
// these types are not for anybody yet.
func (c *Coordinator) layOut(ctx context.Context, v *share.View, leaving bool) (more bool, err error) {
	if !leaving {
		if more, err = c.seed(ctx, v); more || err != nil {
			return more, err
		}
	}
	for i := range v.Changes {
		change := &v.Changes[i]
		if c.configOf(change.JobType) == nil {
			continue
		}
		more = true
		if err := divide(ctx, c.Tables.Layouts, change, v.Layouts[change.JobType]); err != nil {
			return more, err
		}
	}
	return more, nil
}

// seed writes the layout of types whose configuration asks for shards, if nobody has done that yet. If the configuration of this
// instance allows fewer shards than the table says, it lowers the number.
func (c *Coordinator) seed(ctx context.Context, v *share.View) (changed bool, err error) {
	for cfg := range c.withLeases(v.Layouts, nil) {
		layout := v.LayoutOf(cfg.JobType)
		wanted := layout.Shards()
		switch most := share.ShardsMax(cfg.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst, cfg.BatchSize); {
		case v.Layouts[cfg.JobType] == 0 && cfg.Shards > 1:
			wanted = cfg.Shards
		case wanted > most:
			c.Log.Error(c.About, fmt.Sprintf("job %s has %d shards, and the configuration allows %d (WorkerPoolCapacity %d, RateBurst %d): "+
				"the number is lowered; raise them, and then call SetShards",
				typeText(cfg), wanted, most, cfg.WorkerPoolCapacity, cfg.RateBurst))
			wanted = most
		}
		if wanted == layout.Shards() {
			continue
		}
		if _, err := c.Tables.Layouts.SetLayout(ctx, cfg.JobType, int64(v.Layouts[cfg.JobType]), int64(layout.Next(wanted))); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
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
