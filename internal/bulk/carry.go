package bulk

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

const (
	partMax = time.Minute // a part that takes longer is given up, and begun again
	waitMax = Silent / 3  // each part tells the others that the worker is there
)

// Carry claims an operation and carries it out, until it is done or ctx ends. The worker's name must be its own. After each part,
// told hears how far it is. If another worker has the operation, or it was stopped, the error is [ErrNotOurs].
func Carry(ctx context.Context, st *record.Store, id uint64, worker string, told func(record.Act)) error {
	act, err := claim(ctx, st, id, worker)
	for err == nil {
		var wait time.Duration
		if act, wait, err = part(ctx, st, act, worker); err != nil {
			return err
		}
		told(act)
		if act.State == record.OperationDone {
			return nil
		}
		err = sleep(ctx, min(wait, waitMax))
	}
	return err
}

func claim(ctx context.Context, st *record.Store, id uint64, worker string) (record.Act, error) {
	ours, err := st.ClaimOperation(ctx, id, worker, int64(Silent/time.Second))
	if err == nil && len(ours) == 0 {
		err = ErrNotOurs
	}
	if err != nil {
		return record.Act{}, err
	}
	return ours[0], nil
}

func part(ctx context.Context, st *record.Store, act record.Act, worker string) (record.Act, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, partMax)
	defer cancel()
	return Step(ctx, st, act, worker)
}

func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
