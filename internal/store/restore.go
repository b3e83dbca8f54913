package store

import (
	"context"
	"fmt"
	"strings"
)

const (
	restoreRowsMax  = 200     // a row has up to eight arguments; this is well below every database's limit
	restoreBytesMax = 1 << 20 // of parameters and results in a statement; a row alone may have more
	restoreColumns  = "id, params, long_params, job_type, job_status, start_time, create_time, update_time, term, attempts, retries, lost, deferred, job_key, job_group, priority, max_retries, meta, progress, result"
)

// Restore inserts final rows as they were read, with their ids, and returns how many. A row whose id is in the table stays as it is
// there, so sent again, it changes nothing. No key of a restored row is unique: its rival may be there by now.
func (s *Store) Restore(ctx context.Context, rows []Listed) (restored int, err error) {
	for len(rows) > 0 {
		some := rows[:rowsToRestore(rows)]
		rows = rows[len(some):]
		args := s.arguments()
		values := make([]string, len(some))
		for i := range some {
			values[i] = restoredRow(&some[i], args)
		}
		n, err := s.exec(ctx, fmt.Sprintf("%s %s (%s) VALUES %s%s", s.insertNew, s.jobs, restoreColumns, strings.Join(values, ", "), s.unlessThere), args.list...)
		if restored += n; err != nil {
			return restored, wrap("restore jobs", err)
		}
	}
	return restored, nil
}

// rowsToRestore returns how many of the rows one statement inserts: at least one.
func rowsToRestore(rows []Listed) (n int) {
	for bytes := 0; n < min(len(rows), restoreRowsMax); n++ {
		bytes += len(rows[n].Params) + len(rows[n].Result)
		if bytes > restoreBytesMax && n > 0 {
			break
		}
	}
	return n
}

func restoredRow(row *Listed, args *arguments) string {
	params, long := inColumns(row.Params)
	var extra Extra
	if row.Extra != nil {
		extra = *row.Extra
	}
	return fmt.Sprintf("(%s, %s, %s, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %s, %s, %d, %s, %s, %s, %s)",
		args.newID(row.ID), args.value(params), args.orNull(long), row.JobType, row.Status, row.StartTime, row.CreateTime, row.UpdateTime,
		row.Term, row.Attempts, row.Retries, row.Lost, row.Deferred, args.orNull(row.Key), args.orNull(extra.Group), row.Priority,
		setOrNull(int(row.MaxRetries)), args.orNull(extra.Meta), args.orNull(row.Progress), args.orNull(row.Result))
}
