// Start is the program that README.md shows: one type of job, added in a transaction and run. From the root of the
// repository, with a MySQL or MariaDB database of yours:
//
//	DSN='user:password@tcp(127.0.0.1:3306)/test' go run ./examples/start
//
// It creates the library's tables there if they are missing. Ctrl-C ends it.
package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/signal"
	"syscall"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	_ "github.com/go-sql-driver/mysql"
)

type Mail struct{ To, Subject string }

var SendMail = queue_job.Define[Mail](1, "send-mail") // job type 1; the code that adds and the code that runs share it

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := sql.Open("mysql", os.Getenv("DSN"))
	check(err)
	check(schema.Migrate(ctx, db)) // creates the tables; Run would, but too late for the Add below
	jobs, err := queue_job.Open(db)
	check(err)

	tx, err := db.BeginTx(ctx, nil) // your business transaction
	check(err)
	_, err = SendMail.Add(ctx, jobs, tx, Mail{To: "anna@example.com", Subject: "Order 4711 is paid"})
	check(err)
	check(tx.Commit()) // now the job exists; after a rollback it would not

	config := SendMail.Handle(func(ctx context.Context, job *queue_job.Job, mail Mail) error {
		log.Printf("run %d: mail to %s: %s", job.Attempt, mail.To, mail.Subject)
		return nil // after an error, the job runs again: 25 times at most, in two or three days
	})
	runner, err := persistent_queue.New([]queue_job.Config{config}, nil, persistent_queue.WithDB(db))
	check(err)
	check(runner.Run(ctx)) // until Ctrl-C; then the jobs that run have 25 seconds to finish
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
