package pipeline

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestAWaitCountsFromTheTimeThatTheTableSaysOrFromWhenItIsKnownToBeOver(t *testing.T) {
	now := time.Now()
	l := lineOf(10)
	l.process.Clock.Reading(1000, now, now)
	for name, c := range map[string]struct {
		row       store.Row
		dueMillis int64
		ready     time.Duration // before its start
		want      time.Duration
	}{
		"of a backlog":            {store.Row{CreateTime: 900}, 0, time.Second, 99 * time.Second},
		"added just now":          {store.Row{CreateTime: 1000}, 0, 3 * time.Millisecond, 3 * time.Millisecond},
		"due when it was added":   {store.Row{CreateTime: 1000, StartTime: 1000}, 1_000_000, 3 * time.Millisecond, 3 * time.Millisecond},
		"due later":               {store.Row{CreateTime: 900, StartTime: 990}, 990_000, time.Millisecond, 10 * time.Second},
		"runs again, from memory": {store.Row{CreateTime: 900, StartTime: 999}, 998_500, time.Millisecond, 1500 * time.Millisecond},
		"its mark was refused":    {store.Row{CreateTime: 900, StartTime: 990}, 999_900, time.Millisecond, 10 * time.Second},
		"its mark was, too":       {store.Row{CreateTime: 900}, 999_900, time.Millisecond, 99 * time.Second},
	} {
		task := &task{row: c.row, dueMillis: c.dueMillis, run: &run{started: now, since: now.Add(-c.ready)}}
		if got := l.part.waited(task); (got - c.want).Abs() > 2*time.Millisecond {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
