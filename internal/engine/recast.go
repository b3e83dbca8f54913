package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/queue_job"
)

// recast is an order to change the job types of a database while it runs. Only standBy carries it out, between two looks at the
// leases: so types, lines and leases change in one goroutine.
//
// A type that gets another configuration gets new lines. Its earlier lines retire: they start no more jobs, give their leases up as
// if another instance had asked for them, and end when what they ran is written. Until then, what they run counts against the
// limits of the new lines, and no job runs twice.
type recast struct {
	cast   []queue_job.Config // types that are new, or get another configuration
	remove []int32
	answer chan recasting
}

// recasting is the answer to a recast.
type recasting struct {
	retired []*line
	err     error
}

// order has standBy carry out a recast.
func (d *database) order(ctx context.Context, r recast) (retired []*line, err error) {
	r.answer = make(chan recasting, 1)
	select {
	case d.recasts <- r:
		done := <-r.answer
		return done.retired, done.err
	case <-d.patience.Done():
		return nil, ErrStopped
	case <-d.keeping.Done():
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *standBy) recast(r recast, leaving bool) (done recasting) {
	if leaving {
		return recasting{err: ErrStopped}
	}
	gone := map[int32]bool{}
	for i := range r.cast { // before anything changes: if one is refused, all stays as it is
		cfg := &r.cast[i]
		err := s.pools.provide(*cfg)
		if err == nil {
			err = try(cfg)
		}
		if err != nil {
			return recasting{err: err}
		}
		gone[cfg.JobType] = true
	}
	for _, jobType := range r.remove {
		gone[jobType] = true
	}
	stay := slices.DeleteFunc(slices.Clone(s.given), func(cfg queue_job.Config) bool { return gone[cfg.JobType] })
	s.configure(append(stay, r.cast...))
	s.limit(maps.Keys(s.limits))
	for _, cfg := range r.cast {
		s.refused.forget([]int32{cfg.JobType})
		s.casts[cfg.JobType]++
	}
	if s.reconcile(&s.seen, nil, nil, false) > 0 {
		s.castAt = time.Now()
	}
	for _, l := range s.lines.all() { // of earlier configurations, too
		if slices.Contains(r.remove, l.cfg.JobType) {
			done.retired = append(done.retired, l)
		}
	}
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.working.Err() == nil {
		s.loops.Go(func() { s.register(s.working, r.cast) })
	}
	return done
}

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
		d.start()
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
		if _, err := e.databaseOf(&group[0]).order(ctx, recast{cast: group}); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx) // the other databases do the same now
	}
	return nil
}

// Remove has the engine start no more jobs of these types, on no database. It returns a function that waits until what runs has
// ended and is written, or until its context ends.
func (e *Engine) Remove(ctx context.Context, jobTypes []int32) (await func(context.Context) error, err error) {
	var retired []*line
	for _, d := range e.databases() {
		some, err := d.order(ctx, recast{remove: jobTypes})
		d.refused.forget(jobTypes)
		if retired = append(retired, some...); err != nil {
			return nil, fmt.Errorf("remove job types: %w", err)
		}
		ctx = context.WithoutCancel(ctx) // the other databases do the same now
	}
	return func(ctx context.Context) error {
		for _, l := range retired {
			select {
			case <-l.writing.Done():
			case <-ctx.Done():
				running := 0
				for _, l := range retired {
					running += l.workers.number()
				}
				return fmt.Errorf("remove job types: %w: %s; what runs, runs on, and its outcomes will be written", context.Cause(ctx), plural(running, "handler still runs", "handlers still run"))
			}
		}
		return nil
	}, nil
}
