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
)

// chosen are the workloads whose names begin with one of the names in the list; an empty list means all.
func chosen(list string) (chosen []workload) {
	for _, w := range workloads {
		if slices.ContainsFunc(strings.Split(list, ","), func(name string) bool { return strings.HasPrefix(w.name, name) }) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}
