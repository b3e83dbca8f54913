package cluster

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// patience is how long a look may take, with what it takes and gives: a second, since renewals wait for the same connection, and that may be dead.
// If that was not enough, the next ones may take a sixth of the shortest lease, for which a renewal waits, until a whole look is quick again. Without
// that, no look would ever be answered by a slow database: whatever is given up costs the connection, and a login takes several answers.
type patience struct{ longer atomic.Int64 } // nanoseconds; 0: a second is enough

func (p *patience) span() time.Duration { return max(takeMax, time.Duration(p.longer.Load())) }

// lacked notes that something which has this patience had no answer in time.
func (p *patience) lacked(longest time.Duration) { p.longer.Store(int64(longest)) }

// sufficed notes how long a whole look has taken. A statement may need twice as many answers as the one before.
func (p *patience) sufficed(took time.Duration) {
	if took < takeMax/4 {
		p.longer.Store(0)
	}
}

// patiently does a part of a look under a context that has the patience.
func (c *Coordinator) patiently(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.process.Life, c.patience.span())
	defer cancel()
	err := do(ctx)
	if errors.Is(cmp.Or(ctx.Err(), err), context.DeadlineExceeded) {
		c.patience.lacked(c.types.shortestLock() / 6)
	}
	return err
}
