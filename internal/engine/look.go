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

// looks are one loop's reads of the table. Each has a time limit, since its connection may have died without a word. On a slow
// table, the limit grows.
type looks struct {
	patience time.Duration
}

// look reads while the lease holds; after that, nobody needs the answer. The end of the loop does not cut the read off, since
// that would cost the connection.
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
