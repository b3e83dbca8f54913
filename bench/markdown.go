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

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\nBy `%s` at commit %s, %s.\n\n", r.Command, r.Commit, r.Date)
	fmt.Fprintf(&b, "%s\n\n", r.Machine)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	fmt.Fprintf(&b, "%s.\n\n", strings.Join(versions, ", "))
	b.WriteString("Medians of the rounds; behind the first figure its least and its greatest. Ratios travel from machine to machine, absolute\nfigures do not. [README.md](../README.md) says what the words mean and how each system is set up.\n" + notHere + "\n")
	if r.Quick {
		b.WriteString("\n**Quick: a fiftieth of the jobs that are named below. These figures say that it works, and nothing else.**\n")
	} else {
		r.writeTargets(&b)
	}
	for _, w := range workloads {
		if rows := r.rows(w); len(rows) > 0 {
			writeTable(&b, w, rows)
		}
	}
	r.writeFailures(&b)
	return b.String()
}

func writeTable(b *strings.Builder, w workload, rows []row) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", w.name, w.says)
	fmt.Fprintf(b, "| | %s | rounds |\n|---|%s---:|\n", strings.Join(w.columns, " | "), strings.Repeat("---:|", len(w.columns)))
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
			fmt.Fprintf(b, "\nFAILED: %s, %s, round %d: %s\n", o.Workload, o.System, o.Round, strings.ReplaceAll(o.Error, "\n", " "))
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
