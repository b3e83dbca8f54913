package recipes

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

type Order struct{ ID int64 }

func (o Order) key() string { return fmt.Sprintf("order-%d", o.ID) }

var CancelUnpaid = queue_job.Define[Order](1, "cancel-unpaid")

// PlaceOrder adds the job in the order's own transaction: there is no order without it.
func PlaceOrder(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, o Order) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, state) VALUES (?, 'unpaid')", o.ID); err != nil {
		return err
	}
	_, err := CancelUnpaid.Add(ctx, jobs, tx, o, queue_job.WithKey(o.key()), queue_job.After(15*time.Minute))
	return err
}

var ErrNotUnpaid = errors.New("the order is paid or cancelled already")

// Pay takes the job back in the payment's transaction. Without that, the job would find a paid order, and do nothing.
func Pay(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, o Order) error {
	result, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'unpaid'", o.ID)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return cmp.Or(err, ErrNotUnpaid)
	}
	_, err = jobs.Cancel(ctx, tx, CancelUnpaid.Key(o.key()))
	return err
}

// HandleUnpaid cancels the order. The state in WHERE decides between a payment and the job that come at the same moment.
func HandleUnpaid(db *sql.DB) queue_job.Config {
	return CancelUnpaid.Handle(func(ctx context.Context, job *queue_job.Job, o Order) error {
		_, err := db.ExecContext(ctx, "UPDATE orders SET state = 'cancelled' WHERE id = ? AND state = 'unpaid'", o.ID)
		return err
	})
}
