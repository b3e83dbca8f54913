package store

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Signalled is what became of a signal. A signal is a value that somebody sends to a job, under a name, and for which a run of the job may wait.
// Signal and wait are one row of async_job_step_tab, of the kind StepSignal, so that one row says what has become of the two:
//
//	                                       ended_at   until_at   step_value
//	the signal has come, nobody awaits it   then       –          the value
//	a run awaits it                         0          the end    –
//	it has come in time                     then       the end    the value
//	the time is over                        then       the end    –             decided by a run, not by the clock
//
// The first signal of a name counts, and what has ended stays. Both sides have the job's row before they write that one, so they take turns, and
// never wait for each other in a circle:
//
//	the sender's transaction                                 the run
//	1  UPDATE of the job: changes + 1, needs pending         a  INSERT of the wait, shares the row's lock, needs ours   (RecordStep)
//	2  INSERT of the value, unless the row is there          b  the row is there: reads it, and goes on with its value
//	3  else UPDATE, needs a wait that has not ended          c  else it is over: put back until the end of the wait  (Again.Awaits):
//	4  and if the job waits: it is due now                         CASE WHEN changes = <as marked> THEN <the end> ELSE now
//
// No wake-up is lost. Whoever of 1 and a comes first, the other sees it: a after 1 finds the value; 1 after a finds the wait, and then either
// the job waits already, and 4 makes it due, or c is still to come, and finds that changes is another than it was marked with. That c asks the
// row itself, and no other table, is what makes it safe at READ COMMITTED of PostgreSQL: an UPDATE that has waited for its row sees that row
// anew, and all other tables as they were when it began. For the same reason, 3 and 4 are statements of their own: they begin when the
// transaction has the job's row. A sender that reads an old snapshot (REPEATABLE READ) writes all the same to what is there now, in the MySQL
// family; PostgreSQL refuses it with an error. If a settle is sent again, or late, it is about a mark that is gone.
//
//   - While the sender's transaction is open, nobody marks the row, so a job that is due then starts after the commit; a rollback takes all four
//     back. A run of the job that is in a or c waits for it.
//   - A change of priority while the job runs wakes it at c, too. It looks, and waits again until the same end.
//   - A process that was frozen writes neither a nor c nor the end of the wait: all three need the row to be its own.
//   - Whether a signal is in time, the sender's clock in step 3 says, which is the database's. Whether the time is over, a run says, and writes
//     that down (EndWait) before it acts on it, so that no later run is told something else.
//   - To a job that is not marked, and waits for something else (its time, a retry, a Sleep before the wait), 4 does nothing: the value is there
//     when the job gets so far.
type Signalled int

const (
	SignalTaken   Signalled = iota // the job has it
	SignalKnown                    // the job has had one of this name
	SignalLate                     // the time of the wait is over
	SignalToEnded                  // the job is final
	SignalToNone                   // there is no such job
)

// Signal sends a signal to a job, of which JobID, Name and Value are given. It needs a transaction, or each statement is one of its own. Whatever
// it returns without an error, the transaction may go on and be committed. Sent again after it was committed, it returns SignalKnown.
func (s *Store) Signal(ctx context.Context, t Step) (Signalled, error) {
	got, err := s.signal(ctx, &t)
	return got, conn.Wrap("signal a job", err)
}

