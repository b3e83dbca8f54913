package console

import (
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// WithSchedules says how to read the text of a schedule, so that the console can show which times come next. Jobs that were opened with
// [queue_job.WithCron] know that without it:
//
//	console.WithSchedules(func(text string) (queue_job.Schedule, error) { return cron.Parse(text) })
func WithSchedules(read func(text string) (queue_job.Schedule, error)) Option {
	return func(c *console) { c.schedule = read }
}

// scheduled is a job type that has a schedule.
type scheduled struct {
	*operate.Type
	Next   []time.Time // the next times
	Passed int         // how many times have passed and are not dealt with
	Many   bool        // … and more
}

type schedulesPage struct {
	timetablePage
	Types []scheduled
	Reads bool // the console can read schedules
}

const (
	timesShown   = 3
	passedMost   = 1000             // that are counted
	dealtWithMax = 10 * time.Second // after its time: an instance may be taking the lease at this moment
)

func (c *console) showSchedules(r *http.Request) (any, error) {
	types, err := c.typesFor(r)
	if err != nil {
		return nil, err
	}
	now, err := c.now(r.Context())
	if err != nil {
		return nil, err
	}
	rows, err := c.timetable(r)
	if err != nil {
		return nil, err
	}
	body := schedulesPage{timetablePage: rows, Reads: c.schedule != nil}
	for i := range rows.Rows {
		rows.Rows[i].Type = nameIn(types, rows.Rows[i].Job.JobType)
	}
	for _, t := range types {
		if t.Known.Schedule != "" {
			s := scheduled{Type: t}
			s.readTimes(c.schedule, now)
			body.Types = append(body.Types, s)
		}
	}
	return body, nil
}

// readTimes finds the times before and after this moment. If the text cannot be read, there are none.
func (s *scheduled) readTimes(read func(string) (queue_job.Schedule, error), now time.Time) {
	if read == nil {
		return
	}
	schedule, err := read(s.Known.Schedule)
	if err != nil {
		return
	}
	if begun := s.Known.Scheduled; !begun.IsZero() {
		eachTime(schedule, begun, func(at time.Time) bool {
			if now.Sub(at) < dealtWithMax {
				return false
			}
			s.Many = s.Passed == passedMost
			s.Passed = min(s.Passed+1, passedMost)
			return !s.Many
		})
	}
	eachTime(schedule, now, func(at time.Time) bool {
		s.Next = append(s.Next, at)
		return len(s.Next) < timesShown
	})
}

// eachTime goes through the times after a moment, as long as there are some and do returns true.
func eachTime(schedule queue_job.Schedule, after time.Time, do func(time.Time) bool) {
	for {
		at := schedule.Next(after)
		if !at.After(after) || !do(at) {
			return
		}
		after = at
	}
}
