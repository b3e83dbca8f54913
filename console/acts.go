package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

const actsOnAPage = 100

// pageOfActs is a page of what people did.
type pageOfActs struct {
	Job        uint64 // 0: to whatever there is
	Acts       []operate.Act
	Operations []operate.Operation // the last ones, on the first page
	Older      template.URL        // the query of the next page; empty: there is none
}

func (c *console) acts(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	q := r.URL.Query()
	var a pageOfActs
	f := operate.ActFilter{Limit: actsOnAPage + 1}
	for name, to := range map[string]*uint64{"job": &f.Job, "before": &f.Before} {
		if text := q.Get(name); text != "" {
			var err error
			if *to, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, failed(http.StatusBadRequest, "%s=%q is no id.", name, text)
			}
		}
	}
	a.Job = f.Job
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	var err error
	if a.Acts, err = operate.Acts(ctx, c.jobs, c.ex, f); err != nil {
		return nil, err
	}
	if len(a.Acts) > actsOnAPage {
		a.Acts = a.Acts[:actsOnAPage]
		next := url.Values{"before": {strconv.FormatUint(a.Acts[actsOnAPage-1].Id, 10)}}
		if f.Job > 0 {
			next.Set("job", strconv.FormatUint(f.Job, 10))
		}
		a.Older = template.URL(next.Encode()) // the encoding is all that a page must escape
	}
	if f.Job == 0 && f.Before == 0 {
		const lastOperations = 10
		if a.Operations, err = operate.Operations(ctx, c.jobs, c.ex, 0, lastOperations); err != nil {
			return nil, err
		}
		a.Operations = slices.DeleteFunc(a.Operations, func(o operate.Operation) bool { return c.allowMany(r, See, o.Change.Filter.JobTypes) != nil })
	}
	if a.Acts, err = c.visibleActs(ctx, r, a.Acts); err != nil {
		return nil, err
	}
	for i := range a.Acts {
		a.Acts[i].Detail = c.maskDetail(a.Acts[i].Detail)
	}
	return a, nil
}

// visibleActs leaves out acts of which the sender of a request may not see the type or the jobs. An act on jobs does not say their types,
// so who may not see all types gets those whose jobs are all there and may all be seen.
func (c *console) visibleActs(ctx context.Context, r *http.Request, acts []operate.Act) ([]operate.Act, error) {
	acts = slices.DeleteFunc(acts, func(a operate.Act) bool { return a.JobType != nil && !c.permit(r, See, *a.JobType) })
	if all, err := c.seesAll(r); all || err != nil {
		return acts, err
	}
	const most = 10_000 // that a list returns
	var ids []uint64
	for i := range acts {
		if len(ids)+len(acts[i].Jobs) <= most {
			ids = append(ids, acts[i].Jobs...)
		}
	}
	seen := map[uint64]bool{}
	if len(ids) > 0 {
		jobs, err := c.jobs.List(ctx, c.ex, queue_job.Filter{IDs: ids, Limit: most, OmitLongParams: true})
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			seen[jobs[i].Id] = c.permit(r, See, jobs[i].JobType)
		}
	}
	return slices.DeleteFunc(acts, func(a operate.Act) bool {
		ofJobs := a.JobType == nil && a.Changed > 0
		return ofJobs && (len(a.Jobs) == 0 || slices.ContainsFunc(a.Jobs, func(id uint64) bool { return !seen[id] }))
	}), nil
}

// seesAll reports whether the sender of a request may see every type. It asks the permit for each known type, and for a type that nobody
// knows.
func (c *console) seesAll(r *http.Request) (bool, error) {
	const unknown = math.MinInt32
	if !c.permit(r, See, unknown) {
		return false, nil
	}
	types, err := c.typesKnown(r)
	return !slices.ContainsFunc(types, func(t queue_job.Type) bool { return !c.permit(r, See, t.JobType) }), err
}

// maskDetail masks what an act has changed: parameters stand there as a text within JSON.
func (c *console) maskDetail(detail string) string {
	var d struct {
		Before json.RawMessage `json:"before,omitempty"`
		After  json.RawMessage `json:"after,omitempty"`
	}
	if json.Unmarshal([]byte(detail), &d) != nil || d.Before == nil && d.After == nil {
		return c.mask(detail)
	}
	for _, part := range []*json.RawMessage{&d.Before, &d.After} {
		if *part == nil {
			continue
		}
		text := string(*part)
		isText := json.Unmarshal(*part, &text) == nil
		if text = c.mask(text); isText || !json.Valid([]byte(text)) {
			text = jsonOf(text)
		}
		*part = json.RawMessage(text)
	}
	return jsonOf(d)
}

