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

func TestTheLevelOfATypeAddsUpItsLeasesAndTakesTheHighestOfItsSpans(t *testing.T) {
	at := func(begin int64, lease string, term int64, level Level) Stat {
		return Stat{JobType: 7, Begin: begin, Lease: lease, Term: term, Seconds: 60, StatState: StatState{Level: level}}
	}
	stats := []Stat{
		at(60, "job-7", 1, Level{Waiting: 5, Overdue: 900, Busy: 2}), at(60, "job-7", 2, Level{Waiting: 4, Overdue: 800, Busy: 3}), // one holder after another
		at(60, "job-7/1", 9, Level{Waiting: 1, Overdue: 2000, Busy: 1}),
		at(120, "job-7", 2, Level{Waiting: 2, Overdue: 3000}),
	}
	if got, want := LevelOf(stats), (Level{Waiting: 6, Overdue: 3000, Busy: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	summed := Stat{JobType: 7, StatState: StatState{Level: LevelOf(stats)}} // of the hour; a minute more comes late
	if got, want := LevelOf([]Stat{summed, at(180, "job-7", 2, Level{Waiting: 7})}), (Level{Waiting: 7, Overdue: 3000, Busy: 4}); got != want {
		t.Errorf("beside what was summed up: %+v, want %+v", got, want)
	}
}
