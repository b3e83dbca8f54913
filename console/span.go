package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// spans are the spans of time to choose from on pages that are about several types. The second one is shown unless another is asked for.
var spans = []window{
	{Name: "15m", Text: "15 minutes", Each: "minute", step: time.Minute, long: 15 * time.Minute, rows: time.Minute},
	{Name: "1h", Text: "hour", Each: "minute", step: time.Minute, long: time.Hour, rows: 5 * time.Minute},
	{Name: "6h", Text: "6 hours", Each: "5 minutes", step: 5 * time.Minute, long: 6 * time.Hour, rows: 30 * time.Minute},
	{Name: "24h", Text: "24 hours", Each: "20 minutes", step: 20 * time.Minute, long: 24 * time.Hour, rows: 2 * time.Hour},
	{Name: "7d", Text: "7 days", Each: "2 hours", step: 2 * time.Hour, long: 7 * 24 * time.Hour, rows: 12 * time.Hour},
	{Name: "30d", Text: "30 days", Each: "8 hours", step: 8 * time.Hour, long: 30 * 24 * time.Hour, rows: 48 * time.Hour},
	{Name: "90d", Text: "90 days", Each: "day", step: 24 * time.Hour, long: 90 * 24 * time.Hour, rows: 5 * 24 * time.Hour},
}

const (
	columnsMost  = 120 // of a picture of a span that somebody has chosen
	spanLeast    = 2 * time.Minute
	minutesKnown = 47 * time.Hour // of what was before, whole hours are known only
)

// stepsToChoose are how long the columns of a span may be that somebody has chosen.
var stepsToChoose = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute,
	time.Hour, 2 * time.Hour, 8 * time.Hour, 24 * time.Hour}

// spanOf is the span of time that a request asks for: by its name (last), or from a moment to another, in unix seconds. With compare=1, it is
// compared with the span of the same length before.
func spanOf(r *http.Request, now time.Time) (*window, error) {
	w, err := spanNamed(r.URL.Query(), now)
	if err != nil || r.URL.Query().Get("compare") != "1" {
		return w, err
	}
	compared := *w
	compared.compare = true
	return &compared, nil
}

func spanNamed(q url.Values, now time.Time) (*window, error) {
	if q.Get("from") != "" || q.Get("to") != "" {
		return chosenSpan(q.Get("from"), q.Get("to"), now)
	}
	name := cmp.Or(q.Get("last"), spans[1].Name)
	i := slices.IndexFunc(spans, func(w window) bool { return w.Name == name })
	if i < 0 {
		return nil, failed(http.StatusBadRequest, "last=%q is no span of time that this page can show.", name)
	}
	return &spans[i], nil
}

func chosenSpan(from, to string, now time.Time) (*window, error) {
	first, err := strconv.ParseInt(from, 10, 64)
	last, errTo := strconv.ParseInt(to, 10, 64)
	w := &window{from: time.Unix(first, 0), before: time.Unix(last, 0)}
	w.long = w.before.Sub(w.from)
	if err = cmp.Or(err, errTo); err != nil || w.long < spanLeast || w.long > spans[len(spans)-1].long {
		return nil, failed(http.StatusBadRequest, "from=%q&to=%q: use two moments in unix seconds, two minutes to 90 days apart.", from, to)
	}
	for _, w.step = range stepsToChoose {
		if w.long/w.step <= columnsMost && (w.step >= time.Hour || now.Sub(w.from) <= minutesKnown) {
			break
		}
	}
	seconds := int64(w.step / time.Second)
	w.from, w.before = time.Unix(first/seconds*seconds, 0), time.Unix((last+seconds-1)/seconds*seconds, 0)
	w.long, w.rows = w.before.Sub(w.from), max(w.step, w.step*(w.long/w.step/12))
	w.Text, w.Each = clock(w.from)+" to "+clock(w.before)+" UTC", lengthText(w.step)
	return w, nil
}

// lengthText says how long a column is: "minute", "5 minutes", "2 hours".
func lengthText(step time.Duration) string {
	switch {
	case step == time.Minute:
		return "minute"
	case step < time.Hour:
		return fmt.Sprintf("%d minutes", step/time.Minute)
	case step == time.Hour:
		return "hour"
	case step < 24*time.Hour:
		return fmt.Sprintf("%d hours", step/time.Hour)
	}
	return "day"
}

// Query is how an address asks for the span. As a text, it would be the value of one parameter to a template.
func (w *window) Query() template.URL {
	query := "last=" + w.Name
	if !w.from.IsZero() {
		query = fmt.Sprintf("from=%d&to=%d", w.from.Unix(), w.before.Unix())
	}
	if w.compare {
		query += "&compare=1"
	}
	return template.URL(query)
}

// Compared reports whether the span is compared with the one before, and Otherwise is how an address asks for the opposite.
func (w *window) Compared() bool { return w.compare }
func (w *window) Otherwise() template.URL {
	other := *w
	other.compare = !w.compare
	return other.Query()
}

// fresh is for how long what was read of a span stays: a quarter of a column, within limits.
func (w *window) fresh() time.Duration {
	const least, most = 15 * time.Second, 5 * time.Minute
	return min(max(w.step/4, least), most)
}
