package engine

import (
	"testing"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestFewRowsWithLongParametersAreWrittenTogether(t *testing.T) {
	rows := func(short, long int) (group []*task) {
		for range short {
			group = append(group, &task{Row: store.Row{Params: "{}"}})
		}
		for range long {
			group = append(group, &task{Row: store.Row{Params: store.SeeLongParams}})
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
	for params, keeps := range map[string]bool{"{}": true, store.SeeLongParams: false} {
		ended := &task{Row: store.Row{ID: 1, Params: params}, hasSlot: true, run: &run{}}
		ended.job.JobParams = "whole"
		light := l.lighten(ended)
		if (light == ended) != keeps || (light.job.JobParams == "whole") != keeps || light.ID != 1 || !light.hasSlot {
			t.Errorf("%q: %+v", params, light)
		}
		if keeps != l.queue.release(ended) {
			t.Errorf("%q: the task that ended is known still, or not any more", params)
		}
	}
}
