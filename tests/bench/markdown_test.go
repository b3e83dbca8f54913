package main

import (
	"strings"
	"testing"
)

func TestResults_SayMediansBoundsAndFailures(t *testing.T) {
	figures := func(rate float64) map[string]float64 {
		return map[string]float64{jobsPerSecond: rate, perThousand: 2.4}
	}
	r := &report{workload: drain, Command: "make bench", Commit: "abc", Date: "today", Versions: map[string]string{"MariaDB": "10.11", "MySQL": "9.7"}, Outcomes: []outcome{
		{Workload: "drain", System: onMariaDB, Round: 1, Figures: figures(80_000)},
		{Workload: "drain", System: onMariaDB, Round: 2, Figures: figures(100_000)},
		{Workload: "drain", System: onMariaDB, Round: 3, Figures: figures(91_234)},
		{Workload: "drain", System: "bare loop, MariaDB", Round: 1, Figures: figures(100_000)},
		{Workload: "drain", System: "bare loop, MariaDB", Round: 2, Figures: figures(100_000)},
		{Workload: "drain", System: "bare loop, MariaDB", Round: 3, Figures: figures(100_000)},
		{Workload: "drain", System: "asynq, Redis", Round: 1, Error: "2 of 3 jobs\nsucceeded"},
	}}
	text := results{r}.markdown()
	for _, want := range []string{
		"By `make bench` at commit abc, today, MariaDB 10.11, MySQL 9.7.",
		"| drain, MariaDB, of the bare loop | ≥ 0.85 × | 0.912 × (0.856 to 0.956) | yes |",
		"| drain, statements per 1,000 jobs, MariaDB | ≤ 5 | 2.40 (2.40 to 2.40) | yes |",
		"| persistent-queue, MariaDB | 91,234 (80,000 to 100,000) | 2.40 |  |  |  |  | 3 |",
		"| bare loop, MariaDB | 100,000 (100,000 to 100,000) | 2.40 |",
		"FAILED: asynq, Redis, round 1: 2 of 3 jobs succeeded",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the results do not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "of asynq |") {
		t.Errorf("a ratio to a system without figures:\n%s", text)
	}
}

func TestResults_SayOfAQuickWorkloadThatItIsAndNotWhatItReaches(t *testing.T) {
	outcomes := func(w workload, f map[string]float64) []outcome {
		return []outcome{{Workload: w.name, System: onSQLite, Round: 1, Figures: f}}
	}
	text := results{
		{workload: drain, Quick: true, Outcomes: outcomes(drain, map[string]float64{jobsPerSecond: 1, perThousand: 2})},
		{workload: snapshot, Outcomes: outcomes(snapshot, map[string]float64{ofWithout: 90})},
	}.markdown()
	for _, want := range []string{"| snapshot, % of the drain without the reader, SQLite | ≥ 85 | 90.0 | yes |", "| persistent-queue, SQLite | 1.00 | 2.00 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the results do not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| drain, ") {
		t.Errorf("a target of a quick workload:\n%s", text)
	}
	_, ofDrain, _ := strings.Cut(text, "## drain")
	ofDrain, ofSnapshot, _ := strings.Cut(ofDrain, "## snapshot")
	if !strings.Contains(ofDrain, "**Quick") || strings.Contains(ofSnapshot, "**Quick") {
		t.Errorf("not the quick section alone says that it is:\n%s", text)
	}
}

func TestResults_NameTheMachineOnceWhereItIsTheSame(t *testing.T) {
	all := results{{workload: drain, Machine: "2 cores"}, {workload: snapshot, Machine: "2 cores"}}
	if text := all.markdown(); strings.Count(text, "2 cores") != 1 || strings.Index(text, "2 cores") > strings.Index(text, "##") {
		t.Errorf("not once, at the head:\n%s", text)
	}
	all[1].Machine = "8 cores"
	head, sections, _ := strings.Cut(all.markdown(), "##")
	ofDrain, ofSnapshot, _ := strings.Cut(sections, "##")
	if strings.Contains(head, "cores") || !strings.Contains(ofDrain, "2 cores") || !strings.Contains(ofSnapshot, "8 cores") {
		t.Errorf("not each in its section:\n%s\n%s", head, sections)
	}
}

func TestSignificant_KeepsThreeDigits(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.01234: "0.0123", 1.5: "1.50", 12.345: "12.3", 999.4: "999", 1000: "1,000", 1234567.8: "1,234,568", -2500: "-2,500"} {
		if got := significant(value); got != want {
			t.Errorf("%v is written %s, want %s", value, got, want)
		}
	}
}
