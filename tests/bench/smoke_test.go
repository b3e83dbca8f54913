package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBench_DrainsOnSQLiteAndWritesWhatItMeasured(t *testing.T) {
	folder := t.TempDir()
	o := options{rounds: 1, only: "drain", on: "SQLite", quick: true, results: folder, profile: folder}
	var systems []string
	r := newReport(o, "drain", "abc")
	for _, a := range planned(o) {
		outcome := runApart(t.Context(), a)
		if outcome.Error != "" {
			t.Fatalf("%s: %s", a.System, outcome.Error)
		}
		for _, figure := range []string{jobsPerSecond, perThousand, allocations} {
			if outcome.Figures[figure] <= 0 {
				t.Errorf("%s: no %s in %v", a.System, figure, outcome.Figures)
			}
		}
		systems = append(systems, a.System)
		r.Outcomes = append(r.Outcomes, outcome)
	}
	if got := strings.Join(systems, "; "); got != "persistent-queue, SQLite; bare loop, SQLite" {
		t.Errorf("drained by %s", got)
	}
	if err := r.write(folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.md", "drain.json", "drain.svg", "drain-bare-loop-SQLite-1.cpu.pprof", "drain-bare-loop-SQLite-1.heap.pprof"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("no %s: %v", name, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(folder, "results.md"))
	for _, want := range []string{"| persistent-queue, SQLite | ", "| bare loop, SQLite | ", "Quick", "SQLite 3."} {
		if !strings.Contains(string(text), want) {
			t.Errorf("results.md does not say %q:\n%s", want, text)
		}
	}
}

func TestBench_ARunLeavesTheFilesOfOtherWorkloads(t *testing.T) {
	folder := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	run := func(rounds int, only string) {
		t.Helper()
		if err := compare(t.Context(), options{rounds: rounds, only: only, on: onSQLite, quick: true, results: folder}); err != nil {
			t.Fatal(err)
		}
	}
	run(1, "steady-100x20ms")
	before := read("steady-100x20ms.json")
	run(1, "steady-10x5ms")
	if read("steady-100x20ms.json") != before {
		t.Error("a run of one workload has written another's file")
	}
	text := read("results.md")
	for _, want := range []string{"-only steady-100x20ms ", "-only steady-10x5ms ", "](steady-100x20ms.svg)", "](steady-10x5ms.svg)"} {
		if !strings.Contains(text, want) {
			t.Errorf("results.md does not say %q:\n%s", want, text)
		}
	}
	run(2, "steady-100x20ms")
	all, err := readResults(folder)
	if err != nil || len(all) != 2 || len(all[0].Outcomes) != 2 {
		t.Errorf("a run of two rounds has not replaced that of one: %v, %v", all, err)
	}
}

func TestBench_WritesEachRoundSoThatAnInterruptionLosesNone(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	folder := t.TempDir()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(folder, "results.md")); err == nil {
				interrupt()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	const rounds = 100
	if err := compare(ctx, options{rounds: rounds, only: "drain", on: "bare loop, SQLite", quick: true, results: folder}); err != nil {
		t.Fatal(err)
	}
	all, err := readResults(folder)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	if n := len(all[0].Outcomes); n == 0 || n == rounds {
		t.Errorf("%d rounds are written", n)
	}
}

func TestSnapshot_IsComparedWithADrainOfTheSameRound(t *testing.T) {
	o, err := (&round{quick: true}).run(t.Context(), snapshot, selected(onSQLite)[0])
	if err != nil {
		t.Fatal(err)
	}
	if f := o.Figures; f[jobsPerSecond] <= 0 || f[ofWithout] != 100*f[jobsPerSecond]/f[withoutReader] {
		t.Errorf("the figures are %v", f)
	}
}

func TestParts_EachWorkloadOfStepsAndFlowsMeasuresAllOfItsFigures(t *testing.T) {
	for _, w := range slices.Concat(parts, flowWorkloads) {
		t.Run(w.name, func(t *testing.T) {
			o, err := (&round{quick: true}).run(t.Context(), w, selected(onSQLite)[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, figure := range w.columns {
				if _, measured := o.Figures[figure]; !measured && figure != serverCPU && figure != serverOfCore { // SQLite has no server
					t.Errorf("no %s in %v", figure, o.Figures)
				}
			}
		})
	}
}

func TestBacklog_PreparesOneTableForAllOfItsRounds(t *testing.T) {
	small := backlog
	small.prepare = func(ctx context.Context, r *round) error { return r.finish(ctx, 30_000) }
	small.run = func(ctx context.Context, r *round) error { return r.backlog(ctx, 500) }
	e := selected(onSQLite)[0]
	made := grounds{}
	if err := made.prepare(t.Context(), small, assignment{System: e.name}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o, err := (&round{ground: made[e.name].address()}).run(t.Context(), small, e)
		if err != nil {
			t.Fatal(err)
		}
		if f := o.Figures; f[jobsPerSecond] <= 0 || f[ofEmpty] != 100*f[jobsPerSecond]/f[onEmpty] {
			t.Errorf("the figures are %v", f)
		}
	}
	if c, err := made[e.name].counts(t.Context()); err != nil || c != (counts{succeeded: 31_000}) {
		t.Errorf("after two rounds of 500 jobs beside 30,000: %+v, %v", c, err)
	}
	if err := made.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBench_RemovesWhatWasPrepared(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	left := func() int {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Error(err)
		}
		return len(files)
	}
	made := grounds{}
	w := workload{prepare: func(context.Context, *round) error { return nil }}
	for range 2 {
		if err := made.prepare(t.Context(), w, assignment{System: onSQLite}); err != nil {
			t.Fatal(err)
		}
	}
	if n := left(); n != 1 {
		t.Errorf("%d systems are prepared for two rounds", n)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := made.close(ctx); err != nil {
		t.Error(err)
	}
	if n := left(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestBench_ARoundThatLosesAJobHasNoFigures(t *testing.T) {
	e := selected("bare loop, SQLite")[0]
	lossy := drain
	lossy.run = func(ctx context.Context, r *round) error {
		if err := r.addNow(ctx, 3); err != nil {
			return err
		}
		if _, err := r.system.(*bareSystem).ExecContext(ctx, "UPDATE async_job_tab SET job_status = 2 WHERE id = 2"); err != nil {
			return err
		}
		handled := &counter{reached: make(chan struct{})}
		stop, err := r.work(ctx, staff{handle: func(context.Context, task) error { handled.add(); return nil }}, r.fail)
		if err != nil {
			return err
		}
		return errors.Join(r.settled(ctx, handled, 2), stop(), r.verify(ctx, handled, 3, 3))
	}
	_, err := new(round).run(t.Context(), lossy, e)
	if err == nil || !strings.Contains(err.Error(), "of 3 jobs 2 succeeded, 0 are pending, 1 are something else; handlers ran 2 times") {
		t.Errorf("the error is %v", err)
	}
}
