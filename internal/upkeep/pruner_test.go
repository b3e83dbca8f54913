package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// growing is a table that gets rows of type 1 at a steady rate. The jobs have ended when they are added.
type growing struct {
	every   time.Duration                                     // a row is added; 0: every second
	slow    time.Duration                                     // the time that the database takes for each row
	commit  time.Duration                                     // and for a commit
	archive func(context.Context, []queue_job.Archived) error // gets jobs before they are deleted
	fails   func() error                                      // of a statement that deletes; nil: none fails
	strays  int                                               // as often, attempts without a row are found behind a page
	stops   time.Duration                                     // then the first instance stops; 0: it does not

	mu      sync.Mutex
	began   time.Time
	gone    map[uint64]bool
	status  int32
	busy    time.Duration // deleting
	asked   []int         // for how many rows at once
	steps   []int         // how many rows each statement has deleted
	deleted map[int]int   // rows, in each minute since it began
	read    int           // rows
	turns   *turns
}

func (g *growing) List(_ context.Context, f record.Filter, _ int) (rows []record.Listed, err error) {
	for _, id := range f.IDs {
		rows = append(rows, record.Listed{Row: store.Row{ID: id, JobType: 1, Status: int16(g.status), MaxRetries: store.NotSet}})
	}
	return rows, nil
}

func (g *growing) AttemptsOf(context.Context, []uint64) ([]store.Attempt, error) { return nil, nil }

func (g *growing) StepsAndLogsOf(context.Context, []uint64) ([]store.Step, error) { return nil, nil }

func (g *growing) FindOld(_ context.Context, old record.Old, after uint64, limit int) (page record.OldPage, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, limit)
	newest := uint64(g.rows())
	for id := after + 1; id < newest && len(page.Rows) < limit; id++ {
		if g.gone[id] {
			continue
		}
		at := g.began.Add(time.Duration(id) * g.interval()).Unix()
		page.Rows = append(page.Rows, record.Aged{ID: id, JobType: 1, Status: g.status, Created: at, Written: at})
		if before, named := old.Before[g.status]; named && at < before && slices.Contains(old.Types, 1) {
			page.Old = append(page.Old, id)
		}
	}
	page.More = len(page.Rows) == limit
	g.read += len(page.Rows)
	return page, nil
}

func (g *growing) DeleteOld(ctx context.Context, _ record.Old, page record.OldPage, steps record.Steps) (d record.Deletion, err error) {
	if g.fails != nil {
		if err := g.fails(); err != nil {
			return d, err
		}
	}
	for ids := range slices.Chunk(page.Old, steps.Rows) {
		steps.Turn(ctx, len(ids), func(context.Context) error {
			took := time.Duration(len(ids)) * g.slow
			g.mu.Lock()
			for _, id := range ids {
				g.gone[id] = true
			}
			g.steps = append(g.steps, len(ids))
			g.deleted[int(time.Since(g.began)/time.Minute)] += len(ids)
			g.busy += took
			g.mu.Unlock()
			d.Rows += len(ids)
			d.Took += took
			time.Sleep(took)
			return nil
		})
	}
	time.Sleep(g.commit)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy += g.commit
	d.Strays = g.strays > 0
	return d, nil
}

// DeleteStrays finds one more, as often as the test says.
func (g *growing) DeleteStrays(context.Context, record.OldPage, record.Steps) (d record.Deletion, err error) {
	time.Sleep(time.Millisecond)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.strays--
	return record.Deletion{Strays: g.strays > 0}, nil
}

func (g *growing) Span(context.Context) (first, last uint64, err error) {
	return 1, uint64(g.rows()), nil
}

func (g *growing) rows() int { return int(time.Since(g.began) / g.interval()) }

func (g *growing) interval() time.Duration { return cmp.Or(g.every, time.Second) }

// retain has the pruners of some instances, which have types 1 and 2, work on the table for a time. The table is as old before.
func retain(t *testing.T, g *growing, instances int, times queue_job.Retention, span time.Duration) *told {
	t.Helper()
	g.gone, g.deleted, g.began = map[uint64]bool{}, map[int]int{}, time.Now().Add(-span)
	log := &told{}
	ctx, end := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	g.turns = newTurns()
	for i := range instances {
		b, of := baseOf(t, log)
		of.turns, of.types = g.turns, []queue_job.Config{{JobType: 1}, {JobType: 2}}
		of.hold(&fakeLine{jobType: 1}, 1)
		working := ctx
		if i == 0 && g.stops > 0 {
			var leave context.CancelFunc
			working, leave = context.WithTimeout(ctx, g.stops)
			defer leave()
		}
		loops.Go(func() { Pruner(b, g, times, g.archive).Run(working) })
		if g.stops > 0 {
			time.Sleep(retainFirst) // the first instance gets the lease
		}
	}
	time.Sleep(span)
	end()
	loops.Wait()
	return log
}

