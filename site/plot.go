package main

import (
	"fmt"
	"html/template"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bar is a figure in a plot. If it has no text of its own, its value is that.
type bar struct {
	label                         string
	value, least, greatest, bound float64
	ours, second                  bool // of persistent-queue; a second measure of the same
	says                          string
}

// A plot is as wide as a phone, so that its texts can be read there.
const plotWidth, rowHeight, barHeight = 340, 37, 9

// draw makes a plot of bars, each with its label and value above it.
func draw(title string, bars []bar, unit string) string {
	var most float64
	var said []string
	for _, b := range bars {
		most = max(most, b.value, b.greatest, b.bound)
	}
	x := func(value float64) float64 { return math.Round(value/most*plotWidth*10) / 10 }
	var s strings.Builder
	for i, b := range bars {
		y, says, class := float64(i*rowHeight), b.says, "other"
		if says == "" {
			says = number(b.value) + unit
		}
		if b.ours {
			class = "ours"
		}
		if b.second {
			class += " second"
		}
		said = append(said, b.label+": "+says)
		fmt.Fprintf(&s, `<text x="0" y="%g">%s</text>`, y+14, template.HTMLEscapeString(b.label))
		fmt.Fprintf(&s, `<text class="value" x="%d" y="%g">%s</text>`, plotWidth, y+14, says)
		fmt.Fprintf(&s, `<rect class="ground" x="0" y="%g" width="%d" height="%d" rx="2"/>`, y+20, plotWidth, barHeight)
		fmt.Fprintf(&s, `<rect class="%s" x="0" y="%g" width="%g" height="%d" rx="2"/>`, class, y+20, max(1, x(b.value)), barHeight)
		if b.greatest > b.least {
			fmt.Fprintf(&s, `<path class="range" d="M%g %gH%g"/>`, x(b.least), y+20+barHeight/2.0, x(b.greatest))
		}
		if b.bound > 0 {
			fmt.Fprintf(&s, `<path class="bound" d="M%g %gv%d"/>`, x(b.bound)-1, y+17, barHeight+6)
		}
	}
	return fmt.Sprintf(`<svg class="plot" viewBox="0 0 %d %d" role="img" aria-label="%s">%s</svg>`, plotWidth, len(bars)*rowHeight-4,
		template.HTMLEscapeString(title+". "+strings.Join(said, "; ")), s.String())
}

// number writes a figure as results.md does: with three digits that count, and thousands apart.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	if rest = strings.TrimRight(rest, "0"); rest != "" {
		return grouped(whole) + "." + rest
	}
	return grouped(whole)
}

// grouped sets thousands apart.
func grouped(digits string) string {
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// drawing says what a plot shows of a workload: of systems whose name has a part in it, some measures.
type drawing struct {
	name, workload, systems string
	measures                []string
	unit                    string
}

const ours = "persistent-queue"

var drawings = []drawing{
	{"latency", "latency-100", ours, []string{"p50 ms", "p99 ms"}, " ms"},
	{"drain", "drain", "", []string{"jobs/s"}, ""},
	{"latency", "latency-1000", ours, []string{"p50 ms", "p99 ms"}, " ms"},
	{"allocations", "drain", "", []string{"allocations per job"}, ""},
	{"burst", "burst-3500", ours, []string{"late p50 ms", "late p99 ms"}, " ms"},
	{"CPU", "drain", "", []string{"client CPU s per 100k jobs"}, " s"},
	{"burst", "burst-35000", ours, []string{"late p50 ms", "late p99 ms"}, " ms"},
	{"steady", "steady-100x20ms", ours, []string{"% of ideal"}, " %"},
}

// the faults after which the jobs of a type go on in another process
var recovered = []string{"SIGKILL of the holder", "SIGSTOP for 2 L, then SIGCONT", "SIGTERM (deploy)"}

var digits = regexp.MustCompile(`\d+`)

// plots are all that there are, in a language, as HTML. The first three are those of the front page.
func (f *figures) plots(l *language) (plots []string, err error) {
	for _, d := range drawings {
		bars, err := f.bars(d.workload, d.systems, d.measures...)
		if err != nil {
			return nil, err
		}
		file, m := benchFolder+"/"+d.workload+".json", f.bench[d.workload]
		title := l.Titles[d.name]
		for _, n := range digits.FindAllString(d.workload, -1) {
			title = strings.Replace(title, "%", grouped(n), 1)
		}
		source := fmt.Sprintf(`<a href="%s/blob/main/%s">%s.json</a>, %s, %s`, repository, file, d.workload, m.Commit, m.Date)
		plots = append(plots, l.figure(title, draw(title, bars, d.unit), source))
	}
	bars, err := f.recoveries(l, recovered...)
	source := fmt.Sprintf(`<a href="%s/blob/main/%s">%s</a>`, repository, faultsFile, path.Base(faultsFile))
	recovery := l.figure(l.Titles["recovery"], draw(l.Titles["recovery"], bars, ""), source)
	return slices.Insert(plots, 1, recovery), err
}

func (l *language) figure(title, drawing, source string) string {
	return fmt.Sprintf(`<figure><figcaption>%s</figcaption>%s<p class="source">%s</p></figure>`, title, drawing, source)
}

// addFigures makes the page of all plots.
func (s *site) addFigures(l *language) error {
	plots, err := s.figures.plots(l)
	if err != nil {
		return err
	}
	p := &page{address: l.folder + "inside/figures.html", language: l, title: l.Figures, summary: l.FiguresAre}
	p.sections = []section{{title: l.Figures, text: l.FiguresIntro}}
	p.body = template.HTML("<h1>" + l.Figures + "</h1><p>" + l.FiguresIntro + `</p><div class="plots">` + strings.Join(plots, "") + "</div>" +
		`<h2 id="faults">` + l.Faults + "</h2>" + s.figures.tally(l) + `<p class="source">` + s.figures.ranAs() + "</p>")
	s.pages = append(s.pages, p)
	last := &s.contents[l][len(s.contents[l])-1]
	last.Items = append(last.Items, item{p.title, p.summary, p.address, false})
	return nil
}

// front are the plots of the front page.
func (s *site) front(l *language) (string, error) {
	plots, err := s.figures.plots(l)
	if err != nil {
		return "", err
	}
	return `<div class="plots">` + strings.Join(plots[:3], "") + `</div><p><a href="inside/figures.html">` + l.Figures + "</a></p>", nil
}
