package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// timeline is what is known of a job in the order of time, each thing with words, and with its place in time to scale. What is not kept has
// words, and no place.
type timeline struct {
	Moments []moment
	Left    int // runs before the first moments, for which there is no room
	Notes   []string

	Partial bool // what people did, and the steps of the job, were not read

	Ticks     []timeTick
	Now       string // where now is, in percent; empty: the job has ended
	TwoScales bool   // what is to come has a scale of its own
}

// timeTick is a text above the places.
type timeTick struct{ X, Anchor, Text string }

// moment is a line of a timeline.
type moment struct {
	At     time.Time
	Clock  string // At, without the day if the moment before has the same
	What   string
	State  string // a word that has a colour; empty: none
	Words  string
	Quote  string // in the words of somebody else: an error, a reason
	Ahead  bool   // it has not come
	Shapes []timeShape

	spans []timeSpan
	last  bool // the end of the job: the table has its second, in which other things may have happened before
}

// timeSpan is a part of a moment, before it has its place. Without an end, it is a point.
type timeSpan struct {
	class    string
	from, to time.Time
}

// timeShape is a part of a moment with its place, in percent of the width.
type timeShape struct {
	Class  string
	X, End string
	Width  string // empty: a point
	Line   bool   // it is drawn as a line: nothing ran, as far as is known
}

const (
	momentsMost   = 60 // of runs; there may be thousands
	spansMost     = 50 // runs of a line, each with a place of its own
	stepsApart    = 12 // if there are more, they stand in one line
	stepsDrawn    = 200
	retriesDrawn  = 3
	shapeLeast    = 0.5  // percent; less is not seen
	pastLeast     = 25.0 // percent: if what has been had less, what is to come gets a scale of its own
	pastWith      = 60.0 // which leaves it so much
	retriesFolded = 2    // from how many runs with the same error on they stand in one line
)

// teller tells the timeline of a job.
type teller struct {
	*operate.Explanation
	timeline
	due    time.Time // before the first run; zero: that is not kept
	last   time.Time // when the job began to wait, as far as the runs say that were told
	begins string    // and what happened then
}

// timelineOf tells what is known of a job. Who may not see what people did gets it without.
func timelineOf(e *operate.Explanation, withActs bool) *timeline {
	t := &teller{Explanation: e, timeline: timeline{Partial: e.Steps == nil}}
	t.added()
	t.ended()
	if t.Job.Pending() {
		t.waits()
	}
	t.steps()
	if withActs {
		t.acts()
	}
	t.place()
	return &t.timeline
}

func (t *teller) tell(m moment, spans ...timeSpan) {
	m.spans, m.Ahead = spans, m.At.After(t.At)
	t.Moments = append(t.Moments, m)
}

// added tells who added the job, if that is kept, and when it was due at first.
func (t *teller) added() {
	j := t.Job
	by := "by whom is not kept"
	switch {
	case j.FlowId != 0:
		by = fmt.Sprintf("by flow %d", j.FlowId)
	case strings.HasPrefix(j.Key, record.ScheduledKey):
		by = "by a schedule, as its key says"
	}
	t.tell(moment{At: j.Created, What: "Added", Words: by}, timeSpan{class: "point", from: j.Created})
	t.last, t.begins = j.Created, "it was added"
	moved := j.Attempts > 1 || len(t.Runs) > 0 && j.Due.After(began(&t.Runs[0])) // a retry or a wait has written another time
	if j.Attempts == 0 || moved || j.Pending() && !j.InFlight {
		return
	}
	if t.due = j.Due; !t.due.After(j.Created) {
		return
	}
	t.tell(moment{At: t.due, What: "Due", Words: words.Span(t.due.Sub(j.Created)) + " after it was added"},
		timeSpan{"wait", j.Created, t.due}, timeSpan{class: "point", from: t.due})
	t.last, t.begins = t.due, "it was due"
}

// began is when a run began or, if that is not known, ended.
func began(run *queue_job.Attempt) time.Time {
	if run.Started.IsZero() {
		return run.Finished
	}
	return run.Started
}

// ended tells the runs that have ended, the one that goes on, and how the job ended.
func (t *teller) ended() {
	groups := t.folded()
	if n := len(groups) - momentsMost; n > 0 {
		for _, group := range groups[:n] {
			t.Left += len(group)
		}
		groups = groups[n:]
		t.last, t.begins = began(&groups[0][0]), ""
	}
	for _, group := range groups {
		t.runs(group)
	}
	j := t.Job
	told := len(t.Runs)
	switch {
	case j.InFlight:
		told++
		t.runsNow()
	case j.Status == queue_job.JobStatusSuccess:
		told++
		t.succeeded()
	case !j.Pending() && (len(t.Runs) == 0 || t.Runs[len(t.Runs)-1].Outcome != j.State()):
		t.tell(moment{At: j.Updated, What: "Ended", State: j.State(), last: true},
			timeSpan{"wait", t.last, j.Updated}, timeSpan{class: "point", from: j.Updated})
	}
	if others := j.Attempts - told; others > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Of %s, no time is kept: the log has runs that did not succeed.", words.Count(others, "other run")))
	}
}

