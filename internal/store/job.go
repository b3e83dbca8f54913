package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Version tells how often the library has written a row, as far as its decisions depend on that. If a row is read with
// one version and written only while it has that version, then nobody else wrote it in between.
type Version struct {
	Term     int64 // 0: not marked
	Attempts int32
	Changes  int32
}

// Mark writes the term into pending rows and raises their attempts. From then on, only this term or a later one can write
// their outcome. If a row still had an earlier term, it was in flight when its process died, and Mark counts that in
// lost.
//
// Mark needs the version in which the rows were read. It marks only rows that still have it: so an outdated read starts
// nothing, and a mark that arrives after its sender gave it up does nothing if the row has been written since. It also
// needs createdBy, in unix seconds: a row that was created later is not the row that was read, since the table was
// truncated and its ids began anew.
//
// Mark needs a deadline, too, in unix milliseconds by the clock that jobs go by: no row is marked whose turn in the statement comes
// later. A statement may wait long in the server after its sender has given it up (for a row, a table, a frozen server), and the
// sender may have given its lease away since. Then a late mark would look like a run whose process has died. Of all that is written to
// jobs, only marks can do such harm: each outcome is about a run that has been, and finds its own mark in the row or does nothing.
// What remains: a mark that was in time may be committed late, if the server hangs in between.
//
// Mark does not wait for rows that other transactions have locked, unless the server is too old to leave them out: MySQL before 8.0.1,
// MariaDB before 10.6, TiDB.
//
// Mark returns how many rows it marked. Fewer than asked: the others are final, gone, written or created since they were
// read, or marked by this term already, or they are locked, or it is too late; [Store.MarkedRows] tells which rows are ours. Sent again,
// Mark leaves rows with its own term as they are.
func (s *Store) Mark(ctx context.Context, ids []uint64, createdBy int64, read Version, term, deadline int64) (int, error) {
	if s.AsksFirst {
		var err error
		if ids, err = s.Unlocked(ctx, ids); err != nil || len(ids) == 0 {
			return 0, err
		}
	}
	lost := ""
	if read.Term != 0 {
		lost = "lost = CASE WHEN lost < 127 THEN lost + 1 ELSE lost END, " // it is a tinyint
	}
	before, behind, _ := strings.Cut(s.InTime, "%d")
	created := strings.Replace(s.Integer, "%s", "create_time", 1)
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	u := conn.Updating{
		Set:    lost + "term = " + number(term) + ", attempts = attempts + 1, update_time = " + strings.Replace(s.Once, "%s", s.NowSecond, 1),
		IDs:    s.IDIn(ids),
		InTime: before + number(deadline) + behind,
		Where: "term = " + number(read.Term) + " AND term < " + number(term) + " AND attempts = " + number(int64(read.Attempts)) +
			" AND changes = " + number(int64(read.Changes)) + " AND " + created + " <= " + number(createdBy) + " AND " + pending,
	}
	n, err := conn.Exec(ctx, s, s.UnlessHeld(s.Sender, u))
	switch {
	case !conn.IsLocked(err):
	case s.PassingHeld != nil:
		n, err = conn.Exec(ctx, s, s.PassingHeld(s.Sender, u))
	case s.AsksAgain:
		n, err = s.asking(ctx, u, ids)
	}
	if conn.IsOutOfRange(err) { // too late, see InTime
		n, err = 0, nil
	}
	return n, conn.Wrap("mark jobs", err)
}

// asking sends an UPDATE about rows that nobody has locked: it asks which these are. If another transaction locks a row in between, it asks again.
func (s *Store) asking(ctx context.Context, u conn.Updating, ids []uint64) (n int, err error) {
	for range askMost {
		if ids, err = s.Unlocked(ctx, ids); err != nil || len(ids) == 0 {
			return 0, err
		}
		u.IDs = s.IDIn(ids)
		if n, err = conn.Exec(ctx, s, s.UnlessHeld(s.Sender, u)); !conn.IsLocked(err) {
			return n, err
		}
	}
	return 0, nil // as if all were locked
}

// askMost is how often a statement is preceded by the question which rows are not locked, if it finds a locked row all the same.
const askMost = 3

// Marked is a row that [Store.MarkedRows] found.
type Marked struct {
	ID       uint64
	Attempts int32
	Lost     int16
}

