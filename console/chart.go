package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// chart is what a job type did in a span of time, as a picture and as a table. The picture is stretched to the width of the page, and is
// as high as its numbers say; so its texts stand beside it.
type chart struct {
	Steps          int // columns, each one unit wide
	Clocks         clocks
	Started, Ended int64
	Outcomes       []outcome
	Delays, Took   quantiles
	Peak           int64  // the most that one column stands for
	Line           string // path: how many runs started
	Heat           heatMap
	Moves          []move
	Marks          string // path: when the lease moved, over all the height
	Rows           []row  // the table, the latest first
}

const chartHeight = 96

// Height is how high the picture of runs is.
func (*chart) Height() int { return chartHeight }

// clocks are the texts below a picture: when it begins, its middle, and when it ends.
type clocks struct{ Begin, Middle, End string }

func clocksOf(from, before time.Time) clocks {
	layout := "15:04"
	if before.Sub(from) > 36*time.Hour {
		layout = "Jan 2"
	} else if before.Sub(from) > 12*time.Hour {
		layout = "Jan 2 15:04"
	}
	text := func(at time.Time) string { return at.UTC().Format(layout) }
	return clocks{text(from), text(from.Add(before.Sub(from) / 2)), text(before)}
}

// outcome is how many runs ended in a way.
type outcome struct {
	Status queue_job.JobStatus
	Runs   int64
	Bars   string // path
}

type quantiles struct{ Half, Most time.Duration }

func quantilesOf(h *operate.Histogram) quantiles {
	return quantiles{h.Quantile(0.5), h.Quantile(0.99)}
}

// move is that an instance got a lease.
type move struct {
	operate.Tenure
	At int // column
}

// row is a line of the table.
type row struct {
	Begin          time.Time
	Started, Ended int64
	Outcomes       []int64 // in the order of the chart's
	Delays, Took   quantiles
}

// outcomesInOrder are the outcomes from the bottom of the picture upwards: what went wrong stands where it is seen best.
var outcomesInOrder = []queue_job.JobStatus{queue_job.JobStatusFailed,
	queue_job.JobStatusRetry, queue_job.JobStatusCancelled, queue_job.JobStatusContinue, queue_job.JobStatusSuccess}

// chartOf draws periods that follow each other. A row of the table is about as many of them as rowSteps says.
func chartOf(periods []operate.Period, tenures []operate.Tenure, rowSteps int) *chart {
	c := &chart{Steps: len(periods)}
	if len(periods) == 0 {
		return c
	}
	from, step := periods[0].Begin, periods[0].Length
	c.Clocks = clocksOf(from, from.Add(time.Duration(len(periods))*step))
	var all operate.Period
	for i := range periods {
		add(&all, &periods[i])
		c.Peak = max(c.Peak, periods[i].Started(), periods[i].Ended())
	}
	c.Started, c.Ended = all.Started(), all.Ended()
	c.Delays, c.Took = quantilesOf(&all.Delays), quantilesOf(&all.Durations)
	for _, status := range outcomesInOrder {
		if n := all.Runs[status]; n > 0 {
			c.Outcomes = append(c.Outcomes, outcome{Status: status, Runs: n})
		}
	}
	c.draw(periods)
	c.Heat = heatMapOf(periods)
	c.mark(tenures, from, step)
	c.tabulate(periods, rowSteps)
	return c
}

func add(to, p *operate.Period) {
	if to.Runs == nil {
		to.Runs = map[queue_job.JobStatus]int64{}
	}
	for status, n := range p.Runs {
		to.Runs[status] += n
	}
	to.Delays.Add(&p.Delays)
	to.Durations.Add(&p.Durations)
}

