package console

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	schedulesOnAPage = 50
	nextTimesShown   = 5
	timetablesMax    = 20 // pages that are kept: parameters may be long
)

// timetableKey says which schedules that are rows a look was for.
type timetableKey struct{ name, prefix, after string }

// timed is a schedule that is a row.
type timed struct {
	queue_job.ScheduleInfo
	Type   string        // what the type of its jobs is called; empty: it is not known
	Times  string        // its text without a zone
	Zone   string        // of its times; empty: not known
	Coming []time.Time   // its next times; if it is paused, or its text cannot be read, there are none
	Passed time.Duration // how long ago its next time was, if that is too long; 0: it is to come
	Params string        // as a page has them
}

// timetablePage is a page of schedules that are rows.
type timetablePage struct {
	Rows   []timed
	Prefix string
	Older  template.URL // the query of the next page; empty: there is none
	None   bool         // there is no table for them: nobody has migrated it
}

// timetable is the page of schedules that a request asks for.
func (c *console) timetable(r *http.Request) (p timetablePage, err error) {
	key := timetableKey{prefix: r.URL.Query().Get("prefix"), after: r.URL.Query().Get("after")}
	p.Prefix = key.prefix
	rows, err := c.schedulesAt(r.Context(), key)
	if errors.Is(err, queue_job.ErrNoTables) {
		p.None = true
		return p, nil
	}
	if err != nil {
		return p, err
	}
	now, err := c.now(r.Context())
	if err != nil {
		return p, err
	}
	if len(rows) > schedulesOnAPage {
		rows = rows[:schedulesOnAPage]
		next := url.Values{"prefix": {key.prefix}, "after": {rows[schedulesOnAPage-1].Name}}
		p.Older = template.URL(next.Encode()) // the encoding is all that a page must escape
	}
	for i := range rows {
		if c.permit(r, See, rows[i].Job.JobType) {
			p.Rows = append(p.Rows, c.timedOf(r, rows[i], now, 1))
		}
	}
	return p, nil
}

// schedulesAt reads schedules, for all who look within two seconds.
func (c *console) schedulesAt(ctx context.Context, key timetableKey) ([]queue_job.ScheduleInfo, error) {
	return c.timetables.of(0, key).get(ctx, func(ctx context.Context) ([]queue_job.ScheduleInfo, error) {
		return c.jobs.Schedules(ctx, c.ex, queue_job.ScheduleFilter{Name: key.name, Prefix: key.prefix, After: key.after, Limit: schedulesOnAPage + 1})
	})
}

// timedOf is a schedule as pages show it. Times is how many of its next times to show.
func (c *console) timedOf(r *http.Request, info queue_job.ScheduleInfo, now time.Time, times int) timed {
	t := timed{ScheduleInfo: info, Params: c.shown(fmt.Sprint(info.Job.JobParams))}
	if t.LastJob != nil && !c.permit(r, See, t.LastJob.JobType) {
		t.LastJob = nil
	}
	t.Zone, t.Times = zoneOf(info.Cron)
	if t.Paused.IsZero() && !t.Next.IsZero() && now.Sub(t.Next) > dealtWithMax {
		t.Passed = now.Sub(t.Next)
	}
	if c.schedule == nil {
		return t
	}
	schedule, err := c.schedule(info.Cron)
	if err != nil {
		return t
	}
	if text, ok := schedule.(fmt.Stringer); ok && t.Zone == "" && !strings.HasPrefix(t.Times, "@every") {
		if t.Zone, _ = zoneOf(text.String()); t.Zone == "" {
			t.Zone = "UTC"
		}
	}
	if t.Paused.IsZero() {
		eachTime(schedule, now, func(at time.Time) bool {
			t.Coming = append(t.Coming, at)
			return len(t.Coming) < times
		})
	}
	return t
}

