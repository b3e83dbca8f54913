package record

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// ClaimOperation makes a process the worker of an open operation, unless another worker was heard of in the last seconds, and returns
// the operation. A worker that is to be heard of later was heard of while the clock was ahead, and may be gone; if it lives, it finds that it
// is the worker no more. Nothing: this process is not its worker, or the operation is not open. Sent again, it changes nothing.
func (s *Store) ClaimOperation(ctx context.Context, id uint64, worker string, silentSeconds int64) (ours []Act, err error) {
	_, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET worker = ?, touched_at = %s "+
		"WHERE id = %d AND state = '%s' AND (worker IS NULL OR worker = ? OR touched_at NOT BETWEEN %[2]s - %[5]d AND %[2]s + %[5]d)",
		s.ByKeyOf(s.Tables.Acts), s.NowSecond, id, OperationOpen, silentSeconds), worker, worker)
	if err != nil {
		return nil, conn.Wrap("claim an operation", err)
	}
	// On MySQL, an UPDATE that writes what is there already may count no row.
	acts, err := s.Operations(ctx, ActFilter{ID: id, Open: true}, 1)
	if err != nil || len(acts) == 0 || acts[0].Worker != worker {
		return nil, err
	}
	return acts, nil
}

// AdvanceOperation notes that an operation has looked at all jobs up to an id. It reports whether the process still is the worker of
// the open operation, and the operation had come as far as the process believed; if not, it changes nothing.
func (s *Store) AdvanceOperation(ctx context.Context, id uint64, worker string, from, to uint64) (ours bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET reached = %d, touched_at = %s WHERE id = %d AND state = '%s' AND worker = ? AND reached = %d",
		s.ByKeyOf(s.Tables.Acts), to, s.NowSecond, id, OperationOpen, from), worker)
	return n > 0, conn.Wrap("advance an operation", err)
}

// CountOperation adds to the numbers of an operation what its last part came to. It is sent in the transaction of that part.
func (s *Store) CountOperation(ctx context.Context, id uint64, changed, skipped int, state string) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET changed = changed + %d, skipped = skipped + %d, state = ? WHERE id = %d",
		s.ByKeyOf(s.Tables.Acts), changed, skipped, id), state)
	return conn.Wrap("count what an operation did", err)
}

// SetOperation moves an operation from a state to another, and takes its worker from it. It reports whether the operation was in that
// state. Sent again, it changes nothing.
func (s *Store) SetOperation(ctx context.Context, id uint64, from, to string) (changed bool, err error) {
	n, err := conn.Exec(ctx, s,
		fmt.Sprintf("UPDATE %s SET state = ?, worker = NULL WHERE id = %d AND state = ?", s.ByKeyOf(s.Tables.Acts), id), to, from)
	return n > 0, conn.Wrap("set the state of an operation", err)
}

// DeleteEnded deletes the rows that are final, their attempts and their steps, and returns how many rows. Fewer than asked: the others are
// pending or gone.
func (s *Store) DeleteEnded(ctx context.Context, ids []uint64) (n int, err error) {
	args := s.Arguments()
	n, err = conn.Exec(ctx, s,
		fmt.Sprintf("%s WHERE %s AND %s", fmt.Sprintf(s.DeleteFrom, s.Tables.Jobs), args.In(ids), store.Ended.Condition()), args.List...)
	if err == nil && n > 0 {
		if err = DeleteAttempts(ctx, s, ids); err == nil {
			err = s.DeleteSteps(ctx, ids)
		}
	}
	return n, conn.Wrap("delete jobs", err)
}
