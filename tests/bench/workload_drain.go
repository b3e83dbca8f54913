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
	kinds:   []kind{oursKind, bareKind, riverKind, asynqKind},
	run: func(ctx context.Context, r *round) error {
		jobs := r.size(200_000)
		if err := r.addNow(ctx, jobs); err != nil {
			return err
		}
		return r.drain(ctx, jobs, 0)
	},
}

// drain runs the jobs that wait, and measures what that takes. Before them, so many others had succeeded.
func (r *round) drain(ctx context.Context, jobs, before int) error {
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
	return errors.Join(m.end(ctx, jobs), stop(), r.verify(ctx, handled, before+jobs, jobs))
}

func nothing(context.Context, task) error { return nil }
