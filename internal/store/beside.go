package store

import (
	"context"
	"encoding/json"
	"fmt"
)

// Beside is what one look shows beside a job: its type, and what those have told who run the type.
type Beside struct {
	Kind  *KnownType // nil: the type has no row
	Lines []Line     // of the type's leases
	Job   *Moment    // nil: there is no such job anymore
}

// Moment is what changes in a job's row if the job is marked, settled or steered.
type Moment struct {
	Status             int16
	Term               int64
	Attempts, Deferred int32
	Due                int64 // unix seconds
}

// BesideJob reads what stands beside a job, and the job's moment, in one statement, so that they are of the same time. lease is the
// name of the type's lease; its shards' names are longer by a slash and a number. It may be asked of a replica.
func (s *Store) BesideJob(ctx context.Context, id uint64, jobType int32, lease string) (b Beside, err error) {
	const kind, line = 1, 2
	args := s.arguments()
	integer := func(column string) string { return fmt.Sprintf(s.integer, column) }
	query := fmt.Sprintf("SELECT %d AS part, %s AS name, %s AS text, COALESCE(paused_at, 0) AS a, COALESCE(told_at, 0) AS b, COALESCE(cron_at, 0) AS c, 0 AS d, 0 AS e FROM %s WHERE job_type = %s",
		kind, "COALESCE(name, '')", "COALESCE(settings, '')", s.types, args.number(int64(jobType)))
	query += fmt.Sprintf(" UNION ALL SELECT %d, lock_name, state, term, told_at, 0, 0, 0 FROM %s WHERE lock_name = %s OR lock_name LIKE %s",
		line, s.lines, args.value(lease), args.value(lease+"/%"))
	query += fmt.Sprintf(" UNION ALL SELECT 3, '', '', %s, %s, %s, %s, %s FROM %s WHERE id = %s",
		integer("job_status"), integer("term"), integer("attempts"), integer("deferred"), s.dueSecond(), s.jobs, args.id(id))
	type row struct {
		part          int
		name, text    string
		a, b, c, d, e int64
	}
	rows, err := read(ctx, s, each(func(r *row) []any {
		return []any{&r.part, &r.name, &r.text, whole[int64]{&r.a}, whole[int64]{&r.b}, whole[int64]{&r.c}, whole[int64]{&r.d}, whole[int64]{&r.e}}
	}), query, args.list...)
	for _, r := range rows {
		switch r.part {
		case kind:
			b.Kind = &KnownType{JobType: jobType, Name: r.name, Settings: r.text, Paused: r.a, ToldAt: r.b, CronAt: r.c}
		case line:
			told := Line{Lease: r.name, Term: r.a, ToldAt: r.b}
			_ = json.Unmarshal([]byte(r.text), &told.LineState) // a later version may have written it
			b.Lines = append(b.Lines, told)
		default:
			b.Job = &Moment{Status: int16(r.a), Term: r.b, Attempts: int32(r.c), Deferred: int32(r.d), Due: r.e}
		}
	}
	return b, wrap("look beside a job", err)
}
