package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// backlog is a table of pending rows that only the loader looks at.
type pagedTable struct {
	Jobs
	rows  []store.Row
	more  bool         // than one look brings
	few   atomic.Int64 // short looks
	pages atomic.Int64 // long ones
}

func (b *pagedTable) TamePriorities(context.Context, []int32) error { return nil }

func (b *pagedTable) SweepAll(context.Context, []int32, int64, int) ([]store.Row, bool, error) {
	b.few.Add(1)
	return b.rows, b.more, nil
}

func (b *pagedTable) Page(_ context.Context, _ int32, places []store.Place, _ int64, limit int) ([][]store.Row, error) {
	b.pages.Add(1)
	pages := make([][]store.Row, len(places))
	for i, place := range places {
		for _, row := range b.rows {
			if row.Priority == place.Priority && place.Status == 0 && place.Start == store.AtOnce && row.ID > place.ID && len(pages[i]) < limit {
				pages[i] = append(pages[i], row)
			}
		}
	}
	return pages, nil
}

func (b *pagedTable) Abandoned(_ context.Context, _ int32, lane store.Lane, _ int64, _ uint64) (store.Place, int, error) {
	return store.Place{Lane: lane, ID: 1}, 1, nil
}

func TestATypeIsTakenWithOneShortLookUnlessThereIsMore(t *testing.T) {
	const since, room = 1000, 10
	few := []store.Row{{ID: 1, CreateTime: since}, {ID: 2, CreateTime: since}}
	for _, c := range []struct {
		name      string
		rows      []store.Row
		more      bool
		pages     bool
		inMemory  int
		sweepsToo bool // when all is in
	}{
		{name: "none", sweepsToo: true},
		{name: "few", rows: few, inMemory: 2, sweepsToo: true},
		{name: "more than a look brings", rows: few, more: true, pages: true, inMemory: 2, sweepsToo: true},
		{name: "an abandoned one", rows: []store.Row{{ID: 1, CreateTime: since - 1}, few[1]}, pages: true, inMemory: 1},
		{name: "more than there is room for", rows: manyRows(2*room, since), pages: true, inMemory: room * 3 / 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := &pagedTable{rows: c.rows, more: c.more}
			l := lineOf(room)
			l.jobs, l.reads, l.roomCame, l.cfg.LoadLimit = table, &reads{}, make(chan struct{}, 1), room
			l.backlog.since, l.backlog.upTo = since, 1
			l.backlog.behind.Store(true)
			signal(l.backlog.wake) // of the last lease
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				newLoader(l, keeper.Unending(ctx, keeper.Want{Name: "job-1", Lock: time.Minute}, 7)).loop(ctx)
			}()
			time.Sleep(10 * time.Second) // virtual
			synctest.Wait()
			if got := l.queue.inMemory(); got != c.inMemory {
				t.Errorf("%s: %d rows in memory, want %d", c.name, got, c.inMemory)
			}
			if (table.pages.Load() > 0) != c.pages {
				t.Errorf("%s: %d statements for pages", c.name, table.pages.Load())
			}
			if l.backlog.behind.Load() == c.sweepsToo {
				t.Errorf("%s: behind is %v", c.name, l.backlog.behind.Load())
			}
			looks := table.few.Load() + table.pages.Load()
			l.backlog.fell()
			synctest.Wait()
			time.Sleep(10 * time.Second)
			if table.few.Load()+table.pages.Load() == looks {
				t.Errorf("%s: what a full queue turned away later is not loaded", c.name)
			}
			stop()
			<-over
		})
	}
}

func manyRows(n int, created int64) (rows []store.Row) {
	for i := range n {
		rows = append(rows, store.Row{ID: uint64(i + 2), CreateTime: created})
	}
	return rows
}

// failing is a table whose looks fail, all but the last.
type failing struct {
	pagedTable
	looks int
}

func (f *failing) SweepAll(ctx context.Context, types []int32, horizon int64, limit int) ([]store.Row, bool, error) {
	if f.looks--; f.looks > 0 {
		time.Sleep(time.Second)
		return nil, false, errors.New("the server is gone")
	}
	return f.pagedTable.SweepAll(ctx, types, horizon, limit)
}

func TestALookThatFailsKeepsNoJobOfAnotherTypeFromBeingForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all reads
		l := lineOf(10)
		l.jobs, l.reads, l.roomCame, l.cfg.LoadLimit = &failing{looks: 30}, &all, make(chan struct{}, 1), 10
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			newLoader(l, keeper.Unending(ctx, keeper.Want{Name: "job-1", Lock: time.Minute}, 7)).loop(ctx)
		}()
		time.Sleep(5 * time.Second)

		other := newQueue(10, &all)
		other.offer(fresh(1))
		other.forget(other.picked(0, 1)...)
		time.Sleep(5 * time.Second)
		other.offer(fresh(1)) // as a sweep brings it that began after
		expectIDs(t, other.picked(0, 1), 1)
		stop()
		<-over
	})
}
