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
	Marks   []Act    // acts with a verb of a mark, the latest first, with their detail
	Now     int64    // the database's clock, in unix seconds
}

// The verbs of marks: acts that change nothing but how things are shown. Each has a job type, so that they are found by its index, among
// millions of acts on jobs.
const (
	Deployed = "deploy" // a version was deployed; its job type is [NoType]
	Muted    = "mute"   // an error of the job type is no news, until a moment
	Unmuted  = "unmute" // it is news again
)

// NoType is the job type of a mark that is about all of them.
const NoType = -1

// MarksKept is how many seconds a mark is looked at: as long as the stats are kept, beside which it is shown.
const MarksKept = 90 * 24 * 60 * 60

const marksMost = 1000

// Events reads the last tenures of which some part lies after a moment, in unix milliseconds, the last acts, as many as a number of each, and
// the marks of the last 90 days. It may be asked of a replica.
func (s *Store) Events(ctx context.Context, from int64, tenures, acts int) (e Events, err error) {
	const ofTenure, ofAct, ofMark = 1, 2, 3
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
		"SELECT * FROM (SELECT %d AS part, verb AS subject, %s AS numbered, actor AS who, %s * 1000 AS happened, "+
		"0 AS until_at, COALESCE(state, '') AS how, job_type, COALESCE(why, '') AS why, changed "+
		"FROM %s "+
		"WHERE operation IS NULL "+
		"ORDER BY id DESC LIMIT %d) AS acts "+
		"UNION ALL "+
		"SELECT * FROM (SELECT %d AS part, verb AS subject, %s AS numbered, actor AS who, %s * 1000 AS happened, "+
		"0 AS until_at, COALESCE(detail, '') AS how, job_type, COALESCE(why, '') AS why, 0 AS changed "+
		"FROM %s "+
		"WHERE job_type >= -2147483648 AND verb IN ('%s', '%s', '%s') AND acted_at >= %s - %d "+
		"ORDER BY acted_at DESC, id DESC LIMIT %d) AS marks "+
		"UNION ALL "+
		"SELECT 0, '', 0, '', %s * 1000, 0, '', %s, '', 0",
		ofTenure, whole("term"), whole("taken_at"), whole("COALESCE(ended_at, 0)"), whole("NULL"), s.Tables.Tenures, args.Number(from), tenures,
		ofAct, whole("id"), whole("acted_at"), s.Tables.Acts, acts,
		ofMark, whole("id"), whole("acted_at"), s.Tables.Acts, Deployed, Muted, Unmuted, s.NowSecond, MarksKept, marksMost,
		whole(s.NowSecond), whole("NULL")), args.List...)
	for i := range rows {
		t := &rows[i]
		act := Act{ID: uint64(t.Term), At: t.Taken / 1000, Actor: t.Owner, Verb: t.Lease, Why: t.why, JobType: t.jobType, Changed: t.changed}
		switch t.part {
		case ofTenure:
			e.Tenures = append(e.Tenures, t.Tenure)
		case ofAct:
			act.State = t.How
			e.Acts = append(e.Acts, act)
		case ofMark:
			act.Detail = t.How
			e.Marks = append(e.Marks, act)
		default:
			e.Now = act.At
		}
	}
	slices.SortFunc(e.Tenures, func(a, b Tenure) int { return int(b.Taken - a.Taken) })
	slices.SortFunc(e.Acts, func(a, b Act) int { return int(b.ID) - int(a.ID) })
	slices.SortFunc(e.Marks, func(a, b Act) int { return int(b.ID) - int(a.ID) })
	return e, conn.Wrap("events", err)
}