// folded are the runs of the log. Runs in a row that ended with the same error stand together.
func (t *teller) folded() (groups [][]queue_job.Attempt) {
	same := func(a, b *queue_job.Attempt) bool {
		return a.Outcome == b.Outcome && a.Attempt+1 == b.Attempt && faces.ErrorID(0, a.Error) == faces.ErrorID(0, b.Error)
	}
	for i := range t.Runs {
		if n := len(groups); n > 0 && same(&t.Runs[i-1], &t.Runs[i]) {
			groups[n-1] = append(groups[n-1], t.Runs[i])
		} else {
			groups = append(groups, []queue_job.Attempt{t.Runs[i]})
		}
	}
	return groups
}

// runs tells runs of the log that ended with one error.
func (t *teller) runs(group []queue_job.Attempt) {
	first, last := &group[0], &group[len(group)-1]
	m := moment{At: began(first), What: fmt.Sprintf("Run %d", first.Attempt), State: last.Outcome, Quote: last.Error}
	waited := m.At.Sub(t.last)
	if len(group) >= retriesFolded {
		m.What = fmt.Sprintf("Runs %d to %d", first.Attempt, last.Attempt)
		m.Words = fmt.Sprintf("%s in %s, the last one on %s", words.Count(len(group), "run"), words.Span(last.Finished.Sub(m.At)), last.Instance)
	} else {
		m.Words = "on " + first.Instance
		if first.Started.IsZero() {
			m.Words += "; when it began is not known, and its end is when it was noticed"
		} else {
			m.Words = "took " + shortSpan(first.Finished.Sub(first.Started)) + " " + m.Words
		}
		if t.begins != "" && waited >= 0 {
			m.Words += fmt.Sprintf(", %s after %s", words.Span(waited), t.begins)
		}
	}
	t.tell(m, t.spansOf(group)...)
	t.last, t.begins = last.Finished, fmt.Sprintf("run %d had ended", last.Attempt)
}

// shortSpan has milliseconds below a second, and tenths of a second below a minute.
func shortSpan(d time.Duration) string {
	if d < time.Millisecond {
		return "less than 1ms"
	}
	if d < time.Second {
		return words.Span(d)
	}
	return words.Tenths(d)
}

// spansOf draws runs, and the waits before them.
func (t *teller) spansOf(group []queue_job.Attempt) (spans []timeSpan) {
	last := t.last
	for i := range group {
		run := &group[i]
		if at := began(run); at.After(last) {
			spans = append(spans, timeSpan{"wait", last, at})
		}
		spans = append(spans, timeSpan{run.Outcome, began(run), run.Finished})
		last = run.Finished
	}
	if len(group) > spansMost {
		return []timeSpan{{"wait", t.last, began(&group[0])}, {group[0].Outcome + " many", began(&group[0]), last}}
	}
	return spans
}

// runsNow tells the run that is under way.
func (t *teller) runsNow() {
	j := t.Job
	m := moment{At: j.Updated, What: fmt.Sprintf("Run %d", j.Attempts), State: queue_job.StateRunning, Words: "its handler runs, or is about to"}
	if t.Reasons[0].Kind == operate.Died {
		m.State, m.Words = "lost", "its process has died"
	}
	if t.Holder != "" {
		m.Words += ", on " + t.Holder
	}
	if j.Progress != "" || j.Result != "" {
		m.Words += "; it may have begun earlier: a run that tells how far it is writes this time"
	}
	t.tell(m, timeSpan{"open", t.last, j.Updated}, timeSpan{m.State, j.Updated, t.At})
}

// succeeded tells the end of the run that has succeeded. When it began, no table says.
func (t *teller) succeeded() {
	j := t.Job
	m := moment{At: j.Updated, What: fmt.Sprintf("Run %d", j.Attempts), State: queue_job.StateCompleted, Words: "ended", last: true}
	if t.Holder != "" {
		m.Words += " on " + t.Holder
	}
	if passed := j.Updated.Sub(t.last); t.begins != "" && passed >= 0 {
		m.Words += fmt.Sprintf(", %s after %s", words.Span(passed), t.begins)
	}
	m.Words += "; when it began is not kept of a run that succeeds"
	t.tell(m, timeSpan{"open", t.last, j.Updated}, timeSpan{class: "point " + queue_job.StateCompleted, from: j.Updated})
}

