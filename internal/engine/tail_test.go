package engine

import (
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
