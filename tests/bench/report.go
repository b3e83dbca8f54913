package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// report is what one run measured of one workload. It is in a file of its own.
type report struct {
	workload workload
	Date     string            `json:"date"`
	Command  string            `json:"command"`
	Commit   string            `json:"commit"`
	Machine  string            `json:"machine"`
	Quick    bool              `json:"quick,omitempty"`
	Versions map[string]string `json:"versions"`
	Outcomes []outcome         `json:"outcomes"`
}

func newReport(o options, workload, commit string) *report {
	w, _ := workloadNamed(workload)
	return &report{
		workload: w,
		Date:     time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Command:  commandLine(o),
		Commit:   commit,
		Machine:  machine(),
		Quick:    o.quick,
		Versions: map[string]string{},
	}
}

// write replaces the workload's file and plot in the folder, and makes results.md anew from the files of all workloads.
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
	if err := os.WriteFile(reportFile(folder, r.workload), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if rows := r.rows(); len(rows) > 0 {
		if err := plotRows(r.workload, rows, filepath.Join(folder, r.workload.name+".svg")); err != nil {
			return err
		}
	}
	return writeMarkdown(folder)
}

func reportFile(folder string, w workload) string { return filepath.Join(folder, w.name+".json") }

// row is a system's medians in a workload.
type row struct {
	system  string
	rounds  int
	medians map[string]float64
	least   float64 // of the first column
	most    float64
}

// rows are in the order of the systems. A round that failed is in none.
func (r *report) rows() (rows []row) {
	for _, e := range entries {
		values := map[string][]float64{}
		rounds := 0
		for _, o := range r.Outcomes {
			if o.System != e.name || o.Error != "" {
				continue
			}
			rounds++
			for figure, value := range o.Figures {
				values[figure] = append(values[figure], value)
			}
		}
		first := values[r.workload.columns[0]]
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

// byRound are the values of one figure of one system. A round that failed has none.
func (r *report) byRound(system, figure string) map[int]float64 {
	values := map[int]float64{}
	for _, o := range r.Outcomes {
		if value, known := o.Figures[figure]; known && o.System == system && o.Error == "" {
			values[o.Round] = value
		}
	}
	return values
}