// waits tells what a job that is pending waits for, and what is to come.
func (t *teller) waits() {
	j := t.Job
	if why := t.why(); !j.InFlight {
		what := "Due"
		if j.Attempts > 0 {
			what = "Next run"
		}
		switch from := latest(t.last, j.Due); {
		case j.Due.After(t.At):
			t.tell(moment{At: j.Due, What: what, Words: "in " + words.Span(j.Due.Sub(t.At)) + why},
				timeSpan{"wait", t.last, t.At}, timeSpan{"ahead", t.At, j.Due}, timeSpan{class: "point", from: j.Due})
		case from.After(j.Created):
			t.tell(moment{At: from, What: "Waits", State: j.State(), Words: "for " + words.Span(t.At.Sub(from)) + why},
				timeSpan{"wait", t.last, t.At}, timeSpan{class: "point", from: from})
		default:
			t.Moments[0].Words += fmt.Sprintf("; due at once, and waits for %s%s", words.Span(t.At.Sub(from)), why)
			t.Moments[0].spans = append(t.Moments[0].spans, timeSpan{"wait", from, t.At})
		}
	}
	if j.Expires.After(t.At) {
		t.tell(moment{At: j.Expires, What: "Expires", Words: "if it has not started by then, it is cancelled"}, timeSpan{class: "point", from: j.Expires})
	}
	if j.Status == queue_job.JobStatusRetry && !j.InFlight {
		t.retries()
	}
}

