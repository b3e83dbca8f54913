package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
)

// overview is how things are, and how they were in a span of time.
type overview struct {
	*operate.Health
	Window  *window
	Choices []choice
	// NoPast is why what ran is not there. Nil: it is.
	NoPast error

	fleet    *fleet
	series   *faces.Series   // nil: it could not be read
	happened *faces.Happened // never nil
}

func (c *console) overview(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	fleet, err := c.fleetNow(r)
	if err != nil {
		return nil, err
	}
	maySee := func(jobType int32) bool { return c.permit(r, See, jobType) }
	o := &overview{Health: operate.HealthOf(fleet.Fleet, maySee), fleet: fleet, happened: &faces.Happened{}}
	if o.Window, err = spanOf(r, fleet.Now); err != nil {
		return nil, err
	}
	o.Choices = o.Window.among(spans)
	types := numbersOf(o.Types)
	if o.series, o.NoPast = c.seriesOf(r.Context(), o.Window, types); o.NoPast != nil { // how things are can be said without it
		return o, nil
	}
	var happened *faces.Happened
	if happened, o.NoPast = c.happenedIn(r.Context(), o.Window); happened != nil {
		o.happened = c.happenedFor(r, happened, len(o.Types) == len(fleet.types))
	}
	return o, nil
}

// happenedFor leaves out acts on types that somebody may not see. Acts on jobs do not say their types: only who sees all types, also such that
// nobody knows, gets them.
func (c *console) happenedFor(r *http.Request, h *faces.Happened, seesKnown bool) *faces.Happened {
	const unknown = math.MinInt32
	all := seesKnown && c.permit(r, See, unknown)
	seen := *h
	seen.Acts = slices.DeleteFunc(slices.Clone(h.Acts), func(a faces.Act) bool {
		if a.JobType != nil {
			return !c.permit(r, See, *a.JobType)
		}
		return !all
	})
	return &seen
}

// sameAs is what the page is made of: it is the same for all who may see the same types and acts. It has the fleet, so a page without pictures
// is not shown for longer than that is.
func (o *overview) sameAs() any {
	var acts strings.Builder
	for _, a := range o.happened.Acts {
		fmt.Fprintf(&acts, "%d ", a.ID)
	}
	return struct {
		*fleet
		*faces.Series
		span, noPast, types, acts, marks string
	}{o.fleet, o.series, string(o.Window.Query()), fmt.Sprint(o.NoPast), fmt.Sprint(numbersOf(o.Types)), acts.String(),
		fmt.Sprint(o.happened.Deploys, slices.Sorted(maps.Keys(o.happened.Mutes)))}
}

// Worst is how bad the worst finding is, as a class.
func (o *overview) Worst() string {
	if len(o.Findings) == 0 {
		return "good"
	}
	return o.Findings[0].Severity.String()
}

// Has reports whether there is anything to draw.
func (o *overview) Has() bool { return o.series != nil }

// Runs and Latency are the pictures, and Marks are the deploys in them.
func (o *overview) Runs() plot    { return runsPlot(o.series.All, o.series.Earlier) }
func (o *overview) Latency() plot { return latencyPlot(o.series.All, o.series.Earlier) }
func (o *overview) Marks() []mark { return marksOf(o.happened, o.series) }
func (o *overview) Clocks() clocks {
	return clocksOf(o.series.Begin, o.series.Begin.Add(time.Duration(len(o.series.All))*o.series.Step))
}

// Past is the same as a table.
func (o *overview) Past() *chart {
	periods := make([]operate.Period, len(o.series.All))
	for i := range periods {
		periods[i] = o.series.All[i].Period
	}
	return chartOf(periods, nil, int(o.Window.rows/o.Window.step))
}

// tileOf is a number of now with how it went.
type tileOf struct {
	Name, Value, Of string
	Title           string // what it says in a sentence
	Trend           string // beside before; empty: it is as before, or that is not known
	Worse           bool
	Spark           area
}

// lately is what is compared with the rest of a span: its last five minutes, or its last column.
const lately = 5 * time.Minute

