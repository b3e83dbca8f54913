package record

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Beside is what one look shows beside a job: its type, and what the holders of its leases have told.
type Beside struct {
	Kind  *KnownType   // nil: the type has no row
	Lines []store.Line // of the type's leases
	Job   *Moment      // nil: there is no such job anymore
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
	const kind, line, moment = 1, 2, 3
	args := s.Arguments()
	integer := func(column string) string { return fmt.Sprintf(s.Integer, column) }
	parts := []string{
		fmt.Sprintf(
			"SELECT %d AS part, COALESCE(name, '') AS name, COALESCE(settings, '') AS state, COALESCE(paused_at, 0), COALESCE(told_at, 0), "+
				"COALESCE(cron_at, 0), COALESCE(workers, 0), %s, %s, %s AS actor, %s AS why "+
				"FROM %s AS kind "+
				"WHERE job_type = %s",
			kind, pauseEnd, s.Exactly("COALESCE(rate, 0)"), s.ofPause("actor"), s.ofPause("why"), s.Tables.Types, args.Number(int64(jobType))),
		fmt.Sprintf("SELECT %d, lock_name, state, term, told_at, 0, 0, 0, 0, '', '' FROM %s WHERE lock_name = %s OR lock_name LIKE %s",
			line, s.Tables.Lines, args.Value(lease), args.Value(lease+"/%")),
		fmt.Sprintf("SELECT %d, '', '', %s, %s, %s, %s, %s, 0, '', '' FROM %s WHERE id = %s",
			moment, integer("job_status"), integer("term"), integer("attempts"), integer("deferred"), s.DueSecond(), s.Tables.Jobs, args.ID(id)),
	}
	type row struct {
		part        int
		name, state string
		numbers     [5]int64
		rate        float64
		by, why     string // a pause
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		places := []any{&r.part, &r.name, &r.state}
		for i := range r.numbers {
			places = append(places, conn.Whole(&r.numbers[i]))
		}
		return append(places, &r.rate, &r.by, &r.why)
	}), strings.Join(parts, " UNION ALL "), args.List...)
	for _, r := range rows {
		switch n := &r.numbers; r.part {
		case kind:
			b.Kind = &KnownType{JobType: jobType, Name: r.name, Settings: r.state,
				Paused: n[0], PausedUntil: n[4], PausedBy: r.by, PausedWhy: r.why, ToldAt: n[1], CronAt: n[2],
				Limits: store.Limits{Workers: int(n[3]), Rate: r.rate}}
		case line:
			told := store.Line{Lease: r.name, Term: n[0], ToldAt: n[1]}
			_ = json.Unmarshal([]byte(r.state), &told.LineState) // a later version may have written it
			b.Lines = append(b.Lines, told)
		case moment:
			b.Job = &Moment{Status: int16(n[0]), Term: n[1], Attempts: int32(n[2]), Deferred: int32(n[3]), Due: n[4]}
		}
	}
	return b, conn.Wrap("look beside a job", err)
}
