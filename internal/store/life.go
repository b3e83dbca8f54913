package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// The life of an instance is its right to start jobs, in one piece. It is a row of the table of leases that the instance writes each second:
//
//	lock_name   live-<instance>
//	locked_by   who began this life: the leases of the life are taken later
//	locked_at   when it began; of a life that is over, when somebody has ended it
//	term        until when the instance may start jobs, in milliseconds of the database's clock
//	running     for how many milliseconds that beat counts; Buried: this life is over; Dead: the process is gone
//	layout      the number of that beat: one that arrives late changes nothing
//	lock_until  when the last of the leases has ended that were renewed at the beat
//
// Whoever has seen the same term for so long buries the instance: by a compare-and-set on this very row, so that either the next beat does not
// find it, or the burial does not. Then what the instance may still run keeps its term under the name of a rest, and its leases are free.

// These stand in the row of a life that is over, in the place of how long a beat counts.
const (
	Buried = -2 // what the instance had started may still run
	Dead   = -3 // nothing of it runs any more: whoever knows it has said so, see [Store.BuryDead]
)

// Rise begins a life, whatever the row says of earlier ones. Its number is larger than those of all beats before. Sent again, or late, it changes
// nothing.
func (s *Store) Rise(ctx context.Context, name, owner string, number, counts, lockSeconds int64) error {
	if err := s.MakeLeases(ctx, []string{name}); err != nil {
		return err
	}
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s SET %s, locked_by = ?, locked_at = %s WHERE lock_name = ? AND layout < %d",
		s.LeaseUpdate, s.beat(number, counts, lockSeconds), s.Timestamp(s.LeaseNow), number), owner, name)
	if err != nil || n > 0 {
		return conn.Wrap("rise", err)
	}
	alive, err := s.hasBeaten(ctx, name, owner, number)
	if err == nil && !alive { // whoever deletes rows that have ended may have met it in between
		err = fmt.Errorf("the row %s is gone", name)
	}
	return conn.Wrap("rise", err)
}

// Beat says that an instance is alive: it may start jobs for so many milliseconds from now on. It does not ask whether the last beat counts
// still. Its number is larger than those of all beats before. It reports whether the life goes on. If not, somebody has buried the instance, or
// deleted the row. Sent again, or late, it changes nothing.
func (s *Store) Beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (alive bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s SET %s WHERE lock_name = ? AND locked_by = ? AND running >= 0 AND layout < %d",
		s.LeaseUpdate, s.beat(number, counts, lockSeconds), number), name, owner)
	if err != nil || n > 0 {
		return n > 0, conn.Wrap("beat", err)
	}
	alive, err = s.hasBeaten(ctx, name, owner, number) // perhaps it was sent twice, since a connection turned out to be broken
	return alive, conn.Wrap("read beat", err)
}

// beat writes the assignments of a beat. MySQL evaluates SET from left to right; no assignment here reads a column.
func (s *Store) beat(number, counts, lockSeconds int64) string {
	return fmt.Sprintf("term = %s + %d, running = %[2]d, layout = %[4]d, lock_until = %[3]s", s.LeaseMillis, counts,
		s.Timestamp(fmt.Sprintf("%s + %d", s.LeaseRounded, lockSeconds)), number)
}

// hasBeaten reports whether the row of a life says that this was its last beat, and nobody has buried the instance.
func (s *Store) hasBeaten(ctx context.Context, name, owner string, number int64) (alive bool, err error) {
	there, err := conn.Read(ctx, s, conn.Column[int64], s.FromPrimary(fmt.Sprintf(
		"SELECT layout FROM %s WHERE lock_name = ? AND locked_by = ? AND running >= 0 AND layout = %d", s.Tables.Leases, number)), name, owner)
	return len(there) > 0, err
}

// Bury ends the life of an instance whose last beat has written this term, if it counts no more, and there was none since. The row stays for so
// many seconds at least. It reports whether it has done so. If somebody has locked the row, as a beat does, it does nothing.
func (s *Store) Bury(ctx context.Context, name, owner string, term, seconds int64) (buried bool, err error) {
	until := s.Timestamp(fmt.Sprintf("%s(%s, %s + %d)", s.Greatest, s.Unix("lock_until"), s.LeaseRounded, seconds))
	set := fmt.Sprintf("running = %d, locked_at = %s, lock_until = %s", Buried, s.Timestamp(s.LeaseNow), until)
	n, err := s.updateLeases(ctx, []string{name}, set, nil,
		fmt.Sprintf("locked_by = ? AND running >= 0 AND term = %d AND term <= %s", term, s.LeaseMillis), owner)
	return n > 0, conn.Wrap("bury", err)
}

