package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// burst: jobs are added ahead of their time, to workers that wait, and fall due at the same moment.
var bursts = []workload{burst(3_500), burst(35_000)}

const (
	lateP50 = "late p50 ms"
	lateP99 = "late p99 ms"
	lateMax = "late at most ms"
	early   = "started early"
)

func burst(jobs int) workload {
	return workload{
		name:    fmt.Sprintf("burst-%d", jobs),
		says:    fmt.Sprintf("%d jobs, added 15 s ahead, fall due in the same second; how late they start", jobs),
		columns: []string{lateP99, lateP50, lateMax, early},
		kinds:   waitingQueues,
		run:     func(ctx context.Context, r *round) error { return r.burst(ctx, r.size(jobs)) },
	}
}

func (r *round) burst(ctx context.Context, jobs int) error {
	ahead := 15 * time.Second
	if r.quick {
		ahead = 4 * time.Second
	}
	due := time.Now().Add(ahead).Truncate(time.Second).Add(time.Second)
	late := newSamples(jobs)
	stop, handled, err := r.start(ctx, staff{handle: func(context.Context, task) error {
		late.add(time.Since(due))
		return nil
	}})
	if err != nil {
		return err
	}
	if err := r.add(ctx, jobs, due); err != nil {
		return errors.Join(err, stop())
	}
	if left := time.Until(due); left < ahead/3 {
		return errors.Join(fmt.Errorf("the jobs were added only %v before they fell due", left), stop())
	}
	if err := r.settled(ctx, handled, jobs); err != nil {
		return errors.Join(err, stop())
	}
	list := late.sorted()
	r.figures[lateP50] = milliseconds(percentile(list, 50))
	r.figures[lateP99] = milliseconds(percentile(list, 99))
	r.figures[lateMax] = milliseconds(list[len(list)-1])
	for _, d := range list {
		if d < 0 {
			r.figures[early]++
		}
	}
	r.figures[early] += 0 // a figure also where none is
	return errors.Join(stop(), r.verify(ctx, handled, jobs, jobs))
}
