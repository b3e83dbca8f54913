package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Fleet is who works what, as one look showed it.
type Fleet struct {
	Leases  []Seen
	Layouts map[int32]int64  // of the job types that have one
	Paused  []int32          // the job types that are paused
	Over    []int32          // the paused types whose pause is over, see [Store.EndPauses]
	Limits  map[int32]Limits // of the job types that have some
	Now     float64          // the database's clock, in unix seconds
}

// What rows of [Store.Fleet] are about that are no leases, in the place of an owner.
const (
	aboutType     = "type"
	aboutPaused   = "paused type"
	aboutOver     = "type whose pause is over"
	aboutNow      = "now"
	aboutLeaseNow = "now, of leases"
)

// Fleet reads the leases whose names begin with one of the prefixes: those that are held and, if the name begins with the first
// prefix, those that are free, too. It locks nothing. Each instance sends it twice a second. The database returns the times as they are,
// and Fleet compares them: with 250 leases, that saves MySQL and MariaDB a fifth of the statement's cost.
func (s *Store) Fleet(ctx context.Context, prefixes []string) (f Fleet, err error) {
	query := fmt.Sprintf("SELECT lock_name, locked_by, term, running, layout, %s AS held_until FROM %s WHERE %s"+
		" UNION ALL SELECT '', CASE WHEN paused_at IS NULL THEN '%s' WHEN %s THEN '%s' ELSE '%s' END, job_type, "+
		"COALESCE(workers, 0), COALESCE(layout, 0), %s FROM %s WHERE %s"+
		" UNION ALL SELECT '', '%s', 0, 0, 0, %s"+
		" UNION ALL SELECT '', '%s', 0, 0, 0, %s",
		s.Exactly(s.Unix("lock_until")), s.Tables.Leases, beginsWith(prefixes),
		aboutType, s.pauseOver(), aboutOver, aboutPaused, s.Exactly("COALESCE(rate, 0)"), s.Tables.Types, s.Steered,
		aboutNow, s.NowMicros, aboutLeaseNow, s.Exactly(s.LeaseNow))
	type row struct {
		Seen
		until float64
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.Name, &r.Owner, &r.Term, &r.Running, &r.Layout, &r.until} }),
		s.FromPrimary(query))
	f.Layouts, f.Limits = map[int32]int64{}, map[int32]Limits{}
	leaseNow := 0.0
	rows = slices.DeleteFunc(rows, func(r row) bool {
		switch {
		case r.Name != "":
			return false
		case r.Owner == aboutType, r.Owner == aboutPaused, r.Owner == aboutOver:
			f.heedType(int32(r.Term), r.Layout, r.Owner, Limits{Workers: r.Running, Rate: r.until})
		case r.Owner == aboutNow:
			f.Now = inSeconds(int64(r.until))
		default:
			leaseNow = r.until
		}
		return true
	})
	f.Leases = make([]Seen, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		r.Free, r.Left, r.Until = r.until <= leaseNow, r.until-f.Now, int64(r.until*1e6)
		if !r.Free || strings.HasPrefix(r.Name, prefixes[0]) {
			f.Leases = append(f.Leases, r.Seen)
		}
	}
	return f, conn.Wrap("look at the leases", err)
}

// Limits are what a job type may use at most, if its configuration allows more. 0: what the configuration allows.
type Limits struct {
	Workers int     // that run at a time
	Rate    float64 // starts in a second
}

func (f *Fleet) heedType(jobType int32, layout int64, about string, limits Limits) {
	if layout > 0 {
		f.Layouts[jobType] = layout
	}
	if about != aboutType {
		f.Paused = append(f.Paused, jobType)
	}
	if about == aboutOver {
		f.Over = append(f.Over, jobType)
	}
	if limits != (Limits{}) {
		f.Limits[jobType] = limits
	}
}

