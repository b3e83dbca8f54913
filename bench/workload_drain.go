package main

import (
	"context"
	"errors"
)

// drain: jobs that do nothing wait in the table. The time is from the start of the workers, their leases and connections
// with it, until the last outcome stands in the table.
var drain = workload{
	name:    "drain",
	says:    "200,000 jobs that do nothing wait in the table; from the start of the workers until the last outcome is written",
	columns: []string{jobsPerSecond, perThousand, clientCPU, serverCPU, allocations, peakMemory},
	kinds:   []kind{oursKind, bareKind, riverKind, riverDefaultKind, asynqKind, riverSQLiteKind},
	run:     func(ctx context.Context, r *round) error { return r.drain(ctx, r.size(200_000)) },
}

func (r *round) drain(ctx context.Context, jobs int) error {
	if err := r.addNow(ctx, jobs); err != nil {
		return err
	}
	m, err := r.begin(ctx)
	if err != nil {
		return err
	}
	stop, handled, err := r.start(ctx, staff{handle: nothing})
	if err != nil {
		return err
	}
	if err := r.settled(ctx, handled, jobs); err != nil {
		return errors.Join(err, stop())
	}
	return errors.Join(m.end(ctx, jobs), stop(), r.verify(ctx, handled, jobs, jobs))
}

func nothing(context.Context, task) error { return nil }
