package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Seen is a lease's row as a process reads it that does not hold the lease.
type Seen struct {
	Name  string
	Free  bool
	Owner string // who holds it, or held it last
	Term  int64  // of that owner

	Running int   // jobs that run under it, as far as somebody has written that
	Layout  int64 // for which layout of its job type it is; below 0: closed until that layout opens; only Fleet reads it

	Until int64   // when it expires, unless it is renewed, in microseconds of unix time: the same as long as the row is
	Left  float64 // seconds until then; Holdings does not read it
	Since int64   // when the owner took it, in microseconds of unix time; only Holdings reads it
}

// SeeLeases reads which of the leases are free. Fewer than asked: the others have no row yet. It locks nothing.
func (s *Store) SeeLeases(ctx context.Context, names []string) ([]Seen, error) {
	query, args, err := conn.In(s.FromPrimary(fmt.Sprintf(
		"SELECT lock_name, %s <= %s AS free, locked_by, term, running, %s AS held_until, %s AS now FROM %s WHERE lock_name IN (?)",
		s.Unix("lock_until"), s.LeaseNow, s.Exactly(s.Unix("lock_until")), s.Exactly(s.LeaseNow), s.Tables.Leases)), names)
	if err != nil {
		return nil, err
	}
	type row struct {
		Seen
		until, now float64
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.Name, &r.Free, &r.Owner, &r.Term, &r.Running, &r.until, &r.now} }),
		query, args...)
	seen := make([]Seen, len(rows))
	for i, r := range rows {
		seen[i] = r.Seen
		seen[i].Left, seen[i].Until = r.until-r.now, int64(r.until*1e6)
	}
	return seen, conn.Wrap("see leases", err)
}

// MakeLeases writes a row for each lease that has none. The lease is free: its lock_until is the moment of writing. Rows
// that exist stay as they are.
func (s *Store) MakeLeases(ctx context.Context, names []string) error {
	args := make([]any, len(names))
	// The names go in the order of the index, so that instances that start together wait for each other in a line, not in
	// a circle.
	for i, name := range slices.Sorted(slices.Values(names)) {
		args[i] = name
	}
	_, err := conn.Exec(ctx, s, fmt.Sprintf("INSERT INTO %s (lock_name, locked_by) VALUES (?, '')%s%s",
		s.Tables.Leases, strings.Repeat(", (?, '')", len(names)-1), s.UnlessRow("lock_name")), args...)
	return conn.Wrap("make leases", err)
}

// TakeLeases takes the leases of a layout that are free, for lockSeconds, in the owner's name, each with a new term; nothing runs
// under them yet, whatever the last owner has written. The owner must be new at every call. A new term is larger than every term
// before, and no other shard of the job type ever has it: see [NextTerm].
//
// It takes leases that somebody broke, see [Broken], or leases that nobody did: whoever takes a broken lease must know it, and a look that is
// older than the break does not say so.
//
// TakeLeases returns the term of each lease that the owner holds now. If a lease is missing, somebody else holds it or has locked its
// row (see [Store.updateLeases]), or it has no row. If the statement is sent twice because the first outcome is unknown, it returns what
// the first sending took.
func (s *Store) TakeLeases(ctx context.Context, names []string, owner string, layout, lockSeconds int64, broken bool) (map[string]int64, error) {
	term, args := s.nextTerm(names)
	sent := time.Now()
	is := "<>"
	if broken {
		is = "="
	}
	// MySQL evaluates SET from left to right; no assignment here reads a column that an earlier one wrote.
	taken, err := s.updateLeases(ctx, names,
		fmt.Sprintf("term = %s, locked_by = ?, running = 0, locked_at = %s, lock_until = %s",
			term, s.Timestamp(s.LeaseNow), s.Timestamp(fmt.Sprintf("%s + %d", s.LeaseRounded, lockSeconds))), append(args, owner),
		fmt.Sprintf("%s <= %s AND layout = %d AND running %s %d", s.Unix("lock_until"), s.LeaseNow, layout, is, Broken))
	if err != nil {
		return nil, conn.Wrap("take leases", err)
	}
	terms, err := s.heldLeases(ctx, names, owner)
	if err == nil {
		err = seenIn(len(terms), taken, sent, lockSeconds)
	}
	return terms, conn.Wrap("read taken leases", err)
}

// seenIn returns an error if a read shows fewer leases than the statement before it has changed. It returns none if half
// of the lease's length has passed since, because a lease may have expired before the read.
func seenIn(seen, changed int, sent time.Time, lockSeconds int64) error {
	if seen >= changed || time.Since(sent) > time.Duration(lockSeconds)*time.Second/2 {
		return nil
	}
	return fmt.Errorf("%d leases were written, and a read behind that shows %d of them: reads seem to go to a replica, which lags behind; "+
		"have the reads of this handle go to the primary, where its writes go (docs/operate/databases.md, \"Between the application and the database\")",
		changed, seen)
}

