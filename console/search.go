package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	jobsOnAPage = 50
	searchMax   = 60 * time.Millisecond // that a search goes along the ids
	statements  = 4                     // that a search may send: one more reads the types

	listsMax = 50 // that all who look share; a page of jobs may take some hundred kilobytes
)

// listKey is what a list is about: the words of its address, and the types that they mean for whoever looks.
type listKey struct{ types, state, text, before string }

// asked is what a list is about.
type asked struct {
	Types       []queue_job.Type // that who looks may see
	Type, State string
	Text        string // the query as it was written, with the key of an older address
	Wrong       string // what is wrong with the query; empty: nothing

	query *query.Query
	left  int // statements for the search
}

// askedFor reads what a request asks for. Its address may have a key, as all did that could not search: the id of a job, or its key. The types are
// read if the page lists them, or the query has a name of a queue.
func (c *console) askedFor(r *http.Request, listsTypes bool) (a *asked, err error) {
	a = &asked{Type: r.FormValue("type"), Text: strings.TrimSpace(r.FormValue("q")), left: statements, query: &query.Query{}}
	if key := strings.TrimSpace(r.FormValue("key")); key != "" { // no key begins or ends with a blank
		a.Text = strings.TrimSpace(a.Text + " " + query.Quote(key))
	}
	if a.State, err = stateAsked(r); err != nil {
		return nil, err
	}
	q, err := query.Parse(a.Text, time.UTC)
	if listsTypes || err == nil && len(q.Names) > 0 {
		types, err := c.typesKnown(r)
		if err != nil {
			return nil, err
		}
		a.Types = slices.DeleteFunc(slices.Clone(types), func(t queue_job.Type) bool { return !c.permit(r, See, t.JobType) })
	}
	if err == nil {
		err = a.choose(q)
	}
	if err == nil {
		err = q.SetTypes(a.Types)
	}
	if f, is := err.(*failure); is {
		return nil, f
	}
	if err != nil {
		a.Wrong = err.Error()
		return a, nil
	}
	if slices.ContainsFunc(q.Filter.JobTypes, func(jobType int32) bool { return !c.permit(r, See, jobType) }) {
		return nil, c.refused(See)
	}
	now, fresh := c.clock.now()
	if r.FormValue("ids") != "" {
		a.left--
	}
	if !fresh {
		a.left-- // the page asks for the clock at the end, if the search does not
	}
	if q.Counted() && !fresh {
		if now, err = c.now(r.Context()); err != nil {
			return nil, err
		}
	}
	q.SetNow(now)
	a.query = q
	return a, nil
}

// choose adds to a query what was chosen beside it.
func (a *asked) choose(q *query.Query) error {
	if a.Type != "" {
		n, err := strconv.ParseInt(a.Type, 10, 32)
		switch {
		case err != nil:
			return failed(http.StatusBadRequest, "%q is no job type: give its number.", a.Type)
		case q.Has("queue"):
			return fmt.Errorf("queue: a queue is chosen beside the search, too; leave one of them out")
		}
		q.SetType(int32(n))
	}
	if a.State != "" {
		if q.Has("state") || q.Has("status") {
			return fmt.Errorf("state: a state is chosen beside the search, too; leave one of them out")
		}
		if q.SetState(a.State) != nil {
			return failed(http.StatusBadRequest, "%q is no state.", a.State)
		}
	}
	return nil
}

// search finds the jobs of a page, and one more if there is one, from the newest down.
func (c *console) search(ctx context.Context, a *asked, before uint64) (*query.Found, error) {
	q := *a.query
	q.Filter.Before = before
	about := listKey{fmt.Sprint(q.Filter.JobTypes), a.State, a.Text, strconv.FormatUint(before, 10)}
	return c.lists.of(freshFor, about).get(ctx, func(ctx context.Context) (*query.Found, error) {
		s := query.Search{Jobs: c.jobs, Ex: c.ex, Limit: jobsOnAPage + 1, Most: searchMax, Statements: a.left, Shown: c.shown}
		found, err := s.Find(ctx, &q)
		if err == nil && !found.Now.IsZero() {
			c.clock.heard(found.Now)
		}
		return found, err
	})
}
