package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Old says which rows [Store.DeleteOld] deletes: rows of these types that were last written before the second of unix time that
// stands under their status. A row whose status does not stand there stays.
type Old struct {
	Types  []int32 // none: all
	Before map[int32]int64
	First  func(ids []uint64) error // gets the ids of the next rows, before they are deleted; nil: nobody does. If it fails, they stay
}

func (o *Old) has(row *Aged) bool {
	before, named := o.Before[row.Status]
	return named && row.Written < before && (len(o.Types) == 0 || slices.Contains(o.Types, row.JobType))
}

// Aged is a row with what says how old it is. A NULL status reads as 0.
type Aged struct {
	ID              uint64
	JobType, Status int32
	Created         int64 // unix seconds
	Written         int64 // unix seconds: if the row is final, when it became so
}

// OldPage is what [Store.DeleteOld] came to.
type OldPage struct {
	Rows    []Aged // that it read, deleted or not; without the row with the largest id
	Deleted int
	More    bool // there are rows behind these
}

// DeleteOld reads the next rows behind an id, at most limit of them, and deletes the old ones. The row with the largest id stays:
// on some databases, its id would be given to a second row. Whatever the log has of the attempts of rows that are gone is deleted
// up to the last row that was read, so nothing stays behind if an earlier call was cut off in the middle.
//
// A row is deleted only if it has the status and the age at that moment; somebody may have made it run again since it was read.
// Pending rows are never deleted. If a call was cut off, the same call goes on there.
func (s *Store) DeleteOld(ctx context.Context, old Old, after uint64, limit int) (page OldPage, err error) {
	for status := range old.Before {
		if !slices.Contains(FinalStatuses, status) {
			return page, fmt.Errorf("delete jobs: status %d is not final", status)
		}
	}
	rows, err := s.aged(ctx, after, limit+1)
	if err != nil || len(rows) == 0 {
		return page, err
	}
	last := len(rows) - 1
	page.Rows, page.More = rows[:last], last == limit
	ids := map[int32][]uint64{}
	for i := range page.Rows {
		if row := &rows[i]; old.has(row) {
			ids[row.Status] = append(ids[row.Status], row.ID)
		}
	}
	if old.First != nil && len(ids) > 0 {
		if err := old.First(slices.Concat(slices.Collect(maps.Values(ids))...)); err != nil {
			return page, err
		}
	}
	for _, status := range slices.Sorted(maps.Keys(ids)) {
		n, err := s.deleteFinal(ctx, ids[status], status, old.Before[status])
		if page.Deleted += n; err != nil {
			return page, err
		}
	}
	return page, s.deleteStrays(ctx, after, rows[last].ID)
}

// FirstRows reads the rows with the smallest ids.
func (s *Store) FirstRows(ctx context.Context, most int) ([]Aged, error) { return s.aged(ctx, 0, most) }

// aged reads along the primary key.
func (s *Store) aged(ctx context.Context, after uint64, limit int) ([]Aged, error) {
	args := s.arguments()
	integer := func(column string) string { return fmt.Sprintf(s.integer, column) }
	rows, err := read(ctx, s, each(func(a *Aged) []any {
		return []any{whole[uint64]{&a.ID}, whole[int32]{&a.JobType}, whole[int32]{&a.Status}, whole[int64]{&a.Created}, whole[int64]{&a.Written}}
	}), fmt.Sprintf("SELECT id, job_type, job_status, %s, %s FROM %s %s WHERE id > %s ORDER BY id LIMIT %s",
		integer("create_time"), integer("update_time"), s.jobs, s.byPrimary, args.id(after), args.number(int64(limit))), args.list...)
	return rows, wrap("find old jobs", err)
}

func (s *Store) deleteFinal(ctx context.Context, ids []uint64, status int32, before int64) (n int, err error) {
	args := s.arguments()
	statement := fmt.Sprintf("%s WHERE %s AND job_status = %d AND update_time < %s", fmt.Sprintf(s.deleteFrom, s.jobs), args.in(s, ids), status, args.number(before))
	err = s.inSpiteOfDeadlocks(func() (err error) {
		n, err = s.exec(ctx, statement, args.list...)
		return err
	})
	return n, wrap("delete jobs", err)
}

// deleteStrays deletes attempts of rows that are gone, above an id and up to another.
func (s *Store) deleteStrays(ctx context.Context, after, upTo uint64) error {
	const together = 1000
	for {
		args := s.arguments()
		strays, err := read(ctx, s, column[uint64], s.fromPrimary(fmt.Sprintf("SELECT DISTINCT job_id FROM %s WHERE job_id > %s AND job_id <= %s AND NOT EXISTS (SELECT 1 FROM %s WHERE id = job_id) LIMIT %d",
			s.attempts, args.id(after), args.id(upTo), s.jobs, together)), args.list...)
		if err == nil && len(strays) > 0 {
			err = s.deleteAttempts(ctx, strays)
		}
		if err != nil || len(strays) < together {
			return wrap("delete the attempts of deleted jobs", err)
		}
	}
}

func (s *Store) deleteAttempts(ctx context.Context, jobs []uint64) error {
	slices.Sort(jobs)
	_, err := s.exec(ctx, fmt.Sprintf("%s WHERE job_id IN (%s)", fmt.Sprintf(s.deleteFrom, s.attempts), numbers(jobs)))
	return err
}

// Span reads the smallest and the largest id; 0: there is none.
func (s *Store) Span(ctx context.Context) (first, last uint64, err error) {
	spans, err := read(ctx, s, each(func(span *[2]uint64) []any { return []any{&span[0], &span[1]} }),
		fmt.Sprintf("SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM %s WHERE id > 0", s.jobs))
	for _, span := range spans {
		first, last = span[0], span[1]
	}
	return first, last, wrap("span of ids", err)
}
