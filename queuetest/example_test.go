package queuetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

// The application has a type of jobs, its handler, and code that adds such a job.

type Mail struct{ To, Subject string }

var OrderMail = queue_job.Define[Mail](7, "order-mail")

type mailer struct{ sent []Mail }

func (m *mailer) config() queue_job.Config {
	return OrderMail.Handle(func(_ context.Context, job *queue_job.Job, mail Mail) error {
		if job.Attempt == 1 && mail.To == "bert@example.com" {
			return errors.New("mailbox busy")
		}
		m.sent = append(m.sent, mail)
		return nil
	}, queue_job.Retries(3, queue_job.Waits(time.Minute)))
}

func placeOrder(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, customer string) error {
	// … the order itself …
	_, err := jobs.Add(ctx, tx, OrderMail.New(Mail{customer, "Your order"}))
	return err
}

func remindLater(ctx context.Context, db *sql.DB, jobs *queue_job.Jobs, customer string) error {
	_, err := jobs.Add(ctx, db, OrderMail.New(Mail{customer, "Your basket"}, queue_job.After(24*time.Hour)))
	return err
}

// An order leads to a mail: the job is added in the order's transaction, and runs when the test says so.
func ExampleNew() {
	t, done := newT() // in a test, t is the test's
	defer done()
	ctx := context.Background() // t.Context()

	var m mailer
	q := queuetest.New(t, m.config())

	tx, err := q.DB.Begin()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := placeOrder(ctx, tx, q.Jobs, "anna@example.com"); err != nil {
		t.Fatalf("%v", err)
	}
	q.In(tx).RequireAdded(OrderMail.JobType, queuetest.Params(Mail{"anna@example.com", "Your order"}))
	q.RequireNotAdded(OrderMail.JobType) // nobody else sees it yet
	if err := tx.Commit(); err != nil {
		t.Fatalf("%v", err)
	}

	q.RunDue()
	fmt.Println(m.sent)
	// Output: [{anna@example.com Your order}]
}

// One mail is to go out tomorrow, and it fails at first: the test moves the clock.
func ExampleQueue_Advance() {
	t, done := newT()
	defer done()
	ctx := context.Background()

	var m mailer
	q := queuetest.New(t, m.config())
	if err := remindLater(ctx, q.DB, q.Jobs, "bert@example.com"); err != nil {
		t.Fatalf("%v", err)
	}
	q.RequireAdded(OrderMail.JobType, queuetest.DueIn(24*time.Hour))

	fmt.Println("today:", len(q.RunDue()), "runs")
	q.Advance(24 * time.Hour)
	for _, run := range q.RunDue() {
		fmt.Println("tomorrow:", run.Status, run.Error)
	}
	q.Advance(time.Minute) // WaitTime
	for _, run := range q.RunDue() {
		fmt.Println("a minute later:", run.Status, "after", run.Attempts, "runs")
	}
	// Output:
	// today: 0 runs
	// tomorrow: retry mailbox busy
	// a minute later: success after 2 runs
}

// One job, whether it is due or not.
func ExampleQueue_RunOne() {
	t, done := newT()
	defer done()

	var m mailer
	q := queuetest.New(t, m.config())
	if err := remindLater(context.Background(), q.DB, q.Jobs, "anna@example.com"); err != nil {
		t.Fatalf("%v", err)
	}
	job := q.RequireAdded(OrderMail.JobType, queuetest.ParamsThat(func(m Mail) bool { return m.To == "anna@example.com" }))
	fmt.Println(q.RunOne(job.Id).Status, m.sent)
	// Output: success [{anna@example.com Your basket}]
}

// exampleT stands in for *testing.T, which examples do not have.
type exampleT struct {
	directory string
	cleanups  []func()
}

func newT() (t *exampleT, done func()) {
	directory, err := os.MkdirTemp("", "queuetest")
	if err != nil {
		panic(err)
	}
	t = &exampleT{directory: directory}
	return t, func() {
		for i := len(t.cleanups) - 1; i >= 0; i-- {
			t.cleanups[i]()
		}
		os.RemoveAll(directory)
	}
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Logf(string, ...any)               {}
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) TempDir() string                   { return t.directory }
