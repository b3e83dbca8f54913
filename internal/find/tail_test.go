package find

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

func TestTheTailNoticesThatTheIdsBeginAnew(t *testing.T) {
	row := func(id uint64, born int64) store.TailRow {
		return store.TailRow{Row: store.Row{ID: id, CreateTime: born}}
	}
	full := make([]store.TailRow, tailRowsMax)
	for _, c := range []struct {
		what  string
		above uint64
		born  int64
		rows  []store.TailRow
		same  bool
	}{
		{"an empty table from the beginning", 0, 0, nil, true},
		{"the newest row is there", 7, 100, []store.TailRow{row(7, 100)}, true},
		{"and newer ones", 7, 100, []store.TailRow{row(7, 100), row(8, 101)}, true},
		{"nobody has looked at it before", 7, 0, []store.TailRow{row(7, 100)}, true},
		{"it was deleted, and there are newer ones", 7, 100, []store.TailRow{row(8, 101)}, true},
		{"so many gaps were filled that it is not among them", 7, 100, full, true},
		{"nothing is there", 7, 100, nil, false},
		{"only what filled a gap", 7, 100, []store.TailRow{row(3, 100)}, false},
		{"another job has its id", 7, 100, []store.TailRow{row(7, 105)}, false},
	} {
		if same := (&tail{born: c.born}).sameTable(c.above, c.rows); same != c.same {
			t.Errorf("%s: %t", c.what, same)
		}
	}
}

// tailed notes which types the tail asks for.
type tailed struct {
	Tables
	types []int32
}

func (j *tailed) Tail(_ context.Context, _ uint64, _ []store.Gap, wanted []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	j.types = wanted[0].Types
	return nil, nil
}

// A driver that prepares statements knows them by their text: types in another order are another statement.
func TestTheTailAsksForItsTypesInTheirOrderHoweverTheyWereAdded(t *testing.T) {
	jobs := &tailed{}
	f := finderOn(t, jobs)
	for _, jobType := range []int32{7, -3, 90, 12, 0} {
		add(t.Context(), f, Key{JobType: jobType, Layout: share.Undivided}, 9)
	}
	if _, err := f.poll(f.intakes(), false); err != nil || !slices.Equal(jobs.types, []int32{-3, 0, 7, 12, 90}) {
		t.Fatal(jobs.types, err)
	}
}

// stretch is a table of which the tail sees these rows, and that counts the looks at it.
type stretch struct {
	Tables
	rows                  []store.TailRow
	withTypes, withoutAny int
}

func (s *stretch) Tail(_ context.Context, _ uint64, _ []store.Gap, wanted []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	if len(wanted) == 0 {
		s.withoutAny++
	} else {
		s.withTypes++
	}
	return s.rows, nil
}

func TestAQuietTailHurriesForRowsOfItsOwnTypesOnly(t *testing.T) {
	const own, foreign = 1, 2
	row := func(id uint64, jobType int32) store.TailRow {
		return store.TailRow{Row: store.Row{ID: id, JobType: jobType, CreateTime: 100}}
	}
	for _, c := range []struct {
		what  string
		above uint64
		rows  []store.TailRow
		twice bool // the second look names the types
		found bool
		then  uint64
	}{
		{what: "the newest is there", above: 7, rows: []store.TailRow{row(7, own)}, then: 7},
		{what: "the table was empty, and is"},
		{what: "one came", above: 7, rows: []store.TailRow{row(7, own), row(8, own)}, twice: true, found: true, then: 8},
		{what: "one of another type came", above: 7, rows: []store.TailRow{row(7, own), row(8, foreign)}, then: 8},
		{what: "a gap was filled", above: 7, rows: []store.TailRow{row(5, own), row(7, own)}, twice: true, found: true, then: 7},
		{what: "a gap was filled by another type", above: 7, rows: []store.TailRow{row(5, foreign), row(7, own)}, then: 7},
		{what: "the first came", rows: []store.TailRow{row(1, own)}, twice: true, found: true, then: 1},
		{what: "others come faster than a look brings", above: 7, rows: slices.Repeat([]store.TailRow{row(9, foreign)}, tailRowsMax), found: true, then: 9},
		{what: "the newest was deleted", above: 7, found: true},
		{what: "the newest was deleted, and one of another type came", above: 7, rows: []store.TailRow{row(8, foreign)}, then: 8},
		{what: "the table was truncated, and its ids have come as far", above: 7,
			rows: []store.TailRow{{Row: store.Row{ID: 7, JobType: own, CreateTime: 101}}}, found: true},
	} {
		table := &stretch{rows: c.rows}
		f := finderOn(t, table)
		add(t.Context(), f, Key{JobType: own, Layout: share.Undivided}, 10)
		f.tail.above.Store(c.above)
		f.tail.born = 100
		found, err := f.poll(f.intakes(), true)
		if err != nil || found != c.found || f.tail.above.Load() != c.then {
			t.Errorf("%s: found %v, above %d, %v", c.what, found, f.tail.above.Load(), err)
		}
		if table.withoutAny != 1 || (table.withTypes == 1) != c.twice {
			t.Errorf("%s: %d looks that name no type, %d that name some", c.what, table.withoutAny, table.withTypes)
		}
	}
}

