package metrics_test

import (
	"context"
	"database/sql"
	"log"
	"net/http"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var configs []queue_job.Config // one for each job type

// Prometheus asks for /metrics, on a port that is not for customers.
func Example() {
	m := metrics.New()
	runner, err := persistent_queue.New(configs, nil, m.Option())
	if err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(m)
	http.Handle("/metrics", promhttp.Handler())
	go func() { log.Print(http.ListenAndServe(":9090", nil)) }()
	if err := runner.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// One process tells how many flows are open, and stuck.
func ExampleNewFlows() {
	tell := func(db *sql.DB) error {
		jobs, err := queue_job.Open(db)
		if err != nil {
			return err
		}
		prometheus.MustRegister(metrics.NewFlows(jobs, db))
		return nil
	}
	_ = tell
}
