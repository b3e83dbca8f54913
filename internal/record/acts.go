package record

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Act is a row of async_job_act_tab: what somebody did to jobs or to a type. An operation is an act, and each of its parts is
// another.
type Act struct {
	ID      uint64
	At      int64 // unix seconds
	Actor   string
	Verb    string
	Why     string
	JobType *int32   // nil: it is not about a type
	Jobs    []uint64 // that it changed, in ascending order
	Detail  string   // what it changed, as JSON
	Changed int      // jobs
	Progress
}

// Progress is how far an operation has come. Acts that are no operation have none of it, but Operation.
type Progress struct {
	Operation uint64 // that the act is a part of; 0: of none
	State     string // empty: the act is no operation
	Reached   uint64 // the last job that was looked at
	LastID    uint64 // the last job that may be looked at
	Skipped   int    // jobs that had to stay as they were
	Worker    string // who carries it out; empty: nobody yet
	TouchedAt int64  // when the worker was last heard of, in unix seconds
}

// The states of an operation.
const (
	OperationOpen    = "open"
	OperationDone    = "done"
	OperationStopped = "stopped"
)

// LockMatching is [store.Store.LockState] for the rows that match a filter, too.
func (s *Store) LockMatching(ctx context.Context, ids []uint64, f Filter, state store.State) ([]uint64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	f.IDs = ids
	args := s.Arguments()
	where := s.matching(&f, args)
	found, err := conn.Read(ctx, s, conn.Column[uint64],
		fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s ORDER BY id%s", s.Tables.Jobs, s.ByPrimary, where, state.Condition(), s.ForUpdate), args.List...)
	return found, conn.Wrap("lock jobs", err)
}

const (
	actorMax = 255    // characters of a name
	whyMax   = 16_000 // characters of a reason, of which MySQL's text holds 16,383 if each has four bytes
)

// NoteAct writes a new act and returns its id. Sent again, it writes a second one, so it is sent in the transaction of what it tells of.
func (s *Store) NoteAct(ctx context.Context, act *Act) (id uint64, err error) {
	var first, last, operation any
	if n := len(act.Jobs); n > 0 {
		first, last = act.Jobs[0], act.Jobs[n-1]
	}
	if act.Operation > 0 {
		operation = act.Operation
	}
	args := []any{conn.Cut(act.Actor, actorMax), act.Verb, textOrNil(conn.Cut(act.Why, whyMax)),
		act.JobType, textOrNil(conn.Numbers(act.Jobs)), first, last, textOrNil(act.Detail), operation, textOrNil(act.State), act.LastID, act.Changed}
	query := fmt.Sprintf("INSERT INTO %s (acted_at, actor, verb, why, job_type, jobs, first_job, last_job, detail, operation, state, last_id, changed) "+
		"VALUES (%s%s)%s",
		s.Tables.Acts, s.NowSecond, strings.Repeat(", ?", len(args)), s.Returning)
	if s.Returning != "" {
		ids, err := conn.Read(ctx, s, conn.Column[uint64], query, args...)
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("%d ids for one row", len(ids))
		}
		if err != nil {
			return 0, conn.Wrap("note an act", err)
		}
		return ids[0], nil
	}
	result, err := conn.Execute(ctx, s, query, args...)
	if err != nil {
		return 0, conn.Wrap("note an act", err)
	}
	told, err := result.LastInsertId()
	return uint64(told), conn.Wrap("note an act", err)
}

// textOrNil is a text as an argument; an empty one is NULL.
func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// ActFilter says which acts [Store.Acts] returns. A zero value does not restrict.
type ActFilter struct {
	ID         uint64
	Job        uint64  // acts that changed this job
	Types      []int32 // acts about these job types
	Actor      string
	Operation  uint64 // the parts of this operation
	Operations bool   // operations, and no other acts
	Open       bool   // operations that are neither done nor stopped
	Before     uint64 // acts with smaller ids
}

// Acts reads acts, the newest first. Fewer than the limit: there are no more. It may be asked of a replica.
func (s *Store) Acts(ctx context.Context, f ActFilter, limit int) ([]Act, error) {
	query, args := s.selectActs(f, limit)
	acts, err := conn.Read(ctx, s, collectActs, query, args...)
	return acts, conn.Wrap("acts", err)
}

// Operations reads operations, the newest first, for those who carry them out.
func (s *Store) Operations(ctx context.Context, f ActFilter, limit int) ([]Act, error) {
	f.Operations = true
	query, args := s.selectActs(f, limit)
	acts, err := conn.Read(ctx, s, collectActs, s.FromPrimary(query), args...)
	slices.SortFunc(acts, func(a, b Act) int { return cmp.Compare(b.ID, a.ID) })
	return acts, conn.Wrap("operations", err)
}

func (s *Store) selectActs(f ActFilter, limit int) (query string, list []any) {
	args := s.Arguments()
	where := []string{"id > 0"}
	and := func(format string, values ...any) { where = append(where, fmt.Sprintf(format, values...)) }
	if f.ID > 0 {
		and("id = %s", args.ID(f.ID))
	}
	if f.Job > 0 {
		where = append(where, changedJob(args, f.Job))
	}
	if len(f.Types) > 0 {
		and("job_type IN (%s)", conn.Numbers(f.Types))
	}
	if f.Actor != "" {
		and("actor = %s", args.Value(f.Actor))
	}
	if f.Operation > 0 {
		and("operation = %s", args.ID(f.Operation))
	}
	if f.Operations {
		and("state IS NOT NULL")
	} else {
		and("state IS NULL")
	}
	if f.Open {
		and("state = '%s'", OperationOpen)
	}
	if f.Before > 0 {
		and("id < %s", args.ID(f.Before))
	}
	return fmt.Sprintf("SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, "+
		"COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, "+
		"COALESCE(worker, '') AS worker, touched_at "+
		"FROM %s "+
		"WHERE %s "+
		"ORDER BY id DESC LIMIT %s",
		s.Tables.Acts, strings.Join(where, " AND "), args.Number(int64(limit))), args.List
}

func collectActs(rows *sql.Rows) ([]Act, error) {
	type row struct {
		Act
		jobs string
	}
	list, err := conn.Each(func(r *row) []any {
		return []any{&r.ID, &r.At, &r.Actor, &r.Verb, &r.Why,
			&r.JobType, &r.jobs, &r.Detail, &r.Changed, &r.Operation, &r.State, &r.Reached, &r.LastID, &r.Skipped, &r.Worker, &r.TouchedAt}
	})(rows)
	acts := make([]Act, len(list))
	for i := range list {
		acts[i] = list[i].Act
		for text := range strings.SplitSeq(list[i].jobs, ",") {
			if id, err := strconv.ParseUint(text, 10, 64); err == nil {
				acts[i].Jobs = append(acts[i].Jobs, id)
			}
		}
	}
	return acts, err
}
