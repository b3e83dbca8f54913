package simulator

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// Worlds do not show it any more: a round that goes over the few abandoned rows of a world finds such a row soon.
func TestARowThatIsCommittedLateLiesBehindTheAbandonedRowsBeforeIt(t *testing.T) {
	const before, upTo = 1000, 3
	table := NewTable(func() time.Time { return time.Unix(2*before, 0) })
	add := func(created int64) *Transaction {
		x := table.Begin()
		x.Insert(Job{Row: store.Row{JobType: 1, CreateTime: created}})
		return x
	}
	add(before - 1).Commit()
	late := add(before)
	add(before).Commit()
	place, n, err := table.Abandoned(t.Context(), 1, store.Lane{Start: store.AtOnce}, before, upTo)
	if err != nil || n != 1 {
		t.Fatalf("%d abandoned rows, %v", n, err)
	}
	late.Commit()
	pages, err := table.Page(t.Context(), 1, store.Shard{}, []store.Place{place}, 3, 10)
	if err != nil || len(pages[0]) != 2 || pages[0][0].ID != 2 {
		t.Errorf("behind them are %+v, %v", pages, err)
	}
}
