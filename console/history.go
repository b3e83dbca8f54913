package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/operate"
)

// window is a span of time up to now that a page can show.
type window struct {
	Name string        // in the page's address
	Text string        // behind "the last"
	Each string        // what a column of the picture is
	step time.Duration // a column
	long time.Duration // a multiple of step
	rows time.Duration // of the table, a multiple of step

	from, before time.Time // of a span that somebody has chosen; zero: it is up to now
	compare      bool      // with the span of the same length before
}

// windows are the spans of time to choose from, of which the first is shown unless another one is asked for. A chart has 90 columns,
// about as many as a phone can show apart.
var windows = []window{
	{Name: "3h", Text: "3 hours", Each: "2 minutes", step: 2 * time.Minute, long: 3 * time.Hour, rows: 20 * time.Minute},
	{Name: "30h", Text: "30 hours", Each: "20 minutes", step: 20 * time.Minute, long: 30 * time.Hour, rows: 2 * time.Hour},
	{Name: "30d", Text: "30 days", Each: "8 hours", step: 8 * time.Hour, long: 30 * 24 * time.Hour, rows: 48 * time.Hour},
}

func windowOf(r *http.Request) (*window, error) {
	name := r.URL.Query().Get("last")
	i := slices.IndexFunc(windows, func(w window) bool { return w.Name == cmp.Or(name, windows[0].Name) })
	if i < 0 {
		return nil, failed(http.StatusBadRequest, "last=%q is no span of time that this page can show.", name)
	}
	return &windows[i], nil
}

// until is the span up to a moment. The last column is not there before holders have written what belongs to it, unless it is long.
func (w *window) until(now time.Time) (from, before time.Time) {
	const written, long = 10 * time.Second, 10 * time.Minute
	if !w.from.IsZero() {
		return w.from, w.before
	}
	seconds := int64(w.step / time.Second)
	steps := now.Add(-written).Unix() / seconds
	if w.step > long {
		steps++
	}
	before = time.Unix(steps*seconds, 0)
	return before.Add(-w.long), before
}

// choice is a span of time to choose.
type choice struct {
	*window
	Chosen bool
}

func (w *window) choices() []choice { return w.among(windows) }

func (w *window) among(windows []window) (list []choice) {
	for i := range windows {
		other := windows[i]
		other.compare = w.compare
		list = append(list, choice{&other, other.Name == w.Name})
	}
	return list
}

// oneType is what is known of a type, and what it did lately.
type oneType struct {
	*operate.Type
	Past past
	// NoPast is why what it did is not there. Nil: it is.
	NoPast error
}

// past is what a type did in a window.
type past struct {
	Window  *window
	Choices []choice
	*chart
	periods []operate.Period
}

// told is what was read of a past.
type told struct {
	periods []operate.Period
	*chart
}

// pastKey says of which type and window.
type pastKey struct {
	jobType int32
	window  string
}

const pastFresh = 10 * time.Second // holders write once a minute

// pastOf reads what a type did in a window. It takes two statements.
func (c *console) pastOf(r *http.Request, jobType int32, w *window) (past, error) {
	got, err := c.pasts.of(pastFresh, pastKey{jobType, w.Name}).get(r.Context(), func(ctx context.Context) (told, error) {
		now, err := c.now(ctx)
		if err != nil {
			return told{}, err
		}
		from, before := w.until(now)
		periods, err := operate.History(ctx, c.jobs, c.ex, jobType, from, before, w.step)
		if err != nil {
			return told{}, err
		}
		tenures, err := operate.LeaseHistory(ctx, c.jobs, c.ex, operate.TenureFilter{JobTypes: []int32{jobType}, From: from})
		if err != nil {
			return told{}, err
		}
		return told{periods, chartOf(periods, tenures, int(w.rows/w.step))}, nil
	})
	return past{w, w.choices(), got.chart, got.periods}, err
}

// leasesPage is who had the leases.
type leasesPage struct {
	Window  *window
	Choices []choice
	*gantt
	Tenures []operate.Tenure // the latest first
	More    bool
}

const (
	tenuresDrawn = 2000 // the latest of all leases
	tenuresShown = 100  // in the table
)

func (c *console) showLeases(r *http.Request) (any, error) {
	w, err := windowOf(r)
	if err != nil {
		return nil, err
	}
	before := c.nowIfKnown(r.Context())
	from := before.Add(-w.long)
	all, err := c.tenures.of(freshFor, w.Name).get(r.Context(), func(ctx context.Context) ([]operate.Tenure, error) {
		return operate.LeaseHistory(ctx, c.jobs, c.ex, operate.TenureFilter{From: from, Most: tenuresDrawn})
	})
	if err != nil {
		return nil, err
	}
	seen := slices.DeleteFunc(slices.Clone(all), func(t operate.Tenure) bool { return !c.permit(r, See, t.JobType) })
	shown := seen[:min(len(seen), tenuresShown)]
	return leasesPage{w, w.choices(), ganttOf(seen, from, before), shown, len(shown) < len(seen)}, nil
}
