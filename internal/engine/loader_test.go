package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// backlog is a table of pending rows that only the loader looks at.
type pagedTable struct {
	Jobs
	rows  []store.Row
	more  bool         // than one look brings
	few   atomic.Int64 // short looks
	wild  atomic.Int64 // looks for priorities that somebody made up
	pages atomic.Int64 // long ones

	settles int // below 0: no outcome finds its row
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

func (b *pagedTable) TamePriorities(context.Context, []int32) error {
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
			if row.JobType == jobType && row.Priority == place.Priority && place.Status == 0 && place.Start == store.AtOnce && row.ID > place.ID && len(pages[i]) < limit {
				pages[i] = append(pages[i], row)
			}
		}
	}
	return pages, nil
}

func (b *pagedTable) Abandoned(_ context.Context, _ int32, lane store.Lane, _ int64, _ uint64) (store.Place, int, error) {
	return store.Place{Lane: lane, ID: 1}, 1, nil
}

// loading has a line load under a lease until stop is called, which waits for the end.
func loading(t *testing.T, l *line) (ctx context.Context, taken *keeper.Lease, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	taken = keeper.Unending(ctx, keeper.Want{Name: "job-0", Lock: time.Minute}, 7)
	l.hold(taken)
	over := make(chan struct{})
	go func() {
		defer close(over)
		newLoader(l, taken).loop(ctx)
	}()
	return ctx, taken, func() {
		cancel()
		<-over
	}
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
			l.backlog.upTo = 1
			l.backlog.since.Store(since)
			ctx, taken, stop := loading(t, l)
			d := &database{tables: Tables{Jobs: table}, errlog: l.errlog}
			d.firstLook(ctx, heldLines{{l, taken}})
			time.Sleep(10 * time.Second) // virtual
			synctest.Wait()
			if got := l.queue.inMemory(); got != c.inMemory {
				t.Errorf("%s: %d rows in memory, want %d", c.name, got, c.inMemory)
			}
			if table.wild.Load() != 1 {
				t.Errorf("%s: %d looks for priorities that nobody knows", c.name, table.wild.Load())
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
		})
	}
}

func TestTypesThatAreTakenTogetherShareTheFirstLook(t *testing.T) {
	const types, due = 50, 7
	synctest.Test(t, func(t *testing.T) {
		table := &pagedTable{rows: []store.Row{{ID: 1, JobType: due}}}
		d := &database{tables: Tables{Jobs: table}}
		ctx, stop := context.WithCancel(t.Context())
		var lines heldLines
		var loaders sync.WaitGroup
		for jobType := range int32(types) {
			l := lineOf(10)
			l.cfg.JobType, l.jobs, l.reads, l.roomCame = jobType, table, &reads{}, make(chan struct{}, 1)
			taken := keeper.Unending(ctx, keeper.Want{Name: fmt.Sprintf("job-%d", jobType), Lock: time.Minute}, 7)
			l.hold(taken)
			loaders.Go(func() { newLoader(l, taken).loop(ctx) })
			d.errlog = l.errlog
			lines = append(lines, held{l, taken})
		}
		d.firstLook(ctx, lines)
		synctest.Wait()
		for _, h := range lines {
			want := 0
			if h.cfg.JobType == due {
				want = 1
			}
			if h.queue.inMemory() != want || h.backlog.behind.Load() {
				t.Errorf("type %d: %d rows in memory, behind: %v", h.cfg.JobType, h.queue.inMemory(), h.backlog.behind.Load())
			}
		}
		if statements := table.few.Load() + table.pages.Load() + table.wild.Load(); statements != 2 {
			t.Errorf("%d statements for %d types", statements, types)
		}
		stop()
		loaders.Wait()
	})
}

func TestAFirstLookThatFailsIsRepeatedWhileALeaseHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &failing{looks: 5, pagedTable: pagedTable{rows: []store.Row{{ID: 1}}}}
		l := lineOf(10)
		l.jobs, l.reads = table, &reads{}
		taken := keeper.Unending(t.Context(), keeper.Want{Name: "job-0", Lock: time.Minute}, 7)
		l.hold(taken)
		d := &database{tables: Tables{Jobs: table}, errlog: l.errlog}
		d.firstLook(t.Context(), heldLines{{l, taken}})
		if l.queue.inMemory() != 1 {
			t.Error("the row is not in memory")
		}
		table.looks = 5
		time.AfterFunc(1500*time.Millisecond, func() { l.held.Store(nil) })
		d.firstLook(t.Context(), heldLines{{l, taken}})
		if table.looks < 2 {
			t.Errorf("a look went on after the lease was over: %d left of 5", table.looks)
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

func TestALookThatFailsKeepsNoJobOfAnotherTypeFromBeingForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all reads
		l := lineOf(10)
		l.jobs, l.reads, l.roomCame, l.cfg.LoadLimit = &failing{looks: 30}, &all, make(chan struct{}, 1), 10
		ground.Signal(l.backlog.wake)
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

// A row that is added after the start with an old start time stands among the rows that FirstPullDay leaves alone.
func TestARoundGoesOverAbandonedRowsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lane := store.Lanes()[0]
		behind := store.Place{Lane: lane, StartTime: 1000, ID: 7}
		rounds, whole := []round{roundFrom(behind)}, 0
		const span = time.Hour
		for began := time.Now(); time.Since(began) < span; time.Sleep(sweepEvery) {
			if todo, _ := unfinished(rounds, time.Now()); len(todo) > 0 {
				if todo[0].at != behind && todo[0].at != firstOf(lane) {
					t.Fatalf("a round from %+v", todo[0].at)
				}
				if todo[0].at == firstOf(lane) {
					whole++
				}
				todo[0].at, todo[0].ended = store.Place{Lane: lane, StartTime: 5000}, time.Now()
			}
		}
		if most := int(span / wholeEvery); whole < most-1 || whole > most {
			t.Errorf("%d rounds with abandoned rows in an hour", whole)
		}
	})
}

