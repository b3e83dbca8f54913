package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

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
		if m.From == m.To || m.Cents <= 0 {
			return queue_job.Fail(fmt.Errorf("%d cents from account %d to %d", m.Cents, m.From, m.To))
		}
		return completeWith(ctx, db, job, func(tx *sql.Tx) error {
			legs := []struct{ account, cents int64 }{{m.From, -m.Cents}, {m.To, m.Cents}}
			if m.To < m.From { // all transfers lock accounts in the same order, so no two wait for each other
				slices.Reverse(legs)
			}
			for _, leg := range legs {
				result, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents + ? WHERE id = ?", leg.cents, leg.account)
				if err != nil {
					return err
				}
				if n, err := result.RowsAffected(); err != nil || n != 1 {
					return errors.Join(err, fmt.Errorf("there is no account %d", leg.account))
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