// MarkedRows reads which of the rows are pending and have the term. Fewer than asked: the others are final, gone, or have
// another term.
func (s *Store) MarkedRows(ctx context.Context, ids []uint64, term int64) ([]Marked, error) {
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(m *Marked) []any { return []any{&m.ID, &m.Attempts, &m.Lost} }),
		s.FromPrimary(fmt.Sprintf("SELECT id, attempts, lost FROM %s %s WHERE %s AND term = %s AND %s",
			s.Tables.Jobs, s.ByPrimary, args.In(ids), args.Number(term), pending)), args.List...)
	return rows, conn.Wrap("read back marked jobs", err)
}

// Unlocked reads which of the rows nobody else has locked, by locking them for a moment itself. It waits for no lock. Rows that
// are missing are locked or gone. A database that locks no rows, or cannot leave out locked ones, shows all that are there.
func (s *Store) Unlocked(ctx context.Context, ids []uint64) ([]uint64, error) {
	args := s.Arguments()
	free, err := conn.Read(ctx, s, conn.Column[uint64],
		fmt.Sprintf("SELECT id FROM %s %s WHERE %s%s%s", s.Tables.Jobs, s.ByPrimary, args.In(ids), s.ForUpdate, s.SkipLocked), args.List...)
	return free, conn.Wrap("look at locked jobs", err)
}

// Outcome is what [Store.Settle] writes about rows that are marked: [Final], [Followed], [Again], [NotStarted] or [Died].
type Outcome interface {
	statement(s *Store, ids []uint64) string
	doing() string
}

// Settle writes an outcome to rows that are as the outcome says. It returns how many rows it wrote. Fewer than asked: a later
// run has the others, they were finished or changed by other means, or an earlier sending of this statement did it.
func (s *Store) Settle(ctx context.Context, ids []uint64, o Outcome) (written int, err error) {
	switch o := o.(type) {
	case Followed:
		return s.settleFollowed(ctx, ids, o)
	case Died:
		if o.Why != nil {
			return s.settleWithReason(ctx, ids, o)
		}
	}
	n, err := conn.Exec(ctx, s, o.statement(s, ids))
	return n, conn.Wrap(o.doing(), err)
}

// ErrNotLogged is among the causes of the error if a [Died] could not write its reason. It wrote no status either then, unless
// the handle lends no connection for a transaction.
var ErrNotLogged = errors.New("the log cannot be written")

// settleWithReason writes a status and its reason in one transaction.
func (s *Store) settleWithReason(ctx context.Context, ids []uint64, o Died) (written int, err error) {
	err = s.together(ctx, func(s *Store) error {
		if written, err = conn.Exec(ctx, s, o.statement(s, ids)); err != nil || written == 0 {
			return err
		}
		if err = s.LogAttempts(ctx, []Attempt{*o.Why}); err != nil {
			return fmt.Errorf("%w: %w", ErrNotLogged, err)
		}
		return nil
	})
	if err != nil {
		written = 0
	}
	return written, conn.Wrap(o.doing(), err)
}

// Final ends jobs whose run is ours: rows that are pending, have the term and are at this attempt.
type Final struct {
	Term    int64
	Attempt int32
	Status  int32
}

func (o Final) statement(s *Store, ids []uint64) string {
	return fmt.Sprintf("UPDATE %s %s SET job_status = %d, update_time = %s WHERE %s",
		s.Tables.Jobs, s.ByPrimary, o.Status, s.NowOnce(), s.ours(ids, o.Term, o.Attempt))
}

func (Final) doing() string { return "finish jobs" }

// Again writes a pending status to rows whose run is ours, as in [Final], and takes the mark off them. They fall due again
// after a wait.
type Again struct {
	Term     int64
	Attempt  int32
	Status   int32
	Wait     float64 // seconds
	Retried  int32   // is added to their retries
	Deferred int32   // is added to their deferred runs, which keep their numbers: a late statement is known by them

	// Awaits: they wait for a signal, so that a row which has been changed since its mark falls due at once: see [Store.Signal].
	Awaits  bool
	Changes int32 // as they were marked, if Awaits
}

func (o Again) statement(s *Store, ids []uint64) string {
	start := fmt.Sprintf(s.Once, s.afterMillis(strconv.FormatInt(int64(math.Round(o.Wait*1000)), 10)))
	if o.Awaits {
		start = fmt.Sprintf("CASE WHEN changes = %d THEN %s ELSE %s END", o.Changes, start, s.NowOnce())
	}
	return fmt.Sprintf("UPDATE %s %s "+
		"SET job_status = %d, start_time = %s, retries = retries + %d, deferred = deferred + %d, term = 0, update_time = %s "+
		"WHERE %s",
		s.Tables.Jobs, s.ByPrimary, o.Status, start, o.Retried, o.Deferred, s.NowOnce(), s.ours(ids, o.Term, o.Attempt))
}

