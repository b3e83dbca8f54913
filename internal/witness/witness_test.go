package witness

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// table is a table with lives in it. While it stands still, nothing is answered.
type table struct {
	mu     sync.Mutex
	rows   map[string]store.Seen
	stands bool
	writes int
}

func (f *table) answer(ctx context.Context) error {
	f.mu.Lock()
	stands := f.stands
	f.mu.Unlock()
	if stands {
		<-ctx.Done()
	}
	return ctx.Err()
}

// with has something done to the table.
func (f *table) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *table) Rise(ctx context.Context, name, owner string, number, _, _ int64) error {
	err := f.answer(ctx)
	if err == nil {
		f.with(func() {
			f.writes++
			f.rows[name] = store.Seen{Name: name, Owner: owner, Term: number}
		})
	}
	return err
}

func (f *table) Beat(ctx context.Context, name, owner string, number, _, _ int64) (alive bool, err error) {
	var row store.Seen
	var there bool
	f.with(func() { row, there = f.rows[name] })
	if err = f.answer(ctx); err != nil || !there || row.Owner != owner {
		return false, err
	}
	return true, f.Rise(ctx, name, owner, number, 0, 0)
}

func (f *table) SeeLeases(ctx context.Context, names []string) (seen []store.Seen, err error) {
	f.with(func() {
		for _, name := range names {
			if row, there := f.rows[name]; there {
				seen = append(seen, row)
			}
		}
	})
	return seen, f.answer(ctx)
}

func (f *table) DropLease(ctx context.Context, name, _ string) error {
	err := f.answer(ctx)
	if err == nil {
		f.with(func() { delete(f.rows, name) })
	}
	return err
}

// change changes the row of the life that is watched.
func (f *table) change(how func(*store.Seen)) {
	f.with(func() {
		row := f.rows[watchedLife]
		how(&row)
		f.rows[watchedLife] = row
	})
}

func beat(row *store.Seen) { row.Term++ }

const (
	watchedLife = "live-1"
	long        = 1200 * time.Millisecond
)

func TestAWitnessTellsTheSilentFromWhoeverLivesOrIsGone(t *testing.T) {
	const none = Verdict(-1)
	at := func(_ *table, span time.Duration, do func()) { time.AfterFunc(span, do) }
	after := func(f *table, span time.Duration, do func()) { at(f, span, func() { f.with(do) }) }
	for name, c := range map[string]struct {
		befalls  func(f *table)
		verdict  Verdict
		from, to time.Duration
	}{
		"it is silent": {func(*table) {}, Silent, long, long},
		"it beats each second": {func(f *table) {
			for n := range 5 {
				at(f, time.Duration(n)*time.Second+500*time.Millisecond, func() { f.change(beat) })
			}
		}, Lives, 1500 * time.Millisecond, 2 * time.Second},
		"the last statement of the dead arrives late": {func(f *table) {
			at(f, 700*time.Millisecond, func() { f.change(beat) })
		}, Silent, 700*time.Millisecond + long, 900*time.Millisecond + long},
		"somebody else begins a life in its row": {func(f *table) {
			at(f, 300*time.Millisecond, func() { f.change(func(row *store.Seen) { row.Owner = "other" }) })
			at(f, 700*time.Millisecond, func() { f.change(func(row *store.Seen) { row.Owner = "third" }) })
		}, Lives, 700 * time.Millisecond, 900 * time.Millisecond},
		"its row is deleted": {func(f *table) {
			after(f, 300*time.Millisecond, func() { delete(f.rows, watchedLife) })
		}, Gone, 300 * time.Millisecond, 500 * time.Millisecond},
		"its row has ended": {func(f *table) {
			at(f, 300*time.Millisecond, func() { f.change(func(row *store.Seen) { row.Free = true }) })
		}, Gone, 300 * time.Millisecond, 500 * time.Millisecond},
		"somebody else has said that it is dead": {func(f *table) {
			at(f, 300*time.Millisecond, func() { f.change(func(row *store.Seen) { row.Running = store.Dead }) })
		}, Gone, 300 * time.Millisecond, 500 * time.Millisecond},
		"the database stands still for a while: it counts anew, for longer": {func(f *table) {
			after(f, 900*time.Millisecond, func() { f.stands = true })
			after(f, 1500*time.Millisecond, func() { f.stands = false }) // the statement was sent before that, and ends with its second
		}, Silent, 2*time.Second + long + longer, 2500*time.Millisecond + long + longer},
		"it stands still, and the beats of whoever lives come behind that": {func(f *table) {
			after(f, 100*time.Millisecond, func() { f.stands = true })
			after(f, 3*time.Second, func() { f.stands = false })
			for n := range 5 {
				at(f, time.Duration(n)*time.Second+5*time.Second, func() { f.change(beat) })
			}
		}, Lives, 6 * time.Second, 6200 * time.Millisecond},
		"it never answers again": {func(f *table) {
			after(f, 100*time.Millisecond, func() { f.stands = true })
		}, none, 4 * time.Second, 8 * time.Second},
		"the row of the witness is deleted: it makes another": {func(f *table) {
			after(f, 500*time.Millisecond, func() { delete(f.rows, "live-2") })
		}, Silent, long, long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &table{rows: map[string]store.Seen{watchedLife: {Name: watchedLife, Owner: "its", Term: 7}}}
				c.befalls(f)
				verdict, began := none, time.Now()
				w := &Witness{Table: f, Name: "live-2", Owner: "witness", Lapses: 4}
				err := w.Watch(t.Context(), []store.Seen{f.rows[watchedLife]}, func(store.Seen) time.Duration { return long },
					func(_ store.Seen, v Verdict) { verdict = v })
				took := time.Since(began)
				if verdict != c.verdict || errors.Is(err, ErrUnanswered) != (c.verdict == none) {
					t.Errorf("%d, %v after %v; want %d", verdict, err, took, c.verdict)
				}
				if took < c.from || took > c.to {
					t.Errorf("it took %v, want %v to %v", took, c.from, c.to)
				}
				if _, there := f.rows["live-2"]; there && c.verdict != none {
					t.Error("the row of the witness is left behind")
				}
			})
		})
	}
}

func TestAWitnessWatchesSeveralAtOnceAndStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &table{rows: map[string]store.Seen{watchedLife: {Name: watchedLife, Owner: "its", Term: 7}, "live-3": {Name: "live-3", Owner: "other", Term: 7}}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		verdicts := map[string]Verdict{}
		w := &Witness{Table: f, Name: "live-2", Owner: "witness"}
		err := w.Watch(ctx, []store.Seen{f.rows[watchedLife], f.rows["live-3"]}, func(life store.Seen) time.Duration {
			if life.Name == watchedLife {
				return long
			}
			return time.Hour
		}, func(life store.Seen, v Verdict) { verdicts[life.Name] = v })
		if !errors.Is(err, context.DeadlineExceeded) || len(verdicts) != 1 || verdicts[watchedLife] != Silent {
			t.Errorf("%v, %v", verdicts, err)
		}
		if f.writes < 100 {
			t.Errorf("it has written %d times", f.writes)
		}
	})
}
