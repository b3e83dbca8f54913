package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// steady: every worker always has a job to wait for. Ideal is what the workers could do if no job ever came late, and no
// timer either. The time is from the first job's start to the last one's end.
var steadies = []workload{steady(100, 20*time.Millisecond), steady(10, 5*time.Millisecond)}

const (
	percentOfIdeal  = "% of ideal"
	percentOfTimers = "% of ideal, by the time that jobs really took"
)

func steady(workers int, each time.Duration) workload {
	return workload{
		name:    fmt.Sprintf("steady-%dx%v", workers, each),
		says:    fmt.Sprintf("10,000 jobs that sleep %v wait for %d workers; from the first one's start to the last one's end", each, workers),
		columns: []string{percentOfIdeal, percentOfTimers},
		kinds:   queues,
		run:     func(ctx context.Context, r *round) error { return r.steady(ctx, r.size(10_000), workers, each) },
	}
}

func (r *round) steady(ctx context.Context, jobs, workers int, each time.Duration) error {
	if err := r.addNow(ctx, jobs); err != nil {
		return err
	}
	var first, last, slept atomic.Int64 // nanoseconds since the epoch, but the last one
	sleep := func(context.Context, task) error {
		began := time.Now()
		first.CompareAndSwap(0, began.UnixNano())
		time.Sleep(each)
		last.Store(time.Now().UnixNano()) // by the last of them up to a few microseconds
		slept.Add(int64(time.Since(began)))
		return nil
	}
	stop, handled, err := r.start(ctx, staff{workers: workers, handle: sleep})
	if err != nil {
		return err
	}
	if err := r.settled(ctx, handled, jobs); err != nil {
		return errors.Join(err, stop())
	}
	took := float64(last.Load() - first.Load())
	r.figures[percentOfIdeal] = 100 * float64(jobs) * float64(each) / float64(workers) / took
	r.figures[percentOfTimers] = 100 * float64(slept.Load()) / float64(workers) / took
	return errors.Join(stop(), r.verify(ctx, handled, jobs, jobs))
}