// crowded is a table that notes what the tail asks for, and has these rows.
type crowded struct {
	Tables
	rows  []store.TailRow
	asked []string
}

func (c *crowded) Tail(_ context.Context, from uint64, gaps []store.Gap, wanted []store.Wanted, _ int64, limit int) (rows []store.TailRow, err error) {
	what := "taken"
	if len(wanted) > 0 {
		what = "rows"
	}
	c.asked = append(c.asked, fmt.Sprintf("%s from %d, in %v", what, from, gaps))
	for _, row := range c.rows {
		in := func(gap store.Gap) bool { return gap.From <= row.ID && row.ID <= gap.To }
		if row.ID < from && !slices.ContainsFunc(gaps, in) {
			continue
		}
		if row.Whole = len(wanted) > 0 && slices.Contains(wanted[0].Types, row.JobType); !row.Whole {
			row.Params = ""
		}
		rows = append(rows, row)
	}
	return rows[:min(len(rows), limit)], nil
}

func TestATailAmongManyForeignRowsReadsItsOwnOnly(t *testing.T) {
	const own, foreign = 1, 2
	table := &crowded{}
	f := finderOn(t, table)
	_, sink := add(t.Context(), f, Key{JobType: own, Layout: share.Undivided}, 1000)
	add := func(n int, jobType int32) {
		for range n {
			table.rows = append(table.rows, store.TailRow{Row: store.Row{ID: uint64(len(table.rows) + 1), JobType: jobType, CreateTime: 100, Params: "{}"}})
		}
	}
	poll := func(want ...string) {
		t.Helper()
		table.asked = nil
		if _, err := f.poll(f.intakes(), false); err != nil || !slices.Equal(table.asked, want) {
			t.Errorf("asked for %q, want %q; %v", table.asked, want, err)
		}
	}
	add(3, own)
	add(tailCrowd, foreign)
	poll("rows from 0, in []")
	add(tailCrowd+1, foreign)
	poll("rows from 35, in []") // few were foreign
	add(5, foreign)
	add(2, own) // 74 and 75
	add(30, foreign)
	add(1, own) // 106
	add(1, foreign)
	poll("taken from 68, in []", "rows from 106, in [{74 75}]")
	if rests := f.tail.restsAfter(); rests != 10*time.Second {
		t.Errorf("among many foreign rows, it rests after %v", rests)
	}
	poll("taken from 107, in []") // many were foreign; none came
	if rests := f.tail.restsAfter(); rests != time.Minute {
		t.Errorf("among few, it rests after %v", rests)
	}
	poll("rows from 107, in []")
	if n := sink.InMemory(); n != 6 {
		t.Errorf("%d rows are in the queue, want 6", n)
	}
	if above := f.tail.above.Load(); above != 107 {
		t.Errorf("the newest row is %d", above)
	}
	for id, row := range sink.rows {
		if row.Params == "" {
			t.Errorf("job %d has no parameters", id)
		}
	}
}

func TestRunsOfIdsAreAsFewAsAStatementTakes(t *testing.T) {
	if last, below := runs([]uint64{9}); last != 9 || len(below) > 0 {
		t.Error(last, below)
	}
	if last, below := runs([]uint64{2, 3, 4, 7, 9, 10}); last != 10 || !slices.Equal(below, []store.Gap{{From: 2, To: 4}, {From: 7, To: 7}, {From: 9, To: 9}}) {
		t.Error(last, below)
	}
	var odd []uint64
	for id := uint64(1); id < 4*gapsMax; id += 2 {
		odd = append(odd, id)
	}
	last, below := runs(odd)
	if want := (store.Gap{From: 2*gapsMax - 1, To: odd[len(odd)-2]}); len(below) != gapsMax || below[gapsMax-1] != want || last != odd[len(odd)-1] {
		t.Errorf("%d runs, the last one %v, want %v; then %d", len(below), below[len(below)-1], want, last)
	}
}

