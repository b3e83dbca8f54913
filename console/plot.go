package console

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/queue_job"
)

const plotHeight = 132

// plot is a picture of a series. It is stretched to the width of the page, one unit for each step, and is as high as its numbers say; so its
// texts stand beside it.
type plot struct {
	Steps  int
	Shapes []shape
	Ticks  []tick
	Grid   string // path
}

// Height is how high the picture is.
func (plot) Height() int { return plotHeight }

// shape is a path with a class, and what it is called.
type shape struct{ Class, Name, Path string }

// row draws a line of the grid, with its text.
func (p *plot) row(y float64, text string) {
	p.Ticks = append(p.Ticks, tick{int(math.Round(y)), text})
	p.Grid += fmt.Sprintf("M0 %.1fh%d", y, p.Steps)
}

// roundUp is a number that is easy to read, and not less: from 1, 1.5, 2, 3, 4, 5, 6 and 8 times a power of ten.
func roundUp(n int64) int64 {
	power := int64(1)
	for ; ; power *= 10 {
		for _, tenths := range []int64{10, 15, 20, 30, 40, 50, 60, 80} {
			if round := tenths * power / 10; round >= n && tenths*power%10 == 0 {
				return round
			}
		}
	}
}

// before is what the line of the span before is called.
const before = "before"

