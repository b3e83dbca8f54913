// Package documents has code that the documents show and no example has. This file is README.md's; its first program is examples/start.
package documents

import (
	"context"
	"database/sql"
	"log"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
)

type Mail struct{ To, Subject string }

var SendMail = queue_job.Define[Mail](1, "send-mail")

// Remind adds a reminder, unless one is pending.
func Remind(ctx context.Context, jobs *queue_job.Jobs, tx *sql.Tx) (queue_job.Added, error) {
	reminder := SendMail.New(Mail{To: "anna@example.com", Subject: "Your order is not paid"},
		queue_job.After(15*time.Minute), queue_job.UniqueKey("order-4711", queue_job.UniqueWhilePending))
	added, err := jobs.AddUnique(ctx, tx, reminder) // if it was there already: added.Existed, and its id
	return added, err
}

// Withdraw takes the money from an account and ends the job, both or neither.
func Withdraw(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 100 WHERE id = 7"); err != nil {
		return err
	}
	if err := job.CompleteTx(ctx, tx); err != nil {
		return err // another run has the job by now, and this one rolls back
	}
	return tx.Commit()
}

// Steer cancels a reminder, sends again what has failed in a night, and pauses all mails.
func Steer(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, tx queue_job.Executor, night time.Time) error {
	check, failed := checked()
	n, err := jobs.Cancel(ctx, tx, SendMail.Key("order-4711")) // commits with the payment
	check(err)
	retried, err := jobs.RetryAll(ctx, db, queue_job.RetryRange{JobType: 1, From: night, To: night.Add(8 * time.Hour)})
	check(err)
	_, err = jobs.PauseUntil(ctx, db, 1, time.Now().Add(2*time.Hour))
	check(err)
	log.Printf("%d reminders cancelled, %d mails sent again", n, retried.Jobs)
	return failed()
}

// Limited is the configuration of mails that go out through a provider.
func Limited(send func(ctx context.Context, job *queue_job.Job, mail Mail) error) queue_job.Config {
	config := SendMail.Handle(send, queue_job.Workers(20), queue_job.Timeout(time.Minute), func(c *queue_job.Config) {
		c.RatePerSecond = 50 // the provider takes no more
		c.MaxPerKey = 2      // for each customer, if that is the job's key or group
		c.FairByGroup = true // a customer with 100,000 jobs holds up nobody
	})
	return config
}

// Console puts the console behind the application's login.
func Console(mux *http.ServeMux, jobs *queue_job.Jobs, requireLogin func(http.Handler) http.Handler, isAdmin func(*http.Request) bool) {
	admin := console.Handler(jobs, console.WithPermit(func(r *http.Request, do console.Verb, jobType int32) bool {
		return do == console.See || isAdmin(r)
	}))
	mux.Handle("/jobs/", http.StripPrefix("/jobs", requireLogin(admin)))
}

// Order charges a card and ships the goods two weeks later.
func Order(ctx context.Context, job *queue_job.Job, charge func(ctx context.Context, key string) (receipt string, err error),
	ship func(ctx context.Context, receipt string) (parcel string, err error)) error {
	receipt, err := queue_job.Step(ctx, job, "charge", func(ctx context.Context) (string, error) { return charge(ctx, job.StepKey("charge")) })
	if err != nil {
		return err
	}
	if err := job.Sleep(ctx, "cooling off", 14*24*time.Hour); err != nil {
		return err // this run ends here; the next one begins in two weeks
	}
	_, err = queue_job.Step(ctx, job, "ship", func(ctx context.Context) (string, error) { return ship(ctx, receipt) })
	return err
}

// checked keeps the first error, as the first program's check ends it.
func checked() (check func(error), failed func() error) {
	var first error
	return func(err error) {
		if first == nil {
			first = err
		}
	}, func() error { return first }
}