// split divides the steps into recent and earlier ones, and leaves out a step that is not over.
func (o *overview) split() (last, before []faces.Step) {
	steps := o.series.All
	if n := len(steps); n > 1 && steps[n-1].Begin.Add(o.series.Step).After(o.At) {
		steps = steps[:n-1]
	}
	n := min(len(steps), max(1, int(lately/o.series.Step)))
	return steps[len(steps)-n:], steps[:len(steps)-n]
}

// stepsSum is the sum of several steps.
type stepsSum struct {
	ended, failed int64
	delays        operate.Histogram
	waiting       float64 // on average
}

func sumOf(steps []faces.Step) (s stepsSum) {
	for i := range steps {
		s.ended += steps[i].Ended()
		for status, n := range steps[i].Runs {
			if isFailure(status) {
				s.failed += n
			}
		}
		s.delays.Add(&steps[i].Delays)
		s.waiting += float64(steps[i].Waiting) / float64(len(steps))
	}
	return s
}

// share is how many of a hundred runs failed.
func (s *stepsSum) share() float64 { return 100 * float64(s.failed) / float64(max(1, s.ended)) }

// Tiles are the six numbers that say how things go.
func (o *overview) Tiles() []tileOf {
	last, before := o.split()
	now, was := sumOf(last), sumOf(before)
	span := lengthText(o.series.Step * time.Duration(len(last)))
	perMinute := func(n int64, steps []faces.Step) float64 {
		return float64(n) / (o.series.Step * time.Duration(max(1, len(steps)))).Minutes()
	}
	numbers := func(of func(*faces.Step) float64) area {
		list := make([]float64, len(o.series.All))
		for i := range list {
			list[i] = of(&o.series.All[i])
		}
		return areaOf(list)
	}
	rate, rateWas := perMinute(now.ended, last), perMinute(was.ended, before)
	throughput := tileOf{Name: "Throughput", Value: short(rate), Of: "/min",
		Title: fmt.Sprintf("%s runs ended in the last %s", count(now.ended), span),
		Spark: numbers(func(s *faces.Step) float64 { return float64(s.Ended()) })}
	if len(before) > 0 {
		throughput.Trend = relative(rate, rateWas)
	}
	failures := tileOf{Name: "Error rate", Value: decimalShare(now.share()), Of: "%", Worse: now.share() >= was.share(),
		Title: fmt.Sprintf("%s of %s runs failed in the last %s, %s %% in this span before",
			count(now.failed), count(now.ended), span, decimalShare(was.share())),
		Spark: numbers(func(s *faces.Step) float64 { one := sumOf([]faces.Step{*s}); return one.share() })}
	if diff := now.share() - was.share(); was.ended > 0 && now.ended > 0 && (diff >= 0.1 || diff <= -0.1) {
		failures.Trend = fmt.Sprintf("%s %s", arrow(diff), decimalShare(max(diff, -diff)))
	}
	if now.ended == 0 {
		failures.Value, failures.Of = "–", ""
	}
	latency := tileOf{Name: "Latency p99", Value: "–", Title: "99 of 100 runs started within this time of when they were due, in the last " + span,
		Spark: numbers(func(s *faces.Step) float64 { return float64(s.Delays.Quantile(0.99)) })}
	if now.delays.Count() > 0 {
		q, qWas := now.delays.Quantile(0.99), was.delays.Quantile(0.99)
		latency.Value, latency.Worse = words.Span(q), q > qWas
		if was.delays.Count() > 0 && (q >= 2*qWas || qWas >= 2*q) { // it is known within a factor of two
			latency.Trend = arrow(float64(q-qWas)) + " from " + words.Span(qWas)
		}
	}
	return append([]tileOf{throughput, failures}, append(o.tilesOfNow(was.waiting, numbers), latency)...)
}

