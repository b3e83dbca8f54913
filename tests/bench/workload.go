package main

import (
	"context"
	"slices"
	"strings"
)

// workload is something to do that says how good a system is.
type workload struct {
	name    string
	says    string   // in the results: what is done
	columns []string // the figures; the first is the one to compare
	kinds   []kind   // that can do it
	// prepare makes what the rounds of a system begin with, once for all of them, for it takes long; nil: they begin with
	// empty tables, each with its own.
	prepare func(ctx context.Context, r *round) error
	run     func(ctx context.Context, r *round) error
}

// The figures.
const (
	jobsPerSecond = "jobs/s"
	perThousand   = "statements per 1,000 jobs"
	clientCPU     = "client CPU s per 100k jobs"
	serverCPU     = "server CPU s per 100k jobs"
	allocations   = "allocations per job"
	peakMemory    = "peak memory of the client, MB"
	p50           = "p50 ms"
	p99           = "p99 ms"
	p999          = "p99.9 ms"
)

// queues are the kinds that run jobs. River as it comes is for what a default does to waiting: it takes a hundred jobs
// every tenth of a second, so a drain would take it minutes.
var (
	queues        = []kind{oursKind, riverKind, asynqKind}
	waitingQueues = []kind{oursKind, riverKind, riverDefaultKind, asynqKind}
)

// workloads is every workload, in the order of the results.
var workloads = slices.Concat(
	[]workload{drain},
	steadies,
	latencies,
	bursts,
	enqueues,
	idles,
	[]workload{retries, snapshot, backlog, memory},
	parts,
	flowWorkloads,
)

// chosen are the workloads that the list names: by the whole name, or by its beginning where there is no such name. An
// empty list means all.
func chosen(list string) (chosen []workload) {
	names := strings.Split(list, ",")
	for _, w := range workloads {
		if slices.ContainsFunc(names, func(name string) bool {
			_, whole := workloadNamed(name)
			return name == w.name || !whole && strings.HasPrefix(w.name, name)
		}) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

func workloadNamed(name string) (w workload, known bool) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		return w, false
	}
	return workloads[i], true
}