// about says what an act is about, if it is not about one job or one type.
func about(a operate.Act) string {
	switch {
	case a.Changed > 0:
		return words.Count(a.Changed, "job")
	case a.Operation > 0:
		return fmt.Sprintf("operation %d", a.Operation)
	}
	return ""
}

// operation is an operation, and the last of its parts.
type operation struct {
	operate.Operation
	Percent int
	May     bool // be steered, by who looks
	Parts   []operate.Act
}

func (c *console) showOperation(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	o, err := c.operationFor(ctx, r)
	if err != nil {
		return nil, err
	}
	shown := operation{Operation: *o, Percent: 100, May: c.allowMany(r, doOf(o), o.Change.Filter.JobTypes) == nil}
	if o.Last > 0 {
		shown.Percent = int(100 * o.Reached / o.Last)
	}
	const lastParts = 20
	if shown.Parts, err = operate.Acts(ctx, c.jobs, c.ex, operate.ActFilter{Operation: o.Id, Limit: lastParts}); err != nil {
		return nil, err
	}
	if len(o.Change.Filter.JobTypes) == 0 { // otherwise, the sender may see all of its jobs
		shown.Parts, err = c.visibleActs(ctx, r, shown.Parts)
	}
	return shown, err
}

// outdates: an operation that is over, or was stopped, does not begin any more.
func (o operation) outdates(said string) bool {
	isOpen := o.State == "open"
	return (said == "begun" || said == "goes-on") && !isOpen || said == "stopped" && isOpen
}

// operationFor reads the operation in a request's path, if its sender may see all of its jobs.
func (c *console) operationFor(ctx context.Context, r *http.Request) (*operate.Operation, error) {
	text := r.PathValue("id")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return nil, failed(http.StatusNotFound, "%q is no id of an operation.", text)
	}
	o, err := operate.OperationOf(ctx, c.jobs, c.ex, id)
	if errors.Is(err, operate.ErrNoOperation) {
		return nil, failed(http.StatusNotFound, "There is no operation %d.", id)
	}
	if err == nil {
		err = c.allowMany(r, See, o.Change.Filter.JobTypes)
	}
	return o, err
}

// allowMany returns an error unless the sender of a request may do something with all of these types; none: with any.
func (c *console) allowMany(r *http.Request, do Verb, types []int32) error {
	if len(types) == 0 {
		types = []int32{anyType}
	}
	for _, jobType := range types {
		if err := c.allow(r, do, jobType); err != nil {
			return err
		}
	}
	return nil
}

// manyVerbs are what may be done to many jobs at once, and what somebody needs to be permitted for it.
var manyVerbs = map[Verb]operate.Verb{Cancel: operate.Cancel, Retry: operate.Retry, RunNow: operate.Reschedule, Delete: operate.Delete}

// changeOf reads what is to be done to which jobs, from a form.
func (c *console) changeOf(r *http.Request) (do Verb, change operate.Change, a *asked, err error) {
	do, change.Verb, err = verbIn(r)
	if err != nil {
		return do, change, nil, err
	}
	if a, err = c.changedBy(r); err != nil {
		return do, change, nil, err
	}
	change.Filter = a.query.Filter
	if do == RunNow {
		change.Due = time.Unix(0, 0)
	}
	if text := r.FormValue("rate"); text != "" {
		if change.PerSecond, err = strconv.Atoi(text); err != nil || change.PerSecond < 0 {
			return do, change, nil, failed(http.StatusBadRequest, "%q is no number of jobs a second.", text)
		}
	}
	return do, change, a, c.allowMany(r, do, change.Filter.JobTypes)
}

// verbIn is what a request asks to do to many jobs.
func verbIn(r *http.Request) (do Verb, verb operate.Verb, err error) {
	do = Verb(r.FormValue("verb"))
	verb, known := manyVerbs[do]
	if !known {
		return do, verb, failed(http.StatusBadRequest, "%q cannot be done to many jobs at once.", do)
	}
	return do, verb, nil
}

// changedBy is what a request asks for, if these jobs can be changed all at once.
func (c *console) changedBy(r *http.Request) (*asked, error) {
	a, err := c.askedFor(r, false)
	if err != nil {
		return nil, err
	}
	if r.FormValue("q") == "" { // an older address: a key alone
		a.query = a.query.Exact()
	}
	switch q := a.query; {
	case a.Wrong != "":
		return nil, failed(http.StatusBadRequest, "%s.", a.Wrong)
	case q.OnlyLists() != "":
		return nil, failed(http.StatusBadRequest, "Jobs cannot be changed all at once by %s: no index leads to them.", q.OnlyLists())
	case len(q.Filter.States) > 0:
		return nil, failed(http.StatusBadRequest,
			"Jobs that are %s cannot be changed all at once: a job may leave that state before its turn comes. Choose them by status:%s.",
			strings.Join(q.Filter.States, " or "), query.Statuses(&q.Filter)[0])
	}
	return a, nil
}

