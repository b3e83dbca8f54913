package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// State is the state that rows must be in for a change to apply to them.
type State int

const (
	Pending  State = iota // not final, in flight or not
	InFlight              // pending and marked: a handler has it, or had it when its process died
	GivenUp               // failed or cancelled
	Waiting               // pending and not marked
	Ended                 // succeeded, failed or cancelled
)

var conditions = map[State]string{
	Pending:  pending,
	InFlight: pending + " AND term <> 0",
	GivenUp:  "job_status IN (" + failed + ", " + cancelled + ")",
	Waiting:  waiting,
	Ended:    "job_status IN (1, " + failed + ", " + cancelled + ")",
}

// Condition writes the condition that a row is in the state.
func (s State) Condition() string { return conditions[s] }

// waiting is the condition that a row is pending and nobody has it in flight.
const waiting = pending + " AND term = 0"

// JobsOfKey reads the ids of the type's rows that have this key and are in this state, in ascending order; none: there is
// no such row.
//
// Changes are made by these ids, not by the key, for two reasons. They go along the primary key, as marks and outcomes
// do, so that statements do not wait for each other in a circle. And they do not lock the gap of a key that no row has,
// where others may be about to add one.
func (s *Store) JobsOfKey(ctx context.Context, jobType int32, key string, state State) ([]uint64, error) {
	args := s.Arguments()
	ids, err := conn.Read(ctx, s, conn.Column[uint64], s.FromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE job_key = %s AND job_type = %s AND %s",
		s.Tables.Jobs, s.ByKey, args.Value(key), args.Value(jobType), state.Condition())), args.List...)
	slices.Sort(ids)
	return ids, conn.Wrap("find the jobs of the key", err)
}

// InState reads which of the rows are in the state. Fewer than asked: the others are in another state or not there. In a transaction it may
// wait for the locks of these rows, since its snapshot would say how they once were.
func (s *Store) InState(ctx context.Context, ids []uint64, state State) ([]uint64, error) {
	args := s.Arguments()
	found, err := conn.Read(ctx, s, conn.Column[uint64],
		s.FromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s%s", s.Tables.Jobs, s.ByPrimary, args.In(ids), state.Condition(), s.Current())),
		args.List...)
	slices.Sort(found)
	return found, conn.Wrap("state of jobs", err)
}

// LockState reads which of the rows are in the state, in ascending order, and locks them until the end of the transaction.
func (s *Store) LockState(ctx context.Context, ids []uint64, state State) ([]uint64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := s.Arguments()
	found, err := conn.Read(ctx, s, conn.Column[uint64],
		fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s ORDER BY id%s", s.Tables.Jobs, s.ByPrimary, args.In(ids), state.Condition(), s.ForUpdate),
		args.List...)
	return found, conn.Wrap("lock jobs", err)
}

// Cancel ends pending rows, in flight or not. If a run is under way, its outcome finds the row final and is dropped.
// Cancel returns how many rows it ended. Fewer than asked: the others are final or not there.
func (s *Store) Cancel(ctx context.Context, ids []uint64) (int, error) {
	return s.change(ctx, "cancel jobs", ids, pending, func(*conn.Arguments) string { return "job_status = " + cancelled })
}

// Reschedule sets the second of unix time at which rows fall due, or now if that is later. It needs rows that are pending
// and not in flight, and returns how many rows it changed. Fewer than asked: the others are in flight, final or not
// there.
func (s *Store) Reschedule(ctx context.Context, ids []uint64, at int64) (int, error) {
	return s.change(ctx, "reschedule jobs", ids, waiting, func(args *conn.Arguments) string {
		return fmt.Sprintf("start_time = %s(%s, %s), changes = changes + 1", s.Greatest, args.Number(at), s.NowSecond)
	})
}

// SetParams gives rows other parameters. It needs what [Store.Reschedule] needs, and fewer rows than asked means the
// same.
func (s *Store) SetParams(ctx context.Context, ids []uint64, params string) (int, error) {
	return s.changeAt(ctx, "set parameters of jobs", s.touched(), ids, waiting, func(args *conn.Arguments) string {
		return setParams(args, params) + ", changes = changes + 1"
	})
}

func setParams(args *conn.Arguments, params string) string {
	short, long := InColumns(params)
	return fmt.Sprintf("params = %s, long_params = %s", args.Value(short), args.OrNull(long))
}

