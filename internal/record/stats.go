package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Stat is what the holder of a lease did within a span of time.
type Stat struct {
	JobType int32
	Begin   int64  // unix seconds
	Lease   string // empty: all leases of the type together
	Term    int64  // of the holder; 0: of all holders together
	Seconds int64  // how long the span is
	StatState
}

// StatState is the JSON of async_job_stat_tab.state.
type StatState struct {
	Runs  map[string]int64 `json:"runs,omitempty"`  // that ended, by their outcome
	Delay []int64          `json:"delay,omitempty"` // of runs that started: how long after their jobs fell due, in the ranges of [RangeOf]
	Took  []int64          `json:"took,omitempty"`  // of runs that ended: how long their handlers took
	// Runs that ended before they had begun (queue_job.Defer) are no runs, but had started: by how long after their jobs fell due.
	Deferred []int64 `json:"deferred,omitempty"`
	Lost     int64   `json:"lost,omitempty"` // runs of which it was found that their process had died
	Level
	store.Errors
}

// Level is the most that looks into the memory of a holder have seen within a span. There is a look every ten seconds.
type Level struct {
	Waiting int64 `json:"waiting,omitempty"`    // rows that were due and had not started
	Overdue int64 `json:"overdue_ms,omitempty"` // how long the first of these had been due
	Busy    int64 `json:"busy,omitempty"`       // workers that ran a handler
}

// Raise makes a level as high as another, where that is higher.
func (l *Level) Raise(other Level) {
	l.Waiting, l.Overdue, l.Busy = max(l.Waiting, other.Waiting), max(l.Overdue, other.Overdue), max(l.Busy, other.Busy)
}

// LevelOf is the highest level of a job type in spans of its leases. Leases of the same span add up; the holders of a lease within a span do
// not, since they follow each other.
func LevelOf(stats []Stat) (highest Level) {
	type lease struct {
		begin int64
		name  string
	}
	leases, spans := map[lease]*Level{}, map[int64]*Level{}
	for i := range stats {
		s := &stats[i]
		if s.Lease == "" { // what was summed up already
			highest.Raise(s.Level)
			continue
		}
		name := lease{s.Begin, s.Lease}
		if leases[name] == nil {
			leases[name] = &Level{}
		}
		leases[name].Raise(s.Level)
	}
	for name, of := range leases {
		if spans[name.begin] == nil {
			spans[name.begin] = &Level{}
		}
		all := spans[name.begin]
		all.Waiting, all.Overdue, all.Busy = all.Waiting+of.Waiting, max(all.Overdue, of.Overdue), all.Busy+of.Busy
	}
	for _, all := range spans {
		highest.Raise(*all)
	}
	return highest
}

// Ranges is how many ranges of durations a [StatState] tells apart.
const Ranges = 32

// RangeOf is the range to which a duration belongs: 0 is below 1 ms, 1 is below 2 ms, and each further range ends at twice the end of
// the one before. The last range has no end.
func RangeOf(d time.Duration) int { return min(bits.Len64(uint64(max(0, d.Milliseconds()))), Ranges-1) }

// RangeEnd is where a range ends. The next one begins there.
func RangeEnd(i int) time.Duration {
	if i >= Ranges-1 {
		return math.MaxInt64
	}
	return time.Millisecond << i
}

// Counted is how many starts and ends of runs the state is about. It grows with each change of the state, but for its level.
func (s *StatState) Counted() (n int64) {
	for _, runs := range s.Delay {
		n += runs
	}
	for _, runs := range s.Runs {
		n += runs
	}
	return n + s.Lost + s.deferrals()
}

func (s *StatState) deferrals() (n int64) {
	for _, runs := range s.Deferred {
		n += runs
	}
	return n
}

// Add adds what another state has counted. Of their levels, it takes the higher one: [LevelOf] says what different leases come to.
func (s *StatState) Add(other *StatState) {
	if s.Runs == nil && len(other.Runs) > 0 {
		s.Runs = make(map[string]int64, len(other.Runs))
	}
	for outcome, n := range other.Runs {
		s.Runs[outcome] += n
	}
	s.Delay, s.Took = sum(s.Delay, other.Delay), sum(s.Took, other.Took)
	s.Deferred = sum(s.Deferred, other.Deferred)
	s.Lost += other.Lost
	s.Level.Raise(other.Level)
	s.Errors.Add(&other.Errors)
}

