package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/panjf2000/ants/v2"
)

// pool runs functions on goroutines that it keeps for a while. How many run at a time is counted by its user: a pool's
// own numbers count idle workers too.
type pool interface {
	Submit(func()) error
	ReleaseContext(context.Context) error
}

func newPool(capacity int, idle time.Duration) (pool, error) {
	return ants.NewPool(capacity, ants.WithExpiryDuration(idle))
}

// yielding lets others go first whenever it is asked. A pool that is released asks its context, in a loop without a
// pause, until its own goroutines have ended; on a single processor they cannot while it does.
type yielding struct{ context.Context }

func (y yielding) Done() <-chan struct{} {
	runtime.Gosched()
	return y.Context.Done()
}
