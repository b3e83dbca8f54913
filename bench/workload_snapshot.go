package main

import (
	"context"
	"errors"
	"fmt"
)

// snapshot is drain while a reader sees the table as it was before: the database may throw no version of a row away.
var snapshot = workload{
	name:    "snapshot",
	says:    "200,000 jobs that do nothing wait in the table, and a reader holds a snapshot of it open until the last outcome is written",
	columns: []string{jobsPerSecond, perThousand, clientCPU, serverCPU, allocations, peakMemory},
	kinds:   []kind{oursKind, bareKind, riverKind},
	run: func(ctx context.Context, r *round) error {
		reader, ok := r.system.(interface {
			holdSnapshot(context.Context) (func() error, error)
		})
		if !ok {
			return fmt.Errorf("%s has no snapshots", r.name)
		}
		jobs := r.size(200_000)
		if err := r.addNow(ctx, jobs); err != nil {
			return err
		}
		release, err := reader.holdSnapshot(ctx)
		if err != nil {
			return err
		}
		return errors.Join(r.drain(ctx, jobs, 0), release())
	},
}
