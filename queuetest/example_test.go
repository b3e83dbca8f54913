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

// bank is a fake of a bank. It counts what is booked, and recognises a request that it has had, by its key, if there is one.
type bank struct {
	booked int
	had    map[string]bool
}

func (b *bank) charge(ctx context.Context, key string) (receipt int, err error) {
	if key == "" || !b.had[key] {
		b.booked++
		b.had[key] = true
	}
	queuetest.Place(ctx, "the bank has answered") // the process may die here, too
	return b.booked, nil
}

// An order is charged in a step. If the process dies after the step has run and before that is recorded, the next run charges again: unless the bank
// recognises the request by its key.
func ExampleCrashEverywhere() {
	order := func(keyed bool) func(t *exampleT) queuetest.World {
		return func(t *exampleT) queuetest.World {
			bank := &bank{had: map[string]bool{}} // outlives the process
			return queuetest.World{
				Start: func(q *queuetest.Queue) { // what a process has in memory
					q.Handle(queue_job.Config{JobType: 8, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
						_, err := queue_job.Step(ctx, job, "charge", func(ctx context.Context) (int, error) {
							if keyed {
								return bank.charge(ctx, job.StepKey("charge"))
							}
							return bank.charge(ctx, "")
						})
						return err
					}})
				},
				Begin: func(q *queuetest.Queue) {
					if _, err := q.Jobs.Add(context.Background(), q.DB, queue_job.AddModelJob{JobType: 8}); err != nil {
						t.Fatalf("%v", err)
					}
				},
				Check: func(q *queuetest.Queue) {
					q.RequireAdded(8, queuetest.Status(queue_job.JobStatusSuccess))
					if bank.booked != 1 {
						t.Errorf("charged %d times", bank.booked)
					}
				},
			}
		}
	}
	for _, keyed := range []bool{false, true} {
		t, done := newT() // in a test, t is the test's
		fmt.Println("with a key:", keyed)
		queuetest.CrashEverywhere(t, order(keyed))
		done()
	}
	// Output:
	// with a key: false
	// charged 2 times: 4 died at "the bank has answered", in job 1
	// charged 2 times: 5 died after step "charge" of job 1 had run, before it was recorded
	// with a key: true
}

// exampleT stands in for *testing.T, which examples do not have.
type exampleT struct {
	directory, name string
	failed          bool
	cleanups        []func()
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
func (t *exampleT) Name() string                      { return t.name }
func (t *exampleT) Failed() bool                      { return t.failed }

func (t *exampleT) Errorf(format string, args ...any) {
	t.failed = true
	fmt.Printf(format+": %s\n", append(args, t.name)...)
}

func (t *exampleT) Run(name string, test func(*exampleT)) bool {
	inside, done := newT()
	defer done()
	inside.name = name
	test(inside)
	return !inside.failed
}
