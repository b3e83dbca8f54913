package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
)

// away is a table that cannot be written for a while, but for the lives of instances.
type away struct {
	lives
	is      bool
	dropped []string
}

var errAway = errors.New("the database is away")

func (a *away) ReleaseLease(context.Context, string, string, time.Duration) (bool, error) {
	if a.is {
		return false, errAway
	}
	return true, nil
}

func (a *away) DropLease(_ context.Context, name, _ string) error {
	a.dropped = append(a.dropped, name)
	return nil
}

// Others bury whoever is not heard of, and take what it has. If it ended its life, they would wait until the lease has expired.
func TestWhoeverStopsAndCouldNotGiveALeaseBackLeavesItsLifeBehind(t *testing.T) {
	for _, is := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, table := coordinatorOf(t, Tables{}), &away{is: is}
			k := keeper.New(t.Context(), table, "shop@host/1", "a1b2c3d4e5f6", func(error) {})
			k.BeatThrough(table, func(error) {}, c.Wake)
			c.process.Keeper = k
			if err := k.Rise(t.Context()); err != nil {
				t.Fatal(err)
			}
			taken, err := k.Take(t.Context(), []keeper.Want{{Name: "job-7", Lock: time.Minute, Governed: true}})
			if err != nil || len(taken) != 1 {
				t.Fatal(taken, err)
			}
			c.Release(taken[0])
			c.Gone()
			if left := len(table.dropped) == 0; left != is || !left && table.dropped[0] != share.Life(k.ID()) {
				t.Errorf("the lease was not given back: %v; deleted: %v", is, table.dropped)
			}
		})
	}
}
