package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// compare runs every round. What is measured is written after each, so an interruption loses none that was done.
func compare(ctx context.Context, o options) (err error) {
	plan := planned(o)
	if len(plan) == 0 {
		return fmt.Errorf("no workload %q on a system %q", o.only, o.on)
	}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	commit := commit(ctx) // which may be another one when the last workload begins
	var r *report
	grounds := grounds{}
	defer func() { err = errors.Join(err, grounds.close(ctx)) }()
	failed := 0
	for i, a := range plan {
		if r == nil || r.workload.name != a.Workload {
			if err := grounds.close(ctx); err != nil {
				return err
			}
			r = newReport(o, a.Workload, commit)
		}
		began := time.Now()
		fmt.Fprintf(os.Stderr, "bench: %d of %d: %s, %s, round %d: ", i+1, len(plan), a.Workload, a.System, a.Round)
		outcome := grounds.run(ctx, a)
		if ctx.Err() != nil {
			fmt.Fprintf(os.Stderr, "interrupted; %d of %d rounds are written\n", i, len(plan))
			break
		}
		if _, there := outcome.Figures[firstFigure(a.Workload)]; !there && outcome.Error == "" {
			outcome.Error = "outcome without " + firstFigure(a.Workload)
		}
		if outcome.Error != "" {
			failed++
		}
		r.Outcomes = append(r.Outcomes, outcome)
		fmt.Fprintf(os.Stderr, "%s (%v)\n", brief(outcome), time.Since(began).Round(time.Second))
		if err := r.write(o.results); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d rounds failed", failed)
	}
	return nil
}

// planned is every round in turn: a workload once on all systems, then again, so that what the machine does meanwhile
// meets them all. The next workload comes when all rounds of the one before are done: what is compared is near in time.
func planned(o options) (plan []assignment) {
	for _, w := range chosen(o.only) {
		for n := range o.rounds {
			for _, e := range selected(o.on) {
				if !slices.Contains(w.kinds, e.kind) {
					continue
				}
				a := assignment{Workload: w.name, System: e.name, Round: n + 1, Quick: o.quick}
				if o.profile != "" {
					name := strings.NewReplacer(" ", "-", ",", "").Replace(fmt.Sprintf("%s-%s-%d", w.name, e.name, n+1))
					a.Profile = filepath.Join(o.profile, name)
				}
				plan = append(plan, a)
			}
		}
	}
	return plan
}

// runApart runs a round in a process of its own, and kills one that hangs.
func runApart(ctx context.Context, a assignment) outcome {
	ctx, cancel := context.WithTimeout(ctx, roundWait+time.Minute)
	defer cancel()
	o := outcome{Workload: a.Workload, System: a.System, Round: a.Round}
	cmd, err := command(ctx, a)
	if err != nil {
		o.Error = err.Error()
		return o
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// It drops its tables before it ends.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		o.Error = fmt.Sprintf("%v: %s", err, lastLines(stderr.String()))
		return o
	}
	if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
		o.Error = fmt.Sprintf("outcome: %v", err)
	}
	return o
}

// lastLines is the end of what a round said: a panic tells the same of many goroutines.
func lastLines(said string) string {
	const most = 1000
	said = strings.TrimSpace(said)
	if before, _, panicked := strings.Cut(said, "\n\ngoroutine "); panicked {
		said = before
	}
	return said[max(0, len(said)-most):]
}

func firstFigure(name string) string {
	w, _ := workloadNamed(name)
	return w.columns[0]
}

func command(ctx context.Context, a assignment) (*exec.Cmd, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, os.Args[0], "-round", string(text)), nil
}

// brief is an outcome's first figure, for one who waits.
func brief(o outcome) string {
	if o.Error != "" {
		return "FAILED: " + o.Error
	}
	return significant(o.Figures[firstFigure(o.Workload)]) + " " + firstFigure(o.Workload)
}
