package pipeline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// pagedTable is a table of pending rows that only a loader looks at.
type pagedTable struct {
	Jobs
	find.Tables
	rows    []store.Row
	pages   atomic.Int64 // statements
	settles int          // below 0: no outcome finds its row
}

func (b *pagedTable) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	return max(0, len(ids)+b.settles*len(ids)), nil
}

func (b *pagedTable) LogAttempts(context.Context, []store.Attempt) error { return nil }

func (b *pagedTable) Standings(_ context.Context, ids []uint64) (standings []store.Standing, err error) {
	for _, row := range b.rows {
		if slices.Contains(ids, row.ID) {
			standings = append(standings, store.Standing{ID: row.ID, Status: int32(row.Status), Version: row.Version()})
		}
	}
	return standings, nil
}

func (*pagedTable) SweepAll(context.Context, []int32, int64, int) (rows []store.Row, more bool, err error) {
	return nil, true, nil
}

func (b *pagedTable) Page(_ context.Context, jobType int32, _ store.Shard, places []store.Place, _ int64, limit int) ([][]store.Row, error) {
	b.pages.Add(1)
	pages := make([][]store.Row, len(places))
	for i, place := range places {
		for _, row := range b.rows {
			if row.JobType == jobType && row.Priority == place.Priority && place.Status == 0 && place.Start == store.AtOnce && row.ID > place.ID && len(pages[i]) < limit {
				pages[i] = append(pages[i], row)
			}
		}
	}
	return pages, nil
}

func manyRows(n int, created int64) (rows []store.Row) {
	for i := range n {
		rows = append(rows, store.Row{ID: uint64(i + 2), CreateTime: created})
	}
	return rows
}

// longBacklog is a line whose backlog is longer than its queue, so the next round of the lane may be hours away.
type longBacklog struct {
	*Line
	table *pagedTable
	lease *keeper.Lease
	first uint64 // row
}

// onLongBacklog runs a test in virtual time beside a loader. The first row bears this term.
func onLongBacklog(t *testing.T, term int64, test func(t *testing.T, b *longBacklog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const room = 10
		table := &pagedTable{rows: manyRows(100*room, 1000)}
		table.rows[0].Term = term
		b := &longBacklog{Line: lineOf(room), table: table, first: table.rows[0].ID}
		b.process.Jobs, b.part.about = table, t.Context()
		backlog := b.backlog.(*find.Backlog)
		backlog.PageRows, backlog.RoomCame = room, b.RoomCame
		finder := find.New(find.Process{Tables: table, Errlog: b.process.Errlog}, &find.Reads{}, 0)
		ctx, stop := context.WithCancel(t.Context())
		b.lease = keeper.Unending(ctx, keeper.Want{Name: "job-0", Lock: time.Minute}, 7)
		in := finder.Add(find.Key{Layout: share.Undivided}, ctx, b.Hold(b.lease), backlog)
		var loader sync.WaitGroup
		loader.Go(func() { in.Load(ctx) })
		test(t, b)
		stop()
		loader.Wait()
	})
}

