package queue_job_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	smsType     = 20
	bookingType = 21
	importType  = 22
	indexType   = 23
)

// The provider takes 50 messages a second from us, however many instances we run, and a few more after a quiet time.
func ExampleConfig_ratePerSecond() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: smsType, Db: db, HandleJobFunc: sendSMS,
		RatePerSecond: 50, RateBurst: 10,
	}
}

func sendSMS(context.Context, *queue_job.Job) error { return nil }

// At most two imports of a customer run at a time, so other customers do not wait for a customer who sent thousands.
// The jobs' key is the customer.
func ExampleConfig_maxPerKey() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: importType, Db: db, HandleJobFunc: importFile,
		MaxPerKey: 2,
	}
}

func importFile(context.Context, *queue_job.Job) error { return nil }

// The service of each customer is called ten times a second at most, however many instances run. While a customer with thousands of calls waits,
// those of others are made. The jobs' key, or group, is the customer.
func ExampleConfig_ratePerKey() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: importType, Db: db, HandleJobFunc: importFile,
		RatePerKey: 10,
	}
}

// The jobs' key, or group, is the customer. If a customer adds 100,000 imports, the next import of another customer starts as soon as a worker is
// free all the same. While several customers have imports waiting, one that pays gets three starts for each start of another.
func ExampleConfig_fairByGroup() {
	paying := map[string]bool{"customer-17": true}
	_ = queue_job.Config{
		ServiceName: "shop", JobType: importType, Db: db, HandleJobFunc: importFile,
		FairByGroup: true,
		GroupWeight: func(group string) float64 {
			if paying[group] {
				return 3
			}
			return 1
		},
	}
}

// What customers pay for stands in a table of the application, which changes. A goroutine reads it every ten seconds, and the next start goes by
// the new weights.
func ExampleConfig_groupWeight() {
	var weights atomic.Pointer[map[string]float64]
	go func() {
		for ; ; time.Sleep(10 * time.Second) {
			if read, err := weightsOfCustomers(db); err == nil {
				weights.Store(&read)
			}
		}
	}()
	_ = queue_job.Config{
		ServiceName: "shop", JobType: importType, Db: db, HandleJobFunc: importFile,
		FairByGroup: true,
		GroupWeight: func(group string) float64 {
			if known := weights.Load(); known != nil && (*known)[group] > 0 {
				return (*known)[group]
			}
			return 1
		},
	}
}

func weightsOfCustomers(queue_job.DB) (map[string]float64, error) { return nil, nil }

// The bookings of an account are made one after the other, in the order in which they were added; bookings of different
// accounts are made side by side. If a booking fails for the moment, it is retried before the next booking of its
// account. The jobs' key is the account.
func ExampleConfig_orderedByKey() {
	_ = queue_job.Config{
		ServiceName: "bank", JobType: bookingType, Db: db, HandleJobFunc: book,
		OrderedByKey: true, NeedRetry: true, MaxRetries: 10, WaitTime: 5 * time.Second,
	}
}

func book(context.Context, *queue_job.Job) error { return nil }

// The search index takes many documents at once: one call gets up to 500 jobs, and the first of them waits at most a
// second.
func ExampleConfig_handleBatchFunc() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: indexType, Db: db,
		HandleBatchFunc: func(ctx context.Context, jobs []*queue_job.Job) error {
			documents := make([]string, len(jobs))
			for i, job := range jobs {
				documents[i] = job.JobParams
			}
			return indexAll(ctx, documents) // an error counts for each of the jobs
		},
		BatchSize: 500, BatchWait: time.Second,
	}
}

func indexAll(context.Context, []string) error { return nil }

// A batch handler returns the error of each job, at the job's index.
func ExampleBatchErrors() {
	handle := func(_ context.Context, jobs []*queue_job.Job) error {
		errs := make(queue_job.BatchErrors, len(jobs))
		for i, job := range jobs {
			if job.JobParams == "" {
				errs[i] = errors.New("no document")
			}
		}
		return errs // nil for jobs that went well
	}
	err := handle(context.Background(), []*queue_job.Job{{Id: 1, JobParams: "a"}, {Id: 2}, {Id: 3, JobParams: "c"}})
	fmt.Println(err)
	// Output: 1 of 3 jobs ended with an error; the first: no document
}

// Middleware of batches gets all jobs of a call.
func ExampleBatchMiddleware() {
	counted := func(next queue_job.BatchHandler) queue_job.BatchHandler {
		return func(ctx context.Context, jobs []*queue_job.Job) error {
			err := next(ctx, jobs)
			fmt.Printf("%d jobs: %v\n", len(jobs), err)
			return err
		}
	}
	index := func(context.Context, []*queue_job.Job) error { return nil }
	_ = queue_job.Config{HandleBatchFunc: index, BatchMiddleware: []queue_job.BatchMiddleware{counted}}

	handler := counted(index) // what the runner calls
	_ = handler(context.Background(), []*queue_job.Job{{Id: 1}, {Id: 2}})
	// Output: 2 jobs: <nil>
}
