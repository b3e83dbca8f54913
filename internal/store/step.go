package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Step is what a handler need not do again, as it stands in async_job_step_tab. A step has a name of its own in its job and kind.
//
// A step is recorded by its run, while the job is that run's: the row is pending, has the term and is at the attempt, as a settle asks.
// How that is asked decides what a late statement does, of a process that was frozen while another took the job over:
//
//	                     the holder's step                 another instance
//	RecordStep           INSERT … SELECT … FROM the row    mark: the row gets another term
//	                     and shares the row's lock         a step after that finds no row, and is not recorded
//	RecordStepThrough    UPDATE of the row, INSERT         mark: passes the row over until the transaction ends;
//	                     in the handler's transaction      before it: the UPDATE finds no row, and the handler rolls back
//
// The lock that a SELECT shares is enough for what is done outside of the database: the effect of such a step has happened, whatever
// becomes of its record. Galera asks nobody about what is only read, and TiDB locks nothing in a statement of its own. There, a late record
// may come beside a later run, and the primary key leaves one of the two.
//
// A step in a transaction is done once or not at all, so it writes to the row, as FinishThrough does: two transactions that write to one row
// cannot both be committed, on any database, at any isolation. PostgreSQL from REPEATABLE READ on, and Galera, refuse the later one with an
// error. What it writes is a count, which no other statement reads: it changes whenever it is written, so the number of affected rows tells.
//
// Steps are found again by runs whose number is not the first, since nobody has called a handler before the first. So whoever takes a number
// back, as NotStarted does, must know that no handler was called.
type Step struct {
	JobID   uint64
	Kind    int32
	Name    string
	Created int64 // create_time of the job: a row with another one is of a job that had the id before
	Attempt int32 // of the run that has recorded it …
	Term    int64 // … and its term
	Ended   int64 // unix milliseconds; of a signal that is awaited, 0 until it has come or its time is over
	Until   int64 // of a sleep, or of the wait for a signal, unix milliseconds; 0 for a signal that has come before the wait
	Value   string
}

// Kinds of steps.
const (
	StepDone   int32 = 0
	StepSleep  int32 = 1
	StepSignal int32 = 2 // see [Store.Signal]
	// StepLog is no step: it has what a run has logged, and the name says which run. It stands among the steps because it lives as long as
	// they do. No handler reads it, so a version that does not know it may only show it, as a step that is done.
	StepLog int32 = 16
)

// isStep leaves out what no handler reads.
const isStep = "kind < 16"

const stepColumns = "job_id, kind, name, created, attempt, term, ended_at, until_at, step_value"

// values writes the columns behind job_id, of a job that was created at a time.
func (t *Step) values(args *conn.Arguments, created string) string {
	name, attempt, term, ended, until := args.Value(t.Name), args.Number(int64(t.Attempt)), args.Number(t.Term), args.Number(t.Ended), "NULL"
	if t.Until != 0 {
		until = args.Number(t.Until)
	}
	return fmt.Sprintf("%d, %s, %s, %s, %s, %s, %s, %s", t.Kind, name, created, attempt, term, ended, until, args.OrNull(t.Value))
}

// isOurs is [Store.ours] for a text that stays the same, whatever its numbers.
func (t *Step) isOurs(args *conn.Arguments) string {
	return fmt.Sprintf("id = %s AND term = %s AND attempts = %s AND %s", args.ID(t.JobID), args.Number(t.Term), args.Number(int64(t.Attempt)), pending)
}

// RecordStep writes down a step of a run. Recorded is false if the job is not the run's any more, or if it has a step of this name:
// [Store.StepsOf] tells which. So sent again, it changes nothing.
func (s *Store) RecordStep(ctx context.Context, t Step) (recorded bool, err error) {
	args := s.Arguments()
	into, unless := s.InsertNew, s.UnlessThere
	if s.LooksBefore { // an INSERT IGNORE would cut what is too long, too
		into, unless = "INSERT INTO", ""
	}
	values := t.values(args, "create_time")
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s (%s) SELECT id, %s FROM %s %s WHERE %s%s%s",
		into, s.Tables.Steps, stepColumns, values, s.Tables.Jobs, s.ByPrimary, t.isOurs(args), s.HoldingRead, unless),
		args.List...)
	if conn.IsDuplicate(err) {
		n, err = 0, nil
	}
	return n > 0, conn.Wrap("record a step", err)
}

// RecordStepThrough is RecordStep through another handle, which is the caller's transaction, and which has the row from then on. Recorded is
// false as there, and then the transaction must be rolled back.
func (s *Store) RecordStepThrough(ctx context.Context, h conn.Handle, t Step) (recorded bool, err error) {
	through, args := s.Through(h), s.Arguments()
	update := fmt.Sprintf("UPDATE %s %s SET steps = COALESCE(steps, 0) + 1 WHERE %s", s.Tables.Jobs, s.ByPrimary, t.isOurs(args))
	var n int
	if s.Chains {
		n, err = conn.Exec(ctx, through, fmt.Sprintf("WITH ours AS (%s RETURNING id, create_time) INSERT INTO %s (%s) SELECT id, %s FROM ours%s",
			update, s.Tables.Steps, stepColumns, t.values(args, "create_time"), s.UnlessThere), args.List...)
	} else if n, err = conn.Exec(ctx, through, update); err == nil && n > 0 { // where numbers are no arguments
		n, err = conn.Exec(ctx, through, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%d, %s)",
			s.Tables.Steps, stepColumns, t.JobID, t.values(args, fmt.Sprint(t.Created))), args.List...)
	}
	if conn.IsDuplicate(err) {
		n, err = 0, nil
	}
	return n > 0, conn.Wrap("record a step", err)
}

