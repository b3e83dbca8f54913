package engine

import (
	"context"
	"errors"
	"time"
)

const (
	lookFirst   = 3 * time.Second
	lookLongest = 30 * time.Second
)

// looks are one loop's reads of the table. Each is given up after a while, since its connection may have died without
// a word; on a slow table, the while grows.
type looks struct {
	patience time.Duration
}

// look reads while the lease holds; when it is over, nobody needs the answer any more. The end of the loop does not cut
// a read off: that would cost the connection.
func (k *looks) look(holding context.Context, read func(context.Context) error) error {
	k.patience = max(k.patience, lookFirst)
	ctx, cancel := context.WithTimeout(holding, k.patience)
	defer cancel()
	began := time.Now()
	err := read(ctx)
	switch {
	case err == nil:
		k.patience = min(4*time.Since(began), lookLongest)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		k.patience = min(2*k.patience, lookLongest)
	}
	return err
}
