package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Followed is [Final] for jobs that others follow: those are added in the same transaction, and only behind a job that it ends. Sent again after
// a commit whose answer was lost, it ends no job, so it adds none. It needs a handle that begins transactions.
type Followed struct {
	Final
	Next [][]NewJob // of each job, in the order of the ids
}

// ErrNotBorn is among the causes of an error if the database does not take the jobs that follow. Nothing was written then.
var ErrNotBorn = errors.New("the jobs that follow cannot be added")

// errSome says that a statement has ended some of its jobs. It does not tell which of them, so the transaction is rolled back.
var errSome = errors.New("some of the jobs are not the run's any more")

// settleFollowed ends jobs and adds those that follow, in one transaction. If some of the jobs are not ours any more, each half has one of its
// own, and so on.
func (s *Store) settleFollowed(ctx context.Context, ids []uint64, o Followed) (written int, err error) {
	if !s.CanTransact() {
		return 0, errors.New("the handle begins no transactions, so no job can follow another")
	}
	err = s.InOneTransaction(ctx, func(s *Store) (err error) {
		if written, err = conn.Exec(ctx, s, o.statement(s, ids)); err != nil || written == 0 {
			return err
		}
		if written < len(ids) {
			return errSome
		}
		_, err = s.AddJobs(ctx, slices.Concat(o.Next...), s.Now())
		if conn.IsRefused(err) {
			err = fmt.Errorf("%w: %w", ErrNotBorn, err)
		}
		return err
	})
	if !errors.Is(err, errSome) {
		if err != nil {
			written = 0
		}
		return written, conn.Wrap(o.doing(), err)
	}
	written = 0
	half := len(ids) / 2
	for _, part := range [][2]int{{0, half}, {half, len(ids)}} {
		n, err := s.settleFollowed(ctx, ids[part[0]:part[1]], Followed{o.Final, o.Next[part[0]:part[1]]})
		if err != nil {
			return 0, err // what the first half has written, a further sending finds ended
		}
		written += n
	}
	return written, nil
}
