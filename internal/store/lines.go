package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Line is what the holder of a lease has in memory, and what it runs.
type Line struct {
	Lease  string
	Term   int64 // of the lease
	ToldAt int64 // unix seconds
	LineState
}

// LineState is the JSON of async_job_now_tab.state.
type LineState struct {
	Waiting   int              `json:"waiting,omitempty"`    // rows in memory that are not marked
	Parked    int              `json:"parked,omitempty"`     // of these, rows that wait for a slot of their key
	Marked    int              `json:"marked,omitempty"`     // rows that are marked and wait for a worker
	Running   int              `json:"running,omitempty"`    // workers that run a handler, or are about to
	Elsewhere int              `json:"elsewhere,omitempty"`  // workers that jobs take which other instances still run
	Workers   int              `json:"workers"`              // that there may be
	Overdue   int64            `json:"overdue_ms,omitempty"` // how long the row in memory that has waited longest has been due, in milliseconds
	Behind    bool             `json:"behind,omitempty"`     // the table may have due rows that are not in memory
	LeftAlone int              `json:"left_alone,omitempty"` // rows that FirstPullDay leaves alone
	Runs      map[string]int64 `json:"runs,omitempty"`       // that ended since the lease was taken, by their outcome

	FailingSince int64  `json:"failing_since,omitempty"` // unix seconds; since then, statements of the holder's process fail
	Failing      string `json:"failing,omitempty"`       // what failed last, and how

	Soon   int     `json:"soon,omitempty"`    // of the waiting and the marked rows: they are not due yet
	Gate   *Gate   `json:"gate,omitempty"`    // nil: the holder does not tell that
	PutOff *PutOff `json:"put_off,omitempty"` // nil: no job is

	KeyRate []KeyWaits `json:"key_rate,omitempty"` // keys that have used up their rate, of which most rows wait; a few of them

	Minutes []MinuteErrors `json:"minutes,omitempty"` // the last ones with errors: their stats may not be written yet
}

// Gate is what keeps rows that are due in memory from starting.
type Gate struct {
	Limit string  `json:"limit,omitempty"`   // one of the Held constants; empty: nothing that the holder knows of
	Next  int64   `json:"next_ms,omitempty"` // until the next one may start, of a rate
	Rate  float64 `json:"rate,omitempty"`
	Most  int     `json:"most,omitempty"` // connections that the pool may have
}

// What keeps rows from starting.
const (
	HeldByWorkers     = "workers"     // all are busy
	HeldByPlaces      = "places"      // other types have all workers that the process may have
	HeldByRate        = "rate"        // it is used up
	HeldByKeys        = "keys"        // each of the rows waits for another one of its key
	HeldByKeyRate     = "key_rate"    // each of the rows waits for its key, and some keys have used up their rate
	HeldByConnections = "connections" // all of the pool are in use
)

// KeyWaits says what waits since a key has used up its rate.
type KeyWaits struct {
	Key  uint32 `json:"key"`               // see [HashOfKey]
	Jobs int    `json:"jobs"`              // that wait in memory
	Next int64  `json:"next_ms,omitempty"` // until the first of them may start, in milliseconds; 0: others that are about to start go first
}

// PutOff are the jobs whose last run ended before it had begun, see queue_job.Defer.
type PutOff struct {
	Jobs   int     `json:"jobs"`
	More   bool    `json:"more,omitempty"` // there may be others
	Since  int64   `json:"since"`          // when the first of them first fell due, as far as the holder knows, in unix milliseconds
	Causes []Cause `json:"causes,omitempty"`
}

// Cause is what jobs wait for.
type Cause struct {
	Text  string `json:"text"`
	Jobs  int    `json:"jobs"`
	Until int64  `json:"until,omitempty"` // unix milliseconds; 0: not known
}

// MinuteErrors are the errors of a minute, as the holder of a lease has counted them up to now.
type MinuteErrors struct {
	Begin int64 `json:"begin"` // unix seconds
	Errors
}

// linesTogether is how many lines one statement of [Store.WriteLines] is about.
const linesTogether = 100

// WriteLines writes lines. What a later term has written, stays; so a statement may be sent again, or late.
func (s *Store) WriteLines(ctx context.Context, lines []Line) error {
	lines = slices.SortedFunc(slices.Values(lines), func(a, b Line) int { return strings.Compare(a.Lease, b.Lease) }) // as in MakeLeases
	for some := range slices.Chunk(lines, linesTogether) {
		states := make([]any, len(some))
		for i := range some {
			states[i] = some[i].LineState
		}
		if err := s.writeLines(ctx, some, states); err != nil {
			return conn.Wrap("tell the lines", err)
		}
	}
	return nil
}

// writeLines writes rows, with these states.
func (s *Store) writeLines(ctx context.Context, lines []Line, states []any) error {
	rows, args := make([]string, len(lines)), make([]any, 0, 3*len(lines))
	for i, l := range lines {
		state, err := json.Marshal(states[i])
		if err != nil {
			return err
		}
		rows[i], args = fmt.Sprintf("(?, ?, %s, ?)", s.NowSecond), append(args, l.Lease, l.Term, string(state))
	}
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("INSERT INTO %s (lock_name, term, told_at, state) VALUES %s%s", s.Tables.Lines, strings.Join(rows, ", "), s.OrLater),
		args...)
	return err
}

// Lines reads what the holders of leases have told, in the order of the leases' names. A holder may have lost its lease since: then
// the lease has another term. The rows of rests are among them, see [Store.WriteRestRuns]. It may be asked of a replica.
func (s *Store) Lines(ctx context.Context) ([]Line, error) {
	type told struct {
		Line
		state string
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *told) []any { return []any{&t.Lease, &t.Term, &t.ToldAt, &t.state} }),
		fmt.Sprintf("SELECT lock_name, term, told_at, state FROM %s ORDER BY lock_name", s.Tables.Lines))
	lines := make([]Line, len(rows))
	for i := range rows {
		lines[i] = rows[i].Line
		_ = json.Unmarshal([]byte(rows[i].state), &lines[i].LineState) // a later version may have written it
	}
	return lines, conn.Wrap("lines", err)
}

// DropLines deletes the lines that were written before a moment, in unix seconds.
func (s *Store) DropLines(ctx context.Context, before int64) error {
	names, err := conn.Read(ctx, s, conn.Column[string],
		s.FromPrimary(fmt.Sprintf("SELECT lock_name FROM %s WHERE told_at < %d", s.Tables.Lines, before)))
	if err != nil || len(names) == 0 {
		return conn.Wrap("look for old lines", err)
	}
	query, args, err := conn.In(fmt.Sprintf("%s FROM %s WHERE lock_name IN (?) AND told_at < %d", s.Deletes, s.Tables.Lines, before), names)
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("drop old lines", err)
}
