package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/create-info/persistent-queue/queue_job"
)

// graph is a picture of a flow: its jobs in columns, each to the right of the jobs that it waits for.
type graph struct {
	Width, Height int
	Jobs          []graphJob
	Lines         []graphLine
}

// graphJob is the box of a job.
type graphJob struct {
	X, Y, W, H         int
	Name, State, Glyph string
	Whole              string // its name, if the box has room for a part of it only
}

// graphLine leads from a job to one that comes after it.
type graphLine struct {
	Path string
	Done bool // the first one has succeeded
	End  bool // the second waits for the end of the first, however it ends
}

// What is larger is not drawn: nobody could read it. Its table is there all the same.
const (
	graphJobsMost, graphColumnsMost, graphRowsMost, graphLinesMost = 60, 12, 14, 150

	boxHeight, boxNarrow, boxWide = 42, 104, 200
	rowGap, columnGap, passHeight = 14, 46, 10
	letterWidth, boxPadding       = 7, 26
	graphMargin                   = 3
)

// place is a job in a column, or where a line passes a column between two jobs.
type place struct {
	job           int // -1: a line passes
	column        int
	before, after []*place
	at            float64 // in the column, among the others
	y             int     // its middle
}

// graphOf draws a flow. Nil: it is too large.
func graphOf(f *queue_job.FlowInfo) *graph {
	if len(f.Jobs) < 2 || len(f.Jobs) > graphJobsMost {
		return nil
	}
	number, jobs := map[string]int{}, make([]*place, len(f.Jobs))
	for i := range f.Jobs {
		number[f.Jobs[i].Name], jobs[i] = i, &place{job: i}
	}
	lines := 0
	for i := range f.Jobs { // a job stands behind the jobs that it waits for
		for _, name := range f.Jobs[i].Followers {
			to := jobs[number[name]]
			to.column = max(to.column, jobs[i].column+1)
			lines++
		}
	}
	columns := ranksOf(f, jobs, number)
	if len(columns) > graphColumnsMost || lines > graphLinesMost ||
		slices.ContainsFunc(columns, func(c []*place) bool { return len(c) > graphRowsMost }) {
		return nil
	}
	untangle(columns)
	return drawn(f, jobs, columns)
}

// ranksOf puts jobs into columns, and between them the places where lines pass.
func ranksOf(f *queue_job.FlowInfo, jobs []*place, number map[string]int) (columns [][]*place) {
	put := func(p *place) {
		for len(columns) <= p.column {
			columns = append(columns, nil)
		}
		columns[p.column] = append(columns[p.column], p)
	}
	for _, p := range jobs {
		put(p)
	}
	for i, from := range jobs {
		for _, name := range f.Jobs[i].Followers {
			to, last := jobs[number[name]], from
			for column := from.column + 1; column <= to.column; column++ {
				next := to
				if column < to.column {
					next = &place{job: -1, column: column}
					put(next)
				}
				last.after, next.before = append(last.after, next), append(next.before, last)
				last = next
			}
		}
	}
	return columns
}

// untangle orders each column by where the neighbours of its places are, so that few lines cross.
func untangle(columns [][]*place) {
	const rounds = 4
	number := func(column []*place) {
		for i, p := range column {
			p.at = (float64(i) + .5) / float64(len(column))
		}
	}
	order := func(column []*place, neighbours func(*place) []*place) {
		for _, p := range column {
			sum, list := 0., neighbours(p)
			for _, n := range list {
				sum += n.at
			}
			if len(list) > 0 {
				p.at = sum / float64(len(list))
			}
		}
		slices.SortStableFunc(column, func(a, b *place) int { return cmp.Compare(a.at, b.at) })
		number(column)
	}
	for _, column := range columns {
		number(column)
	}
	for range rounds {
		for _, column := range columns[1:] {
			order(column, func(p *place) []*place { return p.before })
		}
		for i := len(columns) - 2; i >= 0; i-- {
			order(columns[i], func(p *place) []*place { return p.after })
		}
	}
}