// RestoreSteps writes steps as they were read, or logs. A step that is there stays as it is, so sent again, it changes nothing.
func (s *Store) RestoreSteps(ctx context.Context, steps []Step) error {
	for some := range slices.Chunk(steps, stepRowsMax) {
		args, rows := s.Arguments(), make([]string, len(some))
		for i := range some {
			rows[i] = fmt.Sprintf("(%d, %s)", some[i].JobID, some[i].values(args, fmt.Sprint(some[i].Created)))
		}
		_, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s (%s) VALUES %s%s",
			s.InsertNew, s.Tables.Steps, stepColumns, strings.Join(rows, ", "), s.UnlessThere), args.List...)
		if err != nil {
			return conn.Wrap("restore steps", err)
		}
	}
	return nil
}

// stepRowsMax is how many steps are restored together: each may have a value of 64 KiB.
const stepRowsMax = 16

// StepsOf reads the steps of jobs: job by job, in the order in which they were recorded. Steps of a job that had the id before are not among
// them.
func (s *Store) StepsOf(ctx context.Context, ids []uint64) ([]Step, error) {
	args := s.Arguments()
	return s.steps(ctx, s.selectSteps(args.OneOf("job_id", ids)+" AND "+isStep)+s.Current(), args)
}

// StepsAndLogsOf is StepsOf with what the runs have logged.
func (s *Store) StepsAndLogsOf(ctx context.Context, ids []uint64) ([]Step, error) {
	args := s.Arguments()
	return s.steps(ctx, s.selectSteps(args.OneOf("job_id", ids))+s.Current(), args)
}

// LogsOf reads what the runs of a job have logged, the first run first. It may be asked of a replica.
func (s *Store) LogsOf(ctx context.Context, id uint64) ([]Step, error) {
	args := s.Arguments()
	return s.steps(ctx, s.selectSteps(fmt.Sprintf("job_id = %s AND kind = %d", args.ID(id), StepLog)), args)
}

// KeepLogs writes what runs have logged, each with a row of its own, so that no run writes over the log of another one. It leaves each of
// these jobs the logs of so many runs. Sent again, it changes nothing.
func (s *Store) KeepLogs(ctx context.Context, logs []Step, runs int32) error {
	err := s.RestoreSteps(ctx, logs)
	for i := range logs {
		if l := &logs[i]; err == nil && l.Attempt > runs {
			args := s.Arguments()
			_, err = conn.Exec(ctx, s, fmt.Sprintf("%s WHERE job_id = %s AND kind = %d AND attempt <= %s", fmt.Sprintf(s.DeleteFrom, s.Tables.Steps),
				args.ID(l.JobID), StepLog, args.Number(int64(l.Attempt-runs))), args.List...)
		}
	}
	return conn.Wrap("keep what runs have logged", err)
}

// StepsOfRun reads the steps of one job for a run of it, through another handle if there is one. What earlier runs have recorded in a
// transaction was committed before the mark of this run, so it is seen by every transaction that has begun since.
func (s *Store) StepsOfRun(ctx context.Context, h conn.Handle, id uint64) ([]Step, error) {
	if h != nil {
		s = s.Through(h)
	}
	args := s.Arguments()
	return s.steps(ctx, s.FromPrimary(s.selectSteps("job_id = "+args.ID(id)+" AND "+isStep)), args)
}

func (s *Store) selectSteps(where string) string {
	return fmt.Sprintf("SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, "+
		"COALESCE(step_value, '') AS value "+
		"FROM %s WHERE %s AND EXISTS (SELECT 1 FROM %s WHERE id = job_id AND create_time = created)", s.Tables.Steps, where, s.Tables.Jobs)
}

func (s *Store) steps(ctx context.Context, query string, args *conn.Arguments) ([]Step, error) {
	steps, err := conn.Read(ctx, s, conn.Each(func(t *Step) []any {
		return []any{&t.JobID, &t.Kind, &t.Name, &t.Created, &t.Attempt, &t.Term, &t.Ended, &t.Until, &t.Value}
	}), query, args.List...)
	SortSteps(steps)
	return steps, conn.Wrap("read the steps of jobs", err)
}

// SortSteps sorts steps job by job, in the order in which they were recorded.
func SortSteps(steps []Step) {
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(uint64(a.Ended-1), uint64(b.Ended-1)), // what has not ended, at the end
			cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Name, b.Name))
	})
}

// ForgetSteps deletes the steps of jobs, and leaves what their runs have logged. It needs jobs that no run has: they are locked.
func (s *Store) ForgetSteps(ctx context.Context, ids []uint64) error {
	return s.deleteSteps(ctx, ids, " AND "+isStep)
}

// DeleteSteps deletes the steps of jobs that are gone, or go in the same transaction, and what their runs have logged.
func (s *Store) DeleteSteps(ctx context.Context, ids []uint64) error {
	return s.deleteSteps(ctx, ids, "")
}

func (s *Store) deleteSteps(ctx context.Context, ids []uint64, and string) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%s WHERE job_id IN (%s)%s", fmt.Sprintf(s.DeleteFrom, s.Tables.Steps), conn.Numbers(ids), and))
	return conn.Wrap("forget the steps of jobs", err)
}

// ForgetStray deletes the steps of the job that had this id before: their created is another one. Sent again, it changes nothing.
func (s *Store) ForgetStray(ctx context.Context, id uint64, created int64) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%s WHERE job_id = %d AND created <> %d", fmt.Sprintf(s.DeleteFrom, s.Tables.Steps), id, created))
	return conn.Wrap("forget the steps of an earlier job", err)
}