func sum(a, b []int64) []int64 {
	if len(b) > len(a) {
		a = append(a, make([]int64, len(b)-len(a))...)
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// statsTogether is how many stats one statement of [Store.WriteStats] is about.
const statsTogether = 100

// WriteStats writes stats, each of which has another type, beginning, lease or term. A row that has counted as much or more stays, so a
// statement may be sent again, or late: only the holder writes its stats, and what it counts only grows.
func (s *Store) WriteStats(ctx context.Context, stats []Stat) error {
	for some := range slices.Chunk(stats, statsTogether) {
		if err := s.writeStats(ctx, some); err != nil {
			return conn.Wrap("tell the stats", err)
		}
	}
	return nil
}

func (s *Store) writeStats(ctx context.Context, stats []Stat) error {
	args := make([]any, 0, 7*len(stats))
	for i := range stats {
		t := &stats[i]
		state, err := json.Marshal(t.StatState)
		if err != nil {
			return err
		}
		args = append(args, t.JobType, t.Begin, t.Lease, t.Term, t.Seconds, t.Counted(), string(state))
	}
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("INSERT INTO %s (job_type, begins_at, lock_name, term, seconds, counted, state) VALUES (?, ?, ?, ?, ?, ?, ?)%s%s",
			s.Tables.Stats, strings.Repeat(", (?, ?, ?, ?, ?, ?, ?)", len(stats)-1), s.IfMore), args...)
	return err
}

// Stats reads the stats of a job type that begin in a span of unix seconds, in the order in which they begin. It may be asked of a replica.
func (s *Store) Stats(ctx context.Context, jobType int32, from, before int64) ([]Stat, error) {
	args := s.Arguments()
	stats, err := s.readStats(ctx, fmt.Sprintf("SELECT job_type, begins_at, lock_name, term, seconds, state "+
		"FROM %s "+
		"WHERE job_type = %s AND begins_at >= %s AND begins_at < %s "+
		"ORDER BY begins_at, lock_name, term",
		s.Tables.Stats, args.Number(int64(jobType)), args.Number(from), args.Number(before)), args)
	return stats, conn.Wrap("stats", err)
}

// typesTogether is how many types one statement of [Store.EachStat] is about.
const typesTogether = 250

// EachStat passes each stat of these job types that begins in a span of unix seconds to a function, in no order: there may be hundreds of
// thousands. After an error, some have been passed. It may be asked of a replica.
func (s *Store) EachStat(ctx context.Context, jobTypes []int32, from, before int64, each func(*Stat)) error {
	collect := func(rows *sql.Rows) (n int, err error) {
		var state []byte
		for ; rows.Next(); n++ {
			var t Stat
			if err := rows.Scan(&t.JobType, &t.Begin, &t.Lease, &t.Term, &t.Seconds, &state); err != nil {
				return n, err
			}
			_ = json.Unmarshal(state, &t.StatState) // a later version may have written it
			each(&t)
		}
		return n, rows.Err()
	}
	for some := range slices.Chunk(jobTypes, typesTogether) {
		args := s.Arguments()
		if _, err := conn.Read(ctx, s, collect,
			fmt.Sprintf("SELECT job_type, begins_at, lock_name, term, seconds, state "+
				"FROM %s "+
				"WHERE job_type IN (%s) AND begins_at >= %s AND begins_at < %s",
				s.Tables.Stats, conn.Numbers(some), args.Number(from), args.Number(before)), args.List...); err != nil {
			return conn.Wrap("stats of job types", err)
		}
	}
	return nil
}

func (s *Store) readStats(ctx context.Context, query string, args *conn.Arguments) ([]Stat, error) {
	type told struct {
		Stat
		state string
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *told) []any {
		return []any{&t.JobType, &t.Begin, &t.Lease, &t.Term, &t.Seconds, &t.state}
	}), query, args.List...)
	stats := make([]Stat, len(rows))
	for i := range rows {
		stats[i] = rows[i].Stat
		_ = json.Unmarshal([]byte(rows[i].state), &stats[i].StatState) // a later version may have written it
	}
	return stats, err
}

