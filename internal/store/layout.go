package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// The layout of a job type says into how many shards the type is divided. It is a number that only grows: 1024 times its
// generation, plus the number of shards; package share does the arithmetic. The row of each lease of the type says for which
// layout it is, so instances that believe in different layouts cannot take leases side by side. A row goes from one layout to
// a later one in two steps, and never back:
//
//	held or free for layout 4 ──► closed until layout 1027 opens (-1027) ──► free for layout 1027
//
// A lease is opened only when all leases of the type are closed.

// closedUntil is the lock_until of a closed lease, so that instances of older versions, which know no layouts, do not take
// it: a day before a TIMESTAMP of MySQL ends.
const closedUntil = "2147400000"

// The same numbers stand in share.ShardOf.
const turns, golden = 1_000_003, 618_035

// Shard is one of several shards of a job type. If Of is 0 or 1, it is the whole type.
type Shard struct{ Of, Number int }

// inShard writes a condition for rows of a shard. Package share says which these are; rows without a group take turns by their ids.
func (s *Store) inShard(shard Shard) string {
	if shard.Of <= 1 {
		return ""
	}
	keyed := ""
	if s.KeyHash != "" {
		keyed = fmt.Sprintf(" AND %s %% %d = %d", s.KeyHash, shard.Of, shard.Number)
	}
	first := func(shard, of int) int { return (shard*turns + of - 1) / of } // turn of a shard
	return fmt.Sprintf(" AND (COALESCE(%[6]s, '') = '' AND id %% %[1]d * %[2]d %% %[1]d BETWEEN %[3]d AND %[4]d OR COALESCE(%[6]s, '') <> ''%[5]s)",
		turns, golden, first(shard.Number, shard.Of), first(shard.Number+1, shard.Of)-1, keyed, conn.GroupOf)
}

// Layout reads the layout of a job type; 0: it has none.
func (s *Store) Layout(ctx context.Context, jobType int32) (int64, error) {
	found, err := conn.Read(ctx, s, conn.Column[int64],
		s.FromPrimary(fmt.Sprintf("SELECT layout FROM %s WHERE job_type = %d AND layout IS NOT NULL", s.Tables.Types, jobType)))
	if err != nil || len(found) == 0 {
		return 0, conn.Wrap("layout", err)
	}
	return found[0], nil
}

// SetLayout gives a job type another layout, if it still has the old one; 0 stands for none. It reports whether it has
// changed something. Sent again, it changes nothing.
func (s *Store) SetLayout(ctx context.Context, jobType int32, from, to int64) (changed bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s (job_type) VALUES (%d)%s", s.InsertNew, s.Tables.Types, jobType, s.UnlessThere))
	if err == nil {
		n, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET layout = %d WHERE job_type = %d AND COALESCE(layout, 0) = %d",
			s.ByKeyOf(s.Tables.Types), to, jobType, from))
	}
	return n > 0, conn.Wrap("set layout", err)
}

// MakeClosed writes a row for each lease that has none. The lease is closed until the layout opens. Rows that exist stay as
// they are.
func (s *Store) MakeClosed(ctx context.Context, names []string, layout int64) error {
	args := make([]any, len(names))
	for i, name := range slices.Sorted(slices.Values(names)) { // as in MakeLeases
		args[i] = name
	}
	row := fmt.Sprintf("(?, '', %d, %s)", -layout, s.Timestamp(closedUntil))
	_, err := conn.Exec(ctx, s, fmt.Sprintf("INSERT INTO %s (lock_name, locked_by, layout, lock_until) VALUES %s%s%s",
		s.Tables.Leases, row, strings.Repeat(", "+row, len(names)-1), s.UnlessRow("lock_name")), args...)
	return conn.Wrap("make closed leases", err)
}

// CloseLeases closes those of the leases that are free, or were closed for an earlier layout, until the layout opens. If somebody has
// locked one, the next call closes it, see [Store.updateLeases]. Sent again, it changes nothing.
func (s *Store) CloseLeases(ctx context.Context, names []string, layout int64) error {
	_, err := s.updateLeases(ctx, names, fmt.Sprintf("layout = %d, locked_by = '', lock_until = %s", -layout, s.Timestamp(closedUntil)), nil,
		fmt.Sprintf("(layout > 0 AND layout < %d AND %s <= %s OR layout < 0 AND layout > %d)", layout, s.Unix("lock_until"), s.LeaseNow, -layout))
	return conn.Wrap("close leases", err)
}

// CloseLease closes a lease that the owner has, until the layout opens. It changes nothing if somebody else has the lease. If somebody has
// locked its row, that is an [ErrLocked]. Sent again, it changes nothing.
func (s *Store) CloseLease(ctx context.Context, name, owner string, layout int64) error {
	n, err := s.updateLeases(ctx, []string{name}, fmt.Sprintf("layout = %d, locked_by = '', lock_until = %s", -layout, s.Timestamp(closedUntil)), nil,
		fmt.Sprintf("locked_by = ? AND layout > 0 AND layout < %d", layout), owner)
	if err != nil || n > 0 {
		return conn.Wrap("close lease", err)
	}
	rows, err := conn.Read(ctx, s, conn.Column[int64],
		s.FromPrimary(fmt.Sprintf("SELECT term FROM %s WHERE lock_name = ? AND locked_by = ? AND layout > 0 AND layout < %d", s.Tables.Leases, layout)),
		name, owner)
	if err == nil && len(rows) > 0 {
		err = ErrLocked
	}
	return conn.Wrap("close lease", err)
}

// OpenLeases makes leases free that are closed until this layout opens. Their next terms will be larger than the given one. All
// leases of the type must be closed for this layout. Sent again, it changes nothing.
func (s *Store) OpenLeases(ctx context.Context, names []string, layout, term int64) error {
	query, args, err := conn.In(fmt.Sprintf("%s SET layout = %d, term = %s(term, %d), lock_until = %s WHERE lock_name IN (?) AND layout = %d",
		s.LeaseUpdate, layout, s.Greatest, term, s.Timestamp(s.LeaseNow), -layout), names)
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("open leases", err)
}
