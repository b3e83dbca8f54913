package queue_job_test

import (
	"context"
	"database/sql"

	"github.com/create-info/persistent-queue/queue_job"
)

// The order and its flow are committed together. Invoice and packing run at the same time, wherever their types run.
func ExampleJobs_AddFlow() {
	order := func(ctx context.Context, tx *sql.Tx, number string) error {
		job := func(jobType int32) queue_job.AddModelJob {
			return queue_job.AddModelJob{JobType: jobType, JobParams: number}
		}
		f := queue_job.NewFlow("order", queue_job.FlowKey(number))
		f.Job("pay", job(11))
		f.Job("invoice", job(12)).After("pay")
		f.Job("pack", job(13)).After("pay")
		f.Job("ship", job(14)).After("invoice", "pack")
		_, err := jobs.AddFlow(ctx, tx, f)
		return err
	}
	_ = order
}

// What ships the order reads what the payment has left.
func ExampleResultOf() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		receipt, err := queue_job.ResultOf[string](ctx, job, "pay")
		if err != nil {
			return err
		}
		_, err = shipTo(ctx, receipt)
		return err
	}}
}
