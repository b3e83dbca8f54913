package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	chosenMost = 1000            // jobs that are changed at a time
	firstSpan  = 2 * time.Second // that the search for the first of them goes along the ids
)

// chosen are jobs that somebody has chosen, by hand or as the first ones of a list.
type chosen struct {
	jobs         []queue_job.JobInfo // the newest first
	others       int                 // that were chosen, and are gone or not who asks's to change
	searchedFrom uint64              // if the search ended before there were as many as may be chosen; 0: it did not
}

// chosenIn are the jobs that a request has chosen. Nil: it is for all jobs of its query.
func (c *console) chosenIn(ctx context.Context, r *http.Request, do Verb) (*chosen, error) {
	switch r.FormValue("which") {
	case "", "all":
		return nil, nil
	case "first":
		return c.firstOf(ctx, r, do)
	case "checked":
	default:
		return nil, failed(http.StatusBadRequest, "which=%q: use checked, first or all.", r.FormValue("which"))
	}
	if len(r.Form["id"]) == 0 {
		return nil, failed(http.StatusBadRequest, "No job is checked. Go back and check some, or choose the first 1,000 in place of the checked jobs.")
	}
	ids, err := idsOf(strings.Split(strings.Join(r.Form["id"], ","), ","))
	if err != nil {
		return nil, err
	}
	jobs, err := c.jobs.List(ctx, c.ex, queue_job.Filter{IDs: ids, NewestFirst: true, OmitLongParams: true, Limit: chosenMost})
	if err != nil {
		return nil, err
	}
	return c.allowed(r, do, &chosen{jobs: jobs, others: len(ids) - len(jobs)})
}

// idsOf reads ids, and sorts them.
func idsOf(texts []string) (ids []uint64, err error) {
	for _, text := range texts {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id == 0 {
			return nil, failed(http.StatusBadRequest, "%q is no id of a job.", text)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > chosenMost {
		return nil, failed(http.StatusBadRequest, "These are %d jobs; there is room for %d.", len(ids), chosenMost)
	}
	return ids, nil
}

// firstOf are the first jobs of a list.
func (c *console) firstOf(ctx context.Context, r *http.Request, do Verb) (*chosen, error) {
	a, err := c.askedFor(r, false)
	if err != nil {
		return nil, err
	}
	if a.Wrong != "" {
		return nil, failed(http.StatusBadRequest, "%s.", a.Wrong)
	}
	s := query.Search{Jobs: c.jobs, Ex: c.ex, Limit: chosenMost, Most: firstSpan, Statements: a.left, Shown: c.shown}
	found, err := s.Find(ctx, a.query)
	if err != nil {
		return nil, err
	}
	first := &chosen{jobs: found.Jobs}
	if len(found.Jobs) < chosenMost {
		first.searchedFrom = found.GoOn
	}
	return c.allowed(r, do, first)
}

// allowed leaves out the jobs to which the sender of a request may not do something. If no job is left, that is an error.
func (c *console) allowed(r *http.Request, do Verb, of *chosen) (*chosen, error) {
	all := len(of.jobs)
	of.jobs = slices.DeleteFunc(of.jobs, func(j queue_job.JobInfo) bool { return c.allow(r, do, j.JobType) != nil })
	of.others += all - len(of.jobs)
	if all > 0 && len(of.jobs) == 0 {
		return nil, c.refused(do)
	}
	return of, nil
}

func (of *chosen) ids() (ids []uint64) {
	for i := range of.jobs {
		ids = append(ids, of.jobs[i].Id)
	}
	return ids
}

// asksFor is what somebody is asked before these jobs are changed.
func (of *chosen) asksFor(do Verb, r *http.Request) manyJobs {
	const sample = 10
	var ids []string
	for _, id := range of.ids() {
		ids = append(ids, strconv.FormatUint(id, 10))
	}
	return manyJobs{Do: do, Type: r.FormValue("type"), State: r.FormValue("state"), Text: r.FormValue("q"),
		Chosen: strings.Join(ids, ","), Others: of.others, SearchedFrom: of.searchedFrom,
		Preview: &operate.Preview{Jobs: len(of.jobs), Sample: of.jobs[:min(len(of.jobs), sample)]}}
}

// changeChosen changes jobs that were chosen: at once, for they are few. Each verb leaves alone what it can do nothing to by now.
func (c *console) changeChosen(ctx context.Context, r *http.Request, do Verb, of *chosen) (outcome, to string, err error) {
	fields := url.Values{}
	for _, name := range []string{"type", "state", "q"} {
		if value := r.PostFormValue(name); value != "" {
			fields.Set(name, value)
		}
	}
	if to = "jobs"; len(fields) > 0 {
		to += "?" + fields.Encode()
	}
	if len(of.jobs) == 0 {
		return "nothing", to, nil
	}
	which, n := queue_job.ID(of.ids()...), 0
	switch do {
	case Cancel:
		n, err = c.jobs.Cancel(ctx, c.ex, which)
	case RunNow:
		n, err = c.jobs.Reschedule(ctx, c.ex, which, time.Unix(0, 0)) // at once, whatever the clock here says
	case Delete:
		n, err = c.jobs.DeleteJobs(ctx, c.ex, which)
		if errors.Is(err, queue_job.ErrNewest) {
			err = nil
		}
	case Retry:
		var again queue_job.Retried
		again, err = c.jobs.Retry(ctx, c.ex, which)
		n = again.Jobs
	}
	outcome, err = ifChanged(strings.ReplaceAll(string(do), " ", "-")+"-chosen", n, err)
	return outcome, to, err
}
