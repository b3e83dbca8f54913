package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/queue_job"
)

// Add has the engine run the jobs of more types, on databases that it has opened or opens now. Their tables are there, and none of
// the types is configured on its database. After an error, none is added.
func (e *Engine) Add(ctx context.Context, configs []queue_job.Config) error {
	there, others := ground.Divide(ByDatabase(configs), func(group []queue_job.Config) bool { return e.databaseOf(&group[0]) != nil })
	var opened []*database
	for _, group := range others {
		d, err := e.openDatabase(ctx, group)
		if err != nil {
			e.closeUnstarted(opened)
			return fmt.Errorf("add job types: %w", err)
		}
		opened = append(opened, d)
	}
	if err := e.cast(ctx, there); err != nil {
		e.closeUnstarted(opened)
		return fmt.Errorf("add job types: %w", err)
	}
	e.mu.Lock()
	e.list = slices.Concat(e.list, opened)
	e.mu.Unlock()
	for _, d := range opened {
		d.begin()
	}
	return nil
}

// Replace gives configured types other configurations. After an error, none has another.
func (e *Engine) Replace(ctx context.Context, configs []queue_job.Config) error {
	if err := e.cast(ctx, ByDatabase(configs)); err != nil {
		return fmt.Errorf("replace job types: %w", err)
	}
	return nil
}

// cast gives types configurations, on all their databases or on none.
func (e *Engine) cast(ctx context.Context, groups [][]queue_job.Config) error {
	if len(groups) > 1 {
		for _, cfg := range slices.Concat(groups...) {
			if err := try(&cfg); err != nil {
				return err
			}
		}
	}
	for _, group := range groups {
		if others := e.databaseOf(&group[0]).claim(ctx, group); len(others) > 0 {
			return joined(others)
		}
	}
	for _, group := range groups {
		if _, err := e.databaseOf(&group[0]).coordinator.Change(ctx, cluster.Change{Cast: group}); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx) // the other databases do the same now
	}
	return nil
}

// Remove has the engine start no more jobs of these types, on no database. It returns a function that waits until what runs has
// ended and is written, or until its context ends.
func (e *Engine) Remove(ctx context.Context, jobTypes []int32) (await func(context.Context) error, err error) {
	var retired []*member // they have no lease any more, or give it up
	for _, d := range e.databases() {
		some, err := d.coordinator.Change(ctx, cluster.Change{Remove: jobTypes})
		d.health.refused.forget(jobTypes)
		retired = append(retired, membersOf(some)...)
		if err != nil {
			return nil, fmt.Errorf("remove job types: %w", err)
		}
		ctx = context.WithoutCancel(ctx) // the other databases do the same now
	}
	return func(ctx context.Context) error {
		for _, m := range retired {
			select {
			case <-m.line.Closed():
			case <-ctx.Done():
				running := 0
				for _, m := range retired {
					running += m.Handlers()
				}
				return fmt.Errorf("remove job types: %w: %s; what runs, runs on, and its outcomes will be written", context.Cause(ctx),
					ground.Plural(running, "handler still runs", "handlers still run"))
			}
		}
		return nil
	}, nil
}
