package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	flowsOnAPage    = 50
	flowJobsOnAPage = 200
	flowListsMax    = 100
	waitsShown      = 3 // names of jobs that a job waits for
)

// flowsKey says which flows a look was for.
type flowsKey struct{ state, kind, key, before string }

// pageOfFlows is a list of flows.
type pageOfFlows struct {
	flowsKey
	States []string
	Flows  []queue_job.FlowInfo
	Older  template.URL // the query of the next page; empty: there is none
	None   bool         // there is no table for them: nobody has migrated it
}

// State, Kind and Key are what the page was asked for.
func (p pageOfFlows) State() string { return p.state }
func (p pageOfFlows) Kind() string  { return p.kind }
func (p pageOfFlows) Key() string   { return p.key }

func (c *console) showFlows(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	q := r.URL.Query()
	p := pageOfFlows{flowsKey: flowsKey{q.Get("state"), strings.TrimSpace(q.Get("kind")), strings.TrimSpace(q.Get("key")), q.Get("before")},
		States: faces.FlowWords()}
	filter := queue_job.FlowFilter{Kind: p.kind, Key: p.key, Limit: flowsOnAPage + 1}
	if p.state != "" {
		if err := faces.ChooseFlows(&filter, p.state); err != nil {
			return nil, failed(http.StatusBadRequest, "%q is no state.", p.state)
		}
	}
	if p.before != "" {
		var err error
		if filter.Before, err = strconv.ParseUint(p.before, 10, 64); err != nil {
			return nil, failed(http.StatusBadRequest, "before=%q is no id.", p.before)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	found, err := c.flows.of(0, p.flowsKey).get(ctx, func(ctx context.Context) ([]queue_job.FlowInfo, error) {
		return c.jobs.Flows(ctx, c.ex, filter)
	})
	switch {
	case errors.Is(err, queue_job.ErrNoTables):
		p.None = true
	case err != nil:
		return nil, err
	}
	if p.Flows = found; len(found) > flowsOnAPage {
		p.Flows = found[:flowsOnAPage]
		next := url.Values{"before": {strconv.FormatUint(p.Flows[flowsOnAPage-1].Id, 10)}}
		for name, value := range map[string]string{"state": p.state, "kind": p.kind, "key": p.key} {
			if value != "" {
				next.Set(name, value)
			}
		}
		p.Older = template.URL(next.Encode()) // the encoding is all that a page must escape
	}
	return p, nil
}

// oneFlow is the page of a flow.
type oneFlow struct {
	*operate.FlowExplanation
	Word             string
	Graph            *graph // nil: it is too large
	Rows             []flowRow
	After            int // the number of the first row
	More             int // the number of the first row of the next page; 0: there is none
	Cancels, Retries int // how many jobs that would change
}

// flowRow is a job of a flow.
type flowRow struct {
	*queue_job.FlowJobInfo
	Word     string // its state
	WaitsFor []string
	Others   int // that it waits for, too
	Result   string
}

func (c *console) showFlow(r *http.Request) (any, error) {
	e, err := c.flowFor(r)
	if err != nil {
		return nil, err
	}
	p := oneFlow{FlowExplanation: e, Word: faces.FlowWord(e.Flow), Graph: graphOf(e.Flow)}
	for i := range e.Reasons {
		e.Reasons[i].Text = c.mask(e.Reasons[i].Text)
	}
	p.Cancels, p.Retries = concerned(e.Flow)
	p.After, _ = strconv.Atoi(r.URL.Query().Get("after"))
	all := e.Flow.All()
	p.After = min(max(0, p.After), len(all))
	jobs := all[p.After:]
	if len(jobs) > flowJobsOnAPage {
		jobs, p.More = jobs[:flowJobsOnAPage], p.After+flowJobsOnAPage
	}
	waits := faces.WaitsFor(e.Flow)
	for i := range jobs {
		j := &jobs[i]
		row := flowRow{FlowJobInfo: j, Word: j.State(), WaitsFor: waits[j.Name], Result: c.shown(j.Result)}
		if row.Others = len(row.WaitsFor) - waitsShown; row.Others > 0 {
			row.WaitsFor = row.WaitsFor[:waitsShown]
		}
		if j.Problem != "" {
			row.Result = c.mask(j.Problem)
		}
		if job := e.Jobs[j.JobId]; job != nil && job.Pending() == j.Status.Pending() {
			row.Word = job.State()
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// flowFor is a flow that the sender of a request may see: all of it, or nothing.
func (c *console) flowFor(r *http.Request) (*operate.FlowExplanation, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		return nil, failed(http.StatusNotFound, "%q is no id of a flow.", r.PathValue("id"))
	}
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	e, err := operate.ExplainFlow(ctx, c.jobs, c.ex, id)
	switch {
	case err != nil:
		return nil, err
	case e.Flow == nil:
		return nil, failed(http.StatusNotFound, "There is no flow %d: the transaction that adds it has not committed, it was deleted, or it is in another "+
			"database or under another table prefix.", id)
	case slices.ContainsFunc(typesIn(e.Flow), func(jobType int32) bool { return !c.permit(r, See, jobType) }):
		return nil, c.refused(See)
	}
	return e, nil
}

// typesIn are the types of the jobs of a flow whose rows are there, each once.
func typesIn(f *queue_job.FlowInfo) (types []int32) {
	all := f.All()
	for i := range all {
		if j := &all[i]; j.HasRow && !slices.Contains(types, j.JobType) {
			types = append(types, j.JobType)
		}
	}
	return types
}

// concerned counts the jobs that a cancellation would cancel, and that a retry would have run.
func concerned(f *queue_job.FlowInfo) (cancels, retries int) {
	for _, j := range faces.FlowChanged(f, true) {
		if j.HoldsUp() {
			retries++
		}
	}
	for _, j := range faces.FlowChanged(f, false) {
		if j.JobId > 0 && !j.Gone && j.Status.Pending() {
			cancels++
		}
	}
	return cancels, retries
}

// CanCancel and CanRetry report whether there is something to do.
func (p oneFlow) CanCancel() bool {
	return p.Flow.State == queue_job.FlowOpen || p.Flow.State == queue_job.FlowCancelled && p.Cancels > 0
}
func (p oneFlow) CanRetry() bool {
	state := p.Flow.State
	return state == queue_job.FlowCancelled || p.Retries > 0 && (state == queue_job.FlowOpen || state == queue_job.FlowUndoing)
}

// changeFlow cancels or retries a flow. Who may do that with each type of its jobs, and with jobs of any type, may do it with the flow.
func (c *console) changeFlow(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	e, err := c.flowFor(r)
	if err != nil {
		return "", "", err
	}
	var verb Verb
	var do func(context.Context, queue_job.Executor, uint64) (int, error)
	switch r.PathValue("do") {
	case "cancel":
		verb, do, outcome = Cancel, c.jobs.CancelFlow, "flow-cancelled"
	case "retry":
		verb, do, outcome = Retry, c.jobs.RetryFlow, "flow-retried"
	default:
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", r.PathValue("do"))
	}
	for _, jobType := range append(typesIn(e.Flow), anyType) {
		if err := c.allow(r, verb, jobType); err != nil {
			return "", "", err
		}
	}
	to = "flows/" + strconv.FormatUint(e.Id, 10)
	n, err := do(ctx, c.ex, e.Id)
	switch {
	case errors.Is(err, queue_job.ErrFlowOpen):
		return "flow-open", to, nil
	case errors.Is(err, queue_job.ErrFlowUndone):
		return "nothing", to, nil
	case errors.Is(err, queue_job.ErrNoFlow):
		return "", "", failed(http.StatusNotFound, "There is no flow %d any more.", e.Id)
	case n == 0 && (verb == Retry) == (e.Flow.State == queue_job.FlowOpen), e.Flow.State == queue_job.FlowDone:
		outcome = "nothing"
	}
	return outcome, to, err
}
