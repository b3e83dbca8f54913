package upkeep

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	flowsFirst    = time.Minute // after the start
	flowsEvery    = 10 * time.Minute
	flowsTogether = 20 // flows that are deleted before a rest …
	flowsRest     = 9  // … which is so many times as long
	flowsTime     = 10 * time.Second
)

// OldFlows is what is needed of the tables to delete flows that have outlived their time. *record.Store has it.
type OldFlows interface {
	DeleteFlows(ctx context.Context, states []int16, before int64, limit int) (deleted int, err error)
}

// FlowPruner is the task that deletes flows that ended long ago: those that are done, were cancelled or undone, as jobs that are done, were cancelled
// or have failed. Each instance does it by itself: an index has what is to be deleted, so whoever finds nothing has asked little.
func FlowPruner(b *Base, table OldFlows, kept queue_job.Retention) *Task {
	times := map[int16]time.Duration{store.FlowDone: kept.Done, store.FlowCancelled: kept.Cancelled, store.FlowUndone: kept.Failed}
	before := func(state int16) int64 { // by two clocks: one that is ahead deletes nothing
		return min(b.Clock.Now(), time.Now().UnixMilli())/1000 - int64(times[state]/time.Second)
	}
	return &Task{Base: b, doing: "delete old flows", first: flowsFirst, every: flowsEvery, spread: flowsEvery / 2,
		do: func(ctx context.Context, _ Turn) (time.Duration, error) {
			idle := true
			for _, state := range store.FlowEnds {
				if times[state] <= 0 {
					continue
				}
				idle = false
				if err := deleteFlows(ctx, table, state, before(state)); err != nil {
					return 0, err
				}
			}
			if idle {
				return ended, errIdle
			}
			return 0, nil
		}}
}

// deleteFlows deletes flows of a state, some at a time, with rests.
func deleteFlows(ctx context.Context, table OldFlows, state int16, before int64) error {
	for ctx.Err() == nil {
		began := time.Now()
		sent, cancel := context.WithTimeout(ctx, flowsTime)
		n, err := table.DeleteFlows(sent, []int16{state}, before, flowsTogether)
		cancel()
		if err != nil || n < flowsTogether {
			return err
		}
		ground.Wait(ctx, flowsRest*time.Since(began), nil)
	}
	return nil
}
