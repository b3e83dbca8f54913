package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// runsForErrors is how many rows the log may have if the page of errors is to be about all of them.
const runsForErrors = 500

func (c *console) showErrors(r *http.Request) (any, error) {
	all, err := c.errors.get(r.Context(), func(ctx context.Context) (*faces.Errors, error) {
		return faces.LatestErrors(ctx, c.jobs, c.ex, runsForErrors)
	})
	if err != nil {
		return nil, err
	}
	seen := *all
	seen.Groups = slices.DeleteFunc(slices.Clone(all.Groups), func(g faces.ErrorGroup) bool { return !c.permit(r, See, g.JobType) })
	slices.SortStableFunc(seen.Groups, func(a, b faces.ErrorGroup) int {
		return mutedLast(seen.Mutes[faces.ErrorID(a.JobType, a.Text)], seen.Mutes[faces.ErrorID(b.JobType, b.Text)])
	})
	return seen, nil
}

// oneError is what is known of an error in a span of time.
type oneError struct {
	ID      string
	Window  *window
	Choices []choice
	Found   bool // any run ended with it
	faces.ErrorTrend
	Queue  string
	Known  bool // the type is in the registry
	Plot   plot
	Marks  []mark
	Clocks clocks
	New    bool
	Muted  *faces.Mute // nil: it is not

	Jobs []uint64 // jobs that failed for good with this error, the newest first; only the last rows of the log are read
	All  bool     // the log has no others
}

const (
	loggedRuns    = 2000 // of the log, that are looked at for jobs that failed with an error
	retriedMost   = 1000 // jobs at a time
	jobsOfAnError = 50   // that are shown
)

func (c *console) showError(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	now, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	e := &oneError{ID: r.PathValue("error")}
	if e.Window, err = spanOf(r, now); err != nil {
		return nil, err
	}
	e.Choices = e.Window.among(spans)
	types, err := c.typesKnown(r)
	if err != nil {
		return nil, err
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t queue_job.Type) bool { return !c.permit(r, See, t.JobType) })
	var numbers []int32
	for _, t := range types {
		numbers = append(numbers, t.JobType)
	}
	series, err := c.seriesOf(ctx, e.Window, numbers)
	if err != nil {
		return nil, err
	}
	happened, err := c.happenedIn(ctx, e.Window)
	if err != nil {
		return nil, err
	}
	e.Clocks = clocksOf(series.Begin, series.Begin.Add(time.Duration(len(series.All))*series.Step))
	runs, err := c.lastRuns(ctx)
	if err != nil {
		return nil, err
	}
	all := *series
	if !slices.ContainsFunc(all.Errors, func(t faces.ErrorTrend) bool { return t.ID == e.ID }) { // the minute is not over, or it is told by nobody
		if t, logged := trendOf(runs, e.ID, series); logged && c.permit(r, See, t.JobType) {
			all.Errors = append(slices.Clone(all.Errors), t)
		}
	}
	rows := errorRows(&all, happened, func(jobType int32) string { return queueName(types, jobType) })
	i := slices.IndexFunc(rows, func(row errorRow) bool { return row.ID == e.ID })
	if i < 0 {
		return e, nil
	}
	e.Found, e.ErrorTrend, e.Queue, e.New = true, rows[i].ErrorTrend, rows[i].Queue, rows[i].New
	e.Muted = rows[i].Muted
	e.Plot, e.Marks = countPlot(e.Steps), marksOf(happened, series)
	e.Jobs, e.All = failedWith(runs, e.JobType, e.ID), len(runs) < loggedRuns
	return e, nil
}

// lastRuns are the last runs of the log: of the newest jobs, the newest first, and of each job the latest run first.
func (c *console) lastRuns(ctx context.Context) ([]record.TypedAttempt, error) {
	st, err := bridge.QueueJob.StoreOf(c.jobs, c.ex)
	if err != nil {
		return nil, err
	}
	return st.LastAttempts(ctx, loggedRuns)
}

// trendOf is what runs of the log say of an error in the span of a series.
func trendOf(runs []record.TypedAttempt, id string, s *faces.Series) (t faces.ErrorTrend, logged bool) {
	t = faces.ErrorTrend{ID: id, Steps: make([]int64, len(s.All))}
	for i := range runs {
		run, at := &runs[i], time.UnixMilli(runs[i].Finished)
		if run.Gone || at.Before(s.Begin) || faces.ErrorID(run.JobType, run.Error) != id {
			continue
		}
		if step := int(at.Sub(s.Begin) / s.Step); step < len(t.Steps) {
			t.Steps[step]++
		}
		if t.Runs++; run.Outcome == queue_job.JobStatusFailed.String() {
			t.Failed++
		}
		if t.First.IsZero() || at.Before(t.First) {
			t.First = at
		}
		if !at.Before(t.Last) {
			t.JobType, t.Text, t.Last, t.Job = run.JobType, run.Error, at, run.JobID
		}
	}
	return t, t.Runs > 0
}

