package find

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// pagedTable is a table of pending rows that only looks and the loader see.
type pagedTable struct {
	Tables
	rows  []store.Row
	more  bool         // than one look brings
	few   atomic.Int64 // short looks
	wild  atomic.Int64 // looks for priorities that somebody made up
	pages atomic.Int64 // long ones

	brought atomic.Int64 // rows, by long looks
}

func (b *pagedTable) ClampPriorities(context.Context, []int32) error {
	b.wild.Add(1)
	return nil
}

func (b *pagedTable) SweepAll(_ context.Context, types []int32, _ int64, _ int) (rows []store.Row, more bool, err error) {
	b.few.Add(1)
	for _, row := range b.rows {
		if slices.Contains(types, row.JobType) {
			rows = append(rows, row)
		}
	}
	return rows, b.more, nil
}

func (b *pagedTable) Page(_ context.Context, jobType int32, _ store.Shard, places []store.Place, _ int64, limit int) ([][]store.Row, error) {
	b.pages.Add(1)
	pages := make([][]store.Row, len(places))
	for i, place := range places {
		for _, row := range b.rows {
			start, behind := store.AtOnce, row.ID > place.ID
			if row.StartTime > 0 {
				start, behind = store.AtATime, row.StartTime > place.StartTime || row.StartTime == place.StartTime && behind
			}
			if row.JobType == jobType && row.Priority == place.Priority && place.Status == 0 && place.Start == start && behind && len(pages[i]) < limit {
				pages[i] = append(pages[i], row)
				b.brought.Add(1)
			}
		}
	}
	return pages, nil
}

func (b *pagedTable) Abandoned(_ context.Context, _ int32, lane store.Lane, before int64, upTo uint64) (place store.Place, n int, err error) {
	if lane.Start == store.AtATime {
		for _, row := range b.rows {
			if row.ID <= upTo && row.StartTime > 0 && row.StartTime < before && row.Priority == lane.Priority {
				n++
			}
		}
		return store.Place{Lane: lane, StartTime: before - 1, ID: 1<<63 - 1}, n, nil
	}
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
		{name: "more than there is room for", rows: manyRows(2*room, since), pages: true, inMemory: room},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := &pagedTable{rows: c.rows, more: c.more}
			ctx, stop := context.WithCancel(t.Context())
			f := finderOn(t, table)
			in, s := add(ctx, f, Key{Layout: share.Undivided}, room)
			in.backlog.UpTo = 1
			in.backlog.since.Store(since)
			var loader sync.WaitGroup
			loader.Go(func() { in.Load(ctx) })
			f.Look(ctx)
			time.Sleep(10 * time.Second) // virtual
			synctest.Wait()
			if got := s.InMemory(); got != c.inMemory {
				t.Errorf("%s: %d rows in memory, want %d", c.name, got, c.inMemory)
			}
			if table.wild.Load() != 1 {
				t.Errorf("%s: %d looks for priorities that nobody knows", c.name, table.wild.Load())
			}
			if (table.pages.Load() > 0) != c.pages {
				t.Errorf("%s: %d statements for pages", c.name, table.pages.Load())
			}
			if short := table.few.Load(); short != 1 {
				t.Errorf("%s: %d short looks", c.name, short)
			}
			if in.backlog.Behind() == c.sweepsToo {
				t.Errorf("%s: behind is %v", c.name, in.backlog.Behind())
			}
			pages := table.pages.Load()
			in.backlog.Fell()
			synctest.Wait()
			time.Sleep(10 * time.Second)
			if table.pages.Load() == pages {
				t.Errorf("%s: what a full sink turned away later is not loaded", c.name)
			}
			if table.few.Load() > 1 {
				t.Errorf("%s: a short look comes before the page", c.name)
			}
			stop()
			loader.Wait()
		})
	}
}

func TestTypesThatAreTakenTogetherShareTheFirstLook(t *testing.T) {
	const types, due = 50, 7
	for _, c := range []struct {
		what       string
		more       bool
		statements int64
	}{
		{"one brings all", false, 2},
		{"each type's loader looks by itself, and finds that it has more than a look brings", true, 2 + types + types},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := &pagedTable{rows: []store.Row{{ID: 1, JobType: due}}, more: c.more}
			ctx, stop := context.WithCancel(t.Context())
			f := finderOn(t, table)
			var sinks []*shelf
			var loaders sync.WaitGroup
			for jobType := range int32(types) {
				in, s := add(ctx, f, Key{JobType: jobType, Layout: share.Undivided}, 100)
				sinks = append(sinks, s)
				loaders.Go(func() { in.Load(ctx) })
			}
			f.Look(ctx)
			synctest.Wait()
			for jobType, s := range sinks {
				want := 0
				if jobType == due {
					want = 1
				}
				if s.InMemory() != want || s.backlog.Behind() {
					t.Errorf("%s: type %d: %d rows in memory, behind: %v", c.what, jobType, s.InMemory(), s.backlog.Behind())
				}
			}
			if n := table.few.Load() + table.pages.Load() + table.wild.Load(); n != c.statements {
				t.Errorf("%s: %d statements for %d types, want %d", c.what, n, types, c.statements)
			}
			stop()
			loaders.Wait()
		})
	}
}

func TestAFirstLookThatFailsIsRepeatedWhileALeaseHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &failing{looks: 5, pagedTable: pagedTable{rows: []store.Row{{ID: 1}}}}
		f := finderOn(t, table)
		in, s := add(t.Context(), f, Key{Layout: share.Undivided}, 10)
		f.Look(t.Context())
		if s.InMemory() != 1 {
			t.Error("the row is not in memory")
		}
		in.End()
		in, _ = add(t.Context(), f, Key{Layout: share.Undivided}, 10)
		table.looks = 5
		time.AfterFunc(1500*time.Millisecond, in.End)
		f.Look(t.Context())
		if table.looks < 2 {
			t.Errorf("a look went on after the lease was over: %d left of 5", table.looks)
		}
	})
}

