package console

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/operate"
)

// whatIf is what a type would have done with other limits.
type whatIf struct {
	*operate.Type
	Window  *window
	Choices []choice
	Asked   map[string]string // the form's fields
	Within  time.Duration
	Changed bool // the limits are not the type's
	Known   bool // the type's limits are
	Steps   int
	Clocks
	Played []played // as it was, as the model says it, and with other limits
	// What is enough for 99 of 100 jobs to start in time. Workers: 0 if no number of them is; Rate likewise.
	Workers int
	Rate    float64
	Limits  operate.StartLimits
}

// played is a past, real or of the model.
type played struct {
	What    string
	Limits  operate.StartLimits
	Started int64
	Delays  quantiles
	Model   bool
	Waiting int64
	Busy    float64
	Heat    heatMap
}

const withinUsual = 10 * time.Second

func (c *console) showWhatIf(r *http.Request) (any, error) {
	shown, err := c.oneTypeOf(r)
	if err != nil {
		return nil, err
	}
	past := shown.Past
	page := whatIf{Type: shown.Type, Window: past.Window, Choices: past.Choices, Steps: past.Steps, Clocks: past.Clocks, Known: !shown.Known.Told.IsZero()}
	if page.Limits, err = page.ask(r); err != nil || !page.Known || past.Started == 0 {
		return page, err
	}
	page.play(past.periods)
	return page, nil
}

// ask reads the limits that the form asks for. A field that is empty is as the type has it.
func (p *whatIf) ask(r *http.Request) (operate.StartLimits, error) {
	limits := operate.LimitsOf(&p.Type.Known.Config)
	usual := limits
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
	p.Within = withinUsual
	if text := r.URL.Query().Get("within"); text != "" {
		within, err := time.ParseDuration(text)
		if err != nil || within <= 0 {
			return limits, failed(http.StatusBadRequest, "within=%q: use a time as in 10s or 5m.", text)
		}
		p.Within, p.Asked["within"] = within, text
	}
	p.Changed = limits != usual
	return limits, nil
}

// play has the model play the past with the type's limits and with those that were asked for.
func (p *whatIf) play(past []operate.Period) {
	usual := operate.LimitsOf(&p.Type.Known.Config)
	was := played{What: "As it was", Limits: usual, Heat: heatMapOf(past)}
	var all operate.Period
	for i := range past {
		add(&all, &past[i])
	}
	was.Started, was.Delays = all.Started(), quantilesOf(&all.Delays)
	p.Played = []played{was, playedAgain("The model, as it is", past, usual)}
	if p.Changed {
		p.Played = append(p.Played, playedAgain("The model, changed", past, p.Limits))
	}
	p.Workers, _ = operate.LeastWorkers(past, p.Limits, p.Within)
	if p.Limits.Rate > 0 {
		p.Rate, _ = operate.LeastRate(past, p.Limits, p.Within)
	}
}

func playedAgain(what string, past []operate.Period, l operate.StartLimits) played {
	r := operate.WhatIf(past, l)
	steps := make([]operate.Period, len(r.Steps))
	for i := range r.Steps {
		steps[i].Delays = r.Steps[i].Delays
	}
	return played{
		What: what, Limits: l, Started: r.Delays.Count(), Delays: quantilesOf(&r.Delays), Model: true,
		Waiting: int64(math.Round(r.Waiting)), Busy: r.Busy, Heat: heatMapOf(steps),
	}
}
