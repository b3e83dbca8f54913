package main

import (
	"context"
	"fmt"
	"time"
)

// enqueue: nobody works; jobs are added by one caller.
var enqueues = []workload{
	{
		name:    "enqueue-single",
		says:    "one caller adds 5,000 jobs, each in a transaction of its own",
		columns: []string{addedEach},
		kinds:   queues,
		run: func(ctx context.Context, r *round) error {
			jobs := r.size(5_000)
			return r.enqueue(ctx, jobs, func() error {
				for range jobs {
					if err := r.addOne(ctx); err != nil {
						return err
					}
				}
				return nil
			})
		},
	},
	{
		name:    "enqueue-bulk",
		says:    "one caller adds 100,000 jobs in bulk (asynq, which has no bulk: 16 callers one by one)",
		columns: []string{addedEach},
		kinds:   queues,
		run: func(ctx context.Context, r *round) error {
			jobs := r.size(100_000)
			return r.enqueue(ctx, jobs, func() error { return r.addNow(ctx, jobs) })
		},
	},
}

const addedEach = "jobs added per second"

func (r *round) enqueue(ctx context.Context, jobs int, add func() error) error {
	if err := r.connect(ctx, 1); err != nil {
		return err
	}
	began := time.Now()
	if err := add(); err != nil {
		return err
	}
	r.figures[addedEach] = float64(jobs) / time.Since(began).Seconds()
	if c, err := r.counts(ctx); err != nil || c != (counts{pending: jobs}) {
		return fmt.Errorf("of %d jobs that were added, the table has %+v; %v", jobs, c, err)
	}
	return nil
}