// lineOf draws a line with a step for each number; below zero, there is a gap.
func lineOf(numbers []float64) string {
	var path strings.Builder
	command := "M"
	for x, y := range numbers {
		if y < 0 {
			command = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%d %.1fh1", command, x, y)
		command = "L"
	}
	return path.String()
}

// runsPlot stacks how many runs ended, by their outcome, and draws a line of how many ended in the steps of the span before.
func runsPlot(steps, earlier []faces.Step) plot {
	p := plot{Steps: len(steps)}
	var most int64
	for _, s := range slices.Concat(steps, earlier) {
		most = max(most, s.Ended())
	}
	top := roundUp(most)
	p.row(plotHeight-0.5, "0")
	if top > 1 && top%2 == 0 {
		p.row(plotHeight/2, short(float64(top/2)))
	}
	p.row(0.5, short(float64(top)))
	stacked := make([]float64, len(steps))
	for _, status := range outcomesInOrder {
		var bars strings.Builder
		for x := range steps {
			n := steps[x].Runs[status]
			if n == 0 {
				continue
			}
			h := max(1, float64(n)/float64(top)*plotHeight) // one failure among thousands is seen
			stacked[x] += h
			fmt.Fprintf(&bars, "M%d.1 %.1fh.8v%.1fh-.8z", x, plotHeight-stacked[x], h)
		}
		if bars.Len() > 0 {
			p.Shapes = append(p.Shapes, shape{status.String(), outcomeWord(status), bars.String()})
		}
	}
	if len(earlier) > 0 {
		was := make([]float64, len(earlier))
		for x := range earlier {
			was[x] = -1
			if earlier[x].Length > 0 {
				was[x] = plotHeight - max(1, float64(earlier[x].Ended())/float64(max(1, top))*plotHeight)
			}
		}
		p.Shapes = append(p.Shapes, shape{before, before, lineOf(was)})
	}
	return p
}

// latencyTicks are where lines go in a picture of delays, whose height goes by the logarithm.
var latencyTicks = []struct {
	at   time.Duration
	text string
}{
	{time.Millisecond, "1 ms"}, {10 * time.Millisecond, "10 ms"}, {100 * time.Millisecond, "100 ms"}, {time.Second, "1 s"}, {10 * time.Second, "10 s"},
	{time.Minute, "1 min"}, {10 * time.Minute, "10 min"}, {time.Hour, "1 h"},
	{10 * time.Hour, "10 h"}, {4 * 24 * time.Hour, "4 d"}, {40 * 24 * time.Hour, "40 d"},
}

// latencyPlot draws within how much time of when they were due half of the runs started, 95 of 100, and 99; and 99 of 100 in the span before.
func latencyPlot(steps, earlier []faces.Step) plot {
	p := plot{Steps: len(steps)}
	var most time.Duration
	for _, s := range slices.Concat(steps, earlier) {
		most = max(most, s.Delays.Quantile(0.99))
	}
	top := 3 // a second at least
	for top < len(latencyTicks)-1 && latencyTicks[top].at < most {
		top++
	}
	y := func(d time.Duration) float64 {
		const least = time.Millisecond
		part := math.Log(float64(max(d, least))/float64(least)) / math.Log(float64(latencyTicks[top].at)/float64(least))
		return (plotHeight - 2) - min(1, part)*(plotHeight-4)
	}
	for _, t := range latencyTicks[:top+1] {
		p.row(y(t.at), t.text)
	}
	line := func(class string, steps []faces.Step, part float64) {
		heights := make([]float64, len(steps))
		for x := range steps {
			heights[x] = -1
			if steps[x].Delays.Count() > 0 {
				heights[x] = y(steps[x].Delays.Quantile(part))
			}
		}
		p.Shapes = append(p.Shapes, shape{class, class, lineOf(heights)})
	}
	line("p50", steps, 0.5)
	line("p95", steps, 0.95)
	line("p99", steps, 0.99)
	if len(earlier) > 0 {
		line(before, earlier, 0.99)
	}
	return p
}

// mark is a moment in a picture, in percent of its width.
type mark struct {
	X     string
	Text  string
	Label string // beside it; empty: none
}

const labelsMost, labelMost = 8, 10 // deploys that have a label, and its characters

// marksOf are the deploys within steps.
func marksOf(h *faces.Happened, s *faces.Series) (marks []mark) {
	long := time.Duration(len(s.All)) * s.Step
	for _, d := range h.Deploys {
		if part := float64(d.At.Sub(s.Begin)) / float64(long); part >= 0 && part < 1 {
			label := []rune(d.Version)
			if len(label) > labelMost {
				label = append(label[:labelMost-1], '…')
			}
			marks = append(marks, mark{strconv.FormatFloat(100*part, 'f', 2, 64), clock(d.At) + " UTC: " + deployText(&d), string(label)})
		}
	}
	if len(marks) > labelsMost {
		for i := range marks {
			marks[i].Label = ""
		}
	}
	return marks
}

// area is a small picture of how a number went, without an axis.
type area struct {
	Steps int
	Path  string
}

const areaHeight = 28

// Height is how high the picture is.
func (area) Height() int { return areaHeight }

// areaOf draws numbers, the highest of which is as high as the picture.
func areaOf(numbers []float64) area {
	most := 0.0
	for _, n := range numbers {
		most = max(most, n)
	}
	return areaTo(most, numbers)
}

// areaTo draws numbers in a picture that is as high as the most there may be.
func areaTo(most float64, numbers []float64) area {
	a := area{Steps: len(numbers)}
	if most == 0 {
		return a
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M0 %d", areaHeight)
	last := ""
	for _, n := range numbers {
		h := n / most * (areaHeight - 1)
		if n > 0 {
			h = max(1, h) // little is more than nothing
		}
		if y := strconv.FormatFloat(areaHeight-h, 'f', 1, 64); y != last {
			path.WriteString("V" + y)
			last = y
		}
		path.WriteString("h1")
	}
	fmt.Fprintf(&path, "V%dz", areaHeight)
	a.Path = path.String()
	return a
}

// short writes a number for people in little room: "7", "0.4", "791", "1.2k", "12k".
func short(n float64) string {
	unit := ""
	for _, next := range []string{"k", "M", "G"} {
		if n < 999.5 {
			break
		}
		n, unit = n/1000, next
	}
	if n < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + unit
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + unit
}

// isFailure reports whether a run that led to a status has failed.
func isFailure(status queue_job.JobStatus) bool {
	return status == queue_job.JobStatusFailed || status == queue_job.JobStatusRetry
}
