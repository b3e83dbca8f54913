package record

import (
	"context"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Events are what befell leases, and what people did.
type Events struct {
	Tenures []Tenure // the latest first
	Acts    []Act    // the latest first, with what a list of them needs; an operation has one, and its parts have none
}

// Events reads the last tenures of which some part lies after a moment, in unix milliseconds, and the last acts, as many as a number of each.
// It may be asked of a replica.
func (s *Store) Events(ctx context.Context, from int64, tenures, acts int) (e Events, err error) {
	const ofTenure = 1
	args := s.Arguments()
	whole := func(column string) string { return "CAST(" + column + " AS " + s.BigInt + ")" }
	type told struct {
		part int
		Tenure
		jobType *int32
		why     string
		changed int
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *told) []any {
		return []any{&t.part, &t.Lease, &t.Term, &t.Owner, &t.Taken, conn.Whole(&t.Ended), &t.How, &t.jobType, &t.why, &t.changed}
	}), fmt.Sprintf("SELECT * FROM (SELECT %d AS part, lock_name AS subject, %s AS numbered, holder AS who, %s AS happened, "+
		"%s AS until_at, COALESCE(how, '') AS how, %s AS job_type, '' AS why, 0 AS changed "+
		"FROM %s "+
		"WHERE lock_name LIKE 'job-%%' AND (ended_at IS NULL OR ended_at >= %s) "+
		"ORDER BY taken_at DESC LIMIT %d) AS tenures "+
		"UNION ALL "+
		"SELECT * FROM (SELECT 2 AS part, verb AS subject, %s AS numbered, actor AS who, %s * 1000 AS happened, "+
		"0 AS until_at, COALESCE(state, '') AS how, job_type, COALESCE(why, '') AS why, changed "+
		"FROM %s "+
		"WHERE operation IS NULL "+
		"ORDER BY id DESC LIMIT %d) AS acts",
		ofTenure, whole("term"), whole("taken_at"), whole("COALESCE(ended_at, 0)"), whole("NULL"), s.Tables.Tenures, args.Number(from), tenures,
		whole("id"), whole("acted_at"), s.Tables.Acts, acts), args.List...)
	for i := range rows {
		t := &rows[i]
		if t.part == ofTenure {
			e.Tenures = append(e.Tenures, t.Tenure)
			continue
		}
		e.Acts = append(e.Acts, Act{ID: uint64(t.Term), At: t.Taken / 1000,
			Actor: t.Owner, Verb: t.Lease, Why: t.why, JobType: t.jobType, Changed: t.changed, Progress: Progress{State: t.How}})
	}
	slices.SortFunc(e.Tenures, func(a, b Tenure) int { return int(b.Taken - a.Taken) })
	slices.SortFunc(e.Acts, func(a, b Act) int { return int(b.ID) - int(a.ID) })
	return e, conn.Wrap("events", err)
}
