package queue_job

import (
	"context"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
)

// What Runners need of jobs and configurations, and users do not.
func init() {
	hidden.FilterOf = func(filter any) (store.Filter, error) { return filter.(*Filter).rows() }
	hidden.StartSecond = unixSecond
	hidden.CheckPriority = func(priority any) error { return checkPriority(priority.(Priority)) }
	hidden.Archived = func(ctx context.Context, rows hidden.Rows, ids []uint64) (any, error) {
		return archivedOf(ctx, rows, ids)
	}
	hidden.Through = func(job any, run hidden.Run, number int32) {
		j := job.(*Job)
		j.run, j.number = run, number
	}
	hidden.Completed = func(job any) bool { return atomic.LoadInt32(&job.(*Job).completed) != 0 }
	hidden.Returned = func(job any) { job.(*Job).returned() }
	hidden.StoreOf = func(jobs, ex any) (*store.Store, error) {
		through, _ := ex.(Executor) // nil: no executor was passed
		return jobs.(*Jobs).through(through)
	}
	hidden.ExecutorOf = func(jobs any) any {
		if j := jobs.(*Jobs); j != nil && j.store != nil {
			if ex, ok := j.store.Handle().(Executor); ok {
				return ex
			}
		}
		return nil
	}
	hidden.ActorOf = func(ctx context.Context) (actor, why string) {
		a, _ := actingOf(ctx)
		return a.actor, a.why
	}
	hidden.SetDefaults = func(cfg any) {
		c := cfg.(*Config)
		*c = c.withDefaults()
	}
	hidden.Defined = func(cfg any) bool { return cfg.(*Config).defined }
	hidden.Settings = func(cfg, kept any) string { return settingsOf(cfg.(*Config), kept.(*Retention)) }
	hidden.TypeOf = func(row *store.KnownType) any { return typeOf(row) }
	hidden.ScheduledParams = func(cfg any) (string, error) { return encode(cfg.(*Config).ScheduleParams) }
}
