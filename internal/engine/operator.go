package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bulk"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	operateEvery = 5 * time.Second
	operateMax   = 4 // operations that one process carries out at a time
)

// operator carries out the operations on many jobs that somebody has asked for, unless another process does.
type operator struct {
	*database
	looks ground.Looks
	busy  chan struct{} // has a place for each operation that is carried out here
}

func newOperator(d *database) *operator {
	return &operator{database: d, busy: make(chan struct{}, operateMax)}
}

func (o *operator) loop(ctx context.Context) {
	for ground.Sleep(ctx, operateEvery) {
		var open []store.Act
		err := o.looks.Look(ctx, func(ctx context.Context) (err error) {
			open, err = o.tables.Acts.Operations(ctx, store.ActFilter{Open: true}, 10*operateMax)
			return err
		})
		o.errlog.On(ctx, "look for operations", err)
		for _, act := range open {
			if act.Worker == "" || unheard(act.TouchedAt, o.clock.Now()/1000) {
				o.begin(ctx, act)
			}
		}
	}
}

// unheard reports whether a worker that was heard of at a moment may be gone, in unix seconds. If the moment lies ahead, it was written while
// the database's clock was ahead.
func unheard(heard, now int64) bool {
	const long = int64(bulk.Silent / time.Second)
	return heard < now-long || heard > now+long
}

// begin carries out an operation in a goroutine of its own, if there is room.
func (o *operator) begin(ctx context.Context, act store.Act) {
	select {
	case o.busy <- struct{}{}:
	default:
		return
	}
	o.loops.Go(func() {
		defer func() { <-o.busy }()
		o.carry(ctx, act.ID)
	})
}

func (o *operator) carry(ctx context.Context, id uint64) {
	var last store.Act
	// Each try is a worker of its own, so none meets what an earlier one has left behind.
	worker := o.instance + " " + keeper.NewID()
	err := bulk.Carry(ctx, o.tables.Acts, id, worker, func(act store.Act) { last = act })
	if err == nil {
		o.log.Info(o.about, fmt.Sprintf("operation %d of %s is done: %s, %d jobs changed, %d left as they were", id, last.Actor, last.Verb, last.Changed, last.Skipped))
	}
	if errors.Is(err, bulk.ErrNotOurs) || ctx.Err() != nil {
		err = nil
	}
	o.errlog.On(ctx, "carry out operations", err)
}
