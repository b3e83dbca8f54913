// Sqlx is a small shop on sqlx. An order is paid and the job of telling the customer is added, in one transaction;
// a second order's payment is refused, and its job is gone with the transaction. From the root of the repository:
//
//	go run ./examples/orm/sqlx
//
// The transaction is the *sqlx.Tx itself.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Order is a row of the table orders.
type Order struct {
	ID       string
	Customer string
	Cents    int64
}

const createOrders = `CREATE TABLE IF NOT EXISTS orders (
	id       varchar(26) PRIMARY KEY,
	customer varchar(100) NOT NULL,
	cents    bigint NOT NULL
)`

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	db, err := sqlx.ConnectContext(ctx, driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, createOrders); err != nil {
		return err
	}

	runner := persistent_queue.Init([]queue_job.Config{{
		ServiceName:   "send-paid-notice",
		JobType:       shop.NoticeJob,
		Db:            db.DB, // the *sql.DB beneath sqlx
		HandleJobFunc: shop.SendNotice,
	}}, logger.QueueLog{})
	defer shop.Stop(runner)
	jobs, err := queue_job.Open(db.DB)
	if err != nil {
		return err
	}

	paid := Order{rand.Text(), "Ann", 4200}
	if err := pay(ctx, db, jobs, paid); err != nil {
		return err
	}
	refused := Order{rand.Text(), "Bob", 9900}
	if err := pay(ctx, db, jobs, refused); !errors.Is(err, shop.ErrRefused) {
		return fmt.Errorf("the second payment should be refused, and ended with: %v", err)
	}
	return shop.Check(ctx, db.DB, paid.ID, refused.ID)
}

// pay records the order and adds the job of telling its customer: both, or neither.
func pay(ctx context.Context, db *sqlx.DB, jobs *queue_job.Jobs, order Order) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit, it does nothing

	const insert = "INSERT INTO orders (id, customer, cents) VALUES (:id, :customer, :cents)"
	if _, err := tx.NamedExecContext(ctx, insert, order); err != nil {
		return err
	}
	job := queue_job.AddModelJob{JobType: shop.NoticeJob, JobParams: shop.Notice{Order: order.ID}}
	if _, err := jobs.Add(ctx, tx, job); err != nil {
		return err
	}
	if err := shop.Charge(order.Customer, order.Cents); err != nil {
		return err
	}
	return tx.Commit()
}
