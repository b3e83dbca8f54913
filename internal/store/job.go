package store

import (
	"context"
	"fmt"
	"strings"
)

// Version says how often a row was written, as far as the library decides by it. Rows that are read with one and written
// only where they still have it were written by nobody else in between.
type Version struct {
	Term     int64 // 0: not marked
	Attempts int32
	Changes  int32
}

// Mark claims pending rows for the term: from here on, only this term or a later one can write their outcome. A row
// that still bore an earlier term was in flight when its process died, which is counted in lost. Only rows that are as
// they were read are marked, so a picture that somebody else has written over starts nothing, and a mark that arrives
// after its sender gave it up finds that the row went on. A row that was created after the moment, in unix seconds, is
// another row than was read: the table was truncated, and its ids began anew.
//
// It returns how many rows it marked. Fewer than asked: some are final, gone, written since they were read, or marked by
// this term already; MarkedRows tells which are ours. Sent again, it leaves rows that bear the term as they are.
func (s *Store) Mark(ctx context.Context, ids []uint64, createdBy int64, read Version, term int64) (int, error) {
	// On MySQL, SET is evaluated from left to right: lost must look at term before term is set.
	n, err := s.exec(ctx, fmt.Sprintf(
		"UPDATE %s %s SET lost = lost + (CASE WHEN term <> 0 THEN 1 ELSE 0 END), term = %d, attempts = attempts + 1, update_time = %s WHERE %s AND term = %d AND term < %d AND attempts = %d AND changes = %d AND %s <= %d AND %s",
		s.jobs, s.byPrimary, term, s.now, s.idIn(ids), read.Term, term, read.Attempts, read.Changes, fmt.Sprintf(s.integer, "create_time"), createdBy, pending))
	return n, wrap("mark jobs", err)
}

// Marked is a row that bears the term that was asked for.
type Marked struct {
	ID       uint64
	Attempts int32
	Lost     int32
}

// MarkedRows reads which of the rows are pending and bear the term.
func (s *Store) MarkedRows(ctx context.Context, ids []uint64, term int64) ([]Marked, error) {
	args := s.arguments()
	rows, err := read(ctx, s, each(func(m *Marked) []any { return []any{&m.ID, &m.Attempts, &m.Lost} }), fmt.Sprintf("SELECT id, attempts, lost FROM %s %s WHERE %s AND term = %s AND %s",
		s.jobs, s.byPrimary, args.in(s, ids), args.number(term), pending), args.list...)
	return rows, wrap("read back marked jobs", err)
}

// UnmarkJobs takes back the marks of rows that were not started, and counts that as a change: the row is as if it had
// never been marked, but a statement that was sent for this mark, or for this taking back, finds another version. It
// returns how many rows it unmarked; fewer than asked: a later term has taken the rest over, they were finished or changed
// by other means, or an earlier sending of this statement did it.
func (s *Store) UnmarkJobs(ctx context.Context, ids []uint64, marked Version) (int, error) {
	n, err := s.exec(ctx, fmt.Sprintf("UPDATE %s %s SET term = 0, attempts = attempts - 1, changes = changes + 1, update_time = %s WHERE %s AND changes = %d",
		s.jobs, s.byPrimary, s.now, s.ours(ids, marked.Term, marked.Attempts), marked.Changes))
	return n, wrap("unmark jobs", err)
}

// Finish writes a final status to rows whose run this is: they bear the term and are at this attempt. It returns how many
// it wrote; fewer than asked: a later run has the rest, they were finished by other means, or an earlier sending of this
// statement did it.
func (s *Store) Finish(ctx context.Context, ids []uint64, term int64, attempt, status int32) (int, error) {
	n, err := s.exec(ctx, fmt.Sprintf("UPDATE %s %s SET job_status = %d, update_time = %s WHERE %s",
		s.jobs, s.byPrimary, status, s.now, s.ours(ids, term, attempt)))
	return n, wrap("finish jobs", err)
}

// PutBack writes a pending status to rows whose run this is, to run again after a wait in seconds, and takes the mark off
// them. Retried is added to their count of retries. The result is that of Finish.
func (s *Store) PutBack(ctx context.Context, ids []uint64, term int64, attempt, status int32, wait float64, retried int32) (int, error) {
	n, err := s.exec(ctx, fmt.Sprintf("UPDATE %s %s SET job_status = %d, start_time = %s, retries = retries + %d, term = 0, update_time = %s WHERE %s",
		s.jobs, s.byPrimary, status, fmt.Sprintf(s.ceiling, fmt.Sprintf("%s + %.3f", s.nowPrecise, wait)), retried, s.now, s.ours(ids, term, attempt)))
	return n, wrap("put back jobs", err)
}

// FailLost ends rows whose runs were lost: they bear an earlier term, as they were read, and so many runs before were lost
// too. It counts the loss, puts its own term in, and sets the status failed. The result is that of Finish.
func (s *Store) FailLost(ctx context.Context, ids []uint64, read Version, term int64, lostBefore int32) (int, error) {
	n, err := s.exec(ctx, fmt.Sprintf(
		"UPDATE %s %s SET lost = lost + 1, term = %d, job_status = 2, update_time = %s WHERE %s AND term = %d AND term <> 0 AND term < %d AND attempts = %d AND lost >= %d AND %s",
		s.jobs, s.byPrimary, term, s.now, s.idIn(ids), read.Term, term, read.Attempts, lostBefore, pending))
	return n, wrap("fail lost jobs", err)
}

// ours writes the condition that a row is one of these, pending, bears the term and is at this attempt. A term alone would
// not do: the holder that put a row back may have it run again, and a statement of the run before may still be under way.
func (s *Store) ours(ids []uint64, term int64, attempt int32) string {
	return fmt.Sprintf("%s AND term = %d AND attempts = %d AND %s", s.idIn(ids), term, attempt, pending)
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
	attemptColumns  = "job_id, attempt, term, outcome, error, started, finished, instance"
	attemptRowsMax  = 200 // eight arguments each, well below every database's limit
	attemptErrorMax = 1000
)

// LogAttempts writes attempts into the log; one that is there already stays as it is.
func (s *Store) LogAttempts(ctx context.Context, attempts []Attempt) error {
	for len(attempts) > 0 {
		some := attempts[:min(len(attempts), attemptRowsMax)]
		attempts = attempts[len(some):]
		var args []any
		for _, a := range some {
			args = append(args, a.JobID, a.Attempt, a.Term, a.Outcome, cut(a.Error, attemptErrorMax), a.Started, a.Finished, cut(a.Instance, 255))
		}
		const values = "(?, ?, ?, ?, ?, ?, ?, ?)"
		if _, err := s.exec(ctx, fmt.Sprintf("%s %s (%s) VALUES %s%s%s", s.insertNew, s.attempts, attemptColumns, values,
			strings.Repeat(", "+values, len(some)-1), s.unlessThere), args...); err != nil {
			return wrap("log attempts", err)
		}
	}
	return nil
}

// cut shortens text to so many characters and mends what is not UTF-8, and zeros, which PostgreSQL takes in no text, so
// that the column takes it.
func cut(text string, max int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(text); len(runes) > max {
		return string(runes[:max-1]) + "…"
	}
	return text
}