func TestRowsThatHaveOutlivedTheirTimeAreDeletedInSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &growing{status: 1, slow: 20 * time.Microsecond}
		log := retain(t, g, 3, queue_job.Retention{Done: time.Hour, Failed: time.Hour}, 5*time.Hour)
		newest := uint64(10 * 60 * 60)
		for id := range newest {
			old := uint64(newest-id) > 60*60+uint64(2*retainEvery/time.Second)
			young := newest-id <= 60*60
			if id > 0 && (old && !g.gone[id] || young && g.gone[id]) {
				t.Fatalf("row %d of %d: deleted %t", id, newest, g.gone[id])
			}
		}
		if most := slices.Max(g.steps); g.slow*time.Duration(most) > 2*calm.statement {
			t.Errorf("%d rows at once take %v", most, g.slow*time.Duration(most))
		}
		if most, last := slices.Max(g.asked), g.asked[len(g.asked)-1]; most > 125 || last > 3*slices.Max(g.steps) {
			t.Errorf("up to %d rows in a transaction, %d in the last one, and up to %d with a statement", most, last, slices.Max(g.steps))
		}
		walks := g.turns.taken["retain-1"]
		for i := range walks[1:] {
			if between := walks[i+1].Sub(walks[i]); between < retainEvery || between > retainEvery+2*retainAgain {
				t.Errorf("%v between rounds, of all instances together", between)
			}
		}
		if len(log.saying("rows deleted, as WithRetention says")) < 20 {
			t.Errorf("the log: %q", log.lines)
		}
	})
}

func TestDeletingTakesATwentiethOfTheTimeAndATenthIfThatIsTooLittle(t *testing.T) {
	for _, c := range []struct {
		slow        time.Duration // for each row; a row is added every second
		commit      time.Duration
		least, most float64
	}{
		{30 * time.Millisecond, 0, 0.04, 0.053},
		{100 * time.Millisecond, 0, 0.08, 0.105},
		{100 * time.Microsecond, 2 * time.Second, 0.04, 0.053},
	} {
		t.Run(fmt.Sprint(c.slow, c.commit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const span = 10 * time.Hour
				g := &growing{status: 1, slow: c.slow, commit: c.commit}
				retain(t, g, 1, queue_job.Retention{Done: time.Second}, span)
				if part := float64(g.busy) / float64(span); part < c.least || part > c.most {
					t.Errorf("%v, which is %.3f of the time", g.busy, part)
				}
				if last := g.steps[len(g.steps)-1]; last > retainLeast {
					t.Errorf("%d slow rows at once", last)
				}
			})
		})
	}
}

func TestACalmWalkDeletesALittleMoreThanIsAdded(t *testing.T) {
	for _, c := range []struct {
		every time.Duration // a row is added
		span  time.Duration
		want  float64 // rows a second are deleted
	}{
		{time.Second / 100, 20 * time.Minute, 500},
		{time.Second / 400, 5 * time.Minute, 500},
		{time.Second / 1000, 5 * time.Minute, 1100},
		{time.Second / 3000, 5 * time.Minute, 3300},
	} {
		t.Run(fmt.Sprint(c.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &growing{status: 1, slow: 10 * time.Microsecond, every: c.every}
				retain(t, g, 1, queue_job.Retention{Done: time.Second}, c.span)
				minute := int(c.span / time.Minute)                                        // the first of the pruner
				for i, want := range []float64{c.want * 59 / 60, c.want, c.want, c.want} { // it begins in the second second
					if perSecond := float64(g.deleted[minute+i]) / 60; perSecond < 0.99*want || perSecond > 1.005*want {
						t.Errorf("%.0f rows a second in minute %d, want %.0f", perSecond, i, want)
					}
				}
			})
		})
	}
}

