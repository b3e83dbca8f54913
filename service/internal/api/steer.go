package api

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// steer changes the task that a request names, and answers with the task as it is then. If nothing was changed, it was too late: the
// sentence says for what.
//
// May refuses what would be in vain, if it is not nil.
func (a *api) steer(
	c *call, late string, may func(*task.Content) error, do func(ctx context.Context, tx *sql.Tx, which queue_job.Selector) (changed int, err error),
) error {
	before, topic, err := a.jobOf(c, tokens.ManageTasks)
	if err != nil {
		return err
	}
	if content, bad := task.ParseContent(before.JobParams); bad == nil && may != nil {
		if err := may(content); err != nil {
			return err
		}
	}
	ctx, cancel := c.within()
	defer cancel()
	var job *queue_job.JobInfo
	err = a.change(ctx, func(tx *sql.Tx) error {
		changed, err := do(ctx, tx, queue_job.ID(before.Id))
		switch {
		case errors.Is(err, queue_job.ErrInFlight):
			return problem.New(problem.InFlight, "the task is being sent at this moment; try again when it waits, or cancel it")
		case err != nil:
			return err
		case changed == 0:
			return problem.New(problem.Ended, "the task is %s; %s", statusOf(before, time.Time{}), late)
		}
		job, err = a.Jobs.Get(ctx, tx, queue_job.ID(before.Id))
		return noJob(err)
	})
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, viewOf(job, topic))
}

func (a *api) cancelTask(c *call) error {
	const late = "only a task that has not ended can be cancelled"
	return a.steer(c, late, nil, func(ctx context.Context, tx *sql.Tx, which queue_job.Selector) (int, error) {
		return a.Jobs.Cancel(ctx, tx, which)
	})
}

func (a *api) runTask(c *call) error {
	return a.steer(c, "retry sends a task again that has failed or was cancelled",
		a.inTime(c), func(ctx context.Context, tx *sql.Tx, which queue_job.Selector) (int, error) {
			return a.Jobs.Reschedule(ctx, tx, which, time.Unix(0, 0)) // at once, whatever the clock here says
		})
}

func (a *api) retryTask(c *call) error {
	return a.steer(c, "only a task that has failed or was cancelled can be retried; run sends one at once that waits",
		a.inTime(c), func(ctx context.Context, tx *sql.Tx, which queue_job.Selector) (int, error) {
			again, err := a.Jobs.Retry(ctx, tx, which)
			return again.Jobs, err
		})
}

// changeTask changes when a task is sent, and how urgent it is.
func (a *api) changeTask(c *call) error {
	text, release, err := a.body(c, oneMax)
	if err != nil {
		return err
	}
	defer release()
	change, err := changeOf(text, a.clock(c))
	if err != nil {
		return err
	}
	return a.steer(c, "only a task that has not ended can be changed",
		change.inTime, func(ctx context.Context, tx *sql.Tx, which queue_job.Selector) (changed int, err error) {
			if !change.at.IsZero() {
				if changed, err = a.Jobs.Reschedule(ctx, tx, which, change.at); err != nil || changed == 0 {
					return changed, err
				}
			}
			if change.priority != nil {
				changed, err = a.Jobs.SetPriority(ctx, tx, which, *change.priority)
			}
			return changed, err
		})
}

type change struct {
	at       time.Time // zero: as it is
	pointer  string    // to the field that says so
	priority *queue_job.Priority
}

// inTime refuses to send a task that has expired.
func (a *api) inTime(c *call) func(*task.Content) error {
	return func(t *task.Content) error {
		over, err := isOver(t.Expires, 0, a.clock(c))
		if over {
			return problem.New(problem.Ended, "the task has expired at %s, and is not sent any more; add it anew, with another expires",
				stamp(t.Expires))
		}
		return err
	}
}

// inTime refuses a time at which a task has expired.
func (c *change) inTime(t *task.Content) error {
	if !c.at.IsZero() && task.IsTooLate(t.Expires, c.at) {
		return problem.OfField(c.pointer, "the task expires at %s, and would not be sent any more then; add it anew, with another expires",
			stamp(t.Expires))
	}
	return nil
}

func changeOf(text []byte, clock func() (time.Time, error)) (c change, err error) {
	var given struct {
		At       json.RawMessage `json:"at"`
		Delay    json.RawMessage `json:"delay"`
		Priority json.RawMessage `json:"priority"`
	}
	if err := decode(text, &given); err != nil {
		return c, err
	}
	if given.At != nil && given.Delay != nil {
		return c, problem.OfField("/delay", "a task has at or delay, not both; leave one out")
	}
	if given.At == nil && given.Delay == nil && given.Priority == nil {
		return c, problem.OfField("", "nothing is to be changed; set at, delay or priority")
	}
	if given.At != nil {
		c.pointer = "/at"
		if c.at, err = task.ParseTimeJSON(given.At); err != nil {
			return c, problem.OfField("/at", "%v", err)
		}
	}
	if given.Delay != nil {
		delay, err := task.ParseDelay(given.Delay)
		if err != nil {
			return c, problem.OfField("/delay", "%v", err)
		}
		now, err := clock()
		if err != nil {
			return c, err
		}
		c.at, c.pointer = now.Add(delay), "/delay"
	}
	if given.Priority != nil {
		priority, err := task.ParsePriority(given.Priority)
		if err != nil {
			return c, problem.OfField("/priority", "%v", err)
		}
		c.priority = &priority
	}
	return c, nil
}
