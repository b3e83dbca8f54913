package conn

import (
	"context"
	"runtime"
)

// turn lets statements in one at a time; nil lets all in. A statement waits for its turn no longer than its context
// lives.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) enter(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return t.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave passes the turn on. If a statement waits for it, that one goes now: otherwise its goroutine might not run before this
// one waits for something, and the database would be idle until then.
func (t turn) leave() {
	<-t
	if len(t) > 0 {
		runtime.Gosched()
	}
}
