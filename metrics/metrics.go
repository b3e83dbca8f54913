package metrics

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "persistent_queue_"

var ofType = []string{"job_type", "type_name"}

// Metrics is a [prometheus.Collector] of what Runners do.
type Metrics struct {
	delay, took *prometheus.HistogramVec
	runs        *prometheus.CounterVec

	mu      sync.Mutex
	runners []*persistent_queue.Runner
	leases  map[leaseChange]uint64
}

type leaseChange struct {
	jobType int32
	taken   bool
}

// New returns metrics without a Runner: [Metrics.Option] gives them to it.
func New() *Metrics {
	return &Metrics{
		delay: prometheus.NewHistogramVec(histogram("start_delay_seconds", "The time from when a job fell due until its handler was called. If the job was due when it was added, the table knows only the second, so up to a second may be missing.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400), ofType),
		took: prometheus.NewHistogramVec(histogram("run_duration_seconds", "How long handlers ran.",
			.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600), ofType),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "runs_total",
			Help: "Finished runs, by outcome: success, failed, cancelled, retry (after an error) or continue (as the handler asked). If the outcome is dropped, nothing was written: the job was cancelled during the run, or another process has it."},
			append(slices.Clone(ofType), "outcome")),
		leases: map[leaseChange]uint64{},
	}
}

// histogram is one with classic buckets, and with native ones for a Prometheus that asks for these.
func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: prefix + name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Option lets a Runner tell its metrics: pass it to [persistent_queue.New] or [persistent_queue.Init]. Several Runners may have the
// same Metrics, if no two of them have a job type of the same number.
func (m *Metrics) Option() persistent_queue.Option {
	return func(r *persistent_queue.Runner) {
		persistent_queue.WithObserver(m.observer())(r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.runners = append(m.runners, r)
	}
}

func (m *Metrics) observer() queue_job.Observer {
	return queue_job.Observer{Started: m.started, Finished: m.finished, Lease: m.leaseChanged}
}

func (m *Metrics) started(_ context.Context, job *queue_job.Job, waited time.Duration) {
	m.delay.WithLabelValues(number(job.JobType), job.TypeName).Observe(waited.Seconds())
}

func (m *Metrics) finished(_ context.Context, job *queue_job.Job, f queue_job.Finished) {
	outcome := f.Status.String()
	if f.Dropped {
		outcome = "dropped"
	}
	jobType := number(job.JobType)
	m.took.WithLabelValues(jobType, job.TypeName).Observe(f.Took.Seconds())
	m.runs.WithLabelValues(jobType, job.TypeName, outcome).Inc()
}

func (m *Metrics) leaseChanged(jobType int32, _ int, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[leaseChange{jobType, held}]++
}

func number(jobType int32) string { return strconv.Itoa(int(jobType)) }

// What is read when it is asked for.
var (
	healthy      = desc("healthy", "1 if the databases of all Runners of this process answer, else 0.")
	shards       = desc("shards", "Into how many shards the type is divided, as far as this process knows.", ofType...)
	leasesHeld   = desc("leases_held", "How many leases of the type this process holds: of its shards, or of the type as a whole.", ofType...)
	leaseChanges = desc("lease_changes_total", "How many leases of the type this process has taken (how: taken) and no longer has (how: ended).", append(slices.Clone(ofType), "how")...)
	paused       = desc("paused", "1 if the type is paused, else 0. Only where a lease of the type is held.", ofType...)
	busy         = desc("workers_busy", "Workers that run a handler.", ofType...)
	limit        = desc("workers_limit", "Workers that there may be for what this process holds.", ofType...)
	rows         = desc("memory_jobs", "Jobs in memory that have not started, by state: waiting for a worker or for their time; parked until another job of their key has ended; marked, about to start.", append(slices.Clone(ofType), "state")...)
	overdue      = desc("overdue_seconds", "How long the longest-waiting job in memory has been due; 0 if none is due.", ofType...)
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// Describe is part of [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.delay, m.took, m.runs} {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{healthy, shards, leasesHeld, leaseChanges, paused, busy, limit, rows, overdue} {
		to <- d
	}
}

// Collect is part of [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.delay, m.took, m.runs} {
		c.Collect(to)
	}
	m.mu.Lock()
	runners, changes := slices.Clone(m.runners), maps.Clone(m.leases)
	m.mu.Unlock()
	well := true
	for _, r := range runners {
		well = well && r.Health() == nil
		for _, state := range r.Types() {
			collectType(to, &state, changes)
		}
	}
	to <- gauge(healthy, one(well))
}

func collectType(to chan<- prometheus.Metric, t *persistent_queue.TypeState, changes map[leaseChange]uint64) {
	labels := []string{number(t.JobType), t.TypeName}
	with := func(more string) []string { return append(slices.Clone(labels), more) }
	to <- gauge(shards, t.Shards, labels...)
	to <- gauge(leasesHeld, t.Held, labels...)
	for how, taken := range map[string]bool{"taken": true, "ended": false} {
		to <- prometheus.MustNewConstMetric(leaseChanges, prometheus.CounterValue, float64(changes[leaseChange{t.JobType, taken}]), with(how)...)
	}
	to <- gauge(busy, t.Running, labels...) // even without a lease: what runs, runs on
	if t.Held == 0 {
		return
	}
	to <- gauge(paused, one(t.Paused), labels...)
	to <- gauge(limit, t.Capacity, labels...)
	to <- gauge(rows, t.Waiting-t.Parked, with("waiting")...)
	to <- gauge(rows, t.Parked, with("parked")...)
	to <- gauge(rows, t.Marked, with("marked")...)
	to <- prometheus.MustNewConstMetric(overdue, prometheus.GaugeValue, t.Overdue.Seconds(), labels...)
}

func gauge(d *prometheus.Desc, value int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
