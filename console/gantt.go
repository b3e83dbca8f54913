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
)

// gantt is who had which lease, as a picture: a line for each lease, and a bar for each time that an instance had it.
type gantt struct {
	Clocks  clocks
	Lines   []ganttLine
	Holders []ganttHolder // the latest of them
	Others  int           // holders that are not among these
	Undrawn int           // leases for which there is no room
}

// ganttLine is a lease. A picture is ganttWide units wide.
type ganttLine struct {
	Lease   string
	JobType int32
	Y       int
	Bars    []bar
}

type bar struct {
	X, Width float64
	Colour   int // of the holder
	Text     string
}

// ganttHolder is an instance that had a lease: its host and process. There are coloursMax colours, so instances may share one; the table
// has their names.
type ganttHolder struct {
	Name   string
	Id     string // if another instance has the same name; else empty
	Colour int
}

const (
	ganttWide  = 1000
	ganttRow   = 16
	ganttBar   = 10
	ganttMost  = 100 // lines
	coloursMax = 6
	legendMost = 12  // instances, of the latest
	barLeast   = 1.5 // units; less is not seen
)

// Wide and Height are the picture's size.
func (*gantt) Wide() int     { return ganttWide }
func (g *gantt) Height() int { return len(g.Lines) * ganttRow }

// Thick is how high a bar is.
func (*gantt) Thick() int { return ganttBar }

// Middle is where a line's name stands.
func (l *ganttLine) Middle() int { return l.Y + ganttBar - 1 }

// ganttOf draws tenures, of which some part lies in the span.
func ganttOf(tenures []operate.Tenure, from, before time.Time) *gantt {
	g := &gantt{Clocks: clocksOf(from, before)}
	byTime := slices.Clone(tenures)
	slices.SortStableFunc(byTime, func(a, b operate.Tenure) int { return a.Taken.Compare(b.Taken) })
	colours, lines := map[string]int{}, map[string]*ganttLine{}
	x := func(at time.Time) float64 {
		return max(0, min(1, float64(at.Sub(from))/float64(before.Sub(from)))) * ganttWide
	}
	for i := range byTime {
		t := &byTime[i]
		if t.Ended.IsZero() && t.Over {
			continue // nobody knows yet when it ended
		}
		colour, known := colours[t.Instance]
		if !known {
			colour = len(colours) % coloursMax
			colours[t.Instance] = colour
		}
		l := lines[t.Lease]
		if l == nil {
			l = &ganttLine{Lease: t.Lease, JobType: t.JobType}
			lines[t.Lease] = l
		}
		end := before
		if !t.Ended.IsZero() {
			end = t.Ended
		}
		begin := x(t.Taken)
		l.Bars = append(l.Bars, bar{begin, max(barLeast, x(end)-begin), colour, tenureText(t)})
	}
	g.Holders, g.Others = legend(byTime, colours)
	for _, l := range lines {
		g.Lines = append(g.Lines, *l)
	}
	slices.SortFunc(g.Lines, func(a, b ganttLine) int {
		return cmp.Or(cmp.Compare(a.JobType, b.JobType), cmp.Compare(len(a.Lease), len(b.Lease)), strings.Compare(a.Lease, b.Lease))
	})
	if len(g.Lines) > ganttMost {
		g.Lines, g.Undrawn = g.Lines[:ganttMost], len(g.Lines)-ganttMost
	}
	for i := range g.Lines {
		g.Lines[i].Y = i * ganttRow
	}
	return g
}

// legend names the instances that got a lease last, the latest first, and says how many others there are.
func legend(byTime []operate.Tenure, colours map[string]int) (holders []ganttHolder, others int) {
	var instances []string
	for _, t := range slices.Backward(byTime) {
		colour, drawn := colours[t.Instance]
		if !drawn || slices.Contains(instances, t.Instance) {
			continue
		}
		if instances = append(instances, t.Instance); len(instances) <= legendMost {
			name := t.Holder[strings.LastIndexByte(t.Holder, '@')+1:] // an instance may run several services
			holders = append(holders, ganttHolder{name, t.Instance, colour})
		}
	}
	namesakes := map[string]int{}
	for _, h := range holders {
		namesakes[h.Name]++
	}
	for i := range holders {
		if namesakes[holders[i].Name] == 1 {
			holders[i].Id = ""
		}
	}
	return holders, len(instances) - len(holders)
}

func tenureText(t *operate.Tenure) string {
	if t.Ended.IsZero() {
		return fmt.Sprintf("%s: %s since %s", t.Lease, t.Holder, clock(t.Taken))
	}
	return fmt.Sprintf("%s: %s from %s for %s, %s", t.Lease, t.Holder, clock(t.Taken), words.Span(t.Ended.Sub(t.Taken)), howText(*t))
}

// howText says in a few words how a tenure ended.
func howText(t operate.Tenure) string {
	switch {
	case t.BuriedBy != "":
		return faces.BuriedText(&t)
	case t.How != "":
		return endText(t.How)
	case t.Over:
		return "not known yet"
	}
	return "held"
}

func endText(how string) string {
	switch how {
	case record.Released:
		return "given back"
	case record.Asked:
		return "handed over"
	case record.Expired:
		return "expired: its holder said nothing"
	}
	return how
}