// zoneOf divides the text of a schedule into the name of a zone, if it begins with one, and the rest.
func zoneOf(text string) (zone, times string) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, " ")
	for _, begins := range []string{"CRON_TZ=", "TZ="} {
		if name, ok := strings.CutPrefix(first, begins); ok {
			return name, strings.TrimSpace(rest)
		}
	}
	return "", text
}

// oneSchedule is the page of a schedule that is a row.
type oneSchedule struct {
	timed
	Reads bool // the console can read schedules
	Meta  map[string]string
}

func (c *console) showSchedule(r *http.Request) (any, error) {
	info, err := c.scheduleFor(r, r.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	types, err := c.typesFor(r) // first, for it reads the clock, too
	if err != nil {
		return nil, err
	}
	now, err := c.now(r.Context())
	if err != nil {
		return nil, err
	}
	shown := oneSchedule{c.timedOf(r, *info, now, nextTimesShown), c.schedule != nil, c.metaOf(info.Job.Meta)}
	shown.Type = nameIn(types, info.Job.JobType)
	return shown, nil
}

// nameIn is what a type is called.
func nameIn(types []*operate.Type, jobType int32) string {
	for _, t := range types {
		if t.JobType == jobType {
			return t.Name
		}
	}
	return ""
}

// scheduleFor is a schedule that the sender of a request may see.
func (c *console) scheduleFor(r *http.Request, name string) (*queue_job.ScheduleInfo, error) {
	rows, err := c.schedulesAt(r.Context(), timetableKey{name: name})
	switch {
	case err != nil:
		return nil, err
	case name == "" || len(rows) == 0:
		return nil, failed(http.StatusNotFound, "There is no schedule %q.", name)
	case !c.permit(r, See, rows[0].Job.JobType):
		return nil, c.refused(See)
	}
	return &rows[0], nil
}

// changeSchedule does to a schedule what a form says. Its name stands in the form, for it may have any characters.
func (c *console) changeSchedule(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	name := r.PostFormValue("name")
	c.timetables.forget() // who changes it is to be asked by what it is now
	info, err := c.scheduleFor(r, name)
	if err != nil {
		return "", "", err
	}
	changed, to := false, "schedule?name="+url.QueryEscape(name)
	switch do := r.PathValue("do"); do {
	case "pause":
		if outcome, err = "schedule-paused", c.allow(r, PauseSchedule, info.Job.JobType); err == nil {
			changed, err = c.jobs.PauseSchedule(ctx, c.ex, name)
		}
	case "resume":
		if outcome, err = "schedule-resumed", c.allow(r, ResumeSchedule, info.Job.JobType); err == nil {
			changed, err = c.jobs.ResumeSchedule(ctx, c.ex, name)
		}
	case "delete":
		if outcome, err = "schedule-deleted", c.allow(r, DeleteSchedule, info.Job.JobType); err == nil {
			to = "schedules"
			changed, err = c.jobs.DeleteSchedule(ctx, c.ex, name)
		}
	case "run":
		if outcome, err = "schedule-ran", c.allow(r, RunSchedule, info.Job.JobType); err == nil {
			changed = true
			to, err = c.runSchedule(ctx, info)
		}
	default:
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", do)
	}
	if !changed {
		outcome = "nothing"
	}
	return outcome, to, err
}

// runSchedule adds a job of a schedule, and returns the address of its page.
func (c *console) runSchedule(ctx context.Context, info *queue_job.ScheduleInfo) (to string, err error) {
	id, err := c.writes.RunSchedule(ctx, c.ex, info.Name)
	switch {
	case errors.Is(err, queue_job.ErrNotDecoded):
		return "", failed(http.StatusConflict,
			"The parameters of schedule %q cannot be decoded here, so no job can be added with them. Run it from a program that has the codec.", info.Name)
	case errors.Is(err, queue_job.ErrNoSchedule):
		return "", failed(http.StatusNotFound, "There is no schedule %q any more.", info.Name)
	}
	return fmt.Sprint("jobs/", id), err
}
