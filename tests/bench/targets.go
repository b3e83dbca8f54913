package main

import (
	"fmt"
	"strings"
)

// target is what the library has set itself, as a claim about medians of one workload.
type target struct {
	claim    string
	workload string
	system   string
	figure   string
	than     string // another system, of whose figure this is a part; empty: the figure itself
	atLeast  float64
	atMost   float64
}

const (
	onMariaDB    = "persistent-queue, MariaDB"
	onMySQL      = "persistent-queue, MySQL"
	onPostgreSQL = "persistent-queue, PostgreSQL"
	onSQLite     = "persistent-queue, SQLite"
)

var targets = func() (all []target) {
	all = []target{
		{claim: "drain, MariaDB, of the bare loop", workload: "drain", system: onMariaDB, figure: jobsPerSecond, than: "bare loop, MariaDB", atLeast: 0.85},
		{claim: "drain, MySQL, of the bare loop", workload: "drain", system: onMySQL, figure: jobsPerSecond, than: "bare loop, MySQL", atLeast: 0.85},
		{claim: "drain, PostgreSQL, of the bare loop", workload: "drain",
			system: onPostgreSQL, figure: jobsPerSecond, than: "bare loop, PostgreSQL", atLeast: 0.95},
		{claim: "drain, PostgreSQL, of River", workload: "drain", system: onPostgreSQL, figure: jobsPerSecond, than: "River, PostgreSQL", atLeast: 1.8},
		{claim: "jobs of three steps, PostgreSQL, of DBOS", workload: "steps",
			system: onPostgreSQL, figure: worksPerSecond, than: "DBOS, PostgreSQL", atLeast: 4},
		{claim: "flows of three jobs, PostgreSQL, of DBOS", workload: "flows",
			system: onPostgreSQL, figure: worksPerSecond, than: "DBOS, PostgreSQL", atLeast: 6},
		{claim: "drain, SQLite, of the bare loop", workload: "drain", system: onSQLite, figure: jobsPerSecond, than: "bare loop, SQLite", atLeast: 0.85},
	}
	for _, system := range []string{onMariaDB, onMySQL, onPostgreSQL, onSQLite} {
		_, on, _ := strings.Cut(system, ", ")
		add := func(t target) {
			t.claim, t.system = t.claim+", "+on, system
			all = append(all, t)
		}
		add(target{claim: "drain, of asynq", workload: "drain", figure: jobsPerSecond, than: "asynq, Redis", atLeast: 5})
		add(target{claim: "drain, " + perThousand, workload: "drain", figure: perThousand, atMost: 5})
		add(target{claim: "drain, " + allocations, workload: "drain", figure: allocations, atMost: 12})
		add(target{claim: "steady 100 × 20 ms, " + percentOfIdeal, workload: "steady-100x20ms", figure: percentOfIdeal, atLeast: 97})
		add(target{claim: "steady 10 × 5 ms, " + percentOfIdeal, workload: "steady-10x5ms", figure: percentOfIdeal, atLeast: 92})
		add(target{claim: "latency at 100/s, " + p50, workload: "latency-100", figure: p50, atMost: 4})
		add(target{claim: "latency at 100/s, " + p99, workload: "latency-100", figure: p99, atMost: 12})
		add(target{claim: "latency at 1000/s, " + p50, workload: "latency-1000", figure: p50, atMost: 6})
		add(target{claim: "latency at 1000/s, " + p99, workload: "latency-1000", figure: p99, atMost: 25})
		add(target{claim: "burst of 3,500, " + lateP99, workload: "burst-3500", figure: lateP99, atMost: 30})
		add(target{claim: "burst of 35,000, " + lateP99, workload: "burst-35000", figure: lateP99, atMost: 700})
		add(target{claim: "snapshot, " + ofWithout, workload: "snapshot", figure: ofWithout, atLeast: 85})
		add(target{claim: "backlog, " + ofEmpty, workload: "backlog", figure: ofEmpty, atLeast: 90})
		add(target{claim: "backlog, " + peakMemory, workload: "backlog", figure: peakMemory, atMost: 150})
		add(target{claim: "idle, 200 types, " + perSecond, workload: "idle-200", figure: perSecond, atMost: 25})
		add(target{claim: "idle, 200 types, " + clientOfCore, workload: "idle-200", figure: clientOfCore, atMost: 1})
		add(target{claim: "follow, " + p50, workload: "follow", figure: p50, atMost: 15})
		add(target{claim: "follow, " + p99, workload: "follow", figure: p99, atMost: 40})
		add(target{claim: "fan-out, " + ofPlain, workload: "fan-out", figure: ofPlain, atMost: 2.5})
		add(target{claim: "fan-out, " + joinAfter, workload: "fan-out", figure: joinAfter, atMost: 50})
		add(target{claim: "fan-out, " + perThousand, workload: "fan-out", figure: perThousand, atMost: 30})
		add(target{claim: "open flows, " + moreThanWithout, workload: "open-flows", figure: moreThanWithout, atMost: 1})
		add(target{claim: "open flows, " + heapMore, workload: "open-flows", figure: heapMore, atMost: 50})
		add(target{claim: "burst of 3,500, " + early, workload: "burst-3500", figure: early, atMost: 0})
		add(target{claim: "burst of 35,000, " + early, workload: "burst-35000", figure: early, atMost: 0})
	}
	return all
}()

// writeTargets writes those of which there are the figures.
func (all results) writeTargets(b *strings.Builder) {
	var lines []string
	for _, t := range targets {
		r := all.inFull(t.workload)
		if r == nil {
			continue
		}
		list := t.measured(r)
		if len(list) == 0 {
			continue
		}
		bound, unit := fmt.Sprintf("≤ %v", t.atMost), ""
		if t.atLeast > 0 {
			bound = fmt.Sprintf("≥ %v", t.atLeast)
		}
		if t.than != "" {
			unit = " ×"
		}
		low, high := quartiles(list)
		spread := ""
		if len(list) > 1 {
			spread = fmt.Sprintf(" (%s to %s)", significant(low), significant(high))
		}
		lines = append(lines,
			fmt.Sprintf("| %s | %s%s | %s%s%s | %s |\n", t.claim, bound, unit, significant(median(list)), unit, spread, t.verdict(low, high)))
	}
	if len(lines) > 0 {
		fmt.Fprintf(
			b,
			"\n## What it shall reach\n\nThe median of the rounds, and its quartiles; of a ratio, of those between the figures of one round. A bound is "+
				"reached, or\n"+
				"missed, if both quartiles say so.\n\n| | bound | measured | reached |\n|---|---:|---:|---|\n%s", strings.Join(lines, ""))
	}
}

// measured is the figure of each round, or its ratio to the other system's in the same round.
func (t target) measured(r *report) (list []float64) {
	own, other := r.byRound(t.system, t.figure), r.byRound(t.than, t.figure)
	for round, value := range own {
		switch {
		case t.than == "":
			list = append(list, value)
		case other[round] != 0:
			list = append(list, value/other[round])
		}
	}
	return list
}

// verdict is what both quartiles say.
func (t target) verdict(low, high float64) string {
	holds := func(value float64) bool {
		return t.atLeast > 0 && value >= t.atLeast || t.atLeast == 0 && value <= t.atMost
	}
	switch {
	case holds(low) && holds(high):
		return "yes"
	case holds(low) || holds(high):
		return "not decided"
	default:
		return "**no**"
	}
}
