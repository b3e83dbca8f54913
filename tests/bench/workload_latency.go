package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// latency: another process adds jobs one by one, each in a transaction of its own. The time is from the beginning of the
// call that adds to the start of the handler.
var latencies = []workload{latency(10), latency(100), latency(1000)}

const addedPerSecond = "added per second"

func latency(perSecond int) workload {
	return workload{
		name:    fmt.Sprintf("latency-%d", perSecond),
		says:    fmt.Sprintf("another process adds %d jobs/s for 10 s; from the beginning of a job's INSERT to the start of its handler", perSecond),
		columns: []string{p99, p50, p999, addedPerSecond},
		kinds:   waitingQueues,
		run:     func(ctx context.Context, r *round) error { return r.latency(ctx, perSecond) },
	}
}

func (r *round) latency(ctx context.Context, perSecond int) error {
	seconds := 10
	if r.quick {
		seconds = 1
	}
	jobs := seconds * perSecond
	waits := newSamples(jobs)
	stop, handled, err := r.start(ctx, staff{handle: func(_ context.Context, t task) error {
		waits.add(time.Since(t.addedAt()))
		return nil
	}})
	if err != nil {
		return err
	}
	// What happens at the start (leases, first looks) is no latency. While nothing comes, a queue looks ten times a second, in step with its start. The
	// producer begins at whatever moment between two looks: otherwise, its first ten jobs would come early or late by the same luck in each round.
	if err := wait(ctx, 2*time.Second+rand.N(100*time.Millisecond)); err != nil {
		return errors.Join(err, stop())
	}
	took, err := r.produceElsewhere(ctx, jobs, perSecond)
	if err != nil {
		return errors.Join(err, stop())
	}
	r.figures[addedPerSecond] = float64(jobs) / took.Seconds()
	if err := r.settled(ctx, handled, jobs); err != nil {
		return errors.Join(err, stop())
	}
	waits.figures(r.figures)
	return errors.Join(stop(), r.verify(ctx, handled, jobs, jobs))
}
