package main

import (
	"strings"
	"testing"
)

func TestResults_SayMediansBoundsAndFailures(t *testing.T) {
	figures := func(rate float64) map[string]float64 {
		return map[string]float64{jobsPerSecond: rate, perThousand: 2.4}
	}
	r := &report{Command: "make bench", Commit: "abc", Versions: map[string]string{"MariaDB": "10.11"}, Outcomes: []outcome{
		{Workload: "drain", System: onMariaDB, Round: 1, Figures: figures(80_000)},
		{Workload: "drain", System: onMariaDB, Round: 2, Figures: figures(100_000)},
		{Workload: "drain", System: onMariaDB, Round: 3, Figures: figures(91_234)},
		{Workload: "drain", System: "bare loop, MariaDB", Round: 1, Figures: figures(100_000)},
		{Workload: "drain", System: "asynq, Redis", Round: 1, Error: "2 of 3 jobs\nsucceeded"},
	}}
	text := r.markdown()
	for _, want := range []string{
		"By `make bench` at commit abc",
		"MariaDB 10.11.",
		"| drain, MariaDB, of the bare loop | ≥ 0.85 × | 0.912 × | yes |",
		"| drain, statements per 1,000 jobs, MariaDB | ≤ 5 | 2.40 | yes |",
		"| persistent-queue, MariaDB | 91,234 (80,000 to 100,000) | 2.40 |  |  |  |  | 3 |",
		"| bare loop, MariaDB | 100,000 | 2.40 |",
		"FAILED: drain, asynq, Redis, round 1: 2 of 3 jobs succeeded",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the results do not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "of asynq |") {
		t.Errorf("a ratio to a system without figures:\n%s", text)
	}
}

func TestSignificant_KeepsThreeDigits(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.01234: "0.0123", 1.5: "1.50", 12.345: "12.3", 999.4: "999", 1000: "1,000", 1234567.8: "1,234,568", -2500: "-2,500"} {
		if got := significant(value); got != want {
			t.Errorf("%v is written %s, want %s", value, got, want)
		}
	}
}