// drawn gives places their coordinates.
func drawn(f *queue_job.FlowInfo, jobs []*place, columns [][]*place) *graph {
	g, left, width := &graph{}, make([]int, len(columns)), make([]int, len(columns))
	heightOf := func(column []*place) (h int) {
		for _, p := range column {
			h += heightOfPlace(p) + rowGap
		}
		return h - rowGap
	}
	x := graphMargin
	for i, column := range columns {
		g.Height = max(g.Height, heightOf(column))
		width[i] = boxNarrow
		for _, p := range column {
			if p.job >= 0 {
				j := &f.Jobs[p.job]
				width[i] = min(boxWide, max(width[i], boxPadding+letterWidth*max(lettersOf(j.Name), lettersOf(j.State())+2)))
			}
		}
		left[i] = x
		x += width[i] + columnGap
	}
	g.Width, g.Height = x-columnGap+graphMargin, g.Height+2*graphMargin
	for i, column := range columns {
		y := (g.Height - heightOf(column)) / 2
		for _, p := range column {
			h := heightOfPlace(p)
			if p.y = y + h/2; p.job >= 0 {
				g.Jobs = append(g.Jobs, boxOf(&f.Jobs[p.job], left[i], y, width[i]))
			}
			y += h + rowGap
		}
	}
	for i, from := range jobs {
		j := &f.Jobs[i]
		for n, first := range from.after {
			line := graphLine{Done: j.Status == queue_job.JobStatusSuccess, End: n >= len(j.Followers)-len(j.AfterEnd)}
			line.Path = pathOf(from, first, left, width)
			g.Lines = append(g.Lines, line)
		}
	}
	slices.SortStableFunc(g.Lines, func(a, b graphLine) int { // what is done lies on top
		return cmp.Compare(fmt.Sprint(a.Done), fmt.Sprint(b.Done))
	})
	return g
}

func heightOfPlace(p *place) int {
	if p.job < 0 {
		return passHeight
	}
	return boxHeight
}

// pathOf leads from a place by the next one, and wherever the line passes, to a job.
func pathOf(from, next *place, left, width []int) string {
	x, y := left[from.column]+width[from.column], from.y
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %d", x, y)
	for {
		to := left[next.column]
		fmt.Fprintf(&path, "C%d %d %d %d %d %d", (x+to)/2, y, (x+to)/2, next.y, to, next.y)
		if x, y = to+width[next.column], next.y; next.job >= 0 {
			fmt.Fprintf(&path, "M%d %dL%d %dL%d %d", to-6, y-4, to, y, to-6, y+4)
			return path.String()
		}
		fmt.Fprintf(&path, "H%d", x)
		next = next.after[0]
	}
}

func boxOf(j *queue_job.FlowJobInfo, x, y, w int) graphJob {
	box := graphJob{X: x, Y: y, W: w, H: boxHeight, Name: j.Name, State: j.State(), Glyph: glyphOf(j.State())}
	if room := (w - boxPadding) / letterWidth; lettersOf(j.Name) > room {
		box.Whole, box.Name = j.Name, ""
		for _, letter := range j.Name {
			if lettersOf(box.Name+string(letter)) >= room {
				break
			}
			box.Name += string(letter)
		}
		box.Name += "…"
	}
	return box
}

// lettersOf is how wide a text is: a letter of Chinese, Japanese or Korean is as wide as two.
func lettersOf(text string) (n int) {
	for _, letter := range text {
		if n++; unicode.In(letter, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) {
			n++
		}
	}
	return n
}

// glyphOf is the shape of a state, as the style sheet has it.
func glyphOf(state string) string {
	switch state {
	case queue_job.StateFailed, queue_job.FlowJobRefused, queue_job.FlowJobDeleted:
		return "▲"
	case queue_job.StateRetrying:
		return "↻"
	case queue_job.StateRunning:
		return "▶"
	case queue_job.StateScheduled, queue_job.FlowJobToCome, queue_job.FlowJobAwaits, queue_job.FlowJobOnFailure:
		return "○"
	case queue_job.StateCancelled, queue_job.FlowJobCalledOff:
		return "■"
	}
	return "●"
}

// Left, Upper and Lower are where the texts of the box stand.
func (j graphJob) Left() int  { return j.X + 14 }
func (j graphJob) Upper() int { return j.Y + 18 }
func (j graphJob) Lower() int { return j.Y + 33 }