// tilesOfNow are the numbers that holders have told a moment ago.
func (o *overview) tilesOfNow(waited float64, numbers func(func(*faces.Step) float64) area) []tileOf {
	var running, workers, due int
	var lag time.Duration
	more := ""
	for _, t := range o.Types {
		running += t.Running
		if m := t.Memory; m != nil {
			workers, due, lag = workers+m.Workers, due+m.Due(), max(lag, m.Overdue)
			if m.More {
				more = "+"
			}
		}
	}
	tiles := []tileOf{
		{Name: "Running", Value: count(int64(running)), Title: "handlers that run at this moment",
			Spark: numbers(func(s *faces.Step) float64 { return float64(s.Busy) })},
		{Name: "Queued", Value: count(int64(due)) + more,
			Title: "jobs in the memory of their holders that are due and have not started; with a plus, the table has more",
			Trend: relative(float64(due), waited), Worse: float64(due) > waited, Spark: numbers(func(s *faces.Step) float64 { return float64(s.Waiting) })},
		{Name: "Lag", Value: "none", Title: "how long the oldest job in memory has been due",
			Spark: numbers(func(s *faces.Step) float64 { return float64(s.Overdue) })},
	}
	if workers >= running && workers > 0 {
		tiles[0].Of = "of " + count(int64(workers))
	}
	if lag > 0 {
		tiles[2].Value = words.Span(lag)
	}
	return tiles
}

// relative says by how much a number differs from what it was, if both are large enough to tell.
func relative(now, was float64) string {
	if was < 1 || now == was {
		return ""
	}
	switch part := 100 * (now - was) / was; {
	case part >= 1000:
		return fmt.Sprintf("▲ ×%s", short(now/was))
	case part >= 1 || part <= -1:
		return fmt.Sprintf("%s %.0f %%", arrow(part), max(part, -part))
	}
	return ""
}

func arrow(diff float64) string {
	if diff > 0 {
		return "▲"
	}
	return "▼"
}

// decimalShare writes a share with a digit behind the point, if it is small.
func decimalShare(percent float64) string {
	if percent > 0 && percent < 0.1 {
		return "<0.1"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", percent), ".0")
}

// queueRow is a line of the table of queues.
type queueRow struct {
	*operate.Type
	Level, Word  string // of its state: good, note, wait or bad, and what it is called
	Runs, Failed area   // drawn to one scale
	Ended        int64
	Share        string // of failed runs; empty: none ended
	P99          time.Duration
}

// sparkColumns is how many columns a small picture of a queue has at most.
const sparkColumns = 30

// Queues lists the types that the viewer may see. Types in trouble come first.
func (o *overview) Queues() []queueRow {
	rows := make([]queueRow, len(o.Types))
	for i, t := range o.Types {
		row := queueRow{Type: t}
		row.Level, row.Word = o.stateOf(t)
		if o.series != nil {
			if past := o.series.ByType[t.JobType]; past != nil {
				row.tell(past)
			}
		}
		rows[i] = row
	}
	order := []string{"bad", "wait"}
	rank := func(r queueRow) int {
		if at := slices.Index(order, r.Level); at >= 0 {
			return at
		}
		return len(order)
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Compare(rank(a), rank(b)) })
	return rows
}

func (row *queueRow) tell(past *faces.TypeSeries) {
	ended, failed := past.Sum()
	row.Ended, row.P99 = ended, past.Delays.Quantile(0.99)
	if ended > 0 {
		row.Share = decimalShare(100 * float64(failed) / float64(ended))
	}
	each := (len(past.Ended) + sparkColumns - 1) / sparkColumns
	var all, bad []float64
	for x := 0; x < len(past.Ended); x += each {
		var e, f float64
		for i := x; i < min(x+each, len(past.Ended)); i++ {
			e, f = e+float64(past.Ended[i]), f+float64(past.Failed[i])
		}
		all, bad = append(all, e), append(bad, f)
	}
	row.Runs = areaOf(all)
	if failed > 0 {
		row.Failed = areaTo(slices.Max(all), bad)
	}
}

// stateOf says how a type is, by the worst that was found of it.
func (o *overview) stateOf(t *operate.Type) (level, word string) {
	level, word = "good", "running"
	if t.State() != "runs" {
		level, word = "note", t.State()
	}
	i := slices.IndexFunc(o.Findings, func(f operate.Finding) bool {
		return f.JobType != nil && *f.JobType == t.JobType && f.Severity > operate.Note
	})
	if i < 0 {
		return level, word
	}
	f := &o.Findings[i] // the worst ones come first
	if f.Severity == operate.Critical {
		return "bad", f.Kind
	}
	return "wait", f.Kind
}