// heldLeases reads the terms of the leases that the owner holds and that have not expired.
func (s *Store) heldLeases(ctx context.Context, names []string, owner string) (map[string]int64, error) {
	query, args, err := conn.In(s.FromPrimary(fmt.Sprintf(
		"SELECT lock_name, term FROM %s WHERE lock_name IN (?) AND locked_by = ? AND %s > %s",
		s.Tables.Leases, s.Unix("lock_until"), s.LeaseNow)), names, owner)
	if err != nil {
		return nil, err
	}
	return conn.Read(ctx, s, func(rows *sql.Rows) (map[string]int64, error) {
		terms := make(map[string]int64, len(names))
		for rows.Next() {
			var name string
			var term int64
			if err := rows.Scan(&name, &term); err != nil {
				return nil, err
			}
			terms[name] = term
		}
		return terms, nil
	}, query, args...)
}

// KeepLeases renews leases of one length that are held and have not expired, in one statement, and returns those that are still
// held, by their names, each with how long before the statement it was renewed, at most: 0 for a lease that the statement has renewed,
// more for a lease whose row somebody has locked (see [Store.updateLeases]). If a name is missing, its lease has expired, is
// somebody else's, or has lost its row. Names and owners are two lists, since each owner is new at every taking: no row can have a name
// from one lease and an owner from another. Running says how many jobs run under a lease, for those leases whose row says another number.
func (s *Store) KeepLeases(
	ctx context.Context, names, owners []string, lockSeconds int64, running map[string]int,
) (kept map[string]time.Duration, err error) {
	numbers, args := setRunning(running)
	sent := time.Now()
	n, err := s.updateLeases(ctx, names, fmt.Sprintf("%slock_until = %s", numbers, s.Timestamp(fmt.Sprintf("%s + %d", s.LeaseRounded, lockSeconds))),
		args,
		fmt.Sprintf("locked_by IN (?) AND %s > %s", s.Unix("lock_until"), s.LeaseNow), owners)
	if err != nil {
		return nil, conn.Wrap("keep leases", err)
	}
	kept = make(map[string]time.Duration, len(names))
	if n == len(names) {
		for _, name := range names {
			kept[name] = 0
		}
		return kept, nil
	}
	// Fewer rows: some leases are lost or locked, or two renewals fell into one second and the second one changed nothing.
	query, args, err := conn.In(s.FromPrimary(fmt.Sprintf(
		"SELECT lock_name, %s AS held_until, %s AS now_millis FROM %s WHERE lock_name IN (?) AND locked_by IN (?) AND %[4]s > %[5]s",
		s.Exactly(s.Unix("lock_until")), s.LeaseMillis, s.Tables.Leases, s.Unix("lock_until"), s.LeaseNow)), names, owners)
	if err != nil {
		return nil, err
	}
	type row struct {
		name          string
		until, millis float64
	}
	asked := time.Since(sent)
	held, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.name, &r.until, &r.millis} }), query, args...)
	if err == nil {
		err = seenIn(len(held), n, sent, lockSeconds)
	}
	for _, r := range held {
		// By the database's clock at the read, which came when the question was sent or later, so long had passed since the renewal.
		passed := time.Duration((r.millis/1000 - r.until + float64(lockSeconds)) * float64(time.Second))
		kept[r.name] = max(0, passed-asked)
	}
	return kept, conn.Wrap("read kept leases", err)
}

// updateLeases changes leases, as far as a condition holds for them, and returns how many rows it has changed. It passes over rows that
// others have locked, because a statement that waits for one row keeps the others locked, even after its sender has given it up: then
// nobody can renew them. MySQL before 8.0.1, MariaDB before 10.6 and TiDB cannot pass over rows, and wait as ever; SQLite
// locks no rows.
func (s *Store) updateLeases(ctx context.Context, names []string, set string, values []any, where string, compared ...any) (int, error) {
	for asked := range askMost + 1 {
		if s.AsksFirst || asked > 0 {
			var err error
			if names, err = s.freeToChange(ctx, names); err != nil || len(names) == 0 {
				return 0, err
			}
		}
		query := fmt.Sprintf(s.UnlockedLeases, set, where)
		args := append([]any{names}, values...)
		if !s.NamesFirst {
			args = append(slices.Clone(values), names)
		}
		query, args, err := conn.In(query, append(args, compared...)...)
		if err != nil {
			return 0, err
		}
		if n, err := conn.Exec(ctx, s, query, args...); !conn.IsLocked(err) {
			return n, err
		}
	}
	return 0, nil // as if all were locked
}