// why says what keeps the job, but for its time.
func (t *teller) why() string {
	var kinds []string
	for _, r := range t.Reasons {
		if r.Kind != operate.NotDue {
			kinds = append(kinds, r.Kind)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return ": " + strings.Join(kinds, ", ")
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// retries tells when further retries are to be expected, as the settings of the type say, if each run fails at once.
func (t *teller) retries() {
	j := t.Job
	list := waits(t.Type.RetryWaits)
	most := t.Type.Config.MaxRetries
	if j.MaxRetries != nil {
		most = *j.MaxRetries
	}
	if len(list) == 0 || t.Type.Told.IsZero() {
		return
	}
	at, n := latest(j.Due, t.At), j.Retries
	var spans []timeSpan
	var texts []string
	for ; (most == queue_job.Unlimited || n < most) && n < len(list); n++ {
		next := at.Add((list[n].Least + list[n].Most) / 2)
		if len(texts) < retriesDrawn {
			spans = append(spans, timeSpan{"ahead", at, next}, timeSpan{class: "point ahead", from: next})
			texts = append(texts, t.clockFrom(next))
		}
		at = next
	}
	if len(texts) == 0 {
		return
	}
	m := moment{At: spans[1].from, What: "Retries", Words: "to be expected at about " + strings.Join(texts, ", ") + ", if each run fails at once"}
	switch {
	case most == queue_job.Unlimited:
		m.Words += "; it is retried until it succeeds"
	case n == most:
		m.Words += fmt.Sprintf("; it fails for good after retry %d, at about %s", most, t.clockFrom(at))
	}
	t.tell(m, spans...)
}

// clockFrom is a time without its day, if that is today.
func (t *teller) clockFrom(at time.Time) string {
	today, _, _ := strings.Cut(clock(t.At), " ")
	return strings.TrimPrefix(clock(at), today+" ")
}

// steps tells what the handler of the job need not do again, and what it waits for.
func (t *teller) steps() {
	if n := len(t.Steps); n > stepsApart {
		var spans []timeSpan
		for _, s := range t.Steps[max(0, n-stepsDrawn):] {
			if at := s.Ended; !at.IsZero() {
				spans = append(spans, timeSpan{class: "point step", from: at})
			}
		}
		if len(spans) > 0 {
			t.tell(moment{At: spans[0].from, What: fmt.Sprintf("%d steps", n), Words: "each of which the table below has"}, spans...)
		}
		return
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		m := moment{At: s.Ended, What: "Step", Words: fmt.Sprintf("recorded by run %d", s.Attempt), Quote: s.Name}
		switch {
		case s.Ended.IsZero():
			m.At, m.What, m.Words = s.Until, "Signal", "the job waits for it until then"
			t.tell(m, timeSpan{class: "point step", from: s.Until})
			continue
		case s.Signal && s.Value == nil:
			m.What, m.Words = "Signal", "has not come in time"
		case s.Signal:
			m.What, m.Words = "Signal", "came"
		case !s.Until.IsZero():
			m.What, m.Words = "Sleep", "until "+clock(s.Until)+" UTC"
		}
		t.tell(m, timeSpan{class: "point step", from: s.Ended})
	}
}

// acts tells what people did to the job.
func (t *teller) acts() {
	if !t.ActsSince.IsZero() {
		t.Notes = append(t.Notes, fmt.Sprintf("Of what people did before %s UTC, nothing was looked at.", clock(t.ActsSince)))
	}
	for i := range t.Acts {
		a := &t.Acts[i]
		m := moment{At: a.At, What: a.Verb, Words: "by " + a.Actor, Quote: a.Why}
		if a.Operation != 0 {
			m.Words += fmt.Sprintf(", in operation %d", a.Operation)
		}
		t.tell(m, timeSpan{class: "point act", from: a.At})
	}
}

// scale says where a moment is.
type scale struct {
	begin, now, end time.Time
	split           float64 // where now is, in percent
}

func (s *scale) of(at time.Time) float64 {
	part := func(from, to time.Time) float64 {
		return max(0, min(1, float64(at.Sub(from))/float64(max(1, to.Sub(from)))))
	}
	if at.After(s.now) {
		return s.split + (100-s.split)*part(s.now, s.end)
	}
	return s.split * part(s.begin, s.now)
}

func percent(n float64) string { return fmt.Sprintf("%.2f%%", n) }

func (s *scale) shapeOf(span timeSpan) timeShape {
	x := s.of(span.from)
	shape := timeShape{Class: span.class, X: percent(x), End: percent(x)}
	if span.to.IsZero() {
		return shape
	}
	end := s.of(span.to)
	if shape.Line = slices.Contains([]string{"wait", "open", "ahead"}, span.class); shape.Line {
		shape.End, shape.Width = percent(end), percent(end-x)
		return shape
	}
	wide := max(shapeLeast, end-x)
	shape.X, shape.Width = percent(min(x, 100-wide)), percent(wide)
	return shape
}

// scaleOf is from when the job was added until it ended or, of a job that is pending, until what is to come next.
func (t *teller) scaleOf() scale {
	j := t.Job
	s := scale{begin: j.Created, now: t.At, end: t.At, split: 100}
	if !j.Pending() {
		s.now = s.begin
		for _, m := range t.Moments {
			s.now = latest(s.now, m.At)
		}
		s.now = latest(s.now, j.Updated)
		s.end = s.now
		return s
	}
	if s.now.Before(s.begin) { // a second is the least that the table holds
		s.now = s.begin
	}
	s.end = latest(s.now, j.Due)
	const farther = 4 // times as far as the next run
	for _, m := range t.Moments {
		for _, span := range m.spans {
			if to := latest(span.from, span.to); m.Ahead && to.Sub(s.now) <= farther*j.Due.Sub(s.now) {
				s.end = latest(s.end, to)
			}
		}
	}
	past, all := s.now.Sub(s.begin), s.end.Sub(s.begin)
	s.split = 100 * float64(past) / float64(max(1, all))
	if s.split < pastLeast && j.Attempts > 0 {
		s.split, t.TwoScales = pastWith, true
	}
	return s
}

// place sorts all moments, and gives them their places.
func (t *teller) place() {
	slices.SortStableFunc(t.Moments, func(a, b moment) int {
		if a.last != b.last {
			return cmp.Compare(order(a.last), order(b.last))
		}
		return a.At.Compare(b.At)
	})
	s := t.scaleOf()
	day := ""
	for i := range t.Moments {
		m := &t.Moments[i]
		m.Clock = clock(m.At)
		if date, second, _ := strings.Cut(m.Clock, " "); date == day {
			m.Clock = second
		} else {
			day = date
		}
		for _, span := range m.spans {
			if !span.from.After(s.end) { // what is to come much later has no place
				m.Shapes = append(m.Shapes, s.shapeOf(span))
			}
		}
		// What is drawn later lies above.
		slices.SortStableFunc(m.Shapes, func(a, b timeShape) int { return cmp.Compare(rank(&a), rank(&b)) })
	}
	t.ticks(&s)
}

// ticks writes when the places begin and end, and where now is, as far as there is room.
func (t *teller) ticks(s *scale) {
	const roomLeast = 25 // percent
	c, last := clocksOf(s.begin, s.end), timeTick{percent(100), "end", ""}
	if last.Text = c.End; t.Job.Pending() {
		t.Now = percent(s.split)
		if s.split > 100-roomLeast {
			last = timeTick{t.Now, "end", "now"}
		} else {
			t.Ticks = append(t.Ticks, timeTick{t.Now, "middle", "now"})
		}
	}
	if !t.Job.Pending() || s.split >= roomLeast {
		t.Ticks = append(t.Ticks, timeTick{percent(0), "start", c.Begin})
	}
	t.Ticks = append(t.Ticks, last)
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

func rank(s *timeShape) int {
	switch {
	case s.Line:
		return 0
	case s.Width != "":
		return 1
	}
	return 2
}