// In an hour in which ten times as many rows are added as on average, the database has enough to do.
func TestTheCalmPaceIsThatOfTheAverage(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		name    string
		average uint64 // rows a second were added in the week before
		now     uint64 // and in these ten minutes
		deleted uint64 // rows a second are
		want    uint64 // rows a second may be
		pace    pace
	}{
		{"little", 3, 3, 400, 500, calm},
		{"much", 2000, 2000, 2100, 2200, calm},
		{"a busy hour", 300, 3000, 500, 500, calm},
		{"a quiet hour", 3000, 3, 3100, 3300, calm},
		{"a slow database", 2000, 2000, 1900, 2200, haste},
		{"a slow database, and few rows", 100, 3000, 150, 500, calm},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPacing(retainLeast, retainRows)
			p.begin()
			at, newest := uint64(1), c.average*uint64(week/time.Second)
			for now, end := time.Now(), time.Now().Add(retainEvery+retainLook); now.Before(end); now = now.Add(retainLook) {
				if !p.toLook(now) || p.toLook(now.Add(retainLook/2)) {
					t.Fatal("it does not look once a minute")
				}
				p.saw(at, week, newest)
				at, newest = at+c.deleted*uint64(retainLook/time.Second), newest+c.now*uint64(retainLook/time.Second)
			}
			if most := float64(time.Second) / float64(p.row); most < 0.99*float64(c.want) || most > 1.01*float64(c.want) || p.pace != c.pace {
				t.Errorf("%.0f rows a second at the pace %v, want %d at %v", most, p.pace, c.want, c.pace)
			}
		})
	}
	for _, odd := range []struct {
		at, newest uint64
		age        time.Duration
	}{{5, 3, week}, {1, 1, 57 * 365 * 24 * time.Hour}, {1, 1 << 62, time.Second}} {
		p := newPacing(retainLeast, retainRows)
		p.begin()
		for i := range 20 {
			p.toLook(time.Time{}.Add(time.Duration(i+1) * retainLook))
			if p.saw(odd.at, odd.age, odd.newest); p.row < 0 || p.row > perRow {
				t.Errorf("row %d of %d, %v old: %v for each", odd.at, odd.newest, odd.age, p.row)
			}
		}
	}
}

func TestTheLogSaysOnceADayHowManyRowsAreKeptForEver(t *testing.T) {
	for _, c := range []struct {
		times queue_job.Retention
		want  string
	}{
		{queue_job.Retention{}, "the table of jobs has up to"},
		{queue_job.Retention{Done: time.Hour}, "rows of finished jobs kept for ever"},
	} {
		t.Run(fmt.Sprint(c.times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &growing{status: 5}
				log := retain(t, g, 1, c.times, 3*24*time.Hour)
				if lines := log.saying(c.want); len(lines) != 3 {
					t.Errorf("%d lines; the log: %q", len(lines), log.lines)
				}
				if len(g.gone) > 0 || g.read > 4*g.rows() {
					t.Errorf("%d rows deleted, %d of %d read", len(g.gone), g.read, g.rows())
				}
			})
		})
	}
}

func TestRowsAreDeletedOnlyWhenTheyAreArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &growing{status: 1}
		calls, archived := 0, map[uint64]bool{}
		var mu sync.Mutex // nobody waits for a call that takes too long
		g.archive = func(ctx context.Context, jobs []queue_job.Archived) error {
			mu.Lock()
			calls++
			call := calls
			mu.Unlock()
			if len(jobs) > 100 {
				t.Errorf("%d jobs with a call", len(jobs))
			}
			switch call {
			case 1:
				return errGone
			case 2:
				panic("no room")
			case 3:
				<-ctx.Done()
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range jobs {
				archived[jobs[i].Id] = true
			}
			return nil
		}
		log := retain(t, g, 1, queue_job.Retention{Done: time.Hour}, 3*time.Hour)
		for id := range g.gone {
			if !archived[id] {
				t.Fatalf("row %d is gone, and was not archived", id)
			}
		}
		if least := 2*60*60 - 2*int(retainEvery/time.Second); len(g.gone) < least || len(archived) != len(g.gone) {
			t.Errorf("%d rows are gone and %d archived, want %d at least", len(g.gone), len(archived), least)
		}
		for _, want := range []string{errGone.Error(), "panic: no room", "context deadline exceeded"} {
			if len(log.saying(want)) == 0 {
				t.Errorf("the log does not have %q", want)
			}
		}
	})
}

func TestAWalkGoesOnAfterStatementsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away, span = 20 * time.Second, 3 * time.Minute
		began := time.Now()
		g := &growing{status: 1, fails: func() error {
			if time.Since(began) < away {
				return errGone
			}
			return nil
		}}
		log := retain(t, g, 2, queue_job.Retention{Done: time.Second}, span)
		if len(g.gone) < int(span/time.Second) {
			t.Errorf("%d rows are gone; the table had %d of them when the database came back", len(g.gone), int((span+away)/time.Second))
		}
		if lines := len(log.saying(errGone.Error())); lines == 0 || lines > 3 {
			t.Errorf("%d lines say that the database is away", lines)
		}
	})
}

func TestAWalkThatIsBrokenOffIsContinuedByAnother(t *testing.T) {
	const span = 5 * time.Minute
	var calls atomic.Int32
	for name, archive := range map[string]func(context.Context, []queue_job.Archived) error{
		"between two pages": nil,
		"while it archives": func(ctx context.Context, _ []queue_job.Archived) error {
			if calls.Add(1) == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &growing{status: 1, every: 10 * time.Millisecond, stops: 20 * time.Second, archive: archive}
				retain(t, g, 2, queue_job.Retention{Done: time.Second}, span)
				if old := int(span / g.every); len(g.gone) < old || len(g.turns.taken["retain-1"]) != 2 {
					t.Errorf("%d rows are gone in %d walks, want %d at least in 2", len(g.gone), len(g.turns.taken["retain-1"]), old)
				}
			})
		})
	}
}

// Somebody deleted many rows by hand, and left what the log had of them.
func TestManyAttemptsWithoutARowKeepNobodyFromStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1_000_000_000
		g := &growing{status: 1, strays: many}
		retain(t, g, 1, queue_job.Retention{Done: time.Second}, time.Minute)
		if g.strays == many || len(g.gone) == 0 {
			t.Errorf("%d attempts and %d rows are gone", many-g.strays, len(g.gone))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g := &growing{status: 1, strays: 100}
		retain(t, g, 1, queue_job.Retention{Done: time.Second}, time.Minute)
		if g.strays > 0 || len(g.gone) < 60 {
			t.Errorf("%d attempts are left, %d rows are gone", g.strays, len(g.gone))
		}
	})
}

func TestNothingIsDeletedByAClockThatIsAhead(t *testing.T) {
	for what, ahead := range map[string]func(*Base){
		"from the start": func(b *Base) { b.Clock = &ground.Clock{} },
		"later":          func(*Base) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &growing{gone: map[uint64]bool{}, deleted: map[int]int{}, began: time.Now().Add(-time.Hour), status: int32(queue_job.JobStatusSuccess)}
			b, i := baseOf(t, &told{})
			i.types = []queue_job.Config{{JobType: 1}}
			read := func(off time.Duration) {
				b.Clock.Reading(float64(time.Now().Add(off).UnixMicro())/1e6, time.Now(), time.Now())
			}
			read(0)
			ahead(b)
			read(365 * 24 * time.Hour)
			prune := func(kept time.Duration) {
				if _, err := Pruner(b, g, queue_job.Retention{Done: kept}, nil).inTurn(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			prune(24 * time.Hour)
			if len(g.gone) > 0 || len(g.asked) == 0 {
				t.Errorf("%s: %d rows of an hour are deleted, though they are kept for a day; %d looks", what, len(g.gone), len(g.asked))
			}
			read(0)
			clear(i.turns.until)
			if prune(time.Minute); len(g.gone) == 0 {
				t.Errorf("%s: %d rows that are old are deleted when the clock is right", what, len(g.gone))
			}
		})
	}
}

func TestRowsThatSeemToBeCreatedLaterEndNoWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := baseOf(t, silent{})
		now := time.Now()
		w := &walk{pruner: &pruner{Base: b, times: map[int32]time.Duration{1: time.Hour}}}
		at := func(ages ...time.Duration) (rows []record.Aged) {
			for _, age := range ages {
				rows = append(rows, record.Aged{Created: now.Add(-age).Unix()})
			}
			return rows
		}
		const year = 365 * 24 * time.Hour
		for _, c := range []struct {
			rows []record.Aged
			want bool
		}{
			{at(time.Minute, time.Second), true},
			{at(time.Minute, 2*time.Hour), false},
			{at(-year, -year), false},
			{at(-year, time.Minute), true},
			{at(-time.Second), true},
			{at(-year, 2*time.Hour), false},
		} {
			if got := w.young(c.rows); got != c.want {
				t.Errorf("%+v: too young %t, want %t", c.rows, got, c.want)
			}
		}
	})
}
