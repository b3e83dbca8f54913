package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// State is what rows are in when a change applies to them.
type State int

const (
	Pending  State = iota // not final, in flight or not
	InFlight              // pending and marked: a handler has it, or had it when its process died
	GivenUp               // failed or cancelled
)

var conditions = map[State]string{
	Pending:  pending,
	InFlight: pending + " AND term <> 0",
	GivenUp:  "job_status IN (2, 5)",
}

// waiting are pending rows that nobody has in flight.
const waiting = pending + " AND term = 0"

// JobsOfKey reads the ids of the type's rows with this key and in this state, in their order. Changes are made by id, not
// by key: along the primary key, where marks and outcomes are written too, so that none waits for the other in a circle;
// and without a lock on the place of a key that nobody has, where others may be about to add it.
func (s *Store) JobsOfKey(ctx context.Context, jobType int32, key string, state State) ([]uint64, error) {
	args := s.arguments()
	ids, err := read(ctx, s, column[uint64], s.fromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE job_key = %s AND job_type = %s AND %s",
		s.jobs, s.byKey, args.value(key), args.value(jobType), conditions[state])), args.list...)
	slices.Sort(ids)
	return ids, wrap("find the jobs of the key", err)
}

// InState reads which of the rows are in the state.
func (s *Store) InState(ctx context.Context, ids []uint64, state State) ([]uint64, error) {
	args := s.arguments()
	found, err := read(ctx, s, column[uint64], s.fromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s", s.jobs, s.byPrimary, args.in(s, ids), conditions[state])), args.list...)
	slices.Sort(found)
	return found, wrap("state of jobs", err)
}

// Cancel ends pending rows, in flight or not: the outcome of a run that is under way finds the row final, and is dropped.
// It returns how many rows it ended; fewer than asked: the others are final or not there.
func (s *Store) Cancel(ctx context.Context, ids []uint64) (int, error) {
	return s.change(ctx, "cancel jobs", ids, pending, func(*arguments) string { return "job_status = 5" })
}

// Reschedule sets the second at which rows fall due, not before now. Rows that are in flight, final or not there stay as
// they are; the result is how many rows it changed.
func (s *Store) Reschedule(ctx context.Context, ids []uint64, at int64) (int, error) {
	return s.change(ctx, "reschedule jobs", ids, waiting, func(args *arguments) string {
		return fmt.Sprintf("start_time = %s(%s, %s), changes = changes + 1", s.greatest, args.number(at), s.now)
	})
}

// SetParams gives rows other parameters. The result is that of Reschedule.
func (s *Store) SetParams(ctx context.Context, ids []uint64, params string) (int, error) {
	return s.change(ctx, "set parameters of jobs", ids, waiting, func(args *arguments) string {
		return fmt.Sprintf("params = %s, changes = changes + 1", args.value(params))
	})
}

// SetPriority gives pending rows another priority; for those in flight it counts when they run again. The result is how
// many rows it changed.
func (s *Store) SetPriority(ctx context.Context, ids []uint64, priority int32) (int, error) {
	return s.change(ctx, "set priority of jobs", ids, pending, func(*arguments) string {
		return fmt.Sprintf("priority = %d, changes = changes + 1", priority)
	})
}

// change changes those of the rows that are as the condition says.
func (s *Store) change(ctx context.Context, act string, ids []uint64, condition string, set func(*arguments) string) (int, error) {
	args := s.arguments()
	n, err := s.exec(ctx, fmt.Sprintf("UPDATE %s %s SET %s, update_time = %s WHERE %s AND %s",
		s.jobs, s.byPrimary, set(args), s.now, args.in(s, ids), condition), args.list...)
	return n, wrap(act, err)
}

// Retry lets failed and cancelled rows run once more, from now on and with all their retries: due now and not when they
// were created, which may be longer ago than a runner looks back. It returns how many rows it changed, and those that it
// left because another row bears their key as its unique one. Rows that are in other states or not there stay as they are.
//
// In a transaction, the rows are locked from the first statement on. Outside, an adder may take a row's uniqueness between
// two of them; then that row is neither changed nor returned.
func (s *Store) Retry(ctx context.Context, ids []uint64) (changed int, taken []uint64, err error) {
	rows, err := s.givenUp(ctx, ids)
	if err != nil {
		return 0, nil, err
	}
	borne, err := s.borneKeys(ctx, rows)
	if err != nil {
		return 0, nil, err
	}
	var unique, others []uint64
	for _, row := range rows {
		switch {
		case row.unique:
			unique = append(unique, row.id)
		case borne[row.typedKey]:
			taken = append(taken, row.id)
		default:
			others = append(others, row.id)
		}
	}
	for _, part := range []struct {
		ids       []uint64
		condition string
	}{{unique, "unique_in IS NOT NULL"}, {others, "unique_in IS NULL"}} {
		if len(part.ids) == 0 {
			continue
		}
		n, err := s.change(ctx, "retry jobs", part.ids, conditions[GivenUp]+" AND "+part.condition, func(*arguments) string {
			return fmt.Sprintf("job_status = 0, start_time = %s, term = 0, retries = 0, lost = 0, changes = changes + 1", s.now)
		})
		if changed += n; err != nil {
			return changed, nil, err
		}
	}
	return changed, taken, nil
}

// keyed is a row with its key.
type keyed struct {
	id uint64
	typedKey
	unique bool
}

type typedKey struct {
	jobType int32
	key     string
}

func (s *Store) givenUp(ctx context.Context, ids []uint64) ([]keyed, error) {
	args := s.arguments()
	rows, err := read(ctx, s, each(func(k *keyed) []any { return []any{&k.id, &k.jobType, &k.key, &k.unique} }),
		fmt.Sprintf("SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END FROM %s %s WHERE %s AND %s ORDER BY id%s",
			s.jobs, s.byPrimary, args.in(s, ids), conditions[GivenUp], s.forUpdate), args.list...)
	return rows, wrap("jobs to retry", err)
}

// borneKeys reads which keys of rows that are not unique are borne by one that is.
func (s *Store) borneKeys(ctx context.Context, rows []keyed) (map[typedKey]bool, error) {
	args := s.arguments()
	var places []string
	for _, row := range rows {
		if row.key != "" && !row.unique {
			places = append(places, args.value(row.key))
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	list, err := read(ctx, s, each(func(k *typedKey) []any { return []any{&k.jobType, &k.key} }),
		s.fromPrimary(fmt.Sprintf("SELECT job_type, job_key FROM %s %s WHERE job_key IN (%s) AND unique_in IS NOT NULL", s.jobs, s.byKey, strings.Join(places, ", "))), args.list...)
	borne := make(map[typedKey]bool, len(list))
	for _, k := range list {
		borne[k] = true
	}
	return borne, wrap("keys that other jobs have", err)
}

// GivenUpJobs reads the ids of failed rows of a type, of cancelled ones too if so asked, that were last written in a range
// of unix seconds, the second one left out; behind an id, in their order, and at most limit of them.
func (s *Store) GivenUpJobs(ctx context.Context, jobType int32, cancelled bool, from, to int64, after uint64, limit int) ([]uint64, error) {
	statuses := "2"
	if cancelled {
		statuses = "2, 5"
	}
	args := s.arguments()
	ids, err := read(ctx, s, column[uint64], s.fromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE job_type = %d AND job_status IN (%s) AND update_time >= %s AND update_time < %s AND id > %s ORDER BY id LIMIT %s",
		s.jobs, s.byDue, jobType, statuses, args.number(from), args.number(to), args.id(after), args.number(int64(limit)))), args.list...)
	slices.Sort(ids)
	return ids, wrap("jobs to retry", err)
}

// Pause writes down that a type does not run, and Resume takes that back. Both report whether it was otherwise before.
func (s *Store) Pause(ctx context.Context, jobType int32) (changed bool, err error) {
	n, err := s.exec(ctx, fmt.Sprintf("%s %s (job_type, paused_at) VALUES (%d, %s)%s", s.insertNew, s.types, jobType, s.now, s.unlessThere))
	if err == nil && n == 0 {
		n, err = s.exec(ctx, fmt.Sprintf("UPDATE %s SET paused_at = %s WHERE job_type = %d AND paused_at IS NULL", s.types, s.now, jobType))
	}
	return n > 0, wrap("pause", err)
}

func (s *Store) Resume(ctx context.Context, jobType int32) (changed bool, err error) {
	n, err := s.exec(ctx, fmt.Sprintf("UPDATE %s SET paused_at = NULL WHERE job_type = %d AND paused_at IS NOT NULL", s.types, jobType))
	return n > 0, wrap("resume", err)
}

// PausedType is a type that does not run.
type PausedType struct {
	JobType int32
	Since   int64 // unix seconds
}

// PausedTypes reads the types that do not run.
func (s *Store) PausedTypes(ctx context.Context) ([]PausedType, error) {
	list, err := read(ctx, s, each(func(p *PausedType) []any { return []any{&p.JobType, &p.Since} }),
		fmt.Sprintf("SELECT job_type, paused_at FROM %s WHERE paused_at IS NOT NULL ORDER BY job_type", s.types))
	return list, wrap("paused types", err)
}

// SortedIDs are the ids in their order, each once: statements that lock several rows lock them alike.
func SortedIDs(ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}
