package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
)

// Seen is what a lease's row says to somebody who does not hold it.
type Seen struct {
	Name  string
	Free  bool
	Owner string // who has it, or had it last
	Term  int64  // under which
}

// SeeLeases reads which of the leases are free. A name that is missing has no row yet. It locks nothing.
func (s *Store) SeeLeases(ctx context.Context, names []string) ([]Seen, error) {
	query, args, err := sqlx.In(fmt.Sprintf(
		"SELECT lock_name, %s <= %s AS free, locked_by, term FROM %s WHERE lock_name IN (?)", s.unix("lock_until"), s.leaseNow, s.leases), names)
	if err != nil {
		return nil, err
	}
	seen, err := read(ctx, s, each(func(l *Seen) []any { return []any{&l.Name, &l.Free, &l.Owner, &l.Term} }), query, args...)
	return seen, wrap("see leases", err)
}

// MakeLeases writes a row for each lease that has none. The lease is free: its lock_until is the moment of writing.
// Rows that exist stay as they are.
func (s *Store) MakeLeases(ctx context.Context, names []string) error {
	args := make([]any, len(names))
	// In the index's order, so that instances that start together wait for each other in a line, not in a circle.
	for i, name := range slices.Sorted(slices.Values(names)) {
		args[i] = name
	}
	_, err := s.exec(ctx, fmt.Sprintf("INSERT INTO %s (lock_name, locked_by) VALUES (?, '')%s%s",
		s.leases, strings.Repeat(", (?, '')", len(names)-1), s.unlessLease), args...)
	return wrap("make leases", err)
}

// TakeLeases takes those of the leases that are free, for so many seconds, in the owner's name, each with a new term.
// The owner must be new at every call. A term is larger than every term before: one more than the last, or the
// database's clock in milliseconds if that is more, so terms keep growing when somebody deletes the lease's row, unless
// the lease was taken more often than once a millisecond.
//
// It returns the term of each lease that the owner now holds; a lease that is missing there is held by someone else,
// or has no row. Sent again after an unknown outcome, it returns what the first one took.
func (s *Store) TakeLeases(ctx context.Context, names []string, owner string, lockSeconds int64) (map[string]int64, error) {
	// SET is evaluated from left to right on MySQL; no assignment here reads a column that an earlier one wrote.
	query, args, err := sqlx.In(fmt.Sprintf(
		"%s SET term = %s(term + 1, %s), locked_by = ?, locked_at = %s, lock_until = %s WHERE lock_name IN (?) AND %s <= %s",
		s.leaseUpdate, s.greatest, s.leaseMillis, s.timestamp(s.leaseNow), s.timestamp(fmt.Sprintf("%s + %d", s.leaseRounded, lockSeconds)),
		s.unix("lock_until"), s.leaseNow), owner, names)
	if err != nil {
		return nil, err
	}
	if _, err := s.exec(ctx, query, args...); err != nil {
		return nil, wrap("take leases", err)
	}
	return s.heldLeases(ctx, names, owner)
}

func (s *Store) heldLeases(ctx context.Context, names []string, owner string) (map[string]int64, error) {
	query, args, err := sqlx.In(fmt.Sprintf(
		"SELECT lock_name, term FROM %s WHERE lock_name IN (?) AND locked_by = ? AND %s > %s", s.leases, s.unix("lock_until"), s.leaseNow), names, owner)
	if err != nil {
		return nil, err
	}
	terms, err := read(ctx, s, func(rows *sql.Rows) (map[string]int64, error) {
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
	return terms, wrap("read taken leases", err)
}

// KeepLeases renews leases that are held and have not expired, all of the process in one statement, and returns the
// names of those that are still held. Each lease has an owner of its own; a pair of a name and another one's owner
// cannot be in the table, so two lists say as much as a list of pairs.
func (s *Store) KeepLeases(ctx context.Context, names, owners []string, lockSeconds int64) ([]string, error) {
	query, args, err := sqlx.In(fmt.Sprintf(
		"%s SET lock_until = %s WHERE lock_name IN (?) AND locked_by IN (?) AND %s > %s",
		s.leaseUpdate, s.timestamp(fmt.Sprintf("%s + %d", s.leaseRounded, lockSeconds)), s.unix("lock_until"), s.leaseNow), names, owners)
	if err != nil {
		return nil, err
	}
	kept, err := s.exec(ctx, query, args...)
	if err != nil {
		return nil, wrap("keep leases", err)
	}
	if kept == len(names) {
		return names, nil
	}
	// Fewer rows: some are lost, or two renewals fell into one second and the second one changed nothing.
	query, args, err = sqlx.In(fmt.Sprintf(
		"SELECT lock_name FROM %s WHERE lock_name IN (?) AND locked_by IN (?) AND %s > %s", s.leases, s.unix("lock_until"), s.leaseNow), names, owners)
	if err != nil {
		return nil, err
	}
	held, err := read(ctx, s, column[string], query, args...)
	return held, wrap("read kept leases", err)
}

// ReleaseLease ends a lease of this owner, at once or when it has been held for atLeast, and reports whether it was still
// the owner's. It changes nothing if somebody else has it; sent again, it changes nothing that matters.
func (s *Store) ReleaseLease(ctx context.Context, name, owner string, atLeast time.Duration) (ours bool, err error) {
	until := s.leaseNow
	if atLeast > 0 {
		// locked_at has lost its fraction of a second, which would be missing from the time held.
		until = fmt.Sprintf("%s(%s, %s + %d)", s.greatest, s.leaseNow, s.unix("locked_at"), int64(atLeast/time.Second)+1)
	}
	n, err := s.exec(ctx, fmt.Sprintf("%s SET lock_until = %s WHERE lock_name = ? AND locked_by = ?", s.leaseUpdate, s.timestamp(until)), name, owner)
	if err != nil || n > 0 {
		return n > 0, wrap("release lease", err)
	}
	// No row: it is somebody else's, or lock_until happened to have the value already.
	rows, err := read(ctx, s, column[int], fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE lock_name = ? AND locked_by = ?", s.leases), name, owner)
	if err != nil {
		return false, wrap("read released lease", err)
	}
	return rows[0] > 0, nil
}
