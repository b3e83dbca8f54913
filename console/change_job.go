package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// jobChange is something that a button on the page of a job does.
type jobChange struct {
	verb   Verb
	change func(c *console, ctx context.Context, r *http.Request, which queue_job.Selector) (outcome string, err error)
}

// jobChanges are what may be done to a job, by the end of the address.
var jobChanges = map[string]jobChange{
	"cancel":       {Cancel, (*console).cancel},
	"retry":        {Retry, (*console).retry},
	"run-now":      {RunNow, (*console).runNow},
	"set-params":   {SetParams, (*console).setParams},
	"reschedule":   {Reschedule, (*console).reschedule},
	"set-priority": {SetPriority, (*console).setPriority},
	"delete":       {Delete, (*console).delete},
}

// needs are the verbs that a request needs a permit for.
func (d jobChange) needs(r *http.Request) []Verb {
	if d.verb == Retry && r.PostFormValue("params") != "" {
		return []Verb{Retry, SetParams}
	}
	return []Verb{d.verb}
}

// ifChanged is the outcome, if a job was changed.
func ifChanged(outcome string, changed int, err error) (string, error) {
	if changed == 0 {
		outcome = "nothing"
	}
	return outcome, err
}

func (c *console) cancel(ctx context.Context, _ *http.Request, which queue_job.Selector) (string, error) {
	n, err := c.jobs.Cancel(ctx, c.ex, which)
	return ifChanged("cancelled", n, err)
}

// retry has the job run again: with other parameters, if there are any in the form.
func (c *console) retry(ctx context.Context, r *http.Request, which queue_job.Selector) (string, error) {
	var again queue_job.Retried
	var err error
	if text := r.PostFormValue("params"); text == "" {
		again, err = c.jobs.Retry(ctx, c.ex, which)
	} else {
		var params queue_job.JSON
		if params, err = paramsOf(text); err == nil {
			again, err = c.writes.RetryWith(ctx, c.ex, which, params, queue_job.KeepSteps)
		}
	}
	if err == nil && again.Jobs == 0 && len(again.Taken) > 0 {
		return "taken", nil
	}
	if err == nil && again.Jobs == 0 && len(again.Undone) > 0 {
		return "undone", nil
	}
	return ifChanged("retried", again.Jobs, err)
}

func (c *console) runNow(ctx context.Context, _ *http.Request, which queue_job.Selector) (string, error) {
	n, err := c.jobs.Reschedule(ctx, c.ex, which, time.Unix(0, 0)) // at once, whatever the clock here says
	return ifChanged("due", n, err)
}

func (c *console) setParams(ctx context.Context, r *http.Request, which queue_job.Selector) (string, error) {
	params, err := paramsOf(r.PostFormValue("params"))
	if err != nil {
		return "", err
	}
	n, err := c.writes.SetParams(ctx, c.ex, which, params)
	return ifChanged("changed", n, err)
}

// paramsOf reads parameters from a form. It takes out the line breaks that the form has for people.
func paramsOf(text string) (queue_job.JSON, error) {
	var params bytes.Buffer
	if err := json.Compact(&params, []byte(text)); err != nil {
		return "", failed(http.StatusBadRequest, "The parameters are no JSON: %v. Go back; your text is still there.", err)
	}
	return queue_job.JSON(params.String()), nil
}

// dueLayouts are how browsers send a local time, which a page says is in UTC.
var dueLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04"}

func (c *console) reschedule(ctx context.Context, r *http.Request, which queue_job.Selector) (string, error) {
	text := r.PostFormValue("due")
	for _, layout := range dueLayouts {
		if due, err := time.Parse(layout, text); err == nil {
			n, err := c.jobs.Reschedule(ctx, c.ex, which, due)
			return ifChanged("changed", n, err)
		}
	}
	return "", failed(http.StatusBadRequest, "%q is no time. Give it as 2006-01-02T15:04:05, in UTC.", text)
}

// priorities are what a form may choose from.
var priorities = []queue_job.Priority{queue_job.PriorityUrgent, queue_job.PriorityHigh, queue_job.PriorityNormal, queue_job.PriorityLow}

func (c *console) setPriority(ctx context.Context, r *http.Request, which queue_job.Selector) (string, error) {
	text := r.PostFormValue("priority")
	i := slices.IndexFunc(priorities, func(p queue_job.Priority) bool { return p.String() == text })
	if i < 0 {
		return "", failed(http.StatusBadRequest, "%q is no priority.", text)
	}
	n, err := c.jobs.SetPriority(ctx, c.ex, which, priorities[i])
	return ifChanged("changed", n, err)
}

func (c *console) delete(ctx context.Context, _ *http.Request, which queue_job.Selector) (string, error) {
	n, err := c.jobs.DeleteJobs(ctx, c.ex, which)
	if errors.Is(err, queue_job.ErrNewest) {
		return "newest", nil
	}
	return ifChanged("deleted", n, err)
}
