package queue_job_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const mailType = 7

type mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

var db *sql.DB // opened with the driver of your choice

// The order and its mail exist together or not at all.
func ExampleJobs_Add() {
	jobs, err := queue_job.Open(db) // once
	if err != nil {
		log.Fatal(err)
	}
	placeOrder := func(ctx context.Context, customer string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (customer) VALUES (?)", customer); err != nil {
			return err
		}
		_, err = jobs.Add(ctx, tx, queue_job.AddModelJob{
			JobType:   mailType,
			JobParams: mail{To: customer, Subject: "Thank you for your order"},
		})
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := placeOrder(context.Background(), "anna@example.com"); err != nil {
		log.Print(err)
	}
}

// A job that is to run in an hour.
func ExampleAddAsyncJob() {
	err := queue_job.AddAsyncJob(db, queue_job.AddModelJob{
		JobType:   mailType,
		JobParams: mail{To: "anna@example.com", Subject: "How did you like it?"},
		StartTime: uint32(time.Now().Add(time.Hour).Unix()),
	})
	if err != nil {
		log.Print(err)
	}
}

// A handler decides the outcome of a run by its error.
func ExampleJob() {
	send := func(ctx context.Context, job *queue_job.Job) error {
		var m mail
		if err := job.Decode(&m); err != nil {
			return queue_job.Fail(err) // no retry can repair it
		}
		return deliver(ctx, m) // an error is retried, if the configuration says so
	}
	_ = queue_job.Config{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: send,
		NeedRetry: true, MaxRetries: 5, WaitTime: 10 * time.Second,
	}
}

func deliver(context.Context, mail) error { return nil }
