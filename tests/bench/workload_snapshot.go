package main

import (
	"context"
	"errors"
	"fmt"
)

// snapshot is drain while a reader sees the table as it was before: the database may throw no version of a row away. The
// same drain without the reader is in the same round, for comparison. It has a process and a database of its own, so that
// neither meets what the other left, and it is the first, for what a snapshot held back is cleaned up when it ends.
var snapshot = workload{
	name: "snapshot",
	says: "200,000 jobs that do nothing are drained, once without a reader and once while one holds a snapshot of the table open until the last " +
		"outcome is written",
	columns: []string{ofWithout, jobsPerSecond, withoutReader, perThousand, clientCPU, serverCPU, allocations, peakMemory},
	kinds:   []kind{oursKind, bareKind, riverKind},
	run: func(ctx context.Context, r *round) error {
		reader, ok := r.system.(interface {
			holdSnapshot(context.Context) (func() error, error)
		})
		if !ok {
			return fmt.Errorf("%s has no snapshots", r.name)
		}
		without := runApart(ctx, assignment{Workload: drain.name, System: r.name, Quick: r.quick})
		if without.Error != "" {
			return fmt.Errorf("without the reader: %s", without.Error)
		}
		jobs := r.size(200_000)
		if err := r.addNow(ctx, jobs); err != nil {
			return err
		}
		release, err := reader.holdSnapshot(ctx)
		if err != nil {
			return err
		}
		err = errors.Join(r.drain(ctx, jobs, 0), release())
		rate := without.Figures[jobsPerSecond]
		r.figures[withoutReader], r.figures[ofWithout] = rate, 100*r.figures[jobsPerSecond]/rate
		return err
	},
}

const (
	ofWithout     = "% of the drain without the reader"
	withoutReader = "jobs/s without the reader"
)
