package console

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// seriesKey is which span of which types a series is about.
type seriesKey struct{ span, types string }

const seriesMax = 60 // that all who look share

// seriesOf reads what ran of types. All who may see the same types share it.
func (c *console) seriesOf(ctx context.Context, w *window, types []int32) (*faces.Series, error) {
	return c.series.of(w.fresh(), seriesKey{string(w.Query()), fmt.Sprint(types)}).get(ctx, func(ctx context.Context) (*faces.Series, error) {
		now, err := c.now(ctx)
		if err != nil {
			return nil, err
		}
		from, before := w.until(now)
		return faces.SeriesOf(ctx, c.jobs, c.ex, types, from, before, w.step, w.compare)
	})
}

// happenedIn reads who came in a span, and what people did last.
func (c *console) happenedIn(ctx context.Context, w *window) (*faces.Happened, error) {
	const fresh = 10 * time.Second
	return c.happened.of(fresh, string(w.Query())).get(ctx, func(ctx context.Context) (*faces.Happened, error) {
		now, err := c.now(ctx)
		if err != nil {
			return nil, err
		}
		from, _ := w.until(now)
		return faces.HappenedSince(ctx, c.jobs, c.ex, from)
	})
}

// numbersOf are the numbers of types.
func numbersOf(types []*operate.Type) (list []int32) {
	for _, t := range types {
		list = append(list, t.JobType)
	}
	return list
}

// columns is a series as data, a column for each of its numbers. Times are unix seconds, and spans milliseconds.
type columns struct {
	From     int64              `json:"from"`
	Step     int64              `json:"step"`
	T        []int64            `json:"t"` // when steps begin
	Started  []int64            `json:"started"`
	Runs     map[string][]int64 `json:"runs"` // that ended, by their outcome
	Lost     []int64            `json:"lost"`
	Deferred []int64            `json:"deferred"`
	Delay    percentiles        `json:"queue_latency_ms"`
	Took     percentiles        `json:"duration_ms"`
	Waiting  []int64            `json:"waiting"`
	Lag      []int64            `json:"lag_ms"`
	Busy     []int64            `json:"busy"`
	Errors   []errorColumn      `json:"errors"`
	Deploys  []deployMark       `json:"deploys"`
	Before   *compared          `json:"before,omitempty"`
}

// compared is the span of the same length before: when its steps begin, all runs that ended in each, and how late 99 of 100 started. Null: not
// known, or nothing ran.
type compared struct {
	T     []int64    `json:"t"`
	Ended []*int64   `json:"runs"`
	P99   []*float64 `json:"queue_latency_ms"`
}

func comparedWith(earlier []faces.Step) *compared {
	if len(earlier) == 0 {
		return nil
	}
	c := &compared{}
	var delays percentiles
	for i := range earlier {
		var ended *int64
		if n := earlier[i].Ended(); earlier[i].Length > 0 {
			ended = &n
		}
		c.T, c.Ended = append(c.T, earlier[i].Begin.Unix()), append(c.Ended, ended)
		delays.add(&earlier[i].Delays)
	}
	c.P99 = delays.P99
	return c
}

// percentiles are of the runs of each step; null: there were none.
type percentiles struct {
	P50 []*float64 `json:"p50"`
	P95 []*float64 `json:"p95"`
	P99 []*float64 `json:"p99"`
}

func (p *percentiles) add(h *operate.Histogram) {
	for _, of := range []struct {
		to   *[]*float64
		part float64
	}{{&p.P50, 0.5}, {&p.P95, 0.95}, {&p.P99, 0.99}} {
		var ms *float64
		if h.Count() > 0 {
			exact := float64(h.Quantile(of.part).Microseconds()) / 1000
			ms = &exact
		}
		*of.to = append(*of.to, ms)
	}
}

type errorColumn struct {
	ID    string  `json:"id"`
	Queue int32   `json:"queue"`
	Text  string  `json:"text"`
	Runs  []int64 `json:"runs"`
}

