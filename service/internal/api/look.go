package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// job is the job that a request's path names, by id or by topic and name, if the caller may do that with its topic. Jobs of other
// types are not the service's: they are not there.
func (a *api) jobOf(c *call, scope tokens.Scope) (*queue_job.JobInfo, *topics.Topic, error) {
	which, err := a.which(c)
	if err != nil {
		return nil, nil, err
	}
	return a.jobBy(c, scope, func(ctx context.Context) (*queue_job.JobInfo, error) { return a.Jobs.Get(ctx, a.DB, which) })
}

// jobBy is jobOf by another way of reading.
func (a *api) jobBy(c *call, scope tokens.Scope, get func(context.Context) (*queue_job.JobInfo, error)) (*queue_job.JobInfo, *topics.Topic, error) {
	ctx, cancel := c.within()
	defer cancel()
	job, err := get(ctx)
	if err != nil {
		return nil, nil, noJob(err)
	}
	topic := a.Topics.OfType(job.JobType)
	if topic == nil || !c.caller.MayTopic(scope, topic.Name) {
		return nil, nil, noJob(queue_job.ErrNoJob)
	}
	return job, topic, nil
}

func (a *api) which(c *call) (queue_job.Selector, error) {
	if name := c.PathValue("name"); name != "" {
		topic := a.Topics.Named(c.PathValue("topic"))
		if topic == nil || !task.CanBeKey(name) {
			return queue_job.Selector{}, noJob(queue_job.ErrNoJob)
		}
		return queue_job.Key(topic.Type, name), nil
	}
	id, err := strconv.ParseUint(c.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		return queue_job.Selector{}, problem.New(
			problem.NotFound, "%q is no id of a task; an id is a number, as adding a task answers it", c.PathValue("id"))
	}
	return queue_job.ID(id), nil
}

func (a *api) showTask(c *call) error {
	if wait, err := waitOf(c); err != nil || wait > 0 {
		if err != nil {
			return err
		}
		return a.awaitTask(c, wait)
	}
	job, topic, err := a.jobOf(c, tokens.ReadTasks)
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, viewOf(job, topic))
}

// showBody answers with JSON, and not with the body itself: a browser would take that for a page of ours.
func (a *api) showBody(c *call) error {
	job, _, err := a.jobOf(c, tokens.ReadBodies)
	if err != nil {
		return err
	}
	content, bad := task.ParseContent(job.JobParams)
	if bad != nil {
		return bad
	}
	var body struct {
		ContentType string            `json:"content_type,omitempty"`
		Headers     map[string]string `json:"headers,omitempty"`
		Text        string            `json:"body_text,omitempty"`
		Base64      string            `json:"body_base64,omitempty"`
	}
	body.ContentType, body.Headers = content.ContentType, content.Headers
	if utf8.Valid(content.Body) {
		body.Text = string(content.Body)
	} else {
		body.Base64 = base64.StdEncoding.EncodeToString(content.Body)
	}
	return c.say(http.StatusOK, body)
}

// attempt is a run that did not succeed.
type attempt struct {
	Run      int    `json:"run"`
	Outcome  string `json:"outcome"`
	Error    string `json:"error,omitempty"`
	Started  string `json:"started,omitempty"`
	Finished string `json:"finished"`
	Instance string `json:"instance,omitempty"`
}

func (a *api) listAttempts(c *call) error {
	job, _, err := a.jobOf(c, tokens.ReadTasks)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	runs, err := a.Jobs.Attempts(ctx, a.DB, job.Id)
	if err != nil {
		return err
	}
	list := make([]attempt, len(runs))
	for i, run := range runs {
		list[i] = attempt{run.Attempt, run.Outcome, run.Error, stamp(run.Started), stamp(run.Finished), run.Instance}
	}
	return c.say(http.StatusOK, struct {
		Attempts []attempt `json:"attempts"`
	}{list})
}

const (
	pageDefault = 100
	pageMax     = 1000
)

// query is which tasks a list has. A cursor holds it whole, so the pages of a list have one filter.
type query struct {
	Topic    string
	Statuses []status
	States   []string `json:",omitempty"`
	Name     string

	CreatedFrom, CreatedTo, DueFrom, DueTo, UpdatedFrom, UpdatedTo time.Time

	Oldest bool
	Limit  int
	Last   uint64 // id of the last task of the page before
}