// SetPriority gives pending rows another priority; for rows in flight, it counts when they run again. It returns how many
// rows it changed. Fewer than asked: the others are final or not there.
func (s *Store) SetPriority(ctx context.Context, ids []uint64, priority int32) (int, error) {
	return s.changeAt(ctx, "set priority of jobs", s.touched(), ids, pending, func(*conn.Arguments) string {
		return fmt.Sprintf("priority = %d, changes = changes + 1", priority)
	})
}

// touched is the update_time of a row whose time stays as it is. It never goes back: a row whose time was set while the clock was ahead goes on
// saying so, see [Store.WrittenAhead].
func (s *Store) touched() string {
	return fmt.Sprintf("%s(update_time, %s)", s.Greatest, s.NowOnce())
}

// change changes the rows that meet the condition, and returns how many it changed. On PostgreSQL, an UPDATE locks its
// rows in the order of its plan. So it may deadlock with a mark or a settle of the same rows, and is sent again.
func (s *Store) change(ctx context.Context, act string, ids []uint64, condition string, set func(*conn.Arguments) string) (n int, err error) {
	return s.changeAt(ctx, act, s.NowOnce(), ids, condition, set)
}

func (s *Store) changeAt(ctx context.Context, act, now string, ids []uint64, condition string, set func(*conn.Arguments) string) (n int, err error) {
	args := s.Arguments()
	statement := fmt.Sprintf("UPDATE %s %s SET %s, update_time = %s WHERE %s AND %s",
		s.Tables.Jobs, s.ByPrimary, set(args), now, args.In(ids), condition)
	err = s.InSpiteOfDeadlocks(func() (err error) {
		n, err = conn.Exec(ctx, s, statement, args.List...)
		return err
	})
	return n, conn.Wrap(act, err)
}

// Retry makes failed and cancelled rows run once more, from now on and with all their retries. It makes them due now,
// because their old time may be longer ago than a runner looks back, and takes their end away, which may have passed. It
// returns how many rows it changed, and the ids of the rows that it left as they are because another row has their key as
// its unique key, or because their flow is being undone, see [Store.Undone]. Rows that are in another state or not there stay as they are; so a
// second sending changes nothing.
//
// A row whose uniqueness was taken has it again, by the statement that makes it run. Whether another row has the key by then, the unique
// index decides: Retry looks before, only so that there is seldom an error.
func (s *Store) Retry(ctx context.Context, ids []uint64) (changed int, taken []uint64, err error) {
	return s.retry(ctx, ids, func(*conn.Arguments) string { return "" })
}

// RetryWith is [Store.Retry] with other parameters.
func (s *Store) RetryWith(ctx context.Context, ids []uint64, params string) (changed int, taken []uint64, err error) {
	return s.retry(ctx, ids, func(args *conn.Arguments) string { return setParams(args, params) + ", " })
}

// retry sets what else is to be set; that ends with a comma, if there is any.
func (s *Store) retry(ctx context.Context, ids []uint64, alsoSet func(*conn.Arguments) string) (changed int, taken []uint64, err error) {
	rows, err := s.givenUp(ctx, ids)
	if err != nil {
		return 0, nil, err
	}
	if slices.ContainsFunc(rows, func(r keyed) bool { return r.node > 0 }) {
		if s.CommitsEach() && s.CanTransact() { // so that no flow is undone between the look at it and the change
			err = s.InOneTransaction(ctx, func(s *Store) (err error) {
				changed, taken, err = s.retry(ctx, ids, alsoSet)
				return err
			})
			return changed, taken, err
		}
		if rows, taken, err = s.forward(ctx, rows); err != nil {
			return 0, nil, err
		}
	}
	borne, err := s.borneKeys(ctx, rows)
	if err != nil {
		return 0, nil, err
	}
	var free []uint64
	claim := false                              // a key is to be given back
	for _, row := range slices.Backward(rows) { // of several that are to have one key back, the latest
		switch {
		case row.bears:
			free = append(free, row.id)
		case borne[row.typedKey]:
			taken = append(taken, row.id)
		default:
			free = append(free, row.id)
			if row.key != "" && row.unique {
				claim = true
				borne[row.typedKey] = true
			}
		}
	}
	slices.Sort(free)
	changed, refused, err := s.retryFree(ctx, free, claim, alsoSet)
	if err != nil {
		return changed, nil, err
	}
	return changed, SortedIDs(append(taken, refused...)), nil
}