// manyJobs is what somebody is asked before many jobs are changed.
type manyJobs struct {
	Do                Verb
	Type, State, Text string
	*operate.Preview

	// Chosen are the ids of the jobs, if they were chosen one by one, or as the first ones of a list. Others were chosen, too, and are gone or
	// not who asks's to change. SearchedFrom is as in pageOfJobs.
	Chosen       string
	Others       int
	SearchedFrom uint64
}

func (c *console) askForMany(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	do, _, err := verbIn(r)
	if err != nil {
		return nil, err
	}
	if of, err := c.chosenIn(ctx, r, do); err != nil {
		return nil, err
	} else if of != nil {
		return of.asksFor(do, r), nil
	}
	do, change, a, err := c.changeOf(r)
	if err != nil {
		return nil, err
	}
	preview, err := operate.PreviewOf(ctx, c.jobs, c.ex, change)
	if ctx.Err() != nil {
		return nil, failed(http.StatusServiceUnavailable,
			"The jobs could not be counted within %v: too few of too many match. Narrow it to a type and a status, or use pqueue job %s.",
			readMax, strings.ReplaceAll(string(do), " ", "-"))
	}
	if err != nil {
		return nil, err
	}
	return manyJobs{Do: do, Type: a.Type, State: a.State, Text: a.query.Text(), Preview: preview}, nil
}

// begin begins an operation.
func (c *console) begin(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	do, _, err := verbIn(r)
	if err != nil {
		return "", "", err
	}
	of, err := c.chosenIn(ctx, r, do)
	if err != nil {
		return "", "", err
	}
	var change operate.Change
	if of == nil {
		if _, change, _, err = c.changeOf(r); err != nil {
			return "", "", err
		}
	}
	if strings.TrimSpace(r.PostFormValue("why")) == "" {
		return "", "", failed(http.StatusBadRequest, "Say why: who comes after you will want to know.")
	}
	if of != nil {
		return c.changeChosen(ctx, r, do, of)
	}
	id, err := operate.Begin(ctx, c.jobs, c.ex, change)
	return "begun", "operations/" + strconv.FormatUint(id, 10), err
}

func (c *console) changeOperation(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	o, err := c.operationFor(ctx, r)
	if err != nil {
		return "", "", err
	}
	if err := c.allowMany(r, doOf(o), o.Change.Filter.JobTypes); err != nil {
		return "", "", err
	}
	changed := false
	switch do := r.PathValue("do"); do {
	case "stop":
		outcome = "stopped"
		changed, err = operate.Stop(ctx, c.jobs, c.ex, o.Id)
	case "resume":
		outcome = "goes-on"
		changed, err = operate.Resume(ctx, c.jobs, c.ex, o.Id)
	default:
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", do)
	}
	if !changed {
		outcome = "nothing"
	}
	return outcome, "operations/" + strconv.FormatUint(o.Id, 10), err
}

// doOf is what somebody must be permitted to do, to steer an operation.
func doOf(o *operate.Operation) Verb {
	for do, verb := range manyVerbs {
		if verb == o.Change.Verb {
			return do
		}
	}
	return Verb(o.Change.Verb)
}

// manyFor returns what may be done to all jobs that a filter selects, by the sender of a request.
func (c *console) manyFor(r *http.Request, f queue_job.Filter) (may []Verb) {
	return slices.DeleteFunc(verbsFor(&f), func(do Verb) bool { return c.allowMany(r, do, f.JobTypes) != nil })
}

// chosenFor returns the verbs that may be used on at least one of these jobs, which a filter has selected.
func (c *console) chosenFor(r *http.Request, f queue_job.Filter, jobs []queue_job.JobInfo) (may []Verb) {
	return slices.DeleteFunc(verbsFor(&f), func(do Verb) bool {
		return !slices.ContainsFunc(jobs, func(j queue_job.JobInfo) bool { return c.allow(r, do, j.JobType) == nil })
	})
}

// verbsFor returns what makes sense for jobs that a filter selects.
func verbsFor(f *queue_job.Filter) (list []Verb) {
	statuses := query.Statuses(f)
	all := len(statuses) == 0
	pending, givenUp, ended := all, all, all
	for _, s := range statuses {
		pending = pending || s.Pending()
		givenUp = givenUp || s == queue_job.JobStatusFailed || s == queue_job.JobStatusCancelled
		ended = ended || !s.Pending()
	}
	for _, v := range []struct {
		do    Verb
		makes bool // sense
	}{{Retry, givenUp}, {RunNow, pending}, {Cancel, pending}, {Delete, ended}} {
		if v.makes {
			list = append(list, v.do)
		}
	}
	return list
}