// Holdings is Fleet for somebody who only looks, in the order of the names, and with the times. Closed leases are left out. It may
// be asked of a replica.
func (s *Store) Holdings(ctx context.Context, prefixes []string) (held []Seen, now float64, err error) {
	query := fmt.Sprintf(
		"SELECT lock_name, %[1]s <= %[2]s AS free, locked_by, term, running, %[8]s AS now_micros, %[3]s AS held_since, %[7]s AS held_until "+
			"FROM %[4]s "+
			"WHERE %[5]s AND layout > 0 OR (%[6]s) AND %[1]s > %[2]s "+
			"ORDER BY lock_name",
		s.Unix("lock_until"), s.LeaseNow, s.Exactly(s.Unix("locked_at")),
		s.Tables.Leases, beginsWith(prefixes[:1]), beginsWith(prefixes[1:]), s.Exactly(s.Unix("lock_until")), s.NowMicros)
	type row struct {
		Seen
		now          int64
		since, until float64
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		return []any{&r.Name, &r.Free, &r.Owner, &r.Term, &r.Running, &r.now, &r.since, &r.until}
	}), query)
	held = make([]Seen, len(rows))
	for i, r := range rows {
		held[i], now = r.Seen, inSeconds(r.now)
		held[i].Since, held[i].Until = int64(r.since*1e6), int64(r.until*1e6)
	}
	return held, now, conn.Wrap("look who holds the leases", err)
}

// beginsWith is the condition that the name of a lease begins with one of these.
func beginsWith(prefixes []string) string {
	likes := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		likes[i] = fmt.Sprintf("lock_name LIKE '%s%%'", prefix)
	}
	return strings.Join(likes, " OR ")
}

// MoveLease writes, in the row of a lease that MakeLeases has made, that the owner has it under the term and the layout for
// lockSeconds, and how many jobs run under it. It changes nothing if the row belongs to somebody else. Sent again, it changes
// nothing that matters.
func (s *Store) MoveLease(ctx context.Context, name, owner string, term, layout, lockSeconds int64, running int) error {
	query := fmt.Sprintf("%s SET term = ?, layout = ?, locked_by = ?, running = ?, locked_at = %s, lock_until = %s "+
		"WHERE lock_name = ? AND locked_by IN ('', ?)",
		s.LeaseUpdate, s.Timestamp(s.LeaseNow), s.Timestamp(fmt.Sprintf("%s + %d", s.LeaseRounded, lockSeconds)))
	n, err := conn.Exec(ctx, s, query, term, layout, owner, running, name, owner)
	if err == nil && n == 0 {
		err = s.stillOwned(ctx, name, owner)
	}
	return conn.Wrap("move lease", err)
}

// stillOwned returns an error unless the owner has the lease.
func (s *Store) stillOwned(ctx context.Context, name, owner string) error {
	terms, err := s.heldLeases(ctx, []string{name}, owner)
	if err == nil && len(terms) == 0 {
		err = fmt.Errorf("%s is not this process's", name)
	}
	return err
}

// NoteRunning writes how many jobs run under a lease, and renews it, if the owner still has it.
func (s *Store) NoteRunning(ctx context.Context, name, owner string, lockSeconds int64, running int) error {
	query := fmt.Sprintf("%s SET running = ?, lock_until = %s WHERE lock_name = ? AND locked_by = ? AND %s > %s",
		s.LeaseUpdate, s.Timestamp(fmt.Sprintf("%s + %d", s.LeaseRounded, lockSeconds)), s.Unix("lock_until"), s.LeaseNow)
	_, err := conn.Exec(ctx, s, query, running, name, owner)
	return conn.Wrap("note what runs", err)
}

// DropLease deletes the row of a lease of this owner.
func (s *Store) DropLease(ctx context.Context, name, owner string) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%s FROM %s WHERE lock_name = ? AND locked_by = ?", s.Deletes, s.Tables.Leases), name, owner)
	return conn.Wrap("drop lease", err)
}

// EndedLeases reads the names of the leases that have ended and begin with one of the prefixes.
func (s *Store) EndedLeases(ctx context.Context, prefixes []string) (names []string, err error) {
	query := fmt.Sprintf("SELECT lock_name FROM %s WHERE (%s) AND %s <= %s", s.Tables.Leases, beginsWith(prefixes), s.Unix("lock_until"), s.LeaseNow)
	names, err = conn.Read(ctx, s, conn.Column[string], s.FromPrimary(query))
	return names, conn.Wrap("look for ended leases", err)
}

// DropEnded deletes the rows of these leases, as far as they have ended.
func (s *Store) DropEnded(ctx context.Context, names []string) error {
	query, args, err := conn.In(
		fmt.Sprintf("%s FROM %s WHERE lock_name IN (?) AND %s <= %s", s.Deletes, s.Tables.Leases, s.Unix("lock_until"), s.LeaseNow),
		names)
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("drop ended leases", err)
}
