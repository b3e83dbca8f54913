package otelqueue_test

import (
	"context"
	"database/sql"
	"log"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/otelqueue"
	"github.com/create-info/persistent-queue/queue_job"
)

var (
	db      *sql.DB
	configs []queue_job.Config // one for each job type
)

// The provider is the global one, which the application sets at its start.
func Example() {
	tracing := otelqueue.New(otelqueue.WithTypeNames(map[int32]string{7: "mail"}))
	jobs, err := queue_job.Open(db, queue_job.OnAdd(tracing.OnAdd))
	if err != nil {
		log.Fatal(err)
	}
	runner, err := persistent_queue.New(configs, nil,
		persistent_queue.WithMiddleware(tracing.Middleware), persistent_queue.WithBatchMiddleware(tracing.BatchMiddleware))
	if err != nil {
		log.Fatal(err)
	}
	// An application passes the context of its request, and the trace continues from there.
	if _, err := jobs.Add(context.Background(), db, queue_job.AddModelJob{JobType: 7, JobParams: map[string]string{"to": "anna"}}); err != nil {
		log.Fatal(err)
	}
	if err := runner.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