// retryFree makes rows run again, and gives them their keys back. It returns the rows whose key another row has taken by now. If the
// statement finds such a row, it changes none; so the rows are tried by halves then.
func (s *Store) retryFree(
	ctx context.Context, ids []uint64, claim bool, alsoSet func(*conn.Arguments) string,
) (changed int, taken []uint64, err error) {
	if len(ids) == 0 {
		return 0, nil, nil
	}
	err = conn.UndoAlone(ctx, s, claim, func() (err error) {
		changed, err = s.change(ctx, "retry jobs", ids, GivenUp.Condition(), func(args *conn.Arguments) string {
			return alsoSet(args) +
				fmt.Sprintf("job_status = 0, start_time = %s, %s, %s, term = 0, retries = 0, lost = 0, %s",
					s.NowSecond, withKeyBack, s.changedBesideRun(), liftsEnd)
		})
		return err
	})
	switch {
	case !conn.IsDuplicate(err):
		return changed, nil, err
	case len(ids) == 1:
		return 0, ids, nil
	}
	half := len(ids) / 2
	changed = 0
	for _, some := range [][]uint64{ids[:half], ids[half:]} {
		n, refused, err := s.retryFree(ctx, some, claim, alsoSet)
		if changed += n; err != nil {
			return changed, nil, err
		}
		taken = append(taken, refused...)
	}
	return changed, taken, nil
}

// keyed is a row with its key. It may be unique and not bear its key, which another row has taken.
type keyed struct {
	id uint64
	typedKey
	unique, bears bool
	node          uint64 // of a flow; 0: of none
}

type typedKey struct {
	jobType int32
	key     string
}

// givenUp reads which of the rows are failed or cancelled, and locks them until the end of the transaction.
func (s *Store) givenUp(ctx context.Context, ids []uint64) ([]keyed, error) {
	args := s.Arguments()
	query := fmt.Sprintf("SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN %s THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, "+
		"COALESCE(meta, '') FROM %s %s "+
		"WHERE %s AND %s "+
		"ORDER BY id%s",
		IsUnique, s.Tables.Jobs, s.ByPrimary, args.In(ids), GivenUp.Condition(), s.ForUpdate)
	type row struct {
		keyed
		meta string
	}
	var list []row
	err := s.InSpiteOfDeadlocks(func() (err error) {
		list, err = conn.Read(ctx, s, conn.Each(func(k *row) []any { return []any{&k.id, &k.jobType, &k.key, &k.unique, &k.bears, &k.meta} }),
			query, args.List...)
		return err
	})
	rows := make([]keyed, len(list))
	for i := range list {
		rows[i] = list[i].keyed
		rows[i].node = nodeOf(list[i].meta)
	}
	return rows, conn.Wrap("jobs to retry", err)
}

// borneKeys reads which keys of rows that do not bear theirs are another row's unique key. In a transaction, it locks their entries: the
// snapshot may be older than the row that has a key now.
func (s *Store) borneKeys(ctx context.Context, rows []keyed) (map[typedKey]bool, error) {
	args := s.Arguments()
	var places []string
	for _, row := range rows {
		if row.key != "" && !row.bears {
			places = append(places, args.Value(row.key))
		}
	}
	if len(places) == 0 {
		return map[typedKey]bool{}, nil
	}
	list, err := conn.Read(ctx, s, conn.Each(func(k *typedKey) []any { return []any{&k.jobType, &k.key} }),
		s.FromPrimary(fmt.Sprintf("SELECT job_type, job_key FROM %s %s WHERE job_key IN (%s) AND unique_in IS NOT NULL%s",
			s.Tables.Jobs, s.ByKey, strings.Join(places, ", "), s.Current())), args.List...)
	borne := make(map[typedKey]bool, len(list))
	for _, k := range list {
		borne[k] = true
	}
	return borne, conn.Wrap("keys that other jobs have", err)
}

// GivenUpJobs reads the ids of a type's failed rows, and with cancelled also of its cancelled ones, that were last
// written from one second of unix time until another, which is left out. It returns at most limit ids above after, in
// ascending order. Fewer: there are no more.
func (s *Store) GivenUpJobs(ctx context.Context, jobType int32, cancelled bool, from, to int64, after uint64, limit int) ([]uint64, error) {
	statuses := "2"
	if cancelled {
		statuses = "2, 5"
	}
	args := s.Arguments()
	ids, err := conn.Read(ctx, s, conn.Column[uint64], s.FromPrimary(fmt.Sprintf("SELECT id FROM %s %s "+
		"WHERE job_type = %d AND job_status IN (%s) AND update_time >= %s AND update_time < %s AND id > %s "+
		"ORDER BY id LIMIT %s",
		s.Tables.Jobs, s.ByDue, jobType, statuses, args.Number(from), args.Number(to), args.ID(after), args.Number(int64(limit)))), args.List...)
	slices.Sort(ids)
	return ids, conn.Wrap("jobs to retry", err)
}

