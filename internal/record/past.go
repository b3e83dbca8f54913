package record

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Past is what befell a job, beside the runs of which the log has a row.
type Past struct {
	Steps     []store.Step // that have a record, and what its runs have logged
	Acts      []Act        // that changed it, the earliest first, without their jobs
	ActsSince int64        // unix seconds: earlier acts were not looked at, since there are too many; 0: all were
	Tenures   []Tenure     // of the leases of its type, under the term of the job: two shards may have the same one
}

// actsLooked is how many acts are looked at, of the latest: no index leads from a job to its acts, and each of them may have a list of jobs.
const actsLooked = 5000

// OfPast says whose past [Store.PastOfJob] reads.
type OfPast struct {
	ID      uint64
	Created int64  // unix seconds: a job that had the id before is not meant
	Lease   string // of its type; its shards' names are longer by a slash and a number
	Term    int64  // 0: it has none
	Acts    int    // that are read at most, of the latest
}

// PastOfJob reads what befell a job, in one statement. It may be asked of a replica.
func (s *Store) PastOfJob(ctx context.Context, of OfPast) (p Past, err error) {
	const act, earlier, tenure = 101, 102, 103 // behind the kinds of steps
	args := s.Arguments()
	whole := func(column string) string { return "CAST(" + column + " AS " + s.BigInt + ")" }
	query := fmt.Sprintf("SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, "+
		"%s AS attempt, %s AS numbered, %s AS happened, %s AS until_at "+
		"FROM %s "+
		"WHERE job_id = %s AND created = %s",
		whole("attempt"), whole("term"), whole("ended_at"), whole("COALESCE(until_at, 0)"), s.Tables.Steps, args.ID(of.ID), args.Number(of.Created))
	looked := fmt.Sprintf("(SELECT CASE WHEN MAX(id) > %[1]d THEN MAX(id) - %[1]d ELSE 0 END FROM %[2]s)", actsLooked, s.Tables.Acts)
	query += fmt.Sprintf(" UNION ALL "+
		"SELECT * FROM (SELECT %d AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, "+
		"%s AS attempt, %s AS numbered, %s AS happened, %s AS until_at "+
		"FROM %s "+
		"WHERE id > %s AND state IS NULL AND acted_at >= %s AND %s "+
		"ORDER BY id DESC LIMIT %d) AS acts",
		act, whole("changed"), whole("id"), whole("acted_at"), whole("COALESCE(operation, 0)"),
		s.Tables.Acts, looked, args.Number(of.Created), changedJob(args, of.ID), of.Acts)
	query += fmt.Sprintf(" UNION ALL "+
		"SELECT * FROM (SELECT %d AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, %s AS happened, 0 AS until_at "+
		"FROM %s "+
		"WHERE id <= %s "+
		"ORDER BY id DESC LIMIT 1) AS earlier",
		earlier, whole("acted_at"), s.Tables.Acts, looked)
	if of.Term != 0 {
		query += fmt.Sprintf(" UNION ALL "+
			"SELECT %d, lock_name, '', holder, '', 0, term, taken_at, COALESCE(ended_at, 0) "+
			"FROM %s "+
			"WHERE (lock_name = %s OR lock_name LIKE %s) AND term = %s",
			tenure, s.Tables.Tenures, args.Value(of.Lease), args.Value(of.Lease+"/%"), args.Number(of.Term))
	}
	type row struct {
		part                              int
		name, told, who, why              string
		attempt, numbered, happened, till int64
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		return []any{&r.part, &r.name, &r.told, &r.who, &r.why,
			conn.Whole(&r.attempt), conn.Whole(&r.numbered), conn.Whole(&r.happened), conn.Whole(&r.till)}
	}), query, args.List...)
	for i := range rows {
		switch r := &rows[i]; r.part {
		case act:
			p.Acts = append(p.Acts, Act{ID: uint64(r.numbered), At: r.happened, Actor: r.who, Verb: r.name, Why: r.why, Detail: r.told,
				Changed: int(r.attempt), Progress: Progress{Operation: uint64(r.till)}})
		case earlier:
			if r.happened >= of.Created {
				p.ActsSince = r.happened
			}
		case tenure:
			p.Tenures = append(p.Tenures, Tenure{Lease: r.name, Term: r.numbered, Owner: r.who, Taken: r.happened, Ended: r.till})
		default:
			p.Steps = append(p.Steps, store.Step{JobID: of.ID, Kind: int32(r.part), Name: r.name, Created: of.Created,
				Attempt: int32(r.attempt), Term: r.numbered, Ended: r.happened, Until: r.till, Value: r.told})
		}
	}
	store.SortSteps(p.Steps)
	slices.SortFunc(p.Acts, func(a, b Act) int { return int(a.ID) - int(b.ID) })
	return p, conn.Wrap("read the past of a job", err)
}

// changedJob writes the condition that an act changed a job.
func changedJob(args *conn.Arguments, id uint64) string {
	text := strconv.FormatUint(id, 10)
	return fmt.Sprintf("last_job >= %s AND first_job <= %s AND (jobs = %s OR jobs LIKE %s OR jobs LIKE %s OR jobs LIKE %s)",
		args.ID(id), args.ID(id), args.Value(text), args.Value(text+",%"), args.Value("%,"+text), args.Value("%,"+text+",%"))
}