// draw stacks the outcomes, and draws the line of starts.
func (c *chart) draw(periods []operate.Period) {
	if c.Peak == 0 {
		return
	}
	height := func(n int64) float64 { return float64(n) / float64(c.Peak) * (chartHeight - 2) }
	bars := make([]strings.Builder, len(c.Outcomes))
	var line strings.Builder
	for x := range periods {
		y := float64(chartHeight)
		for i := range c.Outcomes {
			if h := height(periods[x].Runs[c.Outcomes[i].Status]); h > 0 {
				h = max(h, 1) // one failure among thousands is seen
				fmt.Fprintf(&bars[i], "M%d.1 %.1fh.8v%.1fh-.8z", x, y-h, h)
				y -= h
			}
		}
		command := "L"
		if x == 0 {
			command = "M"
		}
		at := chartHeight - height(periods[x].Started())
		fmt.Fprintf(&line, "%s%d %.1fh1", command, x, at)
	}
	for i := range bars {
		c.Outcomes[i].Bars = bars[i].String()
	}
	c.Line = line.String()
}

// mark marks when the lease moved: when somebody got it who had not been its holder.
func (c *chart) mark(tenures []operate.Tenure, from time.Time, step time.Duration) {
	var marks strings.Builder
	for _, t := range tenures {
		at := int(t.Taken.Sub(from) / step)
		if t.Taken.Before(from) || at >= c.Steps {
			continue
		}
		c.Moves = append(c.Moves, move{t, at})
	}
	for at := range c.Steps {
		if slices.ContainsFunc(c.Moves, func(m move) bool { return m.At == at }) {
			fmt.Fprintf(&marks, "M%d.5 0V1000", at)
		}
	}
	c.Marks = marks.String()
}

func (c *chart) tabulate(periods []operate.Period, rowSteps int) {
	for some := range slices.Chunk(periods, max(1, rowSteps)) {
		var sum operate.Period
		for i := range some {
			add(&sum, &some[i])
		}
		r := row{Begin: some[0].Begin, Started: sum.Started(), Ended: sum.Ended(), Delays: quantilesOf(&sum.Delays), Took: quantilesOf(&sum.Durations)}
		for _, o := range c.Outcomes {
			r.Outcomes = append(r.Outcomes, sum.Runs[o.Status])
		}
		c.Rows = append(c.Rows, r)
	}
	slices.Reverse(c.Rows)
}

// heatMap says how many runs had which start delay: the longer the delay, the higher; the more runs, the stronger.
type heatMap struct {
	Rows   int
	Shades []shade
	Ticks  []tick
}

// shade is all cells that are equally strong.
type shade struct {
	Strength int // 1 to shadesMax
	Cells    string
}

// tick is a text beside the map.
type tick struct {
	Y    int
	Text string
}

const (
	heatRow   = 7  // units of height
	heatLeast = 11 // rows: up to a second
	shadesMax = 5
)

// Height is how high the map is.
func (h *heatMap) Height() int { return h.Rows * heatRow }

func heatMapOf(periods []operate.Period) (h heatMap) {
	var most int64
	h.Rows = heatLeast
	for i := range periods {
		for delay, n := range periods[i].Delays {
			if most = max(most, n); n > 0 {
				h.Rows = max(h.Rows, delay+1)
			}
		}
	}
	cells := make([]strings.Builder, shadesMax)
	for x := range periods {
		for delay, n := range periods[x].Delays {
			if n > 0 {
				fmt.Fprintf(&cells[strength(n, most)-1], "M%d.05 %dh.9v%dh-.9z", x, (h.Rows-1-delay)*heatRow, heatRow-1)
			}
		}
	}
	for i := range cells {
		if cells[i].Len() > 0 {
			h.Shades = append(h.Shades, shade{i + 1, cells[i].String()})
		}
	}
	for _, t := range []struct {
		ends int // range
		text string
	}{{0, "1 ms"}, {5, "32 ms"}, {10, "1 s"}, {16, "1 min"}, {22, "1 h"}, {27, "1 d"}} {
		if t.ends < h.Rows {
			h.Ticks = append(h.Ticks, tick{(h.Rows - 1 - t.ends) * heatRow, t.text})
		}
	}
	return h
}

// strength is by how many powers of four there are fewer runs in a cell than in the fullest.
func strength(n, most int64) int {
	s := shadesMax
	for n *= 4; n <= most && s > 1; n *= 4 {
		s--
	}
	return s
}
