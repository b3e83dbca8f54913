package find

import (
	"testing"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestOnlyOldWorkThatWasThereAtTheStartIsLeftAlone(t *testing.T) {
	const since, upTo = 1_000, 50
	b := NewBacklog(since, upTo)
	for _, c := range []struct {
		name string
		row  store.Row
		want bool
	}{
		{"created long ago, due at once", store.Row{ID: 1, CreateTime: 999}, true},
		{"created in time", store.Row{ID: 1, CreateTime: 1_000}, false},
		{"due long ago", store.Row{ID: 1, StartTime: 999, CreateTime: 5}, true},
		{"created long ago, due in the future", store.Row{ID: 1, StartTime: 9_000, CreateTime: 5}, false},
		{"came after the start, however it is dated", store.Row{ID: 51, CreateTime: 5}, false},
	} {
		if got := b.Abandoned(&c.row); got != c.want {
			t.Errorf("%s: left alone %v, want %v", c.name, got, c.want)
		}
		shelf := &shelf{room: 1, backlog: b, rows: map[uint64]store.Row{}}
		in := &Intake{sink: shelf, backlog: b}
		if accepted := in.offer(&c.row); !accepted || b.Behind() || (shelf.InMemory() == 0) != c.want {
			t.Errorf("%s: accepted %v, behind %v, %d rows in memory", c.name, accepted, b.Behind(), shelf.InMemory())
		}
	}
	if unlimited := NewBacklog(0, upTo); unlimited.Abandoned(&store.Row{ID: 1}) {
		t.Error("no limit, and left alone")
	}
}
