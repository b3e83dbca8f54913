package record

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	restoreRowsMax  = 200     // a row has up to eight arguments; this is well below every database's limit
	restoreBytesMax = 1 << 20 // of parameters and results in a statement; a row alone may have more
	restoreColumns  = "id, params, long_params, job_type, job_status, start_time, create_time, update_time, term, attempts, retries, lost, deferred, " +
		"job_key, job_group, priority, max_retries, meta, progress, result, changes, unique_in"
)

// Restore inserts final rows as they were read, with their ids, and returns how many, and the ids that it found free. A row whose id is in the
// table stays as it is there, so sent again, it changes nothing. Of several with one id, the first is inserted. A unique row has its key
// again; if another row has the key by now, the restored row remembers that it is to have it, as if the key had been taken from it.
//
// The rows' changes must be such as no row with their ids had before: somebody may have a row in memory as it once was, and its version
// must not come again.
//
// There are more ids than rows if somebody else inserted one of the ids at the same moment.
func (s *Store) Restore(ctx context.Context, rows []Listed) (restored int, ids []uint64, err error) {
	for len(rows) > 0 {
		some := rows[:rowsToRestore(rows)]
		rows = rows[len(some):]
		n, free, err := s.restoreSome(ctx, some)
		if err != nil {
			return restored, ids, conn.Wrap("restore jobs", err)
		}
		restored, ids = restored+n, append(ids, free...)
	}
	if restored > 0 && s.IDsBehind != "" { // in new tables, the next job would get an id that is there
		_, err = conn.Read(ctx, s, conn.Column[uint64], s.FromPrimary(fmt.Sprintf(s.IDsBehind, s.Tables.Jobs)))
	}
	return restored, ids, conn.Wrap("begin behind the ids of restored jobs", err)
}

func (s *Store) restoreSome(ctx context.Context, rows []Listed) (restored int, free []uint64, err error) {
	ids := make([]uint64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	there, err := s.NextIDs(ctx, Filter{IDs: ids}, len(ids))
	if err != nil {
		return 0, nil, err
	}
	var absent []*Listed
	unique := false
	for i := range rows {
		if id := rows[i].ID; !slices.Contains(there, id) && !slices.Contains(free, id) {
			free, absent = append(free, id), append(absent, &rows[i])
			unique = unique || rows[i].claims()
		}
	}
	if len(free) == 0 {
		return 0, nil, nil
	}
	restored, err = s.insertRestored(ctx, absent, true)
	if err == nil && unique && restored < len(absent) { // keys are taken
		var others int
		others, err = s.insertRestored(ctx, absent, false)
		restored += others
	}
	return restored, free, err
}

// insertRestored inserts those of the rows that are not there, with their unique keys if no other row has them, or without.
func (s *Store) insertRestored(ctx context.Context, rows []*Listed, withKeys bool) (int, error) {
	args := s.Arguments()
	values := make([]string, len(rows))
	for i, row := range rows {
		values[i] = restoredRow(row, withKeys, args)
	}
	return conn.Exec(ctx, s,
		fmt.Sprintf("%s %s (%s) VALUES %s%s", s.InsertNew, s.Tables.Jobs, restoreColumns, strings.Join(values, ", "), s.UnlessThere),
		args.List...)
}

// claims reports whether a row is to have its key as its unique key.
func (l *Listed) claims() bool { return l.Unique && l.Key != "" }

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

func restoredRow(row *Listed, withKey bool, args *conn.Arguments) string {
	params, long := store.InColumns(row.Params)
	changes, uniqueIn := row.Changes%store.KeyTaken, "NULL"
	switch {
	case row.claims() && withKey:
		uniqueIn = strconv.Itoa(int(row.JobType))
	case row.claims():
		changes += store.KeyTaken
	}
	var extra store.Extra
	if row.Extra != nil {
		extra = *row.Extra
	}
	return fmt.Sprintf("(%s, %s, %s, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %s, %s, %d, %s, %s, %s, %s, %d, %s)",
		args.NewID(row.ID), args.Value(params), args.OrNull(long), row.JobType, row.Status, row.StartTime, row.CreateTime, row.UpdateTime,
		row.Term, row.Attempts, row.Retries, row.Lost, row.Deferred, args.OrNull(row.Key), args.OrNull(extra.Group), row.Priority,
		store.SetOrNull(int(row.MaxRetries)), args.OrNull(extra.Meta), args.OrNull(row.Progress), args.OrNull(row.Result), changes, uniqueIn)
}
