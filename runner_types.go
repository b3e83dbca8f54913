package persistent_queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/queue_job"
)

// Add has the Runner run jobs of more types. Use it if types come while the application runs, for example with a customer. Jobs that
// wait already start within a second. The configurations are checked as by [New]; if one is refused, none is added. If the Runner
// does not run, the types begin with its next start.
//
// The error is [ErrStopped] if the Runner is stopping. The context covers the call only.
func (r *Runner) Add(ctx context.Context, configs ...queue_job.Config) error {
	return r.change(ctx, func(ctx context.Context) error { return r.add(ctx, configs) })
}

func (r *Runner) add(ctx context.Context, configs []queue_job.Config) error {
	more, err := r.complete(configs)
	if err != nil {
		return err
	}
	all := slices.Concat(r.configs, more)
	if err := checkTypes(all); err != nil {
		return fmt.Errorf("%w; to change a type that is there, call Replace", err)
	}
	if err := errors.Join(r.checkNames(all), r.checkNumbers(all)); err != nil {
		return err
	}
	if running := r.engine.Load(); running != nil {
		if err := r.prepareTables(ctx, more); err != nil {
			return err
		}
		if err := running.Add(ctx, more); err != nil {
			return err
		}
	}
	r.configs = all
	return nil
}

// Replace gives types that the Runner has other configurations: another handler, capacity, rate, or what else a Config says. The new
// limits hold within a second. Jobs that run, run on, and count against the new limits; no job runs twice for it. The type's shards
// stay as they are, since the database says how many there are. A type that the Runner does not have on that database is refused. If one
// is refused, none is replaced. The error is [ErrStopped] if the Runner is stopping.
//
// The change is for this instance. While instances have different limits, each applies its own to the leases that it holds.
func (r *Runner) Replace(ctx context.Context, configs ...queue_job.Config) error {
	return r.change(ctx, func(ctx context.Context) error { return r.replace(ctx, configs) })
}

func (r *Runner) replace(ctx context.Context, configs []queue_job.Config) error {
	others, err := r.complete(configs)
	if err != nil {
		return err
	}
	if err := checkTypes(others); err != nil {
		return err
	}
	all := slices.Clone(r.configs)
	for _, cfg := range others {
		i := slices.IndexFunc(all, func(there queue_job.Config) bool {
			return there.JobType == cfg.JobType && len(engine.ByDatabase([]queue_job.Config{there, cfg})) == 1
		})
		if i < 0 {
			return fmt.Errorf("queue_job.Config.JobType: the Runner has no job type %d on this handle, with this TablePrefix; call Add", cfg.JobType)
		}
		all[i] = cfg
	}
	if err := errors.Join(r.checkNames(all), r.checkNumbers(all)); err != nil {
		return err
	}
	if running := r.engine.Load(); running != nil {
		if err := running.Replace(ctx, others); err != nil {
			return err
		}
	}
	r.configs = all
	return nil
}

// Remove has the Runner run no more jobs of these types, on any database. Other instances go on with them at once, if they have a
// configuration; otherwise the jobs wait in the table. Remove returns when the jobs that run here have ended and their outcomes are
// written. If ctx ends first, the error says how many run on; their outcomes will be written all the same. If the Runner stops first,
// that error has [ErrStopped] as its cause. A type that the Runner does not have is refused, and then none is removed.
func (r *Runner) Remove(ctx context.Context, jobTypes ...int32) error {
	ctx, done := r.calls.untilStop(ctx)
	defer done()
	var await func(context.Context) error
	err := r.change(ctx, func(ctx context.Context) (err error) {
		await, err = r.remove(ctx, jobTypes)
		return err
	})
	if err != nil || await == nil {
		return err
	}
	return await(ctx)
}

// change has a function change the Runner's types. Its context ends with a Stop.
func (r *Runner) change(ctx context.Context, act func(context.Context) error) error {
	ctx, done := r.calls.untilStop(ctx)
	defer done()
	if err := r.calls.enter(ctx); err != nil {
		return err
	}
	defer r.calls.leave()
	err := act(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrStopped) && !errors.Is(err, ErrStopped) { // a driver says no more than that ctx has ended
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

func (r *Runner) remove(ctx context.Context, jobTypes []int32) (await func(context.Context) error, err error) {
	for _, jobType := range jobTypes {
		if !slices.ContainsFunc(r.configs, func(cfg queue_job.Config) bool { return cfg.JobType == jobType }) {
			return nil, fmt.Errorf("the Runner has no job type %d; call Types to see what it has", jobType)
		}
	}
	if running := r.engine.Load(); running != nil {
		if await, err = running.Remove(ctx, jobTypes); err != nil {
			return nil, err
		}
	}
	r.configs = slices.DeleteFunc(slices.Clone(r.configs), func(cfg queue_job.Config) bool { return slices.Contains(jobTypes, cfg.JobType) })
	return await, nil
}

var errNoTypes = errors.New("persistent_queue: the Runner has no job types; call Add before Start")
