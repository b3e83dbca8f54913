package engine

import (
	"context"
	"slices"
	"testing"

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
	Jobs
	types []int32
}

func (j *tailed) Tail(_ context.Context, _ uint64, _ []store.Gap, wanted []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	j.types = wanted[0].Types
	return nil, nil
}

// A driver that prepares statements knows them by their text: types in another order are another statement.
func TestTheTailAsksForItsTypesInTheSameOrderAtEveryPoll(t *testing.T) {
	jobs := &tailed{}
	d := &database{tables: Tables{Jobs: jobs}, patience: t.Context()}
	for range 20 {
		lines := map[int32]*held{}
		for jobType := range int32(20) {
			lines[jobType] = &held{lineOf(9), lease}
		}
		if _, err := d.poll(lines); err != nil {
			t.Fatal(err)
		}
		if len(jobs.types) != 20 || !slices.IsSorted(jobs.types) {
			t.Fatal(jobs.types)
		}
	}
}