func (Again) doing() string { return "put back jobs" }

// NotStarted takes back the marks of rows that were not started and still have the version that the mark gave them: the
// term goes, the attempt's number goes back, and the row counts a change. So the row is as if it had never been marked,
// but a late statement for this mark, or a late copy of this one, finds another version and does nothing.
type NotStarted struct{ Marked Version }

func (o NotStarted) statement(s *Store, ids []uint64) string {
	return fmt.Sprintf("UPDATE %[1]s %[2]s "+
		"SET term = 0, attempts = attempts - 1, changes = changes + 1, start_time = CASE WHEN start_time > %[3]s + %[4]d THEN %[3]s ELSE start_time END, "+
		"update_time = %[5]s "+
		"WHERE %[6]s AND changes = %[7]d",
		s.Tables.Jobs, s.ByPrimary, s.NowOnce(), waitsNot, s.touched(), s.ours(ids, o.Marked.Term, o.Marked.Attempts), o.Marked.Changes)
}

func (NotStarted) doing() string { return "unmark jobs" }

// Died ends jobs whose processes died: pending rows that still have the term and the attempts with which they were read. The
// term is an earlier one than ours, and at least LostBefore runs were lost before. It counts one more loss, writes our term
// and sets the status to failed.
//
// Only the statement tells whether the process that was cut off has settled the job after all, so the log must not say
// before it that the job has failed. And after it, the next job may kill this process. So Died writes the reason together
// with the status.
type Died struct {
	Read       Version
	Term       int64 // ours
	LostBefore int16
	Why        *Attempt // for the log, if a row is written; nil: nothing
}

func (o Died) statement(s *Store, ids []uint64) string {
	return fmt.Sprintf(
		"UPDATE %s %s "+
			"SET lost = lost + 1, term = %d, job_status = "+failed+", update_time = %s "+
			"WHERE %s AND term = %d AND term <> 0 AND term < %d AND attempts = %d AND lost >= %d AND %s",
		s.Tables.Jobs, s.ByPrimary, o.Term, s.NowOnce(), s.IDIn(ids), o.Read.Term, o.Term, o.Read.Attempts, o.LostBefore, pending)
}

func (Died) doing() string { return "fail lost jobs" }

// ours writes the condition that a row is one of these, is pending, has the term and is at this attempt. The term alone
// is not enough: the holder that put a row back may have it run again while a statement of the run before is still under
// way.
func (s *Store) ours(ids []uint64, term int64, attempt int32) string {
	return fmt.Sprintf("%s AND term = %d AND attempts = %d AND %s", s.IDIn(ids), term, attempt, pending)
}

// Attempt is a run of a job that did not succeed, as it stands in async_job_log_tab. Times are unix milliseconds.
type Attempt struct {
	JobID    uint64
	Attempt  int
	Term     int64
	Outcome  string
	Error    string
	Started  int64
	Finished int64
	Instance string
}

const (
	AttemptColumns  = "job_id, attempt, term, outcome, error, started, finished, instance"
	attemptRowsMax  = 200 // a row has eight arguments; this is well below every database's limit
	attemptErrorMax = 1000
)

// LogAttempts writes attempts into the log. An attempt that is there already stays as it is, so sending it again changes
// nothing.
func (s *Store) LogAttempts(ctx context.Context, attempts []Attempt) error {
	for len(attempts) > 0 {
		some := attempts[:min(len(attempts), attemptRowsMax)]
		attempts = attempts[len(some):]
		var args []any
		for _, a := range some {
			args = append(args, a.JobID, a.Attempt, a.Term, a.Outcome, conn.Cut(a.Error, attemptErrorMax), a.Started, a.Finished, conn.Cut(a.Instance, 255))
		}
		const values = "(?, ?, ?, ?, ?, ?, ?, ?)"
		if _, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s (%s) VALUES %s%s%s", s.InsertNew, s.Tables.Attempts, AttemptColumns, values,
			strings.Repeat(", "+values, len(some)-1), s.UnlessThere), args...); err != nil {
			return conn.Wrap("log attempts", err)
		}
	}
	return nil
}
