package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/create-info/persistent-queue/queue_job"
)

// Purchase is an item that is reserved, paid and sent. If that cannot be done, the money and the item go back.
type Purchase struct{ ID, Item int64 }

// Return takes a purchase back, whatever was done of it.
type Return struct {
	Purchase
	ChargeKey string // of the request that may have charged the card
}

var (
	FulfilPurchase = queue_job.Define[Purchase](13, "fulfil-purchase")
	ReturnPurchase = queue_job.Define[Return](14, "return-purchase")
)

// Partners recognise a repeated request by its key. Refund pays back what was charged with a key, if anything was.
type Partners struct {
	Charge func(ctx context.Context, p Purchase, key string) error
	Send   func(ctx context.Context, p Purchase, key string) error
	Refund func(ctx context.Context, chargeKey, key string) error
}

var errSoldOut = errors.New("the item is sold out")

// HandlePurchase ends a job as failed in one place only: where the return is added. So it has no limit of retries and of lost runs, and
// counts by itself.
func HandlePurchase(db *sql.DB, jobs *queue_job.Jobs, with Partners) queue_job.Config {
	const retriesMost = 4
	cfg := FulfilPurchase.Handle(func(ctx context.Context, job *queue_job.Job, p Purchase) error {
		var state string
		if err := db.QueryRowContext(ctx, "SELECT state FROM purchases WHERE id = ?", p.ID).Scan(&state); err != nil {
			return err
		}
		if state != "open" { // somebody has retried all that has failed; the steps that are done were taken back since
			return queue_job.Cancel(fmt.Errorf("the purchase is %s", state))
		}
		err := reserve(ctx, db, job, p)
		if err == nil {
			_, err = queue_job.Step(ctx, job, "charge", func(ctx context.Context) (bool, error) {
				return true, with.Charge(ctx, p, job.StepKey("charge"))
			})
		}
		if err == nil {
			_, err = queue_job.Step(ctx, job, "send", func(ctx context.Context) (bool, error) {
				return true, with.Send(ctx, p, job.StepKey("send"))
			})
		}
		switch {
		case err == nil:
			return completeWith(ctx, db, job, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE purchases SET state = 'sent' WHERE id = ?", p.ID)
				return err
			})
		case errors.Is(err, errSoldOut), job.Retries >= retriesMost:
			return giveUp(ctx, db, jobs, job, Return{p, job.StepKey("charge")}, err)
		}
		return err
	}, queue_job.Retries(queue_job.Unlimited, nil))
	cfg.LostLimit = -1
	return cfg
}

// reserve is a step in its own transaction: the item and the record of the step are written together.
func reserve(ctx context.Context, db *sql.DB, job *queue_job.Job, p Purchase) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = queue_job.StepTx(ctx, job, tx, "reserve", func(ctx context.Context) (bool, error) {
		result, err := tx.ExecContext(ctx, "UPDATE items SET in_stock = in_stock - 1 WHERE id = ? AND in_stock > 0", p.Item)
		if err != nil {
			return false, err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return false, errors.Join(err, errSoldOut)
		}
		_, err = tx.ExecContext(ctx, "UPDATE purchases SET reserved = 1 WHERE id = ?", p.ID)
		return true, err
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// giveUp ends the job as failed and adds the return, in one transaction: there is neither without the other.
func giveUp(ctx context.Context, db *sql.DB, jobs *queue_job.Jobs, job *queue_job.Job, r Return, why error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE purchases SET state = 'returning' WHERE id = ?", r.ID); err != nil {
		return err
	}
	once := queue_job.UniqueKey(fmt.Sprintf("purchase-%d", r.ID), queue_job.UniqueForever)
	added, err := jobs.AddUnique(ctx, tx, ReturnPurchase.New(r, once))
	if err != nil {
		return err
	}
	if added.Existed { // Add would have said nothing, and nothing would be returned now
		return fmt.Errorf("purchase %d was returned before, by job %d, and is open again", r.ID, added.Id)
	}
	if err := job.FailTx(ctx, tx, why.Error()); err != nil {
		return err
	}
	return tx.Commit()
}

// HandleReturn goes on until it is done. What it gives back is what the rows say, and no more.
func HandleReturn(db *sql.DB, with Partners) queue_job.Config {
	cfg := ReturnPurchase.Handle(func(ctx context.Context, job *queue_job.Job, r Return) error {
		_, err := queue_job.Step(ctx, job, "refund", func(ctx context.Context) (bool, error) {
			return true, with.Refund(ctx, r.ChargeKey, job.StepKey("refund"))
		})
		if err != nil {
			return err
		}
		return completeWith(ctx, db, job, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, "UPDATE purchases SET reserved = 0 WHERE id = ? AND reserved = 1", r.ID)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE items SET in_stock = in_stock + ? WHERE id = ?", n, r.Item)
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE purchases SET state = 'returned' WHERE id = ?", r.ID)
			}
			return err
		})
	}, queue_job.Retries(queue_job.Unlimited, nil))
	cfg.LostLimit = -1
	return cfg
}
