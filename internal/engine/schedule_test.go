package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// each is a schedule at the multiples of a number of seconds.
type each int64

func (e each) Next(after time.Time) time.Time {
	return time.Unix((after.Unix()/int64(e)+1)*int64(e), 0)
}

// once is a schedule of a single time.
type once int64

func (o once) Next(after time.Time) time.Time {
	if after.Unix() < int64(o) {
		return time.Unix(int64(o), 0)
	}
	return time.Time{}
}

// fine is a schedule of more times than there are seconds.
type fine struct{}

func (fine) Next(after time.Time) time.Time { return after.Add(300 * time.Millisecond) }

// stuck schedules do not go on.
type stuck struct{ by time.Duration }

func (b stuck) Next(after time.Time) time.Time { return after.Add(b.by) }

type panicking struct{}

func (panicking) Next(time.Time) time.Time { panic("boom") }

func TestTimesGetTheirJobsShortlyBeforeAndThoseThatHavePassedOnlyTheLatest(t *testing.T) {
	for _, c := range []struct {
		what       string
		schedule   interface{ Next(time.Time) time.Time }
		after, now int64
		catchUp    int
		want       schedulePlan
	}{
		{"nothing comes soon", each(60), 600, 610, 1, schedulePlan{nil, 600, 0, 660}},
		{"one comes in two seconds", each(60), 600, 658, 1, schedulePlan{[]int64{660}, 660, 0, 720}},
		{"in three", each(60), 600, 657, 1, schedulePlan{nil, 600, 0, 660}},
		{"it has its job already", each(60), 660, 658, 1, schedulePlan{nil, 660, 0, 720}},
		{"one is just now", each(60), 600, 660, 1, schedulePlan{[]int64{660}, 660, 1, 720}},
		{"one has passed", each(60), 600, 700, 1, schedulePlan{[]int64{660}, 660, 1, 720}},
		{"one has passed, and one comes", each(60), 600, 719, 1, schedulePlan{[]int64{660, 720}, 720, 1, 780}},
		{"many have passed: the latest", each(60), 600, 3610, 1, schedulePlan{[]int64{3600}, 3600, 50, 3660}},
		{"the latest three, and one comes", each(60), 600, 3659, 3, schedulePlan{[]int64{3480, 3540, 3600, 3660}, 3660, 50, 3720}},
		{"fewer have passed than may be caught up", each(60), 600, 725, 9, schedulePlan{[]int64{660, 720}, 720, 2, 780}},
		{"none is caught up", each(60), 600, 3610, -1, schedulePlan{nil, 3600, 50, 3660}},
		{"none is caught up, and one comes", each(60), 600, 3659, -1, schedulePlan{[]int64{3660}, 3660, 50, 3720}},
		{"each second", each(1), 600, 600, 1, schedulePlan{[]int64{601, 602}, 602, 0, 603}},
		{"more often than each second", fine{}, 600, 600, 1, schedulePlan{[]int64{601, 602}, 602, 0, 603}},
		{"there are no more", once(660), 660, 660, 1, schedulePlan{nil, 660, 0, 0}},
		{"the last one comes", once(660), 600, 659, 1, schedulePlan{[]int64{660}, 660, 0, 0}},
		{"the database's clock was set back", each(60), 3600, 60, 1, schedulePlan{nil, 3600, 0, 3660}},
		{"so many have passed that it takes two turns", each(1), 0, 1_500_000, 2, schedulePlan{nil, 1_000_000, 1_000_000, 1_000_000}},
	} {
		got, err := planSchedule(c.schedule, c.after, c.now, c.catchUp)
		if err != nil || !slices.Equal(got.times, c.want.times) || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.what, got, err, c.want)
		}
	}
}

func TestAScheduleThatDoesNotGoOnIsAnError(t *testing.T) {
	for what, s := range map[string]interface{ Next(time.Time) time.Time }{"stands": stuck{0}, "goes back": stuck{-time.Hour}, "panics": panicking{}} {
		if _, err := planSchedule(s, 600, 700, 1); err == nil || !strings.HasPrefix(err.Error(), "schedule: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMissedTimesAreToldInWholeSentences(t *testing.T) {
	for _, c := range []struct {
		missed, caughtUp int
		want             string
	}{
		{1, 1, "a time of the schedule has passed without a run; it is caught up (ScheduleCatchUp)"},
		{1, 0, "a time of the schedule has passed without a run; it is not caught up (ScheduleCatchUp)"},
		{5, 1, "5 times of the schedule have passed without a run; 1 of them caught up (ScheduleCatchUp)"},
	} {
		if got := missedText(c.missed, c.caughtUp); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
