package recipes

import (
	"context"
	"database/sql"

	"github.com/create-info/persistent-queue/queue_job"
)

type Transfer struct {
	From, To int64
	Cents    int64
}

var MoveMoney = queue_job.Define[Transfer](7, "move-money")

// HandleTransfer moves the money and completes the job in one transaction. However often the job runs, whoever dies: the money
// moves once.
func HandleTransfer(db *sql.DB) queue_job.Config {
	return MoveMoney.Handle(func(ctx context.Context, job *queue_job.Job, m Transfer) error {
		return completeWith(ctx, db, job, func(tx *sql.Tx) error {
			for account, cents := range map[int64]int64{m.From: -m.Cents, m.To: m.Cents} {
				if _, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents + ? WHERE id = ?", cents, account); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// completeWith does something and completes the job, in one transaction.
func completeWith(ctx context.Context, db *sql.DB, job *queue_job.Job, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	if err := job.CompleteTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