// unnoticed is a table whose statements take a while. A job of type 2 is committed while the tail's statement is under way, and the
// tail's answer says no more than that its id is taken.
type unnoticed struct {
	Tables
	during       string // the statement
	beforeCommit func() // happens right before the commit
	committed    atomic.Bool
	once         sync.Once
}

func (u *unnoticed) takes(statement string) {
	time.Sleep(10 * time.Millisecond)
	if statement == u.during {
		u.once.Do(func() { u.beforeCommit(); u.committed.Store(true) })
	}
	time.Sleep(10 * time.Millisecond)
}

func (u *unnoticed) newest(context.Context) (uint64, error) {
	u.takes("Newest")
	if u.committed.Load() {
		return 7, nil
	}
	return 6, nil
}

func (u *unnoticed) Tail(_ context.Context, above uint64, _ []store.Gap, _ []store.Wanted, _ int64, _ int) (rows []store.TailRow, err error) {
	u.takes("Tail")
	rows = append(rows, store.TailRow{Row: store.Row{ID: above}})
	if u.committed.Load() && above < 7 {
		rows = append(rows, store.TailRow{Row: store.Row{ID: 7, JobType: 2}})
	}
	return rows, nil
}

func (u *unnoticed) SweepAll(_ context.Context, types []int32, _ int64, _ int) (rows []store.Row, more bool, err error) {
	if u.committed.Load() && slices.Contains(types, 2) {
		rows = append(rows, store.Row{ID: 7, JobType: 2, CreateTime: time.Now().Unix(), MaxRetries: store.NotSet})
	}
	return rows, false, nil
}

func (*unnoticed) ClampPriorities(context.Context, []int32) error { return nil }

func TestAJobThatComesBetweenTheFirstLookAndTheTailIsFoundAtOnce(t *testing.T) {
	for during, heldBefore := range map[string]bool{"Newest": false, "Tail": true} {
		t.Run(during, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &unnoticed{during: during, beforeCommit: func() {}}
				f := finderOn(t, u)
				f.process.Newest = u.newest
				var loops sync.WaitGroup
				f.process.Go = func(look func()) { loops.Go(look) }
				var sink *shelf
				hold := func(jobType int32) {
					_, sink = add(t.Context(), f, Key{JobType: jobType, Layout: share.Undivided}, 9)
					f.Look(t.Context())
				}
				if heldBefore {
					u.beforeCommit = func() { hold(2) }
					hold(1)
				} else {
					hold(2)
				}
				ctx, stop := context.WithCancel(t.Context())
				loops.Go(func() { f.Follow(ctx) })
				time.Sleep(200 * time.Millisecond) // no sweep runs here
				stop()
				loops.Wait()
				if !sink.Knows(7) {
					t.Error("the job waits for a sweep")
				}
			})
		})
	}
}

// polled notes when it is asked.
type polled struct {
	Tables
	at []time.Time
}

func (p *polled) Tail(_ context.Context, above uint64, _ []store.Gap, _ []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	p.at = append(p.at, time.Now())
	return []store.TailRow{{Row: store.Row{ID: above}}}, nil
}

func (*polled) SweepAll(context.Context, []int32, int64, int) ([]store.Row, bool, error) {
	return nil, false, nil
}

func (*polled) ClampPriorities(context.Context, []int32) error { return nil }

func TestBetweenTwoPollsAreWholeMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &polled{}
		f := finderOn(t, p)
		f.process.Newest = func(context.Context) (uint64, error) { return 6, nil }
		add(t.Context(), f, Key{JobType: 1, Layout: share.Undivided}, 9)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		f.Follow(ctx)
		shortest, longest := time.Hour, time.Duration(0)
		for i := 1; i < len(p.at); i++ {
			pause := p.at[i].Sub(p.at[i-1])
			if pause%time.Millisecond != 0 {
				t.Errorf("poll %d comes %v after the one before", i, pause)
			}
			shortest, longest = min(shortest, pause), max(longest, pause)
		}
		if shortest != tailFast || longest != tailSlow {
			t.Errorf("pauses from %v to %v", shortest, longest)
		}
	})
}