func (a *api) listTasks(c *call) error {
	q, err := queryOf(c.URL.Query())
	if err != nil {
		return err
	}
	filter, err := a.filter(c, q)
	if err != nil {
		return err
	}
	if len(filter.JobTypes) == 0 { // that would mean all types
		return c.say(http.StatusOK, page{Tasks: []view{}})
	}
	ctx, cancel := c.within()
	defer cancel()
	var jobs []queue_job.JobInfo
	err = a.search(ctx, "name a topic, or begin with created_from", func(ex queue_job.Executor) (err error) {
		jobs, err = a.Jobs.List(ctx, ex, filter)
		return err
	})
	if err != nil {
		return err
	}
	p := page{Tasks: []view{}}
	for i := range jobs {
		topic := a.Topics.OfType(jobs[i].JobType)
		if topic == nil {
			continue
		}
		if v := viewOf(&jobs[i], topic); q.wants(&v) {
			p.Tasks = append(p.Tasks, v)
		}
	}
	if len(jobs) == filter.Limit {
		q.Last = jobs[len(jobs)-1].Id
		p.Cursor = q.cursor()
	}
	return c.say(http.StatusOK, p)
}

// wants reports whether a task of the jobs that the filter has found is one that was asked for: the filter does not tell expired tasks from
// cancelled ones.
func (q *query) wants(v *view) bool {
	return len(q.Statuses) == 0 || slices.Contains(q.Statuses, v.Status) || v.Status == waiting && slices.Contains(q.Statuses, status(v.State))
}

// page is a part of a list. The cursor leads to the next part; without one, this is the last.
type page struct {
	Tasks  []view `json:"tasks"`
	Cursor string `json:"cursor,omitempty"`
}

// queryOf reads a filter from the parameters of a request, or from the cursor that one of them is. Beside a cursor, the others may stand
// that it came from.
func queryOf(values url.Values) (*query, error) {
	q := &query{Limit: pageDefault}
	from := ""
	if cursor := values.Get("cursor"); cursor != "" {
		var err error
		if q, err = cursorQuery(cursor); err != nil {
			return nil, err
		}
		from = q.cursor()
	}
	times := map[string]*time.Time{
		"created_from": &q.CreatedFrom, "created_to": &q.CreatedTo,
		"due_from": &q.DueFrom, "due_to": &q.DueTo, "updated_from": &q.UpdatedFrom, "updated_to": &q.UpdatedTo,
	}
	var wrong []problem.Field
	for name, all := range values {
		value, err := all[0], error(nil)
		switch {
		case value == "" && (name == "topic" || name == "name"):
			err = errEmpty
		case name == "topic":
			q.Topic = value
		case name == "name":
			if q.Name = value; !task.CanBeKey(value) {
				err = errNoName
			}
		case name == "status":
			q.Statuses, err = statusesOf(all)
		case name == "state":
			q.States, err = queue_job.ParseStates(strings.Split(strings.Join(all, ","), ",")...)
		case name == "order":
			if q.Oldest = value == "asc"; !q.Oldest && value != "desc" {
				err = fmt.Errorf("it is to be asc or desc")
			}
		case name == "limit":
			if q.Limit, err = strconv.Atoi(value); err != nil || q.Limit < 1 || q.Limit > pageMax {
				err = fmt.Errorf("it is to be a number from 1 to %d", pageMax)
			}
		case times[name] != nil:
			*times[name], err = limitOf(task.ParseTime(value))
		}
		if err != nil {
			wrong = append(wrong, problem.Field{Pointer: "?" + name, Detail: err.Error()})
		}
	}
	if len(wrong) == 0 {
		wrong = append(wrong, q.span().empty("?")...)
	}
	if q.Name != "" && q.Topic == "" {
		wrong = append(wrong, problem.Field{Pointer: "?name", Detail: "a name belongs to a topic; set topic, too"})
	}
	if from != "" && q.cursor() != from {
		wrong = append(wrong, problem.Field{Pointer: "?cursor", Detail: "it came from another list; send it alone, or with the parameters of its list"})
	}
	if len(wrong) > 0 {
		return nil, problem.OfFields(wrong)
	}
	return q, nil
}

var errEmpty = errors.New("it is empty, and would choose nothing; give it a value, or leave it out for all")

var errNoName = fmt.Errorf("no task can be called that: a name has at most %d characters of UTF-8, no zero, and no white space at an end",
	task.NameMax)

// limitOf says of a time that was read whether it may limit a list of tasks. The second 0 would be no limit.
func limitOf(at time.Time, err error) (time.Time, error) {
	if err == nil && at.Unix() <= 0 {
		err = fmt.Errorf("it is 1970, and no task is as old; use a later time, or leave it out for no limit")
	}
	return at, err
}

// span are the times between which tasks were created, changed and due. Each range ends before its end.
type span struct{ CreatedFrom, CreatedTo, DueFrom, DueTo, UpdatedFrom, UpdatedTo time.Time }

