package record

import (
	"reflect"
	"testing"
	"time"
)

func TestTheRangesOfDurationsDoubleFromAMillisecondOn(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-time.Hour: 0, 0: 0, time.Millisecond - 1: 0, time.Millisecond: 1, 2*time.Millisecond - 1: 1, 2 * time.Millisecond: 2, 3 * time.Millisecond: 2,
		time.Second: 10, 1024 * time.Millisecond: 11, 1<<63 - 1: Ranges - 1, 1 << 30 * time.Millisecond: Ranges - 1, (1<<30 - 1) * time.Millisecond: Ranges - 2,
	} {
		if got := RangeOf(d); got != want {
			t.Errorf("%v is in range %d, want %d", d, got, want)
		}
	}
}

func TestStatesAddUp(t *testing.T) {
	var s StatState
	s.Add(&StatState{Delay: []int64{1, 2}, Runs: map[string]int64{"success": 2}})
	s.Add(&StatState{Delay: []int64{1}, Took: []int64{0, 0, 5}, Runs: map[string]int64{"success": 1, "failed": 4}})
	s.Add(&StatState{})
	want := StatState{Delay: []int64{2, 2}, Took: []int64{0, 0, 5}, Runs: map[string]int64{"success": 3, "failed": 4}}
	if !reflect.DeepEqual(s, want) || s.Counted() != 11 {
		t.Errorf("%+v, want %+v", s, want)
	}
}
