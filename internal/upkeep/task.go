package upkeep

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// Task is something that is done once in a while.
type Task struct {
	*Base
	doing  string          // for the error log
	first  time.Duration   // from the start until it is done for the first time
	every  time.Duration   // from then on
	again  time.Duration   // after an error; 0: every
	spread time.Duration   // up to as much longer, at random: instances that started together need not do it together
	wake   <-chan struct{} // has it be done at once; nil: nothing does
	looks  ground.Looks    // for the turn

	// turn is the lease under which one instance of the cluster does it. Without a name, nobody does it now. nil: each does it by itself.
	turn func() (name string, minLock time.Duration)
	// do does it once. It may say how long to wait until the next time; 0: every.
	do func(ctx context.Context, turn Turn) (wait time.Duration, err error)
	// last does what is left to do when Run ends; nil: there is nothing.
	last func()
}

// errIdle says that there was nothing to do. So no statement was sent, and nobody knows whether the database answers.
var errIdle = errors.New("nothing to do")

// ended, in place of a wait, says that there is nothing more to do, ever.
const ended time.Duration = -1

// Run does the task until ctx ends.
func (t *Task) Run(ctx context.Context) {
	if t.last != nil {
		defer t.last()
	}
	for wait := t.first; wait != ended; wait = t.once(ctx) {
		if t.spread > 0 {
			wait += rand.N(t.spread)
		}
		if ground.Wait(ctx, wait, t.wake); ctx.Err() != nil {
			return
		}
	}
}

// once does the task, and says how long to wait until the next time.
func (t *Task) once(ctx context.Context) (wait time.Duration) {
	wait, err := t.inTurn(ctx)
	switch {
	case errors.Is(err, errIdle):
	case t.Errlog.On(ctx, t.doing, err):
		wait = cmp.Or(wait, t.again)
	}
	return cmp.Or(wait, t.every)
}

// inTurn does the task, unless it is another instance's turn.
func (t *Task) inTurn(ctx context.Context) (wait time.Duration, err error) {
	if t.turn == nil {
		return t.do(ctx, nil)
	}
	name, minLock := t.turn()
	if name == "" {
		return 0, errIdle
	}
	turn, err := t.Turn(ctx, &t.looks, name, minLock)
	if turn == nil {
		return 0, err
	}
	defer turn.Release(ctx)
	return t.do(ctx, turn)
}
