package keeper

import (
	"context"
	"math"
	"time"
)

// Unending returns a lease that is in no table and is trusted until the context ends, for a process that runs jobs
// alone. No [Keeper] renews it.
func Unending(ctx context.Context, want Want, term int64) *Lease {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &Lease{Want: want, Term: term, ctx: ctx, cancel: cancel, lingers: ctx, trust: time.NewTimer(0)}
	l.trust.Stop()
	l.until.Store(math.MaxInt64)
	return l
}
