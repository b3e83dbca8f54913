package documents

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// What the page of workflows calls, in place of a shop's own code.
type (
	Receipt string
	Answer  struct {
		By  string
		Yes bool
	}
	Invoice = Mail
)

var (
	Archive      = queue_job.Define[Invoice](802, "archive")
	Pay          = queue_job.Define[int64](803, "pay")
	WriteInvoice = queue_job.Define[int64](804, "write-invoice")
	Pack         = queue_job.Define[int64](805, "pack")
	Ship         = queue_job.Define[int64](806, "ship")
	Tell         = queue_job.Define[int64](807, "tell-support")
	Reserve      = queue_job.Define[int64](808, "reserve")
	Release      = queue_job.Define[int64](809, "release")
	Refund       = queue_job.Define[int64](810, "refund")
)

func charge(_ context.Context, _ int64, key string) (Receipt, error) { return Receipt(key), nil }

func ship(context.Context, int64, Receipt) (string, error) { return "", nil }

func reserve(context.Context, *sql.Tx, int64) (int, error) { return 1, nil }

func write(context.Context, int64) (Invoice, error) { return Invoice{}, nil }

func refund(context.Context, *queue_job.Job) error { return errors.New("nobody has answered") }

// Workflow is the handler at the top of the page.
func Workflow(order int64) queue_job.Config {
	return queue_job.Config{
		HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			receipt, err := queue_job.Step(ctx, job, "charge", func(ctx context.Context) (Receipt, error) {
				return charge(ctx, order, job.StepKey("charge"))
			})
			if err != nil {
				return err
			}
			if err := job.Sleep(ctx, "cooling off", 14*24*time.Hour); err != nil {
				return err
			}
			_, err = queue_job.Step(ctx, job, "ship", func(ctx context.Context) (string, error) { return ship(ctx, order, receipt) })
			return err
		},
	}
}

// ReserveInSteps has a step in a transaction.
func ReserveInSteps(ctx context.Context, db *sql.DB, job *queue_job.Job, order int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = queue_job.StepTx(ctx, job, tx, "reserve", func(ctx context.Context) (int, error) { return reserve(ctx, tx, order) })
	if err != nil {
		return err
	}
	return tx.Commit()
}

// Wait ends without an error if somebody has answered.
func Wait(ctx context.Context, job *queue_job.Job) error {
	answer, came, err := queue_job.Await[Answer](ctx, job, "approval", 3*24*time.Hour)
	switch {
	case err != nil:
		return err // it may only be the end of this run
	case !came:
		return refund(ctx, job) // nobody has answered in time
	}
	return job.SetProgress(ctx, "answered by "+answer.By)
}

// Decide is the other side.
func Decide(ctx context.Context, jobs *queue_job.Jobs, tx *sql.Tx, jobType int32) error {
	err := jobs.Signal(ctx, tx, queue_job.Key(jobType, "order-4711"), "approval", Answer{By: "ann", Yes: true})
	return err
}

// Follow has other jobs follow a run.
func Follow(jobs *queue_job.Jobs, order int64) queue_job.Config {
	return queue_job.Config{
		HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			invoice, err := write(ctx, order)
			if err != nil {
				return err
			}
			return jobs.Then(ctx, job, SendMail.New(invoice), Archive.New(invoice, queue_job.After(24*time.Hour)))
		},
	}
}

// AddOrder adds the flow of the page.
func AddOrder(ctx context.Context, jobs *queue_job.Jobs, tx *sql.Tx, order int64) (queue_job.AddedFlow, error) {
	f := queue_job.NewFlow("order", queue_job.FlowKey("4711"))
	f.Job("pay", Pay.New(order))
	f.Job("invoice", WriteInvoice.New(order)).After("pay")
	f.Job("pack", Pack.New(order)).After("pay")
	f.Job("ship", Ship.New(order)).After("invoice", "pack")
	f.Job("tell support", Tell.New(order)).AfterEnd("pay")
	added, err := jobs.AddFlow(ctx, tx, f)
	return added, err
}

// AddUndoableOrder adds a flow that is undone if it fails.
func AddUndoableOrder(ctx context.Context, jobs *queue_job.Jobs, tx *sql.Tx, order int64) (queue_job.AddedFlow, error) {
	f := queue_job.NewFlow("order", queue_job.FlowKey("4711"), queue_job.FlowDeadline(48*time.Hour))
	f.Job("reserve", Reserve.New(order)).Undo(Release.New(order))
	f.Job("pay", Pay.New(order)).After("reserve").Undo(Refund.New(order))
	f.Job("ship", Ship.New(order)).After("pay").Within(24 * time.Hour)
	f.Job("tell support", Tell.New(order)).OnFailure()
	f.OnFailure(queue_job.Undo)
	added, err := jobs.AddFlow(ctx, tx, f)
	return added, err
}

// AwaitApproval has the order be sent when somebody has approved it.
func AwaitApproval(f *queue_job.Flow, order int64) {
	f.Await("approved").After("pack")
	f.Job("ship", Ship.New(order)).After("approved")
}

// Approve is the other side of AwaitApproval.
func Approve(ctx context.Context, jobs *queue_job.Jobs, tx *sql.Tx, flowID uint64) error {
	err := jobs.SignalFlow(ctx, tx, flowID, "approved", "ann")
	return err
}
