package api

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/schedules"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// scheduleView is a schedule as the API shows it.
type scheduleView struct {
	Name    string          `json:"name"`
	Cron    string          `json:"cron"`
	Topic   string          `json:"topic"`
	Next    string          `json:"next"`
	Created string          `json:"created"`
	URL     string          `json:"url"`
	Task    json.RawMessage `json:"task,omitempty"` // for callers who may read bodies
}

// viewOfSchedule shows the schedule that a job is, if the caller may do that with its topic.
func viewOfSchedule(c *call, scope tokens.Scope, job *queue_job.JobInfo) (view scheduleView, there bool) {
	s, bad := schedules.Stored(job.JobParams)
	if bad != nil || !c.caller.MayTopic(scope, s.Topic) {
		return view, false
	}
	view = scheduleView{Name: job.Key, Cron: s.Cron, Topic: s.Topic,
		Next: stamp(job.Due), Created: stamp(job.Created), URL: deliver.WithoutValues(s.Content().URL)}
	if c.caller.MayTopic(tokens.ReadBodies, s.Topic) {
		view.Task = s.Task
	}
	return view, true
}

const (
	inFlightPatience = 100 * time.Millisecond // a schedule's job runs for some milliseconds
	inFlightTries    = 5                      // after the first
)

// putSchedule makes a schedule, or changes it.
func (a *api) putSchedule(c *call) error {
	name := c.PathValue("name")
	if !task.IsTopic(name) {
		return problem.New(problem.Invalid, "a schedule's name has 1 to 100 of a-z 0-9 . _ -, and begins with a letter or digit")
	}
	text, release, err := a.body(c, oneMax)
	if err != nil {
		return err
	}
	defer release()
	now, err := a.now(c.Context())
	if err != nil {
		return err
	}
	s, bad := schedules.Parse(text, now)
	if bad != nil {
		return bad
	}
	for _, scope := range []tokens.Scope{tokens.ManageTasks, tokens.AddTasks} { // a schedule adds tasks
		if err := mayTopic(c.caller, scope, s.Topic); err != nil {
			return err
		}
	}
	if err := a.checkContent(s.Content(), "/task"); err != nil {
		return err
	}
	before, err := a.scheduleOf(c, name)
	switch bad := (*problem.Problem)(nil); {
	case err == nil:
		if _, seen := viewOfSchedule(c, tokens.ManageTasks, before); !seen {
			return problem.New(problem.Exists, "the name is taken; take another one")
		}
	case !errors.As(err, &bad): // there is none: that is well
		return err
	}
	if _, err := a.ensure(c.Context(), s.Topic, c.caller); err != nil {
		return err
	}
	added, is, err := a.addSchedule(c.Context(), s, name, now)
	if err != nil {
		return err
	}
	view, there := viewOfSchedule(c, tokens.ManageTasks, is)
	if !there {
		return noSchedule(name)
	}
	if added.Existed {
		return c.say(http.StatusOK, view)
	}
	return c.say(http.StatusCreated, view)
}

// addSchedule adds the job of a schedule, or has it replace the one that waits. One that runs adds a task, which does not take long.
func (a *api) addSchedule(
	ctx context.Context, s *schedules.Schedule, name string, now time.Time,
) (added queue_job.Added, is *queue_job.JobInfo, err error) {
	for try := 0; ; try++ {
		job, err := s.Job(name, now)
		if err != nil {
			return added, nil, err
		}
		all, err := a.Intake.AddAll(ctx, []queue_job.AddModelJob{job},
			intake.Around{After: func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (err error) {
				is, err = a.Jobs.Get(ctx, tx, queue_job.ID(added[0].Id))
				return err
			}})
		switch {
		case err != nil:
			return added, nil, err
		case !all[0].Existed || all[0].Replaced:
			return all[0], is, nil
		case try == inFlightTries:
			return added, nil, problem.New(problem.InFlight, "the schedule adds a task at this moment; try again")
		}
		time.Sleep(inFlightPatience)
	}
}

// scheduleOf is the job of a schedule. If there is none, the error is a problem.
func (a *api) scheduleOf(c *call, name string) (*queue_job.JobInfo, error) {
	if !task.IsTopic(name) { // the database may not even take it to look for
		return nil, noSchedule(name)
	}
	ctx, cancel := c.within()
	defer cancel()
	job, err := a.Jobs.Get(ctx, a.DB, queue_job.Key(schedules.Type, name))
	if errors.Is(err, queue_job.ErrNoJob) || err == nil && !job.Pending() {
		return nil, noSchedule(name)
	}
	return job, err
}

func (a *api) showSchedule(c *call) error {
	view, err := a.seenSchedule(c, tokens.ReadTasks, c.PathValue("name"))
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, view)
}

// seenSchedule is a schedule for a topic with which the caller may do that.
func (a *api) seenSchedule(c *call, scope tokens.Scope, name string) (view scheduleView, err error) {
	job, err := a.scheduleOf(c, name)
	if err != nil {
		return view, err
	}
	view, there := viewOfSchedule(c, scope, job)
	if !there {
		return view, noSchedule(name)
	}
	return view, nil
}

func noSchedule(name string) error {
	return problem.New(problem.NotFound, "there is no schedule %q", name)
}

const schedulesShown = 1000

// listSchedules lists the schedules for topics that the caller may see, however many others there are.
func (a *api) listSchedules(c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	list := []scheduleView{}
	for job, err := range a.Jobs.All(ctx, a.DB, queue_job.Filter{JobTypes: []int32{schedules.Type}, Statuses: queue_job.PendingStatuses()}) {
		if err != nil {
			return err
		}
		if view, there := viewOfSchedule(c, tokens.ReadTasks, &job); there {
			list = append(list, view)
		}
		if len(list) == schedulesShown {
			break
		}
	}
	return c.say(http.StatusOK, struct {
		Schedules []scheduleView `json:"schedules"`
	}{list})
}

// dropSchedule ends a schedule. Tasks that it has added stay. At each of its times, a schedule becomes another job. If that happens at this
// moment, the transaction waits for the first job and does not see the second one: so it looks again until there is none.
func (a *api) dropSchedule(c *call) error {
	name := c.PathValue("name")
	ctx, cancel := c.within()
	defer cancel()
	for dropped := false; ; dropped = true {
		_, err := a.seenSchedule(c, tokens.ManageTasks, name)
		if none := (*problem.Problem)(nil); dropped && errors.As(err, &none) && none.Code == problem.NotFound {
			c.WriteHeader(http.StatusNoContent)
			return nil
		}
		if err == nil {
			err = a.change(ctx, func(tx *sql.Tx) error {
				_, err := a.Jobs.Cancel(ctx, tx, queue_job.Key(schedules.Type, name))
				return err
			})
		}
		if err != nil && dropped {
			return fmt.Errorf("%w: %w", tables.ErrUnknown, err)
		}
		if err != nil {
			return err
		}
	}
}
