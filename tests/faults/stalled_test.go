package faults

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Nobody can say that it lives, so nobody is missed: no lease moves, and nothing is cut off.
func TestADatabaseThatStandsStillForSecondsCostsNoRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		stall func(x *trial, s *server) (goOn func())
	}{
		{"all statements", func(_ *trial, s *server) func() { return s.standStill() }},
		{"all that write", func(x *trial, _ *server) func() { return x.holdWrites() }},
	} {
		t.Run(c.what, func(t *testing.T) {
			eachOwnTrial(t, func(x *trial, s *server) { x.standsStill(c.what, func() func() { return c.stall(x, s) }) })
		})
	}
}

// standsStill has two processes go on when the database has stood still for seconds.
func (x *trial) standsStill(what string, stall func() (goOn func())) {
	x.Helper()
	const still = 5 * time.Second
	times, types := repeat(20, 2), numbered(10)
	settings := workerSettings{Types: types, LockSecond: longLock}
	quick, long := x.startLoadOf(types, 500, work{MS: 5}, 0), x.startLoadOf(types, 50, work{MS: 3000}, 0)
	quick.heldUp, long.heldUp = still, still
	x.startWorker(settings)
	x.startWorker(settings)
	moved, worst := 0, time.Duration(0)
	for range times {
		x.awaitEvenShares(types)
		before := x.owners()
		goOn := stall()
		time.Sleep(still)
		goOn()
		resumed := time.Now()
		worst = max(worst, x.awaitStart(resumed, 20*time.Second))
		time.Sleep(still) // for that long, whoever counted it as silence would bury others
		for name, owner := range x.owners() {
			if was := before[name]; was != "" && was != owner {
				moved++
			}
		}
	}
	x.within(worst, resumesWithin, "the next start")
	o := x.conclude(2*time.Minute, quick, long)
	x.stopWorkers()
	x.noDuplicates(o)
	x.noneFailed()
	x.noneRetried()
	if most := times * len(types) / 10; moved > most {
		x.Errorf("%d leases have moved, and at most %d may", moved, most)
	}
	x.tell(fmt.Sprintf("%s stand still for 5 s, leases of %d s, ten types", what, longLock), times, o, worst, resumesWithin,
		"%d of %d leases moved; no handler was cut off", moved, times*len(types))
}

// holdWrites has everybody wait who writes to the tables; who reads goes on.
func (x *trial) holdWrites() (goOn func()) {
	x.Helper()
	ctx := context.Background()
	conn, err := x.db.Conn(ctx)
	if err != nil {
		x.Fatal(err)
	}
	if _, err := conn.ExecContext(ctx, x.dialect.holdWrites); err != nil {
		x.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(ctx, x.dialect.unlockTable); err != nil {
			x.Error(err)
		}
		conn.Close()
	}
}
