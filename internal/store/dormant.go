package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// A job type that has no work may be dormant: nobody holds its lease, and nobody looks for its jobs. The row of its lease has another
// name then, so looks at the leases do not read the row. It keeps its term, so terms go on growing when the type wakes.
//
//	job-7, held ──► dormant-7 ──► job-7, free

// DormantPrefix stands in the place of [LeasePrefix] in the name of the lease of a dormant type.
const DormantPrefix = "dormant-"

func dormant(name string) string { return DormantPrefix + strings.TrimPrefix(name, LeasePrefix) }

// LayDown makes the type dormant of whose lease this is, if the owner has the lease. If somebody has locked its row, that is an
// [ErrLocked]. Sent again, it changes nothing.
func (s *Store) LayDown(ctx context.Context, name, owner string) error {
	// If there are both rows, somebody who knows no dormant types has made the second one. Its term is the larger one, since it came
	// from the clock. MySQL lets a DELETE read its own table in a derived table only.
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%[2]s FROM %[1]s "+
		"WHERE lock_name = ? AND EXISTS (SELECT * FROM (SELECT lock_name FROM %[1]s WHERE lock_name = ? AND locked_by = ?) AS awake)",
		s.Tables.Leases, s.Deletes), dormant(name), name, owner)
	if err == nil {
		var n int
		n, err = s.updateLeases(ctx, []string{name}, fmt.Sprintf("lock_name = ?, lock_until = %s", s.Timestamp(s.LeaseNow)),
			[]any{dormant(name)}, "locked_by = ?", owner)
		if err == nil && n == 0 {
			err = s.unlessLocked(ctx, name, owner)
		}
	}
	return conn.Wrap("lay a job type down", err)
}

// Wake wakes the types of these leases, as far as they are dormant: their leases are free again. None of the leases may have a row of
// its own name. Sent again, it changes nothing.
func (s *Store) Wake(ctx context.Context, names []string) error {
	names = slices.Sorted(slices.Values(names)) // as in MakeLeases
	var args []any
	asleep := make([]string, len(names))
	for i, name := range names {
		asleep[i] = dormant(name)
		args = append(args, asleep[i], name)
	}
	query, args, err := conn.In(fmt.Sprintf("%s SET lock_name = CASE lock_name%s END WHERE lock_name IN (?)",
		s.LeaseUpdate, strings.Repeat(" WHEN ? THEN ?", len(names))), append(args, asleep)...)
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("wake job types", err)
}

// HaveWork reads which job types have a pending job, due or not. Of the given types, it returns all that have a row in the table of
// types; a missing type has no row. If no types are given, it looks at all, and returns only types that have a pending job. It reads a
// few entries of the due index for each type.
func (s *Store) HaveWork(ctx context.Context, types []int32) (map[int32]bool, error) {
	type row struct {
		jobType int32
		work    bool
	}
	work, where := "1 = 1", s.anyPending("known.job_type") // there may be thousands, most of them without
	if len(types) > 0 {
		work, where = where, fmt.Sprintf("job_type IN (%s)", conn.Numbers(types))
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.jobType, &r.work} }), s.FromPrimary(fmt.Sprintf(
		"SELECT job_type, %s AS has_work FROM %s AS known WHERE %s", work, s.Tables.Types, where)))
	have := make(map[int32]bool, len(rows))
	for _, r := range rows {
		have[r.jobType] = r.work
	}
	return have, conn.Wrap("look which job types have work", err)
}

// anyPending writes the condition that there is a pending job of a type. A subquery with LIMIT stays what it is; an EXISTS might become
// a join with all pending rows.
func (s *Store) anyPending(jobType string) string {
	one := func(status string) string {
		return fmt.Sprintf("(SELECT 1 FROM %s AS work %s WHERE work.job_type = %s%s LIMIT 1) IS NOT NULL", s.Tables.Jobs, s.ByDue, jobType, status)
	}
	if s.PendingOnly {
		return one(s.AnyType)
	}
	alternatives := []string{one(" AND work.job_status IS NULL")}
	for status := range strings.SplitSeq(conn.PendingStatuses, ", ") {
		alternatives = append(alternatives, one(" AND work.job_status = "+status))
	}
	return "(" + strings.Join(alternatives, " OR ") + ")"
}