// pauseOver is the condition that the pause of a type has ended, by the database's clock.
func (s *Store) pauseOver() string {
	return "paused_until > paused_at AND paused_until <= " + s.NowSecond
}

// Pause writes down that a type does not run; [Store.Resume] takes that back. A pause that had an end has none any more. It reports
// whether the type was not paused before, or until a time only. Sent again, it changes nothing.
func (s *Store) Pause(ctx context.Context, jobType int32) (changed bool, err error) {
	n, err := conn.Exec(ctx, s,
		fmt.Sprintf("%s %s (job_type, paused_at) VALUES (%d, %s)%s", s.InsertNew, s.Tables.Types, jobType, s.NowSecond, s.UnlessThere))
	if err == nil && n == 0 {
		n, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET paused_at = COALESCE(paused_at, %s), paused_until = NULL "+
			"WHERE job_type = %d AND (paused_at IS NULL OR paused_until IS NOT NULL)",
			s.ByKeyOf(s.Tables.Types), s.NowSecond, jobType))
	}
	return n > 0, conn.Wrap("pause", err)
}

// PauseUntil is Pause with an end, in unix seconds. It reports whether the type was not paused before, or until another time. If the
// time has passed by the database's clock, the pause is over at once. Sent again before its end, it changes nothing.
func (s *Store) PauseUntil(ctx context.Context, jobType int32, until int64) (changed bool, err error) {
	begins := fmt.Sprintf("WHEN %s < %d THEN %[1]s ELSE %[3]d END", s.NowSecond, until, until-1)
	n, err := conn.Exec(ctx, s,
		fmt.Sprintf("%s %s (job_type, paused_at, paused_until) VALUES (%d, CASE %s, %d)%s",
			s.InsertNew, s.Tables.Types, jobType, begins, until, s.UnlessThere))
	if err == nil && n == 0 {
		n, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET paused_at = CASE WHEN paused_at < %d THEN paused_at %s, paused_until = %[2]d"+
			" WHERE job_type = %[4]d AND (paused_at IS NULL OR paused_at >= %[2]d OR paused_until IS NULL OR paused_until <> %[2]d)",
			s.ByKeyOf(s.Tables.Types), until, begins, jobType))
	}
	return n > 0, conn.Wrap("pause until a time", err)
}

// EndPauses ends the pauses of these types that are over by the database's clock, and returns how many it has ended. If it is fewer than
// asked, the other types have a new pause, or somebody else has let them run. Sent again, it changes nothing.
func (s *Store) EndPauses(ctx context.Context, types []int32) (ended int, err error) {
	ended, err = conn.Exec(ctx, s,
		fmt.Sprintf("%s %s %s SET paused_at = NULL, paused_until = NULL WHERE %s AND %s",
			s.Updates, s.Tables.Types, s.ByPrimary, s.RowsOf(types), s.pauseOver()))
	return ended, conn.Wrap("end pauses", err)
}

// Resume lets a type run again. It reports whether the type was paused before. Sent again, it changes nothing.
func (s *Store) Resume(ctx context.Context, jobType int32) (changed bool, err error) {
	n, err := conn.Exec(ctx, s,
		fmt.Sprintf("UPDATE %s SET paused_at = NULL, paused_until = NULL WHERE job_type = %d AND paused_at IS NOT NULL",
			s.ByKeyOf(s.Tables.Types), jobType))
	return n > 0, conn.Wrap("resume", err)
}

type PausedType struct {
	JobType int32
	Since   int64 // unix seconds
}

// PausedTypes reads the types that are paused, in their order.
func (s *Store) PausedTypes(ctx context.Context) ([]PausedType, error) {
	list, err := conn.Read(ctx, s, conn.Each(func(p *PausedType) []any { return []any{&p.JobType, &p.Since} }),
		fmt.Sprintf("SELECT job_type, paused_at FROM %s %s WHERE paused_at IS NOT NULL ORDER BY job_type", s.Tables.Types, s.ByPaused))
	return list, conn.Wrap("paused types", err)
}

// SortedIDs returns the ids in ascending order, each once, so that all statements that lock several rows lock them in the
// same order.
func SortedIDs(ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}
