package queue_job

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// drainMax is for how long an instance can be drained at once.
const drainMax = 30 * 24 * time.Hour

// Drain asks an instance to give all its leases to the other instances of its service, usually within a second, and to take no more
// until the time is over or [Jobs.Undrain] is called. The instance is an [Instance.Id] of [Jobs.Instances]. Use it before work on a machine,
// or to see whether jobs fail on one machine only, while its process goes on to do what else it does. Handlers that run, run on
// where they are. Drain does not wait for that: [Jobs.Instances] shows what the instance still has. Through a transaction, it takes
// effect at the commit. Called again, it counts the time anew.
//
// A restarted process is another instance, which is not drained. If a job type runs nowhere else, its lease stays where it is; and if
// all instances of a service are to be drained, none is: jobs come first. Instances of versions before Drain do not ask for what a
// drained one has, but for their part.
//
// It is an [ErrRefused] if the instance is not there, if no other instance of its service is there that stays, or if the time is less than
// a second or more than 30 days.
func (j *Jobs) Drain(ctx context.Context, ex Executor, instance string, lasts time.Duration) error {
	if err := j.drain(ctx, ex, instance, lasts); err != nil {
		return fmt.Errorf("drain %q: %w", instance, err)
	}
	return nil
}

func (j *Jobs) drain(ctx context.Context, ex Executor, instance string, lasts time.Duration) error {
	if lasts < time.Second || lasts > drainMax {
		return refused("for %v: give a time from a second to %d days; it ends by itself then, if Undrain is not called", lasts, drainMax/(24*time.Hour))
	}
	st, rows, err := j.look(ctx, ex)
	if err != nil {
		return err
	}
	here, found := presenceOf(instance, rows)
	if !found {
		return refused("no such instance is there; use an Id that Instances returns")
	}
	if service := share.OwnerOf(here.Owner).Service; !another(service, instance, rows) {
		return refused("no other instance of service %q stays that could take its leases; start one first, or Undrain another", service)
	}
	_, err = notingFleet(ctx, st, "drain", instance, func(st *record.Store) (bool, error) {
		was, err := undrain(ctx, st, instance, rows)
		if err != nil {
			return false, err
		}
		taken, err := takeAsking(ctx, st, share.Drain(instance), "Drain", int64((lasts+time.Second-1)/time.Second))
		return was || taken, err
	})
	return err
}

// Undrain has an instance that was drained take its part of the leases again, usually within a second. It reports whether the instance was
// drained.
func (j *Jobs) Undrain(ctx context.Context, ex Executor, instance string) (was bool, err error) {
	st, rows, err := j.look(ctx, ex)
	if err == nil {
		was, err = notingFleet(ctx, st, "undrain", instance, func(st *record.Store) (bool, error) { return undrain(ctx, st, instance, rows) })
	}
	if err != nil {
		return false, fmt.Errorf("undrain %q: %w", instance, err)
	}
	return was, nil
}

func undrain(ctx context.Context, st *record.Store, instance string, rows []store.Seen) (was bool, err error) {
	for _, row := range rows {
		if row.Name == share.Drain(instance) && !row.Free {
			return st.ReleaseLease(ctx, row.Name, row.Owner, 0)
		}
	}
	return false, nil
}
