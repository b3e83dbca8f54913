package persistent_queue

import (
	"context"
	"sync"
)

// calls are the calls that start a Runner, stop it, or change its types.
type calls struct {
	turn chan struct{} // has a place for one of them

	mu    sync.Mutex
	of    map[context.Context]context.CancelCauseFunc // which a Stop ends
	stops int                                         // that are under way
}

// untilStop returns the context of a call that Stop does not wait for. Stop ends it, and while a Stop is under way, it has ended.
func (c *calls) untilStop(ctx context.Context) (_ context.Context, done func()) {
	ctx, giveUp := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops > 0 {
		giveUp(ErrStopped)
	}
	c.of[ctx] = giveUp
	return ctx, func() {
		giveUp(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.of, ctx)
	}
}

// announceStop ends the calls under way, and each call that comes before the stop is over. Handlers make such calls, and Stop waits
// for handlers: if a call waited for Stop, neither would end.
func (c *calls) announceStop() (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stops++
	for _, giveUp := range c.of {
		giveUp(ErrStopped)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stops--
	}
}

// enter waits until no other call starts or stops the Runner, or changes its types. After nil, the next one waits for leave.
func (c *calls) enter(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		if ctx.Err() == nil {
			return nil
		}
		c.leave()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

func (c *calls) leave() { <-c.turn }
