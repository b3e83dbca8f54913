package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Expense is money that is paid as soon as somebody has approved it.
type Expense struct{ ID, Cents int64 }

func (e Expense) key() string { return fmt.Sprintf("expense-%d", e.ID) }

// Decision is the answer to an Expense.
type Decision struct {
	By       string
	Approved bool
}

var PayExpense = queue_job.Define[Expense](15, "pay-expense")

// ClaimExpense adds the job together with the expense.
func ClaimExpense(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, e Expense) error {
	_, err := PayExpense.Add(ctx, jobs, tx, e, queue_job.UniqueKey(e.key(), queue_job.UniqueForever))
	return err
}

// Decide is called by the page with the two buttons. The first decision counts; a second one gets queue_job.ErrSignalled or queue_job.ErrEnded.
func Decide(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, e Expense, d Decision) error {
	return jobs.Signal(ctx, tx, PayExpense.Key(e.key()), "decision", d)
}

// HandleExpense asks once, waits for the decision without a worker, and pays.
func HandleExpense(ask, pay func(ctx context.Context, e Expense, idempotencyKey string) error) queue_job.Config {
	return PayExpense.Handle(func(ctx context.Context, job *queue_job.Job, e Expense) error {
		_, err := queue_job.Step(ctx, job, "ask", func(ctx context.Context) (bool, error) {
			return true, ask(ctx, e, job.StepKey("ask"))
		})
		if err != nil {
			return err
		}
		decision, came, err := queue_job.Await[Decision](ctx, job, "decision", 3*24*time.Hour)
		switch {
		case err != nil:
			return err // it may only be the end of this run
		case !came:
			return queue_job.Cancel(errors.New("nobody has decided within three days"))
		case !decision.Approved:
			return queue_job.Cancel(fmt.Errorf("%s has refused", decision.By))
		}
		return pay(ctx, e, job.IdempotencyKey())
	})
}
