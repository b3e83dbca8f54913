// Command bench measures this library beside others of its kind, and beside what plain SQL by hand would do, on one
// machine in alternating rounds. README.md says how to run it and what its words mean.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each workload on each system; their median counts")
	flag.StringVar(&o.only, "only", "", "only these `workloads`, separated by commas; the beginning of a name is enough")
	flag.StringVar(&o.on, "on", "", "only systems with this `text` in their name")
	flag.BoolVar(&o.quick, "quick", false, "a fiftieth of the jobs: shows that it works, and no more")
	flag.StringVar(&o.profile, "profile", "", "write CPU and heap profiles of each round's workers into this `folder`")
	flag.StringVar(&o.results, "results", "tests/bench/results", "write the results into this `folder`, in place of those of the same workloads")
	assigned := flag.String("round", "", "run one round and print its outcome; for bench itself")
	ordered := flag.String("produce", "", "add jobs as this order says; for bench itself")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	switch {
	case *ordered != "":
		err = produce(ctx, *ordered)
	case *assigned != "":
		err = runAssigned(ctx, *assigned)
	default:
		err = compare(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds           int
	only, on         string
	quick            bool
	profile, results string
}

// assignment tells a process which round is its own.
type assignment struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	Round    int    `json:"round"`
	Quick    bool   `json:"quick"`
	Profile  string `json:"profile"`
	Ground   string `json:"ground"` // the address of tables that were prepared
}

// roundWait is for a round that hangs: a backlog takes longest.
const roundWait = 30 * time.Minute

func runAssigned(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, roundWait)
	defer cancel()
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	w, known := workloadNamed(a.Workload)
	if !known {
		return fmt.Errorf("no workload %q", a.Workload)
	}
	e, err := entryNamed(a.System)
	if err != nil {
		return err
	}
	r := &round{quick: a.Quick, profile: a.Profile, ground: a.Ground}
	o, err := r.run(ctx, w, e)
	if err != nil {
		return err
	}
	o.Round = a.Round
	return json.NewEncoder(os.Stdout).Encode(o)
}
