package console

import (
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

type hourly struct{}

func (hourly) Next(after time.Time) time.Time { return after.Truncate(time.Hour).Add(time.Hour) }

type once struct{ at time.Time }

func (o once) Next(after time.Time) time.Time {
	if after.Before(o.at) {
		return o.at
	}
	return time.Time{}
}

func TestTheTimesOfASchedule(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 5, 0, time.UTC)
	noon := now.Truncate(time.Hour)
	for _, c := range []struct {
		schedule queue_job.Schedule
		begun    time.Time
		passed   int
		many     bool
		next     []time.Time
	}{
		{hourly{}, noon.Add(-time.Hour), 0, false, []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour), noon.Add(3 * time.Hour)}}, // noon has five seconds more
		{hourly{}, noon.Add(-3 * time.Hour), 2, false, []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour), noon.Add(3 * time.Hour)}},
		{hourly{}, time.Time{}, 0, false, []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour), noon.Add(3 * time.Hour)}},
		{hourly{}, noon.Add(-passedMost*time.Hour - time.Hour), passedMost, false, []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour), noon.Add(3 * time.Hour)}},
		{hourly{}, noon.Add(-2 * passedMost * time.Hour), passedMost, true, []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour), noon.Add(3 * time.Hour)}},
		{once{noon.Add(time.Minute)}, noon, 0, false, []time.Time{noon.Add(time.Minute)}},
		{once{noon.Add(-time.Minute)}, noon.Add(-time.Hour), 1, false, nil},
		{nil, noon.Add(-3 * time.Hour), 0, false, nil}, // the text cannot be read
	} {
		s := scheduled{Type: &operate.Type{Known: queue_job.Type{Schedule: "hourly", Scheduled: c.begun}}}
		s.readTimes(func(string) (queue_job.Schedule, error) {
			if c.schedule == nil {
				return nil, errors.New("no such schedule")
			}
			return c.schedule, nil
		}, now)
		same := len(s.Next) == len(c.next)
		for i := range c.next {
			same = same && s.Next[i].Equal(c.next[i])
		}
		if s.Passed != c.passed || s.Many != c.many || !same {
			t.Errorf("%+v: %d passed, more %v, next %v", c, s.Passed, s.Many, s.Next)
		}
	}
}
