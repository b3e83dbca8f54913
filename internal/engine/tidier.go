package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
)

const (
	tidyFirst = 2 * time.Minute // after the start, and up to as much later
	tidyEvery = time.Hour
	tidyRest  = 100 * time.Millisecond // after a statement, at least: there are two for each type that the database knows
	tidyLease = "tidy-history"

	minutesKept = 48 * time.Hour // then those of an hour are one row
	hourLength  = time.Hour
	historyKept = 90 * 24 * time.Hour
)

// tidier keeps the history small: it makes one row of the minutes of an hour, and deletes what is old, for all job types that the database
// knows. A lease makes sure that one instance an hour does it. The lease protects nothing else: each step is a transaction that finds
// what there is.
type tidier struct {
	*database
	looks ground.Looks
	upTo  map[int32]int64 // before, in unix seconds, no minute of a type is left to roll up
}

func newTidier(d *database) *tidier { return &tidier{database: d, upTo: map[int32]int64{}} }

// loop tidies until ctx ends.
func (t *tidier) loop(ctx context.Context) {
	for wait := tidyFirst; ground.Sleep(ctx, wait+rand.N(tidyFirst)); wait = tidyEvery {
		t.errlog.On(ctx, "tidy the history", t.round(ctx))
	}
}

// round tidies, if no other instance has done so within the hour.
func (t *tidier) round(ctx context.Context) error {
	lease, err := t.takeTurn(ctx, &t.looks, keeper.Want{Name: tidyLease, MinLock: tidyEvery - tidyFirst})
	if lease == nil {
		return err
	}
	defer t.release(ctx, lease)
	var types []int32
	err = t.looks.Look(lease.Context(), func(ctx context.Context) (err error) {
		types, err = t.tables.History.TypesKnown(ctx)
		return err
	})
	old := t.clock.Surely() - historyKept.Milliseconds()
	for i := 0; i < len(types) && err == nil && ctx.Err() == nil && lease.Trusted(); i++ {
		if err = t.rollUp(ctx, lease, types[i]); err == nil {
			err = t.step(ctx, lease, func(ctx context.Context) error { return t.tables.History.DropStats(ctx, types[i], old/1000) })
		}
	}
	if err == nil && ctx.Err() == nil && lease.Trusted() {
		err = t.step(ctx, lease, func(ctx context.Context) error { return t.tables.History.DropTenures(ctx, old) })
	}
	return err
}

// rollUp makes one row of the minutes of each hour that has ended long enough ago.
func (t *tidier) rollUp(ctx context.Context, lease *keeper.Lease, jobType int32) (err error) {
	const hour = int64(hourLength / time.Second)
	before := (t.clock.Surely() - minutesKept.Milliseconds()) / 1000
	for found := true; found && err == nil && ctx.Err() == nil && lease.Trusted(); {
		var begin int64
		err = t.step(ctx, lease, func(ctx context.Context) (err error) {
			begin, found, err = t.tables.History.RollUp(ctx, jobType, t.upTo[jobType], before, hour)
			return err
		})
		if found {
			t.upTo[jobType] = begin + hour
		}
	}
	return err
}

// step sends a statement, and then rests nine times as long as it took, but at least tidyRest.
func (t *tidier) step(ctx context.Context, lease *keeper.Lease, statement func(context.Context) error) error {
	began := time.Now()
	err := t.looks.Look(lease.Context(), statement)
	ground.Sleep(ctx, max(tidyRest, 9*time.Since(began)))
	return err
}
