package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// notHere says which peers are missing, so that nobody takes them for forgotten.
const notHere = "goque (github.com/ruko1202/goque, MySQL) is not here: its module could not be had where this was written."

// markdown says once on which machine all was measured, or else in each section on which that was.
func (all results) markdown() string {
	var b strings.Builder
	b.WriteString("# Results\n\n")
	machine := all.machine()
	if machine != "" {
		fmt.Fprintf(&b, "%s\n\n", machine)
	}
	b.WriteString(
		"Medians of the rounds; behind the first figure its least and its greatest. Ratios travel from machine to machine, absolute\nfigures do not. " +
			"[README.md](../README.md) says what the words mean and how each system is set up.\n" +
			notHere + "\n")
	all.writeTargets(&b)
	for _, r := range all {
		r.writeSection(&b, machine == "")
	}
	return b.String()
}

func (r *report) writeSection(b *strings.Builder, sayMachine bool) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", r.workload.name, r.workload.says)
	if r.Quick {
		b.WriteString("\n**Quick: a fiftieth of these jobs. The figures say that it works, and nothing else.**\n")
	}
	fmt.Fprintf(b, "\nBy `%s` at commit %s, %s", r.Command, r.Commit, r.Date)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(b, ", %s %s", name, r.Versions[name])
	}
	b.WriteString(".\n")
	if sayMachine {
		fmt.Fprintf(b, "%s\n", r.Machine)
	}
	if rows := r.rows(); len(rows) > 0 {
		writeTable(b, r.workload, rows)
	}
	r.writeFailures(b)
}

func writeTable(b *strings.Builder, w workload, rows []row) {
	fmt.Fprintf(b, "\n| | %s | rounds |\n|---|%s---:|\n", strings.Join(w.columns, " | "), strings.Repeat("---:|", len(w.columns)))
	for _, row := range rows {
		cells := []string{row.system}
		for i, column := range w.columns {
			value, known := row.medians[column]
			cell := ""
			if known {
				cell = significant(value)
			}
			if i == 0 && row.rounds > 1 {
				cell += fmt.Sprintf(" (%s to %s)", significant(row.least), significant(row.most))
			}
			cells = append(cells, cell)
		}
		fmt.Fprintf(b, "| %s | %d |\n", strings.Join(cells, " | "), row.rounds)
	}
	fmt.Fprintf(b, "\n![%s](%s.svg)\n", w.name, w.name)
}

func (r *report) writeFailures(b *strings.Builder) {
	for _, o := range r.Outcomes {
		if o.Error != "" {
			fmt.Fprintf(b, "\nFAILED: %s, round %d: %s\n", o.System, o.Round, strings.ReplaceAll(o.Error, "\n", " "))
		}
	}
}

// significant writes a figure with three digits that count, and all that stand before the point.
func significant(value float64) string {
	size := math.Abs(value)
	if size >= 1000 {
		return grouped(int64(math.Round(value)))
	}
	digits := 0
	if size > 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(size))))
	}
	return strconv.FormatFloat(value, 'f', min(digits, 4), 64)
}

func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
