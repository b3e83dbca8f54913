package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Rows that wait for as long as they were told to, from a moment that is still to come: the database's clock was ahead when they were
// written. A row says by its update_time when it was written, and by its start_time until when it waits; so it also says for how long.
//
// Not every row that waits was told to wait for a time: somebody may have named a moment. A row that has never run says so, unless
// it is due from the moment at which it was written. A row that was changed while it waited may say so, too; it is taken for a retry if it is to
// wait for an hour at most. Rows that were neither run nor changed bear the clock of the process that has added them.
//
// A row that is marked was due then, and says so when the mark is taken back. If its process has died, nobody looks at it until it is due
// again.
const (
	waitsFrom  = "start_time + 60 >= update_time" // it may have been marked, and unmarked again, since its time was set
	waitsFor   = "term = 0 AND attempts > 0 AND (changes = 0 OR start_time <= update_time + 3600)"
	wasDueThen = "(attempts > 0 OR changes <> 0) AND start_time <= update_time + 1"
)

// aheadLeast is by how many seconds a row must lie ahead: all these times are whole seconds.
const aheadLeast = 2

// waitsNot is by how many seconds a row that was marked may lie ahead, at most: it was due, or nearly, by the clock of one node or another.
const waitsNot = 60

func (s *Store) writtenAhead(own int64) string {
	return fmt.Sprintf("%s AND %s AND start_time > %s + %d AND update_time > %[3]s + %[4]d AND update_time > %[5]d AND (%[6]s OR %[7]s)",
		pending, waitsFrom, s.NowOnce(), aheadLeast, own+aheadLeast, waitsFor, wasDueThen)
}

// WrittenAhead reads the ids of waiting rows of these types that were told to wait for a time while the database's clock was ahead: they
// were written later than it is, by the database's clock and by the caller's own, in unix seconds. It returns at most limit of them. It goes
// through all rows of these types that are not due yet.
func (s *Store) WrittenAhead(ctx context.Context, types []int32, own int64, limit int) ([]uint64, error) {
	ids, err := conn.Read(ctx, s, conn.Column[uint64], s.FromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE job_type IN (%s) AND %s LIMIT %d",
		s.Tables.Jobs, s.ByDue, conn.Numbers(types), s.writtenAhead(own), limit)))
	slices.Sort(ids)
	return ids, conn.Wrap("find jobs that were put off while the clock was ahead", err)
}

// MendAhead starts the wait of each row anew, from now, and raises changes if the row is not marked. It needs what [Store.WrittenAhead] needs. It
// returns how many rows it changed. Sent again, it changes nothing.
func (s *Store) MendAhead(ctx context.Context, ids []uint64, own int64) (int, error) {
	return s.change(ctx, "mend jobs that were put off while the clock was ahead", ids, s.writtenAhead(own), func(*conn.Arguments) string {
		return fmt.Sprintf("start_time = start_time + %s - update_time, changes = changes + CASE WHEN term = 0 THEN 1 ELSE 0 END", s.NowOnce())
	})
}