// RollUp makes one row of the first rows of a job type that are shorter than a span, begin at a moment or later, and whose span has
// ended before another: it adds them up, and what there is of a longer row already, writes that as the row of all leases, and deletes
// what it has added, all in one transaction. It returns when the span begins; found is false if there is nothing to roll up. Moments are
// unix seconds. A handle that lends no connections has no transactions: if the process dies within, that span is lost.
func (s *Store) RollUp(ctx context.Context, jobType int32, from, before, seconds int64) (begin int64, found bool, err error) {
	before -= before % seconds
	args := s.Arguments()
	first, err := conn.Read(ctx, s, conn.Column[int64], s.FromPrimary(fmt.Sprintf("SELECT begins_at "+
		"FROM %s "+
		"WHERE job_type = %s AND begins_at >= %s AND begins_at < %s AND seconds < %s "+
		"ORDER BY begins_at LIMIT 1",
		s.Tables.Stats, args.Number(int64(jobType)), args.Number(from), args.Number(before), args.Number(seconds))), args.List...)
	if err != nil || len(first) == 0 {
		return 0, false, conn.Wrap("look for stats to roll up", err)
	}
	begin = first[0] - first[0]%seconds
	err = conn.Together(ctx, s, func(one *conn.Sender) error { return SumUp(ctx, over(one), jobType, begin, seconds) })
	return begin, err == nil, conn.Wrap("roll stats up", err)
}

// SumUp makes one of all stats that begin within a span. It is sent in a transaction.
func SumUp(ctx context.Context, s *Store, jobType int32, begin, seconds int64) error {
	within := func(args *conn.Arguments) string {
		return fmt.Sprintf("job_type = %s AND begins_at >= %s AND begins_at < %s",
			args.Number(int64(jobType)), args.Number(begin), args.Number(begin+seconds))
	}
	args := s.Arguments()
	stats, err := s.readStats(ctx,
		fmt.Sprintf("SELECT job_type, begins_at, lock_name, term, seconds, state FROM %s WHERE %s%s", s.Tables.Stats, within(args), s.ForUpdate), args)
	if err != nil {
		return err
	}
	all := Stat{JobType: jobType, Begin: begin, Seconds: seconds}
	for i := range stats {
		all.Add(&stats[i].StatState)
	}
	all.Level = LevelOf(stats)
	args = s.Arguments()
	if _, err := conn.Exec(ctx, s, fmt.Sprintf("%s WHERE %s", fmt.Sprintf(s.DeleteFrom, s.Tables.Stats), within(args)), args.List...); err != nil {
		return err
	}
	return s.writeStats(ctx, []Stat{all})
}

// DropStats deletes the stats of a job type that began before a moment, in unix seconds.
func (s *Store) DropStats(ctx context.Context, jobType int32, before int64) error {
	args := s.Arguments()
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("%s WHERE job_type = %s AND begins_at < %s",
			fmt.Sprintf(s.DeleteFrom, s.Tables.Stats), args.Number(int64(jobType)), args.Number(before)),
		args.List...)
	return conn.Wrap("drop old stats", err)
}

// TypesKnown reads the numbers of the job types that the registry has. It may be asked of a replica.
func (s *Store) TypesKnown(ctx context.Context) ([]int32, error) {
	types, err := conn.Read(ctx, s, conn.Column[int32], fmt.Sprintf("SELECT job_type FROM %s ORDER BY job_type", s.Tables.Types))
	return types, conn.Wrap("types that are known", err)
}

// SpanErrors are the errors of the span of a stat.
type SpanErrors struct {
	JobType int32
	Begin   int64 // unix seconds
	Lease   string
	Term    int64
	store.Errors
}

// Errors reads the errors of these job types in the stats that begin at a moment or later, in unix seconds: the latest stats, as many as
// most. Stats without an error do not count. It may be asked of a replica.
func (s *Store) Errors(ctx context.Context, jobTypes []int32, from int64, most int) ([]SpanErrors, error) {
	if len(jobTypes) == 0 {
		return nil, nil
	}
	type told struct {
		SpanErrors
		state string
	}
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(t *told) []any { return []any{&t.JobType, &t.Begin, &t.Lease, &t.Term, &t.state} }),
		fmt.Sprintf("SELECT job_type, begins_at, lock_name, term, state "+
			"FROM %s "+
			"WHERE job_type IN (%s) AND begins_at >= %s AND state LIKE '%%\"errors\":%%' "+
			"ORDER BY begins_at DESC LIMIT %s",
			s.Tables.Stats, conn.Numbers(jobTypes), args.Number(from), args.Number(int64(most))), args.List...)
	all := make([]SpanErrors, len(rows))
	for i := range rows {
		all[i] = rows[i].SpanErrors
		_ = json.Unmarshal([]byte(rows[i].state), &all[i].Errors) // a later version may have written it
	}
	return all, conn.Wrap("errors", err)
}