func (s *Store) signal(ctx context.Context, t *Step) (Signalled, error) {
	change := func(*conn.Arguments) string { return "changes = changes + 1" }
	n, err := s.changeAt(ctx, "have the job's row", s.touched(), []uint64{t.JobID}, pending, change)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		final, err := s.InState(ctx, []uint64{t.JobID}, Ended)
		if len(final) == 0 {
			return SignalToNone, err
		}
		return SignalToEnded, err
	}
	const tries = 2 // a row of a job that had the id before is removed
	for range tries {
		if n, err = s.insertSignal(ctx, t); err != nil || n > 0 {
			return SignalTaken, err
		}
		if n, err = s.endWait(ctx, t, " AND until_at > "+s.nowMillis()); err != nil {
			return 0, err
		}
		if n > 0 {
			return SignalTaken, s.wake(ctx, t.JobID)
		}
		args := s.Arguments()
		there, err := s.steps(ctx, s.selectSteps(fmt.Sprintf("job_id = %s AND kind = %d AND name = %s", args.ID(t.JobID), StepSignal, args.Value(t.Name)))+
			s.Current(), args)
		switch {
		case err != nil:
			return 0, err
		case len(there) > 0 && there[0].Value != "":
			return SignalKnown, nil
		case len(there) > 0:
			return SignalLate, nil
		}
		args = s.Arguments()
		if _, err = conn.Exec(ctx, s, fmt.Sprintf("%s WHERE job_id = %s AND created <> %s",
			fmt.Sprintf(s.DeleteFrom, s.Tables.Steps), args.ID(t.JobID), s.createdOf(args, t.JobID)), args.List...); err != nil {
			return 0, err
		}
	}
	return SignalKnown, nil
}

// nowMillis is the clock that jobs go by, in milliseconds.
func (s *Store) nowMillis() string { return fmt.Sprintf("(%s %s 1000)", s.NowMicros, s.Quotient) }

// createdOf is the create_time of a job.
func (s *Store) createdOf(args *conn.Arguments, id uint64) string {
	return fmt.Sprintf("(SELECT create_time FROM %s %s WHERE id = %s)", s.Tables.Jobs, s.ByPrimary, args.ID(id))
}

// insertSignal writes a value for which nobody waits. 0: the row is there.
func (s *Store) insertSignal(ctx context.Context, t *Step) (n int, err error) {
	args := s.Arguments()
	into, unless := s.InsertNew, s.UnlessThere
	if s.LooksBefore {
		into, unless = "INSERT INTO", ""
	}
	n, err = conn.Exec(ctx, s, fmt.Sprintf("%s %s (%s) SELECT id, %d, %s, create_time, attempts, term, %s, NULL, %s FROM %s %s WHERE id = %s%s",
		into, s.Tables.Steps, stepColumns, StepSignal, args.Value(t.Name), s.nowMillis(), args.Value(t.Value), s.Tables.Jobs, s.ByPrimary,
		args.ID(t.JobID), unless), args.List...)
	if conn.IsDuplicate(err) {
		n, err = 0, nil
	}
	return n, err
}

// endWait ends the wait for a signal, with a value or without. 0: there is none, it has ended, or it does not meet the condition.
func (s *Store) endWait(ctx context.Context, t *Step, condition string) (int, error) {
	args := s.Arguments()
	return conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET step_value = %s, ended_at = %s WHERE job_id = %s AND kind = %d AND name = %s AND ended_at = 0"+
		"%s AND created = %s",
		s.ByKeyOf(s.Tables.Steps), args.OrNull(t.Value), s.nowMillis(), args.ID(t.JobID), StepSignal, args.Value(t.Name), condition,
		s.createdOf(args, t.JobID)), args.List...)
}

// wake makes a row due that was put off by its handler.
func (s *Store) wake(ctx context.Context, id uint64) error {
	_, err := s.change(ctx, "wake a job", []uint64{id}, waiting+" AND job_status = 3", func(*conn.Arguments) string {
		return fmt.Sprintf("start_time = %s(%s, %s)", s.Least, "start_time", s.NowSecond)
	})
	return err
}

// EndWait notes that the time of a wait is over, unless the signal has come; which of the two, [Store.StepsOf] tells. It needs a job that is the
// run's, as [Store.RecordStep] does. Sent again, it changes nothing.
func (s *Store) EndWait(ctx context.Context, t Step) (ours bool, err error) {
	err = s.InOneTransaction(ctx, func(s *Store) error {
		args := s.Arguments()
		held, err := conn.Read(ctx, s, conn.Column[uint64],
			fmt.Sprintf("SELECT id FROM %s %s WHERE %s%s", s.Tables.Jobs, s.ByPrimary, t.isOurs(args), s.ForUpdate), args.List...)
		if ours = len(held) > 0; err == nil && ours {
			t.Value = ""
			_, err = s.endWait(ctx, &t, "")
		}
		return err
	})
	return ours && err == nil, conn.Wrap("end a wait", err)
}
