package record

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Old says which rows are to be deleted: rows of these types that were last written before the second of unix time that stands under
// their status, and created before it, too. Of a row that is said to be written before it was created, nobody knows how old it is: the
// clock was behind when it was written, perhaps a moment ago. A row whose status does not stand there stays.
type Old struct {
	Types  []int32 // none: all
	Before map[int32]int64
}

func (o *Old) has(row *Aged) bool {
	before, named := o.Before[row.Status]
	return named && row.Written < before && row.Created < before && (len(o.Types) == 0 || slices.Contains(o.Types, row.JobType))
}

// condition is what a row of these types must still fulfil when it is deleted.
func (o *Old) condition(args *conn.Arguments) string {
	statuses := map[int64][]int32{} // by the second before which they were written
	for status, before := range o.Before {
		statuses[before] = append(statuses[before], status)
	}
	var either []string
	for _, before := range slices.Sorted(maps.Keys(statuses)) {
		slices.Sort(statuses[before])
		either = append(either,
			fmt.Sprintf("job_status IN (%s) AND update_time < %s AND create_time < %s",
				conn.Numbers(statuses[before]), args.Number(before), args.Number(before)))
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// Aged is a row with what says how old it is. A NULL status reads as 0.
type Aged struct {
	ID              uint64
	JobType, Status int32
	Created         int64 // unix seconds
	Written         int64 // unix seconds: if the row is final, when it became so
}

// OldPage is what [Store.FindOld] has found.
type OldPage struct {
	Rows []Aged   // that it read, old or not; without the row with the largest id
	Old  []uint64 // the ids of the old ones among them
	More bool     // there are rows behind these

	After, UpTo uint64 // between these ids it has read
}

// FindOld reads the next rows behind an id, at most limit of them, and says which of them are old. The row with the largest id never is:
// on some databases, its id would be given to a second row.
func (s *Store) FindOld(ctx context.Context, old Old, after uint64, limit int) (page OldPage, err error) {
	rows, err := s.aged(ctx, after, limit+1)
	if err != nil || len(rows) == 0 {
		return page, err
	}
	last := len(rows) - 1
	page = OldPage{Rows: rows[:last], More: last == limit, After: after, UpTo: rows[last].ID}
	for i := range page.Rows {
		if row := &rows[i]; old.has(row) {
			page.Old = append(page.Old, row.ID)
		}
	}
	return page, nil
}

// First cuts the page off behind its old row number n, as if the read had ended there.
func (p OldPage) First(n int) OldPage {
	if len(p.Old) <= n {
		return p
	}
	p.Old = p.Old[:n]
	p.UpTo = p.Old[n-1]
	end := slices.IndexFunc(p.Rows, func(row Aged) bool { return row.ID == p.UpTo })
	p.Rows, p.More = p.Rows[:end+1], true
	return p
}

// Deletion is the result of [Store.DeleteOld].
type Deletion struct {
	Rows   int
	Took   time.Duration // by the statements that deleted
	Strays bool          // there may be more attempts without a row in the page: see DeleteStrays
}

// Steps are how a page is deleted. The zero value: with one statement for the rows, and another for their attempts.
type Steps struct {
	Rows int // that a statement deletes; 0: all of the page
	// Turn sends a statement when its time has come; the transaction stays open until then. The statement deletes that many rows of jobs at
	// most; 0: it deletes attempts only. If Turn is nil, each statement is sent at once.
	Turn func(ctx context.Context, rows int, send func(context.Context) error) error
}

// DeleteOld deletes the old rows of a page, their attempts in the log and their steps, in one transaction if the handle has transactions: a commit
// keeps others waiting for longer than the deletion of some dozens of rows. If the steps wait, and others would wait with them, each statement
// is a transaction of its own.
//
// Some attempts have no row: a deletion was cut off between rows and attempts, or somebody has deleted rows by hand. DeleteOld deletes such
// attempts, too, if their ids lie in the page. A transaction should not hold any number of them, so it stops after as many jobs as the page
// has old rows, or as one statement takes. [Store.DeleteStrays] deletes the rest.
//
// A row is deleted only if it has the status and the age at that moment; somebody may have made it run again since it was read.
// Pending rows are never deleted.
func (s *Store) DeleteOld(ctx context.Context, old Old, page OldPage, steps Steps) (d Deletion, err error) {
	for status := range old.Before {
		if !slices.Contains(store.FinalStatuses, status) {
			return d, fmt.Errorf("delete jobs: status %d is not final", status)
		}
	}
	if page.UpTo == 0 {
		return d, nil
	}
	together := s.CanTransact() && len(page.Old) > 0 && (steps.Turn == nil || s.CanRest())
	act := func(s *Store) error {
		d = Deletion{}
		for ids := range slices.Chunk(page.Old, cmp.Or(steps.Rows, max(1, len(page.Old)))) {
			err := steps.take(ctx, &d, len(ids), func(ctx context.Context) (n int, err error) { return s.deleteFinal(ctx, ids, &old) })
			if err != nil {
				return err
			}
		}
		for left := max(len(page.Old), steps.strays()); left > 0; left -= steps.strays() {
			more, err := s.deleteStrays(ctx, &page, &steps, &d)
			if d.Strays = more; err != nil || !more {
				return err
			}
		}
		return nil
	}
	if !together {
		err = act(s)
		return d, err
	}
	if err = s.InOneTransaction(ctx, act); err != nil {
		d.Rows = 0 // they are there again
	}
	return d, err
}

// DeleteStrays deletes attempts in a page whose row is gone, of as many jobs as a step says. It sends one search and one deletion.
func (s *Store) DeleteStrays(ctx context.Context, page OldPage, steps Steps) (d Deletion, err error) {
	d.Strays, err = s.deleteStrays(ctx, &page, &steps, &d)
	return d, err
}

// strays is of how many jobs attempts are deleted at a time.
func (t *Steps) strays() int { return cmp.Or(t.Rows, 1000) }

// take sends a statement by Turn, and adds its result to d. The statement deletes that many rows of jobs at most.
func (t *Steps) take(ctx context.Context, d *Deletion, most int, statement func(context.Context) (rows int, err error)) error {
	send := func(ctx context.Context) error {
		began := time.Now()
		n, err := statement(ctx)
		d.Took += time.Since(began)
		d.Rows += n
		return err
	}
	if t.Turn == nil {
		return send(ctx)
	}
	return t.Turn(ctx, most, send)
}

// FirstRows reads the rows with the smallest ids.
func (s *Store) FirstRows(ctx context.Context, most int) ([]Aged, error) {
	return s.aged(ctx, 0, most)
}

// aged reads along the primary key.
func (s *Store) aged(ctx context.Context, after uint64, limit int) ([]Aged, error) {
	args := s.Arguments()
	integer := func(column string) string { return fmt.Sprintf(s.Integer, column) }
	rows, err := conn.Read(ctx, s, conn.Each(func(a *Aged) []any {
		return []any{conn.Whole(&a.ID), conn.Whole(&a.JobType), conn.Whole(&a.Status), conn.Whole(&a.Created), conn.Whole(&a.Written)}
	}), fmt.Sprintf("SELECT id, job_type, job_status, %s, %s FROM %s %s WHERE id > %s ORDER BY id LIMIT %s",
		integer("create_time"), integer("update_time"), s.Tables.Jobs, s.ByPrimary, args.ID(after), args.Number(int64(limit))), args.List...)
	return rows, conn.Wrap("find old jobs", err)
}

func (s *Store) deleteFinal(ctx context.Context, ids []uint64, old *Old) (n int, err error) {
	args := s.Arguments()
	statement := fmt.Sprintf("%s WHERE %s AND %s", fmt.Sprintf(s.DeleteFrom, s.Tables.Jobs), args.In(ids), old.condition(args))
	n, err = conn.Exec(ctx, s, statement, args.List...)
	return n, conn.Wrap("delete jobs", err)
}

// deleteStrays deletes attempts and steps of rows that are gone. It reports whether there may be more. It does not wait between finding and deleting
// them: some databases lock what they find, and the gap behind it.
func (s *Store) deleteStrays(ctx context.Context, page *OldPage, steps *Steps, d *Deletion) (more bool, err error) {
	err = steps.take(ctx, d, 0, func(ctx context.Context) (int, error) {
		args := s.Arguments()
		strayIn := func(table, kind string) string {
			return fmt.Sprintf("SELECT * FROM (SELECT DISTINCT job_id, %[1]s AS is_step "+
				"FROM %[2]s "+
				"WHERE job_id > %[3]s AND job_id <= %[4]s AND NOT EXISTS (SELECT 1 FROM %[5]s WHERE id = job_id) LIMIT %[6]d) AS stray_%[1]s",
				kind, table, args.ID(page.After), args.ID(page.UpTo), s.Tables.Jobs, steps.strays())
		}
		type stray struct {
			job    uint64
			isStep int
		}
		found, err := conn.Read(ctx, s, conn.Each(func(at *stray) []any { return []any{&at.job, &at.isStep} }),
			s.FromPrimary(strayIn(s.Tables.Attempts, "0")+" UNION ALL "+strayIn(s.Tables.Steps, "1")), args.List...)
		var jobs [2][]uint64 // that have attempts, that have steps
		for _, at := range found {
			jobs[at.isStep] = append(jobs[at.isStep], at.job)
		}
		more = max(len(jobs[0]), len(jobs[1])) == steps.strays()
		if err == nil && len(jobs[0]) > 0 {
			err = DeleteAttempts(ctx, s, jobs[0])
		}
		if err == nil && len(jobs[1]) > 0 {
			err = s.DeleteSteps(ctx, jobs[1])
		}
		return 0, err
	})
	return more, conn.Wrap("delete the attempts and steps of deleted jobs", err)
}

// DeleteAttempts deletes the attempts of jobs that are gone, or go in the same transaction.
func DeleteAttempts(ctx context.Context, s *Store, jobs []uint64) error {
	slices.Sort(jobs)
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%s WHERE job_id IN (%s)", fmt.Sprintf(s.DeleteFrom, s.Tables.Attempts), conn.Numbers(jobs)))
	return err
}

// Span reads the smallest and the largest id; 0: there is none. It may be asked of a replica.
func (s *Store) Span(ctx context.Context) (first, last uint64, err error) {
	spans, err := conn.Read(ctx, s, conn.Each(func(span *[2]uint64) []any { return []any{&span[0], &span[1]} }),
		fmt.Sprintf("SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM %s WHERE id > 0", s.Tables.Jobs))
	for _, span := range spans {
		first, last = span[0], span[1]
	}
	return first, last, conn.Wrap("span of ids", err)
}

// LastID reads the largest id, for those who change the rows up to it; 0: there is none.
func (s *Store) LastID(ctx context.Context) (last uint64, err error) {
	ids, err := conn.Read(ctx, s, conn.Column[uint64],
		s.FromPrimary(fmt.Sprintf("SELECT COALESCE(MAX(id), 0) AS last FROM %s WHERE id > 0", s.Tables.Jobs)))
	for _, id := range ids {
		last = id
	}
	return last, conn.Wrap("largest id", err)
}