func (q *query) span() span {
	return span{q.CreatedFrom, q.CreatedTo, q.DueFrom, q.DueTo, q.UpdatedFrom, q.UpdatedTo}
}

// empty says which ends make it one in which no task can be: no second is between them, or each task was changed before it was created.
func (s span) empty(prefix string) (wrong []problem.Field) {
	for _, r := range []struct {
		from, to         time.Time
		nameFrom, nameTo string
	}{
		{s.CreatedFrom, s.CreatedTo, "created_from", "created_to"},
		{s.DueFrom, s.DueTo, "due_from", "due_to"}, {s.UpdatedFrom, s.UpdatedTo, "updated_from", "updated_to"},
		{s.CreatedFrom, s.UpdatedTo, "created_from", "updated_to"},
	} {
		if !r.from.IsZero() && !r.to.IsZero() && r.to.Unix() <= r.from.Unix() {
			wrong = append(wrong,
				problem.Field{Pointer: prefix + r.nameTo,
					Detail: fmt.Sprintf("no task is in a time that ends then and begins with %s; name a later end, or an earlier beginning", r.nameFrom)})
		}
	}
	return wrong[:min(len(wrong), 1)]
}

func statusesOf(texts []string) (list []status, err error) {
	for s := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		word := inFirstWords(status(s))
		if jobStatuses[word] == nil {
			return nil, fmt.Errorf("there is no status %q; there are %s", s, allStatuses)
		}
		list = append(list, word)
	}
	return list, nil
}

// statesOf are the states of the tasks with these statuses. What is scheduled may be few among many that are queued, or the other way round, so the
// jobs are found by their states then. Nil: their statuses find them as well.
func (q *query) statesOf() (states []string) {
	if len(q.States) > 0 || !slices.Contains(q.Statuses, scheduled) && !slices.Contains(q.Statuses, queued) {
		return nil
	}
	for _, s := range q.Statuses {
		if s == expired {
			s = cancelled
		}
		some, _ := queue_job.ParseStates(string(s)) // which has all other words
		states = append(states, some...)
	}
	return states
}

// filter is what the query means for the jobs, as far as the caller may read them.
func (a *api) filter(c *call, q *query) (queue_job.Filter, error) {
	f := queue_job.Filter{
		Key: q.Name, States: q.States, Limit: q.Limit, NewestFirst: !q.Oldest, OmitLongParams: true,
		CreatedFrom: q.CreatedFrom, CreatedTo: q.CreatedTo, DueFrom: q.DueFrom, DueTo: q.DueTo, UpdatedFrom: q.UpdatedFrom, UpdatedTo: q.UpdatedTo,
	}
	if q.Oldest {
		f.After = q.Last
	} else {
		f.Before = q.Last
	}
	if states := q.statesOf(); states != nil {
		f.States = states
	}
	for _, s := range q.Statuses {
		for _, job := range jobStatuses[s] {
			if !slices.Contains(f.Statuses, job) {
				f.Statuses = append(f.Statuses, job)
			}
		}
	}
	for _, topic := range a.Topics.All() {
		if (q.Topic == "" || q.Topic == topic.Name) && c.caller.MayTopic(tokens.ReadTasks, topic.Name) {
			f.JobTypes = append(f.JobTypes, topic.Type)
		}
	}
	if q.Topic != "" {
		return f, mayTopic(c.caller, tokens.ReadTasks, q.Topic)
	}
	return f, nil
}

func (q *query) cursor() string {
	text, _ := json.Marshal(q) // texts, numbers and times
	return base64.RawURLEncoding.EncodeToString(text)
}

// cursorQuery reads a cursor. It grants nothing: what the caller may see is asked anew for each page.
func cursorQuery(cursor string) (*query, error) {
	q := &query{}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, q)
	}
	if err == nil && (q.Limit < 1 || q.Limit > pageMax || q.Last == 0) {
		err = fmt.Errorf("it has no limit or no last task")
	}
	if err == nil && !task.CanBeKey(q.Name) {
		err = errNoName
	}
	for _, at := range []time.Time{q.CreatedFrom, q.CreatedTo, q.DueFrom, q.DueTo, q.UpdatedFrom, q.UpdatedTo} {
		if err == nil && !at.IsZero() {
			_, err = limitOf(at, nil)
		}
	}
	if err == nil {
		_, err = queue_job.ParseStates(q.States...)
	}
	for _, s := range q.Statuses {
		if err == nil && jobStatuses[s] == nil {
			err = fmt.Errorf("no status %q", s)
		}
	}
	if err != nil {
		return nil, problem.OfField("?cursor", "it is no cursor of ours: take it from the answer as it is, without other parameters")
	}
	return q, nil
}
