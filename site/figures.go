package main

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// figures are the results that the plots are made of.
type figures struct {
	bench  map[string]*measured // by workload
	faults faults
}

// measured is a workload's file of tests/bench/results.
type measured struct {
	Date, Command, Commit string
	Outcomes              []struct {
		System  string
		Figures map[string]float64
	}
}

// faults is tests/faults/results/last.md: how the whole suite ended.
type faults struct {
	run                     string // the line that says what ran, and when
	lines, held, jobs, lost int
	table                   [][]string
}

const benchFolder, faultsFile = "tests/bench/results", "tests/faults/results/last.md"

func readFigures(root string) (*figures, error) {
	f := &figures{bench: map[string]*measured{}}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(benchFolder), "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m := new(measured)
		if err := json.Unmarshal(text, m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		f.bench[strings.TrimSuffix(filepath.Base(file), ".json")] = m
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(faultsFile)))
	if err != nil {
		return nil, err
	}
	return f, f.faults.read(string(text))
}

var commandLine = regexp.MustCompile("(?m)^`make .*$")

func (f *faults) read(text string) (err error) {
	f.run = commandLine.FindString(text)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) < 9 || cells[0] == "fault" || strings.HasPrefix(cells[0], "--") {
			continue
		}
		jobs, err1 := strconv.Atoi(cells[3])
		lost, err2 := strconv.Atoi(cells[4])
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%s: %s is no line of results", faultsFile, line)
		}
		f.table = append(f.table, cells)
		f.lines, f.jobs, f.lost = f.lines+1, f.jobs+jobs, f.lost+lost
		if cells[8] == "held" {
			f.held++
		}
	}
	if f.run == "" || f.lines == 0 {
		return fmt.Errorf("%s: no results", faultsFile)
	}
	return nil
}

// bars are a workload's bars: of some of its systems, and of some of what was measured.
func (f *figures) bars(workload, systems string, measures ...string) (bars []bar, err error) {
	m := f.bench[workload]
	if m == nil {
		return nil, fmt.Errorf("no %s/%s.json", benchFolder, workload)
	}
	var names []string
	of := map[string][]float64{} // by system and measure
	for _, o := range m.Outcomes {
		if !strings.Contains(o.System, systems) {
			continue
		}
		if !slices.Contains(names, o.System) {
			names = append(names, o.System)
		}
		for _, measure := range measures {
			if v, ok := o.Figures[measure]; ok {
				of[o.System+measure] = append(of[o.System+measure], v)
			}
		}
	}
	for _, name := range names {
		for i, measure := range measures {
			values := of[name+measure]
			if len(values) == 0 {
				continue // a round that failed has none
			}
			slices.Sort(values)
			b := bar{value: median(values), least: values[0], greatest: values[len(values)-1], second: i > 0}
			system, database, _ := strings.Cut(name, ", ")
			b.ours, b.label = system == "persistent-queue", system+" · "+database
			if systems != "" {
				b.label = database
			}
			if len(measures) > 1 {
				b.label += " " + strings.TrimSuffix(measure, " ms")
			}
			bars = append(bars, b)
		}
	}
	if len(bars) == 0 {
		return nil, fmt.Errorf("%s/%s.json has no %q of %q", benchFolder, workload, measures, systems)
	}
	return bars, nil
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// recoveries are the bars of faults in which the jobs of a type go on elsewhere: the worst of each, in milliseconds, and its bound.
func (f *figures) recoveries(l *language, names ...string) (bars []bar, err error) {
	for i, name := range names {
		for _, cells := range f.faults.table {
			if cells[0] != name {
				continue
			}
			worst, err1 := time.ParseDuration(cells[6])
			bound, err2 := time.ParseDuration(cells[7])
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("%s: the recovery of %q: %q, %q", faultsFile, name, cells[6], cells[7])
			}
			short, _, _ := strings.Cut(name, " ")
			bars = append(bars, bar{label: short + " · " + cells[1], value: float64(worst.Milliseconds()), bound: float64(bound.Milliseconds()), ours: true,
				second: i%2 > 0, says: worst.String() + " (" + l.Bound + " " + bound.String() + ")"})
		}
	}
	if len(bars) == 0 {
		return nil, fmt.Errorf("%s: none of %q", faultsFile, names)
	}
	return bars, nil
}

// tally says how the whole suite of faults ended.
func (f *figures) tally(l *language) string {
	tile := func(name, value string) string { return "<div><dt>" + name + "</dt><dd>" + value + "</dd></div>" }
	count := func(n int) string { return grouped(strconv.Itoa(n)) }
	return `<dl class="tally">` + tile(l.Held, count(f.faults.held)+" / "+count(f.faults.lines)) + tile(l.Jobs, count(f.faults.jobs)) +
		tile(l.Lost, count(f.faults.lost)) + "</dl>"
}

var inCode = regexp.MustCompile("`([^`]+)`")

// ranAs says how the faults were run.
func (f *figures) ranAs() string {
	return inCode.ReplaceAllString(template.HTMLEscapeString(f.faults.run), "<code>$1</code>")
}
