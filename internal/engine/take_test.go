package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/queue_job"
)

// distant is a database that takes long to write a lease.
type distant struct{ resting }

func (d *distant) TakeLeases(ctx context.Context, names []string, owner string, layout, seconds int64, broken bool) (map[string]int64, error) {
	if !ground.Sleep(ctx, 10*time.Millisecond) {
		return nil, ctx.Err()
	}
	return d.resting.TakeLeases(ctx, names, owner, layout, seconds, broken)
}

// Each name of a service takes a statement of its own, and a look at the leases has a second for all of them.
func TestManyTypesAreTakenOneLookAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const types = 150
		table := &distant{}
		d := databaseWith(t, Tables{Jobs: table, Leases: table, Close: func() {}}, listeners{}, types, func(context.Context, *queue_job.Job) error { return nil })
		time.Sleep(10 * time.Second)
		n := 0
		for range d.held() {
			n++
		}
		if n != types {
			t.Errorf("%d of %d leases are held", n, types)
		}
	})
}
