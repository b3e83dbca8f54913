package persistent_queue_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"expvar"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

const mailType = 7

var db *sql.DB // opened with the driver of your choice

func sendMail(ctx context.Context, job *queue_job.Job) error {
	log.Print("sending ", job.JobParams)
	return nil
}

// One line starts the queue in an application that has a database. Keep the Runner and call Stop at the end: otherwise
// jobs that are running then run again.
func ExampleInit() {
	persistent_queue.Init([]queue_job.Config{{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: sendMail,
	}}, logger.QueueLog{})
}

// The job exists if and only if the transaction commits.
func Example_addInATransaction() {
	jobs, err := queue_job.Open(db) // once, when the application starts
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET paid = 1 WHERE id = ?", 42); err != nil {
		log.Print(err)
		return
	}
	if _, err := jobs.Add(ctx, tx, queue_job.AddModelJob{JobType: mailType, JobParams: map[string]int{"order": 42}}); err != nil {
		log.Print(err)
		return
	}
	if err := tx.Commit(); err != nil {
		log.Print(err)
	}
}

// A main function: it runs jobs until the process is told to end, lets the running jobs finish, and hands the rest
// over.
func ExampleRunner_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: sendMail,
		NeedRetry: true, MaxRetries: 5, WaitTime: 10 * time.Second,
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// If the database's administrators run the DDL, Start only checks the tables and says what they lack.
func ExampleWithoutMigration() {
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: sendMail,
	}}, nil, persistent_queue.WithoutMigration())
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err) // with the SQL to run
	}
	defer runner.Stop(context.Background()) // for as long as handlers take
}

// A middleware for all types measures how long each handler takes. It lies outside of the middleware of a single type.
func ExampleWithMiddleware() {
	measured := func(next queue_job.Handler) queue_job.Handler {
		return func(ctx context.Context, job *queue_job.Job) error {
			began := time.Now()
			defer func() { log.Printf("type %d: %v", job.JobType, time.Since(began)) }()
			return next(ctx, job)
		}
	}
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: sendMail,
	}}, nil, persistent_queue.WithMiddleware(measured))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer runner.Stop(context.Background())
}

// Jobs that have failed for good are told once, by the process that wrote it. If it dies first, the table still has them.
func ExampleWithOnDead() {
	alert := func(ctx context.Context, dead []queue_job.Settled) {
		for _, d := range dead {
			log.Printf("job %d of type %d has failed after %d retries: %v", d.Job.Id, d.Job.JobType, d.Job.Retries, d.Err)
		}
	}
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: sendMail,
	}}, nil, persistent_queue.WithOnDead(alert))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer runner.Close() // when all is told
}

// Metrics of all types: how many handlers run, and how long jobs wait for their start.
func ExampleWithObserver() {
	var running, waitedMillis expvar.Map
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "shop", JobType: mailType, Db: db, HandleJobFunc: sendMail,
	}}, nil, persistent_queue.WithObserver(queue_job.Observer{
		Started: func(_ context.Context, job *queue_job.Job, waited time.Duration) {
			running.Add(fmt.Sprint(job.JobType), 1)
			waitedMillis.Add(fmt.Sprint(job.JobType), waited.Milliseconds())
		},
		Finished: func(_ context.Context, job *queue_job.Job, _ queue_job.Finished) {
			running.Add(fmt.Sprint(job.JobType), -1)
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
}

// Each of ten types may have a hundred handlers at a time, over all instances, but this machine has memory for fifty.
func ExampleWithMaxWorkers() {
	var configs []queue_job.Config
	for jobType := range int32(10) {
		configs = append(configs, queue_job.Config{ServiceName: "shop", JobType: jobType, Db: db, HandleJobFunc: sendMail, WorkerPoolCapacity: 100})
	}
	runner, err := persistent_queue.New(configs, nil, persistent_queue.WithMaxWorkers(50))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer runner.Stop(context.Background())
}

// Jobs that are done or were cancelled are deleted after a day, failed ones after a month, in which somebody may look at them.
func ExampleWithRetention() {
	keep := queue_job.Retention{Done: 24 * time.Hour, Cancelled: 24 * time.Hour, Failed: 30 * 24 * time.Hour}
	configs := []queue_job.Config{{ServiceName: "shop", JobType: 7, Db: db, HandleJobFunc: sendMail}}
	runner, err := persistent_queue.New(configs, nil, persistent_queue.WithRetention(keep))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer runner.Stop(context.Background())
}

// Whoever starts the process again has set the variable: in Kubernetes to the pod's UID and the container's name.
func ExampleWithIdentity() {
	configs := []queue_job.Config{{ServiceName: "shop", JobType: 7, Db: db, HandleJobFunc: sendMail}}
	identity := os.Getenv("IDENTITY")
	if identity == "" {
		log.Fatal("IDENTITY is not set, and nothing may stand in its place")
	}
	runner, err := persistent_queue.New(configs, nil, persistent_queue.WithIdentity(identity))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// Jobs of payments are kept for a month, and then go to a bucket for seven years. Each is stored under its id, so a job that comes twice is
// stored once.
func ExampleWithArchive() {
	archive := func(ctx context.Context, jobs []queue_job.Archived) error {
		for i := range jobs {
			text, err := json.Marshal(&jobs[i])
			if err != nil {
				return err
			}
			if err := putIntoBucket(ctx, fmt.Sprintf("payments/%d.json", jobs[i].Id), text); err != nil {
				return err // it stays, and comes again
			}
		}
		return nil
	}
	keep := queue_job.Retention{Done: 30 * 24 * time.Hour, Cancelled: 30 * 24 * time.Hour, Failed: 30 * 24 * time.Hour}
	runner, err := persistent_queue.New([]queue_job.Config{{ServiceName: "payments", JobType: 8, Db: db, HandleJobFunc: sendMail}}, nil,
		persistent_queue.WithRetention(keep), persistent_queue.WithArchive(archive))
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
}

// putIntoBucket stands for the client of an object store.
func putIntoBucket(ctx context.Context, name string, text []byte) error {
	log.Printf("%s: %d bytes", name, len(text))
	return nil
}

// Each customer has a job type of its own, with a limit that a form may change, and that goes with the customer.
func ExampleRunner_Add() {
	runner, err := persistent_queue.New([]queue_job.Config{
		{ServiceName: "shop", JobType: mailType, HandleJobFunc: sendMail},
	}, nil, persistent_queue.WithDB(db))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := runner.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer runner.Close()

	callbacks := func(customer int32, perSecond float64) queue_job.Config {
		return queue_job.Config{ServiceName: "callbacks", JobType: 1000 + customer, RatePerSecond: perSecond, HandleJobFunc: sendMail}
	}
	if err := runner.Add(ctx, callbacks(7, 10)); err != nil {
		log.Print(err)
	}
	if err := runner.Replace(ctx, callbacks(7, 50)); err != nil {
		log.Print(err)
	}
	if err := runner.Remove(ctx, 1007); err != nil {
		log.Print(err)
	}
}
