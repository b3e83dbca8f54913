package main

import (
	"context"
	"fmt"
	"sync"
)

// bareSystem is what plain SQL by hand needs for the same statements on the same tables, one after the other, without
// running anything: load a batch, mark it, settle it. It is the ceiling for a library that does so.
type bareSystem struct{ *oursSystem }

func openBare(dialect dialect) func(context.Context, string) (system, error) {
	return func(ctx context.Context, address string) (system, error) {
		d, jobs, err := openTables(ctx, dialect, address)
		if err != nil {
			return nil, err
		}
		return &bareSystem{&oursSystem{d, jobs}}, nil
	}
}

// work ends by itself when the table is empty. The handler is called for each row that was settled, with no task.
func (s *bareSystem) work(ctx context.Context, staff staff, fail func(error)) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := s.loop(ctx, staff.handle); err != nil {
			fail(fmt.Errorf("bare loop: %w", err))
		}
	})
	return func() error {
		loop.Wait()
		cancel()
		return nil
	}, nil
}

const bareBatch = 1000

func (s *bareSystem) loop(ctx context.Context, handle handler) error {
	ids := make([]uint64, 0, bareBatch)
	for last := uint64(0); ; {
		var err error
		if ids, err = s.load(ctx, ids[:0], last); err != nil || len(ids) == 0 {
			return err
		}
		last = ids[len(ids)-1]
		for _, set := range []string{"term = 1, attempts = attempts + 1", "job_status = 1"} {
			if err := s.update(ctx, ids, set); err != nil {
				return err
			}
		}
		for range ids {
			if err := handle(ctx, nil); err != nil {
				return err
			}
		}
	}
}

// load reads all that a run needs of a row.
func (s *bareSystem) load(ctx context.Context, ids []uint64, last uint64) ([]uint64, error) {
	rows, err := s.QueryContext(ctx, fmt.Sprintf("SELECT id, params, job_type, job_status, start_time FROM async_job_tab %s "+
		"WHERE job_type = 1 AND job_status = 0 AND priority = 0 AND start_time = 0 AND id > %d ORDER BY id LIMIT %d", s.byDue, last, bareBatch))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		var params string
		var jobType, status, start int64
		if err := rows.Scan(&id, &params, &jobType, &status, &start); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (s *bareSystem) update(ctx context.Context, ids []uint64, set string) error {
	result, err := s.ExecContext(ctx, fmt.Sprintf("UPDATE async_job_tab %s SET %s WHERE %s AND term < 2 AND COALESCE(job_status, 0) = 0",
		s.byPrimary, set, s.idIn(ids)))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != int64(len(ids)) {
		return fmt.Errorf("%s changed %d rows of %d, %v", set, n, len(ids), err)
	}
	return nil
}
