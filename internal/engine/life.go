package engine

import (
	"context"
	"sync"
)

// life is how long the loops of a database go on. A stop ends it in steps, and waits after each: nothing more is found and started, then no
// lease is kept any more, since what ran has ended and is written, and at last no statement goes on.
type life struct {
	patience  context.Context // handlers and looks at the table end with it
	impatient context.CancelCauseFunc

	working  context.Context    // the loops that find and start work end with it
	drain    context.CancelFunc // ends them
	draining sync.Mutex         // held while loops are added, or drain is called
	loops    sync.WaitGroup

	keeping  context.Context // the loops that keep leases and write outcomes end with it
	quit     context.CancelFunc
	keepings sync.WaitGroup
}

func newLife() *life {
	l := &life{}
	l.patience, l.impatient = context.WithCancelCause(context.Background())
	l.working, l.drain = context.WithCancel(context.Background())
	l.keeping, l.quit = context.WithCancel(context.Background())
	return l
}

// work starts a loop that finds or starts work.
func (l *life) work(loop func(working context.Context)) { l.loops.Go(func() { loop(l.working) }) }

// keep starts a loop that keeps leases or writes outcomes.
func (l *life) keep(loop func(keeping context.Context)) { l.keepings.Go(func() { loop(l.keeping) }) }

// whileWorking runs a function, unless a stop waits for the loops already. It begins to wait when the function has returned.
func (l *life) whileWorking(do func(working context.Context)) bool {
	l.draining.Lock()
	defer l.draining.Unlock()
	if l.working.Err() != nil {
		return false
	}
	do(l.working)
	return true
}

// endWork ends the loops that find and start work, and waits for them.
func (l *life) endWork() {
	l.draining.Lock()
	l.drain()
	l.draining.Unlock()
	l.loops.Wait()
}

// endKeeping does the same with the loops that keep leases and write outcomes.
func (l *life) endKeeping() {
	l.quit()
	l.keepings.Wait()
}
