package main

import (
	"context"
	"errors"
)

// retry: every job fails twice and then succeeds, without a wait in between.
var retries = workload{
	name:    "retry",
	says:    "20,000 jobs wait in the table, each of which fails twice, is retried at once, and then succeeds",
	columns: []string{jobsPerSecond, perThousand, clientCPU, serverCPU, allocations, peakMemory},
	kinds:   queues,
	run:     func(ctx context.Context, r *round) error { return r.retry(ctx, r.size(20_000)) },
}

var errOnPurpose = errors.New("on purpose")

func (r *round) retry(ctx context.Context, jobs int) error {
	const failures = 2
	runs := jobs * (failures + 1)
	if err := r.addNow(ctx, jobs); err != nil {
		return err
	}
	m, err := r.begin(ctx)
	if err != nil {
		return err
	}
	stop, handled, err := r.start(ctx, staff{retries: failures, handle: func(ctx context.Context, t task) error {
		if t.attempt(ctx) <= failures {
			return errOnPurpose
		}
		return nil
	}})
	if err != nil {
		return err
	}
	if err := r.settled(ctx, handled, runs); err != nil {
		return errors.Join(err, stop())
	}
	return errors.Join(m.end(ctx, jobs), stop(), r.verify(ctx, handled, jobs, runs))
}
