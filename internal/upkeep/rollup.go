package upkeep

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

const (
	rollupFirst = 2 * time.Minute // after the start, and up to as much later
	rollupEvery = time.Hour
	rollupRest  = 100 * time.Millisecond // after a statement, at least: there are two for each type that the database knows
	rollupLease = "tidy-history"

	minutesKept = 48 * time.Hour // then those of an hour are one row
	hourLength  = time.Hour
	historyKept = 90 * 24 * time.Hour
)

// rollup keeps the history small: it makes one row of the minutes of an hour, and deletes what is old, for all job types that the database
// knows. One instance an hour does it. The lease protects nothing else: each step is a transaction that finds what there is.
type rollup struct {
	*Base
	table History
	looks ground.Looks
	upTo  map[int32]int64 // before, in unix seconds, no minute of a type is left to roll up
}

// Rollup is the task that keeps the history small.
func Rollup(b *Base, table History) *Task {
	r := &rollup{Base: b, table: table, upTo: map[int32]int64{}}
	turn := func() (string, time.Duration) { return rollupLease, rollupEvery - rollupFirst }
	return &Task{Base: b, doing: "tidy the history", first: rollupFirst, every: rollupEvery, spread: rollupFirst, turn: turn, do: r.tidy}
}

func (r *rollup) tidy(ctx context.Context, turn Turn) (_ time.Duration, err error) {
	var types []int32
	err = r.looks.Look(turn.Context(), func(ctx context.Context) (err error) {
		types, err = r.table.TypesKnown(ctx)
		return err
	})
	old := r.Clock.Surely() - historyKept.Milliseconds()
	for i := 0; i < len(types) && err == nil && ctx.Err() == nil && turn.Trusted(); i++ {
		if err = r.rollUp(ctx, turn, types[i]); err == nil {
			err = r.step(ctx, turn, func(ctx context.Context) error { return r.table.DropStats(ctx, types[i], old/1000) })
		}
	}
	if err == nil && ctx.Err() == nil && turn.Trusted() {
		err = r.step(ctx, turn, func(ctx context.Context) error { return r.table.DropTenures(ctx, old) })
	}
	return 0, err
}

// rollUp makes one row of the minutes of each hour that has ended long enough ago.
func (r *rollup) rollUp(ctx context.Context, turn Turn, jobType int32) (err error) {
	const hour = int64(hourLength / time.Second)
	before := (r.Clock.Surely() - minutesKept.Milliseconds()) / 1000
	for found := true; found && err == nil && ctx.Err() == nil && turn.Trusted(); {
		var begin int64
		err = r.step(ctx, turn, func(ctx context.Context) (err error) {
			begin, found, err = r.table.RollUp(ctx, jobType, r.upTo[jobType], before, hour)
			return err
		})
		if found {
			r.upTo[jobType] = begin + hour
		}
	}
	return err
}

// step sends a statement, and then rests nine times as long as it took, but at least rollupRest.
func (r *rollup) step(ctx context.Context, turn Turn, statement func(context.Context) error) error {
	began := time.Now()
	err := r.looks.Look(turn.Context(), statement)
	ground.Sleep(ctx, max(rollupRest, 9*time.Since(began)))
	return err
}