// freeToChange reads which of the leases have rows that nobody has locked.
func (s *Store) freeToChange(ctx context.Context, names []string) ([]string, error) {
	query, args, err := conn.In(fmt.Sprintf("SELECT lock_name FROM %s FORCE INDEX (PRIMARY) WHERE lock_name IN (?)%s%s",
		s.Tables.Leases, s.ForUpdate, s.SkipLocked), names)
	if err != nil {
		return nil, err
	}
	return conn.Read(ctx, s, conn.Column[string], query, args...)
}

// setRunning writes the assignment of how many jobs run under the leases that are named, before others; empty: there are none.
func setRunning(running map[string]int) (assignment string, args []any) {
	if len(running) == 0 {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		args = append(args, name, running[name])
	}
	return "running = CASE lock_name" + strings.Repeat(" WHEN ? THEN ?", len(running)) + " ELSE running END, ", args
}

// ErrLocked is the cause of an error about a lease whose row somebody has locked. The statement has changed nothing, and can be sent again.
// It has not waited, since the statements about leases share a connection, and the renewals of others would have waited behind it.
var ErrLocked = errors.New("the row of the lease is locked")

// AbandonLeases ends those of the leases that this owner has. It is for leases that a statement of unknown outcome may have
// taken. Sent again, it changes nothing that matters.
func (s *Store) AbandonLeases(ctx context.Context, names []string, owner string) error {
	query, args, err := conn.In(fmt.Sprintf("%s SET lock_until = %s WHERE lock_name IN (?) AND locked_by = ?", s.LeaseUpdate, s.Timestamp(s.LeaseNow)),
		names, owner)
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("abandon leases", err)
}

// ReleaseLease ends a lease of this owner: at once, or when it has been held for atLeast. It reports whether the lease
// was still the owner's; if somebody else has it, it changes nothing. If somebody has locked its row, that is an [ErrLocked]. Sent again,
// it changes nothing that matters.
func (s *Store) ReleaseLease(ctx context.Context, name, owner string, atLeast time.Duration) (ours bool, err error) {
	until := s.LeaseNow
	if atLeast > 0 {
		// locked_at may have lost its fraction of a second, by which the time held would be too short. If the clock was ahead when the
		// lease was taken, locked_at is still to come.
		until = fmt.Sprintf("%[1]s(%[2]s, %[3]s(%[2]s, %[4]s) + %[5]d)", s.Greatest, s.LeaseNow, s.Least, s.Unix("locked_at"), int64(atLeast/time.Second)+1)
	}
	n, err := s.updateLeases(ctx, []string{name}, fmt.Sprintf("lock_until = %s", s.Timestamp(until)), nil, "locked_by = ?", owner)
	if err != nil || n > 0 {
		return n > 0, conn.Wrap("release lease", err)
	}
	// No row: the lease is somebody else's, lock_until had the value already, or somebody has locked the row.
	locked, err := conn.Read(ctx, s, conn.Column[bool],
		s.FromPrimary(fmt.Sprintf("SELECT CASE WHEN %s > %s THEN 1 ELSE 0 END AS held FROM %s WHERE lock_name = ? AND locked_by = ?",
			s.Unix("lock_until"), until, s.Tables.Leases)), name, owner)
	if err == nil && len(locked) > 0 && locked[0] {
		return true, conn.Wrap("release lease", ErrLocked)
	}
	return len(locked) > 0, conn.Wrap("read released lease", err)
}

// unlessLocked returns an [ErrLocked] if the owner has the lease still, behind a statement that would have taken it from him.
func (s *Store) unlessLocked(ctx context.Context, name, owner string) error {
	held, err := s.heldLeases(ctx, []string{name}, owner)
	if err == nil && len(held) > 0 {
		err = ErrLocked
	}
	return err
}

// BreakLease ends a lease of this owner at once, and waits if somebody has locked its row. In the place of the number of what runs under
// it, it writes [Broken], for whoever takes the lease: the owner may be alive, and not know it yet. It reports whether the lease was still
// the owner's.
func (s *Store) BreakLease(ctx context.Context, name, owner string) (ours bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s SET lock_until = %s, running = %d WHERE lock_name = ? AND locked_by = ? AND %s > %s",
		s.LeaseUpdate, s.Timestamp(s.LeaseNow), Broken, s.Unix("lock_until"), s.LeaseNow), name, owner)
	return n > 0, conn.Wrap("break lease", err)
}

// Broken stands in a lease that was broken, in the place of the number of what runs under it.
const Broken = -2
