package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/bulk"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
)

const (
	operateEvery = 5 * time.Second
	operateMax   = 4 // operations that one process carries out at a time
)

// operations carries out the operations on many jobs that somebody has asked for, unless another process does.
type operations struct {
	*Base
	table    *record.Store
	worker   func() string
	looks    ground.Looks
	busy     chan struct{} // has a place for each operation that is carried out here
	carrying sync.WaitGroup
}

// Operations is the task that carries out operations on many jobs. Each call of worker gives a name that nobody else has.
func Operations(b *Base, table *record.Store, worker func() string) *Task {
	o := &operations{Base: b, table: table, worker: worker, busy: make(chan struct{}, operateMax)}
	return &Task{Base: b, doing: "look for operations", first: operateEvery, every: operateEvery, do: o.look, last: o.carrying.Wait}
}

func (o *operations) look(ctx context.Context, _ Turn) (time.Duration, error) {
	var open []record.Act
	err := o.looks.Look(ctx, func(ctx context.Context) (err error) {
		open, err = o.table.Operations(ctx, record.ActFilter{Open: true}, 10*operateMax)
		return err
	})
	for _, act := range open {
		if act.Worker == "" || unheard(act.TouchedAt, o.Clock.Now()/1000) {
			o.begin(ctx, act)
		}
	}
	return 0, err
}

// unheard reports whether a worker that was heard of at a moment may be gone, in unix seconds. If the moment lies ahead, it was written while
// the database's clock was ahead.
func unheard(heard, now int64) bool {
	const long = int64(bulk.Silent / time.Second)
	return heard < now-long || heard > now+long
}

// begin carries out an operation in a goroutine of its own, if there is room.
func (o *operations) begin(ctx context.Context, act record.Act) {
	select {
	case o.busy <- struct{}{}:
	default:
		return
	}
	o.carrying.Go(func() {
		defer func() { <-o.busy }()
		o.carry(ctx, act.ID)
	})
}

func (o *operations) carry(ctx context.Context, id uint64) {
	var last record.Act
	// Each try is a worker of its own, so none meets what an earlier one has left behind.
	err := bulk.Carry(ctx, o.table, id, o.worker(), func(act record.Act) { last = act })
	if err == nil {
		o.Log.Info(o.About, fmt.Sprintf("operation %d of %s is done: %s, %d jobs changed, %d left as they were",
			id, last.Actor, last.Verb, last.Changed, last.Skipped))
	}
	if errors.Is(err, bulk.ErrNotOurs) || ctx.Err() != nil {
		err = nil
	}
	o.Errlog.On(ctx, "carry out operations", err)
}
