package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/prometheus/client_golang/prometheus"
)

// Flows is a [prometheus.Collector] of the flows that have not ended, by kind. Only the tables know how they stand, so a scrape sends a statement,
// unless one was sent within the last ten seconds; it reads these flows, and their jobs that are there and have not succeeded. Register it in one
// process, or in some:
//
//	prometheus.MustRegister(metrics.NewFlows(jobs, db))
type Flows struct {
	jobs *queue_job.Jobs
	ex   queue_job.Executor

	mu     sync.Mutex
	asked  time.Time
	counts []operate.FlowCount // nil: there are none, or they could not be read
}

const (
	askAgainAfter = 10 * time.Second
	answerMost    = 5 * time.Second // a scrape waits no longer
)

// NewFlows returns a collector of the flows in a database.
func NewFlows(jobs *queue_job.Jobs, ex queue_job.Executor) *Flows { return &Flows{jobs: jobs, ex: ex} }

var openFlows = prometheus.NewDesc(prefix+"flows",
	"Flows that have not ended, by kind and state: moving, if a job waits for its turn or runs, or a signal is waited for; stuck, if the flow cannot "+
		"go on by itself; undoing, if it is being undone, or about to be. Of metrics.NewFlows only. "+
		"If several processes tell it, they tell the same: take max, not sum.", []string{"kind", "state"}, nil)

// Describe is part of [prometheus.Collector].
func (f *Flows) Describe(to chan<- *prometheus.Desc) { to <- openFlows }

// Collect is part of [prometheus.Collector]. If the database does not answer, it tells nothing, so that the other metrics are there all the same.
func (f *Flows) Collect(to chan<- prometheus.Metric) {
	for _, c := range f.read() {
		to <- prometheus.MustNewConstMetric(openFlows, prometheus.GaugeValue, float64(c.Open-c.Stuck-c.Undoing), c.Kind, "moving")
		to <- prometheus.MustNewConstMetric(openFlows, prometheus.GaugeValue, float64(c.Stuck), c.Kind, "stuck")
		to <- prometheus.MustNewConstMetric(openFlows, prometheus.GaugeValue, float64(c.Undoing), c.Kind, "undoing")
	}
}

func (f *Flows) read() []operate.FlowCount {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked.IsZero() || time.Since(f.asked) >= askAgainAfter {
		ctx, cancel := context.WithTimeout(context.Background(), answerMost)
		defer cancel()
		counts, err := operate.OpenFlows(ctx, f.jobs, f.ex)
		if f.asked, f.counts = time.Now(), counts; err != nil {
			f.counts = nil
		}
	}
	return f.counts
}