func queueName(types []queue_job.Type, jobType int32) string {
	i := slices.IndexFunc(types, func(t queue_job.Type) bool { return t.JobType == jobType })
	if i < 0 || types[i].Name == "" {
		return strconv.Itoa(int(jobType))
	}
	return types[i].Name
}

// failedWith are the jobs of a type whose last run failed for good with an error, of those whose runs these are.
func failedWith(runs []record.TypedAttempt, jobType int32, id string) (jobs []uint64) {
	last := uint64(0)
	for i := range runs {
		run := &runs[i]
		isLast := run.JobID != last
		last = run.JobID
		if isLast && !run.Gone && run.JobType == jobType && run.Outcome == queue_job.JobStatusFailed.String() && faces.ErrorID(jobType, run.Error) == id {
			jobs = append(jobs, run.JobID)
		}
	}
	return jobs
}

// Shown are the newest of the jobs.
func (e *oneError) Shown() []uint64 { return e.Jobs[:min(len(e.Jobs), jobsOfAnError)] }

// AtOnce is how many jobs are retried at a time at most.
func (e *oneError) AtOnce() int { return min(len(e.Jobs), retriedMost) }

// retryFailedWith retries the jobs that failed with an error and are still as they were.
func (c *console) retryFailedWith(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	id := r.PathValue("error")
	jobType, to, err := c.errorIn(r, Retry)
	if err != nil {
		return "", "", err
	}
	runs, err := c.lastRuns(ctx)
	ids := failedWith(runs, jobType, id)
	if err != nil || len(ids) == 0 {
		return "nothing", to, err
	}
	still, err := c.jobs.List(ctx, c.ex, queue_job.Filter{
		IDs: ids, Statuses: []queue_job.JobStatus{queue_job.JobStatusFailed}, OmitLongParams: true, Limit: retriedMost})
	if err != nil || len(still) == 0 {
		return "nothing", to, err
	}
	ids = ids[:0]
	for i := range still {
		ids = append(ids, still[i].Id)
	}
	again, err := c.jobs.Retry(ctx, c.ex, queue_job.ID(ids...))
	outcome, err = ifChanged("retried-all", again.Jobs, err)
	return outcome, to, err
}

// errorIn is the job type of the error that a form is about, if its sender may do something with that, and the page that leads there.
func (c *console) errorIn(r *http.Request, do Verb) (jobType int32, to string, err error) {
	n, err := strconv.ParseInt(r.PostFormValue("type"), 10, 32)
	if err != nil {
		return 0, "", failed(http.StatusBadRequest, "type=%q is no job type.", r.PostFormValue("type"))
	}
	to = "errors/" + r.PathValue("error")
	now, _ := c.clock.now() // the page that leads here has read it
	if span, err := spanOf(r, now); err == nil {
		to += "?" + string(span.Query())
	}
	return int32(n), to, c.allow(r, do, int32(n))
}

// changeError has an error be no news for a while, or be news again.
func (c *console) changeError(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	jobType, to, err := c.errorIn(r, Mute)
	if err != nil {
		return "", "", err
	}
	text := r.PostFormValue("text")
	if faces.ErrorID(jobType, text) != r.PathValue("error") {
		return "", "", failed(http.StatusBadRequest, "The form is about another error than its address.")
	}
	switch r.PathValue("do") {
	case "mute":
		lasts, errSpan := words.ParseSpan(strings.TrimSpace(r.PostFormValue("for")))
		if errSpan != nil {
			return "", "", failed(http.StatusBadRequest, "for=%q: use a time up to 90 days, as in 30m, 2h or 1d.", r.PostFormValue("for"))
		}
		outcome, err = "muted", faces.MuteError(ctx, c.jobs, c.ex, jobType, text, lasts)
	case "unmute":
		outcome, err = "unmuted", faces.UnmuteError(ctx, c.jobs, c.ex, jobType, text)
	default:
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", r.PathValue("do"))
	}
	if errors.Is(err, faces.ErrUnfit) {
		return "", "", failed(http.StatusBadRequest, "%v.", err)
	}
	c.errors.forget()
	return outcome, to, err
}

// countPlot draws how many there were in each step.
func countPlot(numbers []int64) plot {
	p := plot{Steps: len(numbers)}
	top := roundUp(slices.Max(append([]int64{1}, numbers...)))
	p.row(plotHeight-0.5, "0")
	p.row(0.5, short(float64(top)))
	path := ""
	for x, n := range numbers {
		if n > 0 {
			h := max(1, float64(n)/float64(top)*plotHeight)
			path += fmt.Sprintf("M%d.1 %.1fh.8v%.1fh-.8z", x, plotHeight-h, h)
		}
	}
	p.Shapes = []shape{{"failed", "runs", path}}
	return p
}