// SlotsWide is the width of the bar that shows a queue's workers. Slots is the part of the bar for busy workers.
func (row queueRow) SlotsWide() int { return 48 }
func (row queueRow) Slots() int {
	workers := workersBeside(row.Type)
	if workers == 0 || row.Running == 0 {
		return 0
	}
	return max(2, row.SlotsWide()*row.Running/workers) // one of a hundred is seen
}

// errorRow is a line of the table of errors.
type errorRow struct {
	faces.ErrorTrend
	Queue string
	Spark area
	New   bool        // since the last deploy
	Muted *faces.Mute // nil: it is not
}

const errorsOnOverview = 6

// Errors are the errors that came most.
func (o *overview) Errors() []errorRow {
	rows := errorRows(o.series, o.happened, o.NameOf)
	return rows[:min(len(rows), errorsOnOverview)]
}

// NameOf is what a type is called, or its number.
func (o *overview) NameOf(jobType int32) string {
	for _, t := range o.Types {
		if t.JobType == jobType && t.Name != "" {
			return t.Name
		}
	}
	return fmt.Sprint(jobType)
}

// newAfter is how long before a deploy an error must not have come for it to be new since then.
const newAfter = 10 * time.Minute

func errorRows(s *faces.Series, h *faces.Happened, nameOf func(int32) string) (rows []errorRow) {
	var deployed time.Time
	if n := len(h.Deploys); n > 0 {
		deployed = h.Deploys[n-1].At
	}
	for i := range s.Errors {
		e := &s.Errors[i]
		steps := make([]float64, len(e.Steps))
		for x, n := range e.Steps {
			steps[x] = float64(n)
		}
		muted := h.Mutes[e.ID]
		isNew := muted == nil && !deployed.IsZero() && !e.First.Before(deployed) && deployed.Sub(s.Begin) >= newAfter
		rows = append(rows, errorRow{*e, nameOf(e.JobType), areaOf(steps), isNew, muted})
	}
	slices.SortStableFunc(rows, func(a, b errorRow) int { return mutedLast(a.Muted, b.Muted) })
	return rows
}

// mutedLast moves muted errors to the end of the list.
func mutedLast(a, b *faces.Mute) int {
	return cmp.Compare(order(a != nil), order(b != nil))
}

// activityRow is a line of what happened last.
type activityRow struct {
	At        time.Time
	What      string
	By, Why   string
	JobType   *int32
	Operation uint64
}

const activityMost = 10

// Activity is what happened last: deploys, and what people did.
func (o *overview) Activity() (rows []activityRow) {
	for i := range o.happened.Deploys {
		d := &o.happened.Deploys[i]
		rows = append(rows, activityRow{At: d.At, What: "deploy", By: deployText(d)})
	}
	for _, a := range o.happened.Acts {
		row := activityRow{At: a.At, What: a.Verb, By: a.Actor, Why: a.Why, JobType: a.JobType}
		if a.Operation {
			row.Operation = a.ID
		}
		if a.JobType == nil && a.Jobs > 0 {
			row.What += " " + words.Count(a.Jobs, "job")
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b activityRow) int { return b.At.Compare(a.At) })
	return rows[:min(len(rows), activityMost)]
}

// deployText says which version was deployed, if somebody has told, and who came.
func deployText(d *faces.Deploy) string {
	said := d.Version
	if said != "" {
		said += ", as " + d.By + " said"
	}
	if len(d.Hosts) == 0 {
		return said
	}
	if said != "" {
		said += "; "
	}
	const hostsMost = 3
	hosts := strings.Join(d.Hosts[:min(len(d.Hosts), hostsMost)], ", ")
	if more := len(d.Hosts) - hostsMost; more > 0 {
		hosts += fmt.Sprintf(" and %d more", more)
	}
	return said + words.Count(len(d.Hosts), "instance") + ": " + hosts
}

// sinceThen reads the clock for how long ago something was.
func sinceThen(at, now time.Time) string {
	if d := now.Sub(at); d < time.Minute {
		return "just now"
	} else if d < time.Hour {
		return fmt.Sprintf("%d min ago", d/time.Minute)
	}
	return words.Span(now.Sub(at)) + " ago"
}
