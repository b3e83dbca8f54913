package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// report is all that the results are made of.
type report struct {
	Date     string            `json:"date"`
	Command  string            `json:"command"`
	Commit   string            `json:"commit"`
	Machine  string            `json:"machine"`
	Quick    bool              `json:"quick,omitempty"`
	Versions map[string]string `json:"versions"`
	Outcomes []outcome         `json:"outcomes"`
}

func newReport(ctx context.Context, o options) *report {
	return &report{
		Date:     time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Command:  commandLine(o),
		Commit:   commit(ctx),
		Machine:  machine(),
		Quick:    o.quick,
		Versions: map[string]string{},
	}
}

// write writes results.json, results.md and a plot for each workload into the folder.
func (r *report) write(folder string) error {
	for _, o := range r.Outcomes {
		maps.Copy(r.Versions, o.Versions)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	errs := []error{
		os.WriteFile(filepath.Join(folder, "results.json"), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(folder, "results.md"), []byte(r.markdown()), 0o644),
	}
	for _, w := range workloads {
		if rows := r.rows(w); len(rows) > 0 {
			errs = append(errs, plotRows(w, rows, filepath.Join(folder, w.name+".svg")))
		}
	}
	return errors.Join(errs...)
}

// row is a system's medians in a workload.
type row struct {
	system  string
	rounds  int
	medians map[string]float64
	least   float64 // of the first column
	most    float64
}

// rows are in the order of the systems. A round that failed is in none.
func (r *report) rows(w workload) (rows []row) {
	for _, e := range entries {
		values := map[string][]float64{}
		rounds := 0
		for _, o := range r.Outcomes {
			if o.Workload != w.name || o.System != e.name || o.Error != "" {
				continue
			}
			rounds++
			for figure, value := range o.Figures {
				values[figure] = append(values[figure], value)
			}
		}
		first := values[w.columns[0]]
		if len(first) == 0 {
			continue
		}
		medians := map[string]float64{}
		for figure, list := range values {
			medians[figure] = median(list)
		}
		rows = append(rows, row{e.name, rounds, medians, slices.Min(first), slices.Max(first)})
	}
	return rows
}

// median of one figure of one system; false: there is none.
func (r *report) median(workload, system, figure string) (value float64, known bool) {
	for _, w := range workloads {
		if w.name != workload {
			continue
		}
		for _, row := range r.rows(w) {
			if row.system == system {
				value, known = row.medians[figure]
				return value, known
			}
		}
	}
	return 0, false
}
