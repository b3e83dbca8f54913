package queue_job_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	smsType     = 20
	bookingType = 21
	importType  = 22
	indexType   = 23
)

// The provider takes 50 messages a second from us, however many instances we run, and a few more after a quiet while.
func ExampleConfig_ratePerSecond() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: smsType, Db: db, HandleJobFunc: sendSMS,
		RatePerSecond: 50, RateBurst: 10,
	}
}

func sendSMS(context.Context, *queue_job.Job) error { return nil }

// No more than two imports of a customer run at a time: the others' do not wait for one who sent thousands. The customer
// is the jobs' key.
func ExampleConfig_maxPerKey() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: importType, Db: db, HandleJobFunc: importFile,
		MaxPerKey: 2,
	}
}

func importFile(context.Context, *queue_job.Job) error { return nil }

// The bookings of an account are made one after the other, in the order in which they were added; those of different
// accounts side by side. One that fails for the moment is tried again before the next one has its turn. The account is the
// jobs' key.
func ExampleConfig_orderedByKey() {
	_ = queue_job.Config{
		ServiceName: "bank", JobType: bookingType, Db: db, HandleJobFunc: book,
		OrderedByKey: true, NeedRetry: true, MaxRetries: 10, WaitTime: 5 * time.Second,
	}
}

func book(context.Context, *queue_job.Job) error { return nil }

// The search index takes many documents at once: up to 500 jobs are handed over in one call, a second after the first of
// them at the latest.
func ExampleConfig_handleBatchFunc() {
	_ = queue_job.Config{
		ServiceName: "shop", JobType: indexType, Db: db,
		HandleBatchFunc: func(ctx context.Context, jobs []*queue_job.Job) error {
			documents := make([]string, len(jobs))
			for i, job := range jobs {
				documents[i] = job.JobParams
			}
			return indexAll(ctx, documents) // an error is that of each of the jobs
		},
		BatchSize: 500, BatchWait: time.Second,
	}
}

func indexAll(context.Context, []string) error { return nil }

// The error of each job of a batch, at its place.
func ExampleBatchErrors() {
	handle := func(_ context.Context, jobs []*queue_job.Job) error {
		errs := make(queue_job.BatchErrors, len(jobs))
		for i, job := range jobs {
			if job.JobParams == "" {
				errs[i] = errors.New("no document")
			}
		}
		return errs // nil for those that went well
	}
	err := handle(context.Background(), []*queue_job.Job{{Id: 1, JobParams: "a"}, {Id: 2}, {Id: 3, JobParams: "c"}})
	fmt.Println(err)
	// Output: 1 of 3 jobs ended with an error; the first: no document
}