// BuryDead is Bury for an instance whose process is gone, as somebody says who knows it: then nothing need be left alone that it has started. If
// others have buried it, it does the same. Unexpired: also if the last beat still counts.
func (s *Store) BuryDead(ctx context.Context, name, owner string, term, seconds int64, unexpired bool) (buried bool, err error) {
	until := s.Timestamp(fmt.Sprintf("%s(%s, %s + %d)", s.Greatest, s.Unix("lock_until"), s.LeaseRounded, seconds))
	where := fmt.Sprintf("locked_by = ? AND running > %d AND term = %d", Dead, term)
	if !unexpired {
		where += fmt.Sprintf(" AND (running < 0 OR term <= %s)", s.LeaseMillis)
	}
	// Who was buried before stays so since then. The CASE stands first: MySQL's next assignments would change what it sees.
	since := fmt.Sprintf("CASE WHEN running >= 0 THEN %s ELSE locked_at END", s.Timestamp(s.LeaseNow))
	set := fmt.Sprintf("locked_at = %s, running = %d, lock_until = %s", since, Dead, until)
	n, err := s.updateLeases(ctx, []string{name}, set, nil, where, owner)
	return n > 0, conn.Wrap("bury the dead", err)
}

// Copy is a lease of an instance that is buried, as a look has shown it that has shown the burial, too, and the name of its rest.
type Copy struct {
	Seen
	Rest string
}

// CopyLeases writes what the instance may still run: rests, each with the owner, the term and the end of a lease. A rest that is there stays as
// it is, unless it is nobody's: then whoever gave the lease away was buried before it had written more. A row that somebody has locked is
// passed over, so a lease is freed only when a look has shown the copy. Sent again, it changes nothing.
//
// The copy is not made of the lease's row, which somebody may have locked. A renewal that takes effect after the look, and so after the burial,
// does not count for its sender.
func (s *Store) CopyLeases(ctx context.Context, copies []Copy) error {
	names := make([]string, len(copies))
	var owners, running, terms, layouts, untils strings.Builder
	var ofOwners, of []any
	for i, c := range copies {
		names[i] = c.Rest
		ofOwners, of = append(ofOwners, c.Rest, c.Owner), append(of, c.Rest)
		owners.WriteString(" WHEN ? THEN ?")
		fmt.Fprintf(&running, " WHEN ? THEN %d", c.Running)
		fmt.Fprintf(&terms, " WHEN ? THEN %d", c.Term)
		fmt.Fprintf(&layouts, " WHEN ? THEN %d", c.Layout)
		fmt.Fprintf(&untils, " WHEN ? THEN %d.%06d", c.Until/1e6, c.Until%1e6)
	}
	if err := s.MakeLeases(ctx, names); err != nil {
		return err
	}
	set := fmt.Sprintf("locked_by = CASE lock_name%s ELSE locked_by END, running = CASE lock_name%s ELSE running END, "+
		"term = CASE lock_name%s ELSE term END, layout = CASE lock_name%s ELSE layout END, locked_at = %s, lock_until = %s",
		owners.String(), running.String(), terms.String(), layouts.String(), s.Timestamp(s.LeaseNow),
		s.Timestamp("CASE lock_name"+untils.String()+" ELSE 0 END"))
	args := ofOwners
	for range 4 {
		args = append(args, of...)
	}
	_, err := s.updateLeases(ctx, names, set, args, "locked_by = ''")
	return conn.Wrap("copy leases", err)
}

// FreeLeases ends leases of these owners, whose copies a look has shown, or who are dead. If somebody has locked a row, the next look has it
// freed. Names and owners are two lists, as in [Store.KeepLeases]. Sent again, or late, it changes nothing.
func (s *Store) FreeLeases(ctx context.Context, names, owners []string) error {
	_, err := s.updateLeases(ctx, names, fmt.Sprintf("lock_until = %s", s.Timestamp(s.LeaseNow)), nil,
		fmt.Sprintf("locked_by IN (?) AND %s > %s", s.Unix("lock_until"), s.LeaseNow), owners)
	return conn.Wrap("free leases", err)
}
