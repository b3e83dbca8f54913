package pipeline

import (
	"testing"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestFewRowsWithLongParametersAreWrittenTogether(t *testing.T) {
	rows := func(short, long int) (group []*task) {
		for range short {
			group = append(group, &task{row: store.Row{Params: "{}"}})
		}
		for range long {
			group = append(group, &task{row: store.Row{Params: store.SeeLongParams}})
		}
		return group
	}
	for _, c := range []struct {
		groups [][]*task
		want   []int
	}{
		{nil, nil},
		{[][]*task{rows(1000, 0), rows(1, 0)}, []int{1000, 1}},
		{[][]*task{rows(10, longRowsMax)}, []int{10 + longRowsMax}},
		{[][]*task{rows(10, 2*longRowsMax+1), rows(0, 1)}, []int{10 + longRowsMax, longRowsMax, 1, 1}},
	} {
		few := fewLong(c.groups)
		for i, group := range few {
			if i >= len(c.want) || len(group) != c.want[i] {
				t.Errorf("group %d has %d rows, want %v", i, len(group), c.want)
			}
		}
		if len(few) != len(c.want) {
			t.Errorf("%d groups, want %v", len(few), c.want)
		}
	}
}

func TestARunThatHasEndedKeepsNoLongParameters(t *testing.T) {
	l := lineOf(10)
	ended := &task{row: store.Row{ID: 1, Params: store.SeeLongParams}, hasSlot: true, run: &run{}}
	ended.run.job.JobParams = "whole"
	if light := l.part.lighten(l.queue, ended); light == ended || light.run.job.JobParams != "" || light.row.ID != 1 || !light.hasSlot {
		t.Errorf("%+v", light)
	}
	if l.queue.release(ended) {
		t.Error("the task that ended is known still")
	}
}
