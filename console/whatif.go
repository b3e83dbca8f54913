package console

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// whatIf is what a type would have done with other limits.
type whatIf struct {
	*operate.Type
	past
	Asked  map[string]string // the form's fields
	Usual  faces.StartLimits // as they are
	Limits faces.StartLimits
	// Settable are the limits that were asked for, if the type can be limited to them. Nil: it cannot, or nothing was asked.
	Settable *queue_job.Limits
	Within   time.Duration
	Played   []played // as it was, as the model says it, and with other limits
	Advice   faces.Advice
}

// played is a past, real or of the model.
type played struct {
	What    string
	Limits  faces.StartLimits
	Started int64
	Delays  quantiles
	Model   bool
	Waiting int64
	More    bool // wait than Waiting
	Untold  bool // nobody has told how many wait
	Busy    float64
	Heat    heatMap
}

const withinUsual = 10 * time.Second

func (c *console) showWhatIf(r *http.Request) (any, error) {
	shown, err := c.oneTypeOf(r)
	if err = cmp.Or(err, shown.NoPast); err != nil {
		return nil, err
	}
	page := whatIf{Type: shown.Type, past: shown.Past}
	if page.Limits, err = page.ask(r); err != nil {
		return nil, err
	}
	if !page.Known.Told.IsZero() && page.Started > 0 {
		page.play()
	}
	return page, nil
}

// ask reads the limits that the form asks for. A field that is empty is as the type has it.
func (p *whatIf) ask(r *http.Request) (faces.StartLimits, error) {
	limits := faces.LimitsOf(&p.Known)
	p.Usual = limits
	p.Asked = map[string]string{}
	for _, field := range []struct {
		name  string
		set   func(number float64)
		least float64
	}{
		{"workers", func(n float64) { limits.Workers = int(n) }, 0},
		{"rate", func(n float64) { limits.Rate = n }, 0},
		{"burst", func(n float64) { limits.Burst = int(n) }, 1},
		{"factor", func(n float64) { limits.TimeFactor = n }, 0.001},
	} {
		text := r.URL.Query().Get(field.name)
		if text == "" {
			continue
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || !(number >= field.least && number <= 1e6) {
			return limits, failed(http.StatusBadRequest, "%s=%q: use a number from %v to a million.", field.name, text, field.least)
		}
		field.set(number)
		p.Asked[field.name] = text
	}
	if rate := p.Asked["rate"]; rate != "" && p.Asked["burst"] == "" {
		limits.Burst = faces.BurstAt(&p.Known, limits.Rate)
	}
	if asked, err := limitsOf(p.Asked["workers"], p.Asked["rate"]); err == nil && asked != (queue_job.Limits{}) && p.Asked["burst"] == "" {
		asked.Workers, asked.RatePerSecond = cmp.Or(asked.Workers, p.Known.Limits.Workers), cmp.Or(asked.RatePerSecond, p.Known.Limits.RatePerSecond)
		p.Settable = &asked
	}
	p.Within = withinUsual
	if text := r.URL.Query().Get("within"); text != "" {
		within, err := time.ParseDuration(text)
		if err != nil || within <= 0 {
			return limits, failed(http.StatusBadRequest, "within=%q: use a time as in 10s or 5m.", text)
		}
		p.Within, p.Asked["within"] = within, text
	}
	return limits, nil
}

// play replays the past with the type's limits, and with the limits that were asked for.
func (p *whatIf) play() {
	past := faces.PastOf(p.Type, p.periods)
	p.Played = []played{
		{What: "As it was", Limits: p.Usual, Started: p.Started,
			Delays: p.Delays, Heat: p.Heat, Waiting: int64(past.Waiting), More: past.More, Untold: past.At.IsZero()},
		playedAgain("The model, as it is", past, p.Usual),
	}
	if p.Limits != p.Usual {
		p.Played = append(p.Played, playedAgain("The model, changed", past, p.Limits))
	}
	p.Advice = faces.Advise(past, p.Usual, p.Limits, p.Within)
}

func playedAgain(what string, past *faces.Past, l faces.StartLimits) played {
	r := faces.WhatIf(past, l)
	steps := make([]operate.Period, len(r.Steps))
	for i := range r.Steps {
		steps[i].Delays = r.Steps[i].Delays
	}
	return played{
		What: what, Limits: l, Started: r.Delays.Count(), Delays: quantilesOf(&r.Delays), Model: true,
		Waiting: int64(math.Round(r.Waiting)), Busy: r.Busy, Heat: heatMapOf(steps),
	}
}
