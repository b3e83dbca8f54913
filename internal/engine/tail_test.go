package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
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
	Jobs
	types []int32
}

func (j *tailed) Tail(_ context.Context, _ uint64, _ []store.Gap, wanted []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	j.types = wanted[0].Types
	return nil, nil
}

func (*tailed) Newest(context.Context) (uint64, float64, error) { return 0, 1_700_000_000, nil }

// notStarted opens a database for some job types and starts none of its loops.
func notStarted(t *testing.T, jobs Jobs, jobTypes ...int32) *database {
	t.Helper()
	var configs []queue_job.Config
	for _, jobType := range jobTypes {
		configs = append(configs, queue_job.Config{JobType: jobType, WorkerPoolCapacity: 1, WorkerExpirySecond: 1, QueueMaxSize: 9, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
	}
	open := func(context.Context, queue_job.Config) (Tables, error) {
		return Tables{Jobs: jobs, Close: func() {}}, nil
	}
	d, err := openDatabase(t.Context(), open, configs, silent{}, nil, nil, listeners{}, which{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.pools.release(true) })
	return d
}

// A driver that prepares statements knows them by their text: types in another order are another statement.
func TestTheTailAsksForItsTypesInTheirOrderHoweverTheyWereConfigured(t *testing.T) {
	jobs := &tailed{}
	d := notStarted(t, jobs, 7, -3, 90, 12, 0)
	for _, l := range d.lines.all() {
		l.held.Store(leaseIn(t))
	}
	if _, err := d.poll(d.heldLines(), false); err != nil || !slices.Equal(jobs.types, []int32{-3, 0, 7, 12, 90}) {
		t.Fatal(jobs.types, err)
	}
	for _, jobType := range jobs.types {
		if h := d.heldLines().of(&store.Row{JobType: jobType}); h == nil || h.cfg.JobType != jobType {
			t.Errorf("no line of type %d", jobType)
		}
	}
	if d.heldLines().of(&store.Row{JobType: 8}) != nil {
		t.Error("a line of a type that nobody has")
	}
}

// stretch is a table of which the tail sees these rows, and that counts the looks at it.
type stretch struct {
	Jobs
	rows                  []store.TailRow
	withTypes, withoutAny int
}

func (s *stretch) Newest(context.Context) (uint64, float64, error) { return 0, 0, nil }

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
		l := lineOf(10)
		l.cfg.JobType = own
		l.held.Store(leaseIn(t))
		d := &database{tables: Tables{Jobs: table}, lines: linesOf(l), tail: tail{born: 100}}
		d.tail.above.Store(c.above)
		found, err := d.poll(d.heldLines(), true)
		if err != nil || found != c.found || d.tail.above.Load() != c.then {
			t.Errorf("%s: found %v, above %d, %v", c.what, found, d.tail.above.Load(), err)
		}
		if table.withoutAny != 1 || (table.withTypes == 1) != c.twice {
			t.Errorf("%s: %d looks that name no type, %d that name some", c.what, table.withoutAny, table.withTypes)
		}
	}
}

// crowded is a table that notes what the tail asks for, and has these rows.
type crowded struct {
	Jobs
	rows  []store.TailRow
	asked []string
}

func (c *crowded) Newest(context.Context) (uint64, float64, error) { return 0, 0, nil }

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
	add := func(n int, jobType int32) {
		for range n {
			table.rows = append(table.rows, store.TailRow{Row: store.Row{ID: uint64(len(table.rows) + 1), JobType: jobType, CreateTime: 100, Params: "{}"}})
		}
	}
	l := lineOf(1000)
	l.cfg.JobType = own
	l.held.Store(leaseIn(t))
	d := &database{tables: Tables{Jobs: table}, lines: linesOf(l)}
	poll := func(want ...string) {
		t.Helper()
		table.asked = nil
		if _, err := d.poll(d.heldLines(), false); err != nil || !slices.Equal(table.asked, want) {
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
	if rests := d.tail.rests(); rests != 10*time.Second {
		t.Errorf("among many foreign rows, it rests after %v", rests)
	}
	poll("taken from 107, in []") // many were foreign; none came
	if rests := d.tail.rests(); rests != time.Minute {
		t.Errorf("among few, it rests after %v", rests)
	}
	poll("rows from 107, in []")
	if n := l.queue.inMemory(); n != 6 {
		t.Errorf("%d rows are in the queue, want 6", n)
	}
	if above := d.tail.above.Load(); above != 107 {
		t.Errorf("the newest row is %d", above)
	}
	tasks, _ := l.queue.pick(1<<60, 9, 9)
	for _, task := range tasks {
		if task.Params == "" {
			t.Errorf("job %d has no parameters", task.ID)
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

// unnoticed is a database whose statements take a while. A job of type 2 is committed while the tail's statement is under way, and
// the tail's answer says no more than that its id is taken.
type unnoticed struct {
	vanishing
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

func (u *unnoticed) Newest(ctx context.Context) (uint64, float64, error) {
	u.takes("Newest")
	_, now, err := u.vanishing.Newest(ctx)
	if u.committed.Load() {
		return 7, now, err
	}
	return 6, now, err
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

func TestAJobThatComesBetweenTheFirstLookAndTheTailIsFoundAtOnce(t *testing.T) {
	for during, heldBefore := range map[string][]int32{"Newest": nil, "Tail": {1}} {
		t.Run(during, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &unnoticed{beforeCommit: func() {}}
				d := notStarted(t, u, 1, 2) // asks for the newest, too
				u.during = during
				hold := func(jobType int32) {
					l := d.lines.all()[jobType-1]
					l.held.Store(leaseIn(t))
					d.firstLook(t.Context(), heldLines{{l, l.held.Load()}})
					ground.Signal(d.tail.wake)
				}
				if len(heldBefore) > 0 {
					u.beforeCommit = func() { hold(2) }
					hold(1)
				} else {
					hold(2)
				}
				ctx, stop := context.WithCancel(t.Context())
				d.loops.Go(func() { d.follow(ctx) })
				time.Sleep(200 * time.Millisecond) // no sweep runs here
				if !d.lines.all()[1].queue.knows(7) {
					t.Error("the job waits for a sweep")
				}
				stop()
				d.loops.Wait()
			})
		})
	}
}
