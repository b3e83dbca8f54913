package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestOnly_TakesAWholeNameOrTheBeginningOfSeveral(t *testing.T) {
	for list, want := range map[string]string{
		"drain":             "drain",
		"latency-100":       "latency-100",
		"latency":           "latency-10 latency-100 latency-1000",
		"burst-3500,drain":  "drain burst-3500",
		"no such, backlogs": "",
	} {
		var names []string
		for _, w := range chosen(list) {
			names = append(names, w.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q chooses %q, want %q", list, got, want)
		}
	}
	if len(chosen("")) != len(workloads) {
		t.Error("an empty list does not choose all")
	}
}

func TestPlan_AlternatesSystemsAndLeavesOutWhoCannot(t *testing.T) {
	plan := planned(options{rounds: 2, only: "idle-1", on: "postgresql"})
	if len(plan) != 2 || plan[0].System != onPostgreSQL || plan[0].Round != 1 || plan[1].Round != 2 {
		t.Errorf("planned %+v", plan)
	}
	rounds := ""
	for _, a := range planned(options{rounds: 2, only: "drain", on: "sqlite"}) {
		rounds += a.System[:5] + " "
	}
	if rounds != "persi bare  persi bare  " {
		t.Errorf("in turn: %s", rounds)
	}
}

func TestPlan_EndsAWorkloadBeforeTheNextOneBegins(t *testing.T) {
	var turns []string
	for _, a := range planned(options{rounds: 2, only: "drain,steady-10x5ms", on: onMySQL}) {
		turns = append(turns, fmt.Sprintf("%s %d", a.Workload, a.Round))
	}
	if got, want := strings.Join(turns, ", "), "drain 1, drain 2, steady-10x5ms 1, steady-10x5ms 2"; got != want {
		t.Errorf("in turn: %s, want %s", got, want)
	}
}
