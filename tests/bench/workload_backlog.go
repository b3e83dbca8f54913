package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// backlog: a table that has been in use for long, and a queue that nobody worked for a while. In each round the same million
// jobs are drained before from an empty table, for comparison. Each round leaves a million finished jobs more.
var backlog = workload{
	name:    "backlog",
	says:    "1,000,000 jobs are drained, once from an empty table and once from one with 10,000,000 finished jobs, and a million more in each round",
	columns: []string{ofEmpty, jobsPerSecond, onEmpty, peakMemory, perThousand, clientCPU, serverCPU, allocations},
	kinds:   []kind{oursKind},
	prepare: func(ctx context.Context, r *round) error { return r.finish(ctx, r.size(10_000_000)) },
	run:     func(ctx context.Context, r *round) error { return r.backlog(ctx, r.size(1_000_000)) },
}

const (
	ofEmpty = "% of the empty table's"
	onEmpty = "jobs/s from the empty table"
)

func (r *round) backlog(ctx context.Context, jobs int) error {
	if err := r.onEmptyTables(ctx, func() error {
		return r.addAndDrain(ctx, jobs)
	}); err != nil {
		return fmt.Errorf("from an empty table: %w", err)
	}
	empty := r.figures[jobsPerSecond]
	err := r.addAndDrain(ctx, jobs)
	r.figures[onEmpty], r.figures[ofEmpty] = empty, 100*r.figures[jobsPerSecond]/empty
	return err
}

// onEmptyTables does something with tables that it makes for that, instead of the round's.
func (r *round) onEmptyTables(ctx context.Context, do func() error) error {
	e, err := entryNamed(r.name)
	if err != nil {
		return err
	}
	empty, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	full := r.system
	defer func() { r.system = full }()
	r.system = empty
	return errors.Join(do(), closeSystem(ctx, empty))
}

func (r *round) addAndDrain(ctx context.Context, jobs int) error {
	before, err := r.counts(ctx)
	if err != nil {
		return err
	}
	if err := r.addNow(ctx, jobs); err != nil {
		return err
	}
	return r.drain(ctx, jobs, before.succeeded)
}

// finish fills the table with finished jobs: a few of them are added, and then doubled until there are as many as wanted.
func (r *round) finish(ctx context.Context, wanted int) error {
	const together = 1_000_000 // in a transaction
	d := r.system.(*oursSystem).database
	rows := min(wanted, 10_000)
	if err := r.addNow(ctx, rows); err != nil {
		return err
	}
	if _, err := d.look.ExecContext(ctx, "UPDATE async_job_tab SET job_status = 1, term = 1, attempts = 1"); err != nil {
		return err
	}
	for rows < wanted {
		n := min(rows, wanted-rows, together)
		result, err := d.look.ExecContext(ctx,
			fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, term, attempts) "+
				"SELECT params, job_type, job_status, start_time, create_time, update_time, term, attempts "+
				"FROM async_job_tab "+
				"WHERE job_type = 1 AND job_status = 1 LIMIT %d",
				n))
		if err != nil {
			return err
		}
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