// goOn has the jobs in memory end, and those behind them be loaded.
func (b *longBacklog) goOn() {
	time.Sleep(2 * time.Second) // virtual
	synctest.Wait()
	b.table.rows = slices.DeleteFunc(b.table.rows, func(row store.Row) bool { return b.queue.Knows(row.ID) })
	b.queue.Forget()
	ground.Signal(b.RoomCame)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// takeOut takes the first row out of the queue for a mark, and brings the loader past it.
func (b *longBacklog) takeOut(t *testing.T) *task {
	t.Helper()
	b.backlog.Fell()
	time.Sleep(time.Second)
	synctest.Wait()
	picked, _ := b.queue.pick(b.process.Clock.Now(), 0, 1, 1)
	if len(picked) != 1 || picked[0].row.ID != b.first {
		t.Fatalf("picked %v", picked)
	}
	row := b.table.rows[0]
	b.goOn()
	b.table.rows = slices.Insert(b.table.rows, 0, row)
	return picked[0]
}

func TestRowsThatWerePassedOverAreLoadedWhenTheirHolderIsGone(t *testing.T) {
	const theirs = 5
	onLongBacklog(t, theirs, func(t *testing.T, b *longBacklog) {
		b.Heed(Remains{Terms: []int64{theirs}})
		b.backlog.Fell()
		b.goOn()
		if b.queue.Knows(b.first) || b.queue.InMemory() == 0 {
			t.Errorf("%d rows in memory; one of them runs elsewhere: %v", b.queue.InMemory(), b.queue.Knows(b.first))
		}
		b.Heed(Remains{}) // its holder is gone
		pages := b.table.pages.Load()
		b.goOn()
		if !b.queue.Knows(b.first) {
			t.Error("a row that was passed over waits for the next round of its lane")
		}
		b.goOn()
		if n := b.table.pages.Load() - pages; n > 20 {
			t.Errorf("%d statements for pages", n)
		}
	})
}

// The holder before could not take a mark back at once (a lock, a broken connection), and still runs another job.
func TestARowWhoseMarkIsTakenBackUnderARestDoesNotWaitForTheEndOfTheRest(t *testing.T) {
	const theirs = 5
	onLongBacklog(t, theirs, func(t *testing.T, b *longBacklog) {
		b.Heed(Remains{Terms: []int64{theirs}})
		b.backlog.Fell()
		b.goOn()
		b.table.rows[0].Term = 0
		for began := time.Now(); !b.queue.Knows(b.first); b.goOn() {
			if time.Since(began) > 20*time.Second {
				t.Fatal("it waits for the next round of its lane")
			}
		}
		pages := b.table.pages.Load()
		const hour = 3600 / 4
		for range hour {
			b.goOn()
		}
		if n := b.table.pages.Load() - pages; n > hour+20 {
			t.Errorf("%d statements for pages in an hour", n)
		}
	})
}

func TestARowThatLeavesTheMemoryAndIsToRunDoesNotWaitForTheEndOfTheBacklog(t *testing.T) {
	for name, leaves := range map[string]func(t *testing.T, b *longBacklog, first *task){
		"somebody has changed it": func(_ *testing.T, b *longBacklog, first *task) {
			b.table.rows[0].Changes++
			b.marker.passedOver(b.lease, []*task{first})
		},
		"its mark was taken back": func(t *testing.T, b *longBacklog, first *task) {
			first.run = &run{lease: b.lease}
			b.settler.undo(b.lease, first)
			b.settler.write(t.Context(), b.settler.taken())
		},
		"an earlier sending has taken its mark back": func(t *testing.T, b *longBacklog, first *task) {
			first.run = &run{lease: b.lease}
			b.table.settles = -1
			b.settler.handBack(b.lease, first)
			b.settler.write(t.Context(), b.settler.taken())
		},
		"whoever was cut off has taken its mark back, and its loss does not count": func(t *testing.T, b *longBacklog, first *task) {
			b.table.settles = -1
			b.settler.failLost(first, b.lease)
			b.settler.write(t.Context(), b.settler.taken())
		},
		"an earlier line of the type had it": func(_ *testing.T, b *longBacklog, first *task) {
			b.queue.forget(first)
			earlier := lineOf(1)
			earlier.queue.register(&task{row: first.row})
			b.remains.Store(&Remains{Lines: []*Line{earlier}})
			row := first.row
			row.Term = 3
			b.offer(b.lease, &row)
			b.remains.Store(&Remains{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLongBacklog(t, 0, func(t *testing.T, b *longBacklog) {
				leaves(t, b, b.takeOut(t))
				for began := time.Now(); !b.queue.Knows(b.first); b.goOn() {
					if time.Since(began) > 10*time.Second {
						t.Fatal("it waits for the next round of its lane")
					}
				}
			})
		})
	}
}
