package keeper

import (
	"context"
	"math"
	"time"
)

// Unending is a lease that stands in no table and is trusted as long as the context lives: for who runs jobs alone.
func Unending(ctx context.Context, want Want, term int64) *Lease {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &Lease{Want: want, Term: term, ctx: ctx, cancel: cancel, trust: time.NewTimer(0)}
	l.trust.Stop()
	l.until.Store(math.MaxInt64)
	return l
}
