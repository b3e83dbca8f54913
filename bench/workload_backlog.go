package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// backlog: a table that has been in use for long, and a queue that nobody worked for a while. The same million jobs are
// drained before from an empty table, for comparison.
var backlog = workload{
	name:    "backlog",
	says:    "1,000,000 jobs are drained, once from an empty table and once from one with 10,000,000 finished jobs",
	columns: []string{ofEmpty, jobsPerSecond, onEmpty, peakMemory, perThousand, clientCPU, serverCPU, allocations},
	kinds:   []kind{oursKind},
	run: func(ctx context.Context, r *round) error {
		return r.backlog(ctx, r.size(1_000_000), r.size(10_000_000))
	},
}

const (
	ofEmpty = "% of the empty table's"
	onEmpty = "jobs/s from the empty table"
)

func (r *round) backlog(ctx context.Context, jobs, finished int) error {
	d := r.system.(*oursSystem).database
	rate := func(before int) (float64, error) {
		if err := r.addNow(ctx, jobs); err != nil {
			return 0, err
		}
		err := r.drain(ctx, jobs, before)
		return r.figures[jobsPerSecond], err
	}
	empty, err := rate(0)
	if err != nil {
		return err
	}
	if err := d.multiply(ctx, jobs, finished); err != nil {
		return fmt.Errorf("finished jobs: %w", err)
	}
	full, err := rate(finished)
	r.figures[onEmpty], r.figures[ofEmpty] = empty, 100*full/empty
	return err
}

// multiply doubles the finished rows, of which there are so many, until there are as many as wanted.
func (d *database) multiply(ctx context.Context, rows, wanted int) error {
	const together = 1_000_000 // in a transaction
	for rows < wanted {
		n := min(rows, wanted-rows, together)
		result, err := d.look.ExecContext(ctx, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, term, attempts) "+
			"SELECT params, job_type, job_status, start_time, create_time, update_time, term, attempts FROM async_job_tab WHERE job_type = 1 AND job_status = 1 LIMIT %d", n))
		if err != nil {
			return err
		}
		d.looks.Add(1)
		added, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if added == 0 {
			return errors.New("no rows to double")
		}
		rows += int(added)
	}
	// What writing so much left the server to do is no part of what follows.
	return wait(ctx, 5*time.Second)
}
