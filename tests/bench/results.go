package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// results are the reports in a folder, in the order of the workloads. They may be of several runs.
type results []*report

func readResults(folder string) (all results, err error) {
	for _, w := range workloads {
		text, err := os.ReadFile(reportFile(folder, w))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r := &report{workload: w}
		if err == nil {
			err = json.Unmarshal(text, r)
		}
		if err != nil {
			return nil, fmt.Errorf("results of %s: %w", w.name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// writeMarkdown makes results.md from the reports in the folder.
func writeMarkdown(folder string) error {
	all, err := readResults(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "results.md"), []byte(all.markdown()), 0o644)
}

// inFull is the workload's report; nil: there is none, or it is of a quick run, whose figures mean nothing.
func (all results) inFull(workload string) *report {
	for _, r := range all {
		if r.workload.name == workload && !r.Quick {
			return r
		}
	}
	return nil
}

// machine is the one that all were measured on; empty: there is no such.
func (all results) machine() (machine string) {
	for i, r := range all {
		if i > 0 && r.Machine != machine {
			return ""
		}
		machine = r.Machine
	}
	return machine
}
