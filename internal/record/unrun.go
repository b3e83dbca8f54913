package record

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// UnrunAfter is the time without a holder of its lease after which a type counts as unrun. It is a day, since some
// applications run their types at night only.
const UnrunAfter = 24 * time.Hour

// TypeLease says when the lease of a job type was held. [Store.TypeLeases] reads it.
type TypeLease struct {
	JobType int32
	Until   int64 // the lease is or was held until this second of unix time
	Lately  bool  // Until is not further back than was asked for in TypeLeases
	Dormant bool  // an instance has laid the type down, since it had no work
}

// TypeLeases reads the leases of all job types and shards, dormant or not, in the order of the types, and which of them were held within the last
// lately seconds. It reads all of a small table. If a type is missing, its lease has no row.
func (s *Store) TypeLeases(ctx context.Context, lately int64) ([]TypeLease, error) {
	type row struct {
		name   string
		until  float64
		lately bool
	}
	prefixed := func(prefix string) string { return fmt.Sprintf("lock_name LIKE '%s%%'", prefix) }
	until := s.Unix("lock_until")
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.name, &r.until, &r.lately} }), fmt.Sprintf(
		"SELECT lock_name, %s AS held_until, %s > %s - %d AS lately FROM %s WHERE (%s OR %s) AND layout > 0",
		s.Exactly(until), until, s.LeaseNow, lately, s.Tables.Leases, prefixed(store.LeasePrefix), prefixed(store.DormantPrefix)))
	if err != nil {
		return nil, conn.Wrap("leases of job types", err)
	}
	var leases []TypeLease
	for _, r := range rows {
		// A lock of the application may be called job-cleanup.
		name, dormant := strings.CutPrefix(r.name, store.DormantPrefix)
		jobType, _, _ := strings.Cut(strings.TrimPrefix(name, store.LeasePrefix), "/") // behind it is the shard
		if n, err := strconv.ParseInt(jobType, 10, 32); err == nil {
			leases = append(leases, TypeLease{int32(n), int64(r.until), r.lately, dormant})
		}
	}
	// Of the leases of a type, the one held longest speaks for the type.
	slices.SortFunc(leases, func(a, b TypeLease) int {
		return cmp.Or(cmp.Compare(a.JobType, b.JobType), cmp.Compare(b.Until, a.Until))
	})
	return slices.CompactFunc(leases, func(a, b TypeLease) bool { return a.JobType == b.JobType }), nil
}

// otherTypesTogether is how many ranges one statement of [Store.OtherTypes] looks at.
const otherTypesTogether = 250

// OtherTypes reads the job types that rows have and that are not in the list, in ascending order and at most limit of
// them. It goes from type to type along the due index: it reads one entry for each type and for each gap in the list, and
// no further rows of a type. On PostgreSQL, where that index has pending rows only, it does not find types without a
// pending row.
func (s *Store) OtherTypes(ctx context.Context, known []int32, limit int) (found []int32, err error) {
	open := gapsBetween(known)
	for len(open) > 0 && len(found) < limit {
		some := open[:min(len(open), otherTypesTogether)]
		open = open[len(some):]
		parts := make([]string, len(some))
		for i, gap := range some {
			parts[i] = fmt.Sprintf("SELECT job_type FROM %s %s WHERE job_type >= %d AND job_type <= %d%s LIMIT 1",
				s.Tables.Jobs, s.ByDue, gap.from, gap.to, s.AnyType)
		}
		types, err := conn.Read(ctx, s, conn.Column[int32], s.UnionAll(parts))
		if err != nil {
			return nil, conn.Wrap("types of jobs", err)
		}
		for _, jobType := range types {
			found = append(found, jobType)
			i := slices.IndexFunc(some, func(gap typeGap) bool { return gap.from <= jobType && jobType <= gap.to })
			if i >= 0 && jobType < some[i].to {
				open = append(open, typeGap{jobType + 1, some[i].to})
			}
		}
	}
	slices.Sort(found)
	return found[:min(len(found), limit)], nil
}

// typeGap is a range of job types, both ends included.
type typeGap struct{ from, to int32 }

// gapsBetween returns the ranges before, between and behind the types of a list.
func gapsBetween(known []int32) (gaps []typeGap) {
	next := int64(math.MinInt32)
	for _, jobType := range slices.Sorted(slices.Values(known)) {
		if int64(jobType) > next {
			gaps = append(gaps, typeGap{int32(next), jobType - 1})
		}
		next = max(next, int64(jobType)+1)
	}
	if next <= math.MaxInt32 {
		gaps = append(gaps, typeGap{int32(next), math.MaxInt32})
	}
	return gaps
}

// CountDue counts the pending rows of a type with ids up to upTo that fell due before a second of unix time. A row
// without a start time fell due when it was created. It counts no further than the limit, and reads no finished row.
func (s *Store) CountDue(ctx context.Context, jobType int32, before int64, upTo uint64, limit int) (int, error) {
	order := ""
	if s.LanesInFull {
		order = " ORDER BY job_status, priority, start_time, id"
	}
	var parts []string // derived tables: MySQL 5.7 takes no SELECT in brackets at the beginning of another
	for _, status := range []string{"job_status IN (" + conn.PendingStatuses + ")", "job_status IS NULL"} {
		parts = append(parts,
			fmt.Sprintf("SELECT * FROM (SELECT id FROM %s %s WHERE job_type = %d AND %s AND id > 0 AND id <= %d AND %s < %d%s LIMIT %d) AS part",
				s.Tables.Jobs, s.ByDue, jobType, status, upTo, s.DueSecond(), before, order, limit))
	}
	n, err := conn.Read(ctx, s, conn.Column[int], "SELECT COUNT(*) FROM ("+strings.Join(parts, " UNION ALL ")+") AS due")
	if err != nil {
		return 0, conn.Wrap("count due jobs", err)
	}
	return min(n[0], limit), nil
}