// longBacklog is a line whose backlog is longer than its queue, so the next round of the lane may be hours away.
type longBacklog struct {
	*line
	table *pagedTable
	lease *keeper.Lease
	first uint64 // row
}

// onLongBacklog runs a test in virtual time beside a loader. The first row bears this term.
func onLongBacklog(t *testing.T, term int64, test func(t *testing.T, b *longBacklog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const room = 10
		table := &pagedTable{rows: manyRows(100*room, 1000), more: true}
		table.rows[0].Term = term
		b := &longBacklog{line: lineOf(room), table: table, first: table.rows[0].ID}
		b.jobs, b.reads, b.roomCame, b.cfg.LoadLimit = table, &reads{}, make(chan struct{}, 1), room
		b.about = t.Context()
		_, lease, stop := loading(t, b.line)
		b.lease = lease
		test(t, b)
		stop()
	})
}

// goOn has the jobs in memory end, and those behind them be loaded.
func (b *longBacklog) goOn() {
	time.Sleep(2 * time.Second) // virtual
	synctest.Wait()
	b.table.rows = slices.DeleteFunc(b.table.rows, func(row store.Row) bool { return b.queue.knows(row.ID) })
	b.queue.clear()
	ground.Signal(b.roomCame)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// takeOut takes the first row out of the queue for a mark, and brings the loader past it.
func (b *longBacklog) takeOut(t *testing.T) *task {
	t.Helper()
	b.backlog.fell()
	time.Sleep(time.Second)
	synctest.Wait()
	picked, _ := b.queue.pick(b.clock.Now(), 1, 1)
	if len(picked) != 1 || picked[0].ID != b.first {
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
		b.heedRemains(remains{terms: []int64{theirs}})
		b.backlog.fell()
		b.goOn()
		if b.queue.knows(b.first) || b.queue.inMemory() == 0 {
			t.Errorf("%d rows in memory; one of them runs elsewhere: %v", b.queue.inMemory(), b.queue.knows(b.first))
		}
		b.heedRemains(remains{}) // its holder is gone
		pages := b.table.pages.Load()
		b.goOn()
		if !b.queue.knows(b.first) {
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
		b.heedRemains(remains{terms: []int64{theirs}})
		b.backlog.fell()
		b.goOn()
		b.table.rows[0].Term = 0
		for began := time.Now(); !b.queue.knows(b.first); b.goOn() {
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
			b.passedOver(b.lease, []*task{first})
		},
		"its mark was taken back": func(t *testing.T, b *longBacklog, first *task) {
			first.run = &run{lease: b.lease}
			b.settler.undo(b.lease, first)
			b.settler.write(t.Context(), b.settler.take())
		},
		"an earlier sending has taken its mark back": func(t *testing.T, b *longBacklog, first *task) {
			first.run = &run{lease: b.lease}
			b.table.settles = -1
			b.settler.handBack(b.lease, first)
			b.settler.write(t.Context(), b.settler.take())
		},
		"whoever was cut off has taken its mark back, and its loss does not count": func(t *testing.T, b *longBacklog, first *task) {
			b.table.settles = -1
			b.settler.failLost(first, b.lease)
			b.settler.write(t.Context(), b.settler.take())
		},
		"an earlier line of the type had it": func(_ *testing.T, b *longBacklog, first *task) {
			b.queue.forget(first)
			earlier := lineOf(1)
			earlier.queue.register(&task{Row: first.Row})
			b.remains.Store(&remains{lines: []*line{earlier}})
			row := first.Row
			row.Term = 3
			b.offer(b.lease, &row)
			b.remains.Store(&remains{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLongBacklog(t, 0, func(t *testing.T, b *longBacklog) {
				leaves(t, b, b.takeOut(t))
				for began := time.Now(); !b.queue.knows(b.first); b.goOn() {
					if time.Since(began) > 2*letGoEvery {
						t.Fatal("it waits for the next round of its lane")
					}
				}
			})
		})
	}
}
