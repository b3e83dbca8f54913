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

// MendAhead starts the wait of each row anew, from now, and raises changes if the row is not marked. Until when a handler sleeps, or awaits a signal,
// becomes as much earlier; else the next run would find the time that was recorded, and wait for it. It needs what [Store.WrittenAhead] needs. It
// returns how many rows it changed. Sent again, it changes nothing.
func (s *Store) MendAhead(ctx context.Context, ids []uint64, own int64) (n int, err error) {
	err = s.InOneTransaction(ctx, func(s *Store) error {
		_, err := s.LockState(ctx, ids, Pending) // before their steps, as everybody does
		if err == nil {
			err = s.mendWaits(ctx, ids, own)
		}
		if err == nil {
			n, err = s.change(ctx, "mend jobs that were put off while the clock was ahead", ids, s.writtenAhead(own), func(*conn.Arguments) string {
				return fmt.Sprintf("start_time = start_time + %s - update_time, changes = changes + CASE WHEN term = 0 THEN 1 ELSE 0 END", s.NowOnce())
			})
		}
		return err
	})
	return n, err
}

// mendWaits mends the sleeps and waits for signals for which rows wait, if they were recorded while the clock was ahead: a sleep says when that was,
// and a wait was recorded by the run that has put the row off then.
func (s *Store) mendWaits(ctx context.Context, ids []uint64, own int64) error {
	args := s.Arguments()
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET until_at = until_at - 1000 * (SELECT update_time - %s FROM %s %s WHERE id = job_id) "+
		"WHERE %s AND kind IN (%d, %d) AND EXISTS (SELECT 1 FROM %[3]s %[4]s WHERE id = job_id AND create_time = created AND %[8]s "+
		"AND until_at + 60000 >= start_time * 1000 AND (kind = %[6]d AND ended_at > %[9]s OR ended_at = 0 AND attempt = attempts))",
		s.ByKeyOf(s.Tables.Steps), s.NowSecond, s.Tables.Jobs, s.ByPrimary, args.OneOf("job_id", ids), StepSleep, StepSignal,
		s.writtenAhead(own), s.nowMillis()), args.List...)
	return conn.Wrap("mend what jobs wait for", err)
}

// MendFlowsAhead has the flows looked at in time whose failures, or themselves, were written while the clock was ahead: a flow is to be undone so
// many seconds after a failure, and no later; and its deadline counts from when it was added. It returns how many it changed. Sent again, it changes
// nothing.
func (s *Store) MendFlowsAhead(ctx context.Context) (int, error) {
	putOff := fmt.Sprintf("undo_after >= 0 AND due_at > %s + undo_after + %d AND (deadline IS NULL OR due_at < deadline)", s.NowSecond, dueAgo)
	addedAhead := fmt.Sprintf("created_at > %s + %d", s.NowSecond, dueAgo)
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s SET due_at = CASE WHEN %s THEN %[4]s + undo_after WHEN %[5]s THEN due_at - created_at + %[4]s "+
		"ELSE due_at END, deadline = CASE WHEN %[5]s THEN deadline - created_at + %[4]s ELSE deadline END, "+
		"created_at = CASE WHEN %[5]s THEN %[4]s ELSE created_at END WHERE state IN (%[6]d, %[7]d) AND (%[3]s OR %[5]s)",
		s.Updates, s.Tables.Flows, putOff, s.NowSecond, addedAhead, FlowOpen, FlowStopping))
	return n, conn.Wrap("mend flows that were put off while the clock was ahead", err)
}