type deployMark struct {
	At      int64    `json:"at"`
	Hosts   []string `json:"hosts"`
	Version string   `json:"version,omitempty"`
}

const errorColumnsMost = 20

func columnsOf(s *faces.Series, h *faces.Happened) *columns {
	c := &columns{From: s.Begin.Unix(), Step: int64(s.Step / time.Second), Runs: map[string][]int64{}, Errors: []errorColumn{}, Deploys: []deployMark{}}
	for _, status := range outcomesInOrder {
		c.Runs[outcomeWord(status)] = make([]int64, len(s.All))
	}
	for i := range s.All {
		step := &s.All[i]
		c.T = append(c.T, step.Begin.Unix())
		c.Started, c.Lost, c.Deferred = append(c.Started, step.Started()), append(c.Lost, step.Lost), append(c.Deferred, step.Deferred)
		for status, n := range step.Runs {
			if word := outcomeWord(status); c.Runs[word] != nil {
				c.Runs[word][i] = n
			}
		}
		c.Delay.add(&step.Delays)
		c.Took.add(&step.Durations)
		c.Waiting, c.Lag, c.Busy = append(c.Waiting, step.Waiting), append(c.Lag, step.Overdue.Milliseconds()), append(c.Busy, step.Busy)
	}
	for _, e := range s.Errors[:min(len(s.Errors), errorColumnsMost)] {
		c.Errors = append(c.Errors, errorColumn{e.ID, e.JobType, e.Text, e.Steps})
	}
	for _, d := range h.Deploys {
		c.Deploys = append(c.Deploys, deployMark{d.At.Unix(), append([]string{}, d.Hosts...), d.Version})
	}
	c.Before = comparedWith(s.Earlier)
	return c
}

// outcomeWord is how a run has ended that led to a status.
func outcomeWord(status queue_job.JobStatus) string {
	switch status {
	case queue_job.JobStatusSuccess:
		return "completed"
	case queue_job.JobStatusRetry:
		return "retried"
	case queue_job.JobStatusContinue:
		return "continued"
	}
	return status.String()
}

// serveSeries sends the data of the charts for a span: for the types that the request names, or for all that the viewer may see.
func (c *console) serveSeries(w http.ResponseWriter, r *http.Request) {
	data, err := c.seriesFor(r)
	if err != nil {
		c.writeError(w, c.pageFor(r, "error"), "There is no such data", err)
		return
	}
	text, err := json.Marshal(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	tag := fmt.Sprintf(`"%x"`, sum.Sum64())
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

func (c *console) seriesFor(r *http.Request) (*columns, error) {
	if c.ex == nil {
		return nil, errNoHandle
	}
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	types, err := c.queuesAsked(r) // first, because a look at the fleet reads the clock as well
	if err != nil {
		return nil, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	span, err := spanOf(r, now)
	if err != nil {
		return nil, err
	}
	series, err := c.seriesOf(ctx, span, types)
	if err != nil {
		return nil, err
	}
	happened := &faces.Happened{}
	if c.permit(r, See, anyType) {
		if happened, err = c.happenedIn(ctx, span); err != nil {
			return nil, err
		}
	}
	return columnsOf(series, happened), nil
}

// queuesAsked are the types that a request names, or all that its sender may see, in their order.
func (c *console) queuesAsked(r *http.Request) (types []int32, err error) {
	text := r.URL.Query().Get("queues")
	if text == "" {
		known, err := c.typesFor(r)
		return numbersOf(known), err
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(part, 10, 32)
		switch {
		case err != nil:
			return nil, failed(http.StatusBadRequest, "queues=%q: use numbers of job types, with commas between them.", text)
		case !c.permit(r, See, int32(n)):
			return nil, c.refused(See)
		}
		types = append(types, int32(n))
	}
	slices.Sort(types)
	return slices.Compact(types), nil
}
