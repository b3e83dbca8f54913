package upkeep

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// oldFlows are flows by the seconds in which they ended.
type oldFlows struct {
	ended map[int16][]int64
	asks  int
}

func (o *oldFlows) DeleteFlows(_ context.Context, states []int16, before int64, limit int) (n int, err error) {
	o.asks++
	for _, state := range states {
		o.ended[state] = slices.DeleteFunc(o.ended[state], func(at int64) bool {
			old := at < before && n < limit
			if old {
				n++
			}
			return old
		})
	}
	return n, nil
}

func TestFlowsAreDeletedAsLongAfterTheirEndAsTheirJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		b, _ := baseOf(t, silent{})
		at := func(ago time.Duration) int64 { return time.Now().Add(-ago).Unix() }
		o := &oldFlows{ended: map[int16][]int64{
			store.FlowDone: {at(0)}, store.FlowCancelled: {at(1000 * time.Hour)}, store.FlowUndone: {at(2 * time.Hour), at(26 * time.Hour)},
		}}
		for range 1000 {
			o.ended[store.FlowDone] = append(o.ended[store.FlowDone], at(3*time.Hour))
		}
		FlowPruner(b, o, queue_job.Retention{Done: 2 * time.Hour, Failed: 24 * time.Hour}).Run(ctx)
		if done, cancelled, undone := len(o.ended[store.FlowDone]), len(o.ended[store.FlowCancelled]), len(o.ended[store.FlowUndone]); done != 1 || cancelled != 1 || undone != 1 {
			t.Errorf("%d, %d and %d flows are left", done, cancelled, undone)
		}
		if o.asks < 51 || o.asks > 70 {
			t.Errorf("%d statements in an hour", o.asks)
		}
	})
}

func TestNobodyAsksForOldFlowsIfAllAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := baseOf(t, silent{})
		o := &oldFlows{}
		FlowPruner(b, o, queue_job.Retention{}).Run(t.Context()) // ends by itself
		if o.asks > 0 {
			t.Errorf("%d statements", o.asks)
		}
	})
}