// A row that came after the start of the process, and is dated earlier than what is left alone ends, may be the first of its key in an ordered
// type. Then all jobs of the key wait for it.
func TestAMomentIsEnoughToFindALaterRowAmongFewThatAreLeftAlone(t *testing.T) {
	const since = 1000
	synctest.Test(t, func(t *testing.T) {
		table := &pagedTable{rows: []store.Row{{ID: 1, StartTime: since - 200}, {ID: 9, StartTime: since - 100}, {ID: 8, StartTime: since + 100}}}
		ctx, stop := context.WithCancel(t.Context())
		f := finderOn(t, table)
		in, s := add(ctx, f, Key{Layout: share.Undivided}, 10) // the lease comes when the rows are there: the tail does not bring them
		in.backlog.UpTo = 1
		in.backlog.since.Store(since)
		var loader sync.WaitGroup
		loader.Go(func() { in.Load(ctx) })
		in.backlog.Fell()
		time.Sleep(5 * time.Second)
		if in.backlog.LeftAlone() != 1 || s.Knows(1) || !s.Knows(8) || !s.Knows(9) {
			t.Errorf("%d are left alone, and in memory are %v", in.backlog.LeftAlone(), s.rows)
		}
		stop()
		loader.Wait()
	})
}

// A later row may even be dated earlier than all that is left alone. It runs at once, and the others are left alone, counted, and read once: the
// sweep, which would read them each second, leaves the type to the loader.
func TestALaterRowThatIsDatedEarliestRunsAtOnceAndHidesNoneThatAreLeftAlone(t *testing.T) {
	const since, old = 10_000, 3000
	for name, later := range map[string][]store.Row{
		"one":      {{ID: 9001, StartTime: since - 5000}},
		"several":  {{ID: 9001, StartTime: since - 5000}, {ID: 9002, StartTime: since - 4500}},
		"of ours":  {{ID: 9001, StartTime: since + 100}},
		"of today": {{ID: 9001, StartTime: since - 5000}, {ID: 9002, StartTime: since + 100}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := &pagedTable{}
				for id := range uint64(old) {
					table.rows = append(table.rows, store.Row{ID: id + 1, StartTime: since - 4000 + int64(id)})
				}
				table.rows = append(table.rows, later...)
				slices.SortFunc(table.rows, func(a, b store.Row) int { return cmp.Compare(a.StartTime, b.StartTime) })
				ctx, stop := context.WithCancel(t.Context())
				f := finderOn(t, table)
				in, s := add(ctx, f, Key{Layout: share.Undivided}, 10_000)
				in.backlog.UpTo = old
				in.backlog.since.Store(since)
				var loader sync.WaitGroup
				loader.Go(func() { in.Load(ctx) })
				in.backlog.Fell()
				time.Sleep(time.Second)
				for _, row := range later {
					if !s.Knows(row.ID) {
						t.Errorf("row %d is not in memory after a second", row.ID)
					}
				}
				if n := s.InMemory(); n != len(later) {
					t.Errorf("%d rows are in memory, want %d", n, len(later))
				}
				if n := in.backlog.LeftAlone(); n != old || !in.backlog.Behind() {
					t.Errorf("%d are left alone, want %d; the sweep has the type: %v", n, old, !in.backlog.Behind())
				}
				time.Sleep(4 * time.Minute)
				if n := table.brought.Load(); n > 2*old {
					t.Errorf("%d rows are read in four minutes, %d are left alone", n, old)
				}
				stop()
				loader.Wait()
			})
		})
	}
}

// If the newest row is deleted, the tail cannot tell that from a table that was emptied: what waits in memory is forgotten. A long backlog must
// not keep these rows waiting for its next round.
func TestWhatIsForgottenBecauseTheIdsMayBeginAnewIsLoadedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := finderOn(t, &pagedTable{rows: manyRows(5000, 1)})
		f.tail.above.Store(9000)
		in, s := add(ctx, f, Key{Layout: share.Undivided}, 100)
		var loader sync.WaitGroup
		loader.Go(func() { in.Load(ctx) })
		defer loader.Wait()
		defer stop()
		roomCame := make(chan struct{}, 1)
		in.backlog.RoomCame = roomCame
		in.backlog.Fell()
		for range 10 { // what was in memory runs
			time.Sleep(time.Second)
			synctest.Wait()
			s.Forget()
			roomCame <- struct{}{}
		}
		time.Sleep(time.Second)
		if s.Knows(2) || s.InMemory() != 100 {
			t.Fatalf("%d rows are in memory; the loader is to be at work far behind the first one", s.InMemory())
		}
		if err := f.beginAnew(f.intakes(), 9000); err != nil {
			t.Fatal(err)
		}
		roomCame <- struct{}{}
		time.Sleep(time.Second)
		if !s.Knows(2) {
			t.Error("the loader goes on where it was")
		}
	})
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

func TestALookThatFailsKeepsNoReadUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := finderOn(t, &failing{looks: 30})
		ctx, stop := context.WithCancel(t.Context())
		in, _ := add(ctx, f, Key{Layout: share.Undivided}, 10)
		var loader sync.WaitGroup
		loader.Go(func() { in.Load(ctx) })
		in.backlog.Ask()
		time.Sleep(5 * time.Second)
		before, _ := f.reads.Span()
		time.Sleep(5 * time.Second)
		if _, oldest := f.reads.Span(); before == 0 || oldest <= before {
			t.Errorf("of %d reads that began five seconds ago, read %d is under way", before, oldest)
		}
		stop()
		loader.Wait()
	})
}
