// Sqlc is a small shop on the code that sqlc generates. An order is paid and the job of telling the customer is added,
// in one transaction; a second order's payment is refused, and its job is gone with the transaction. From the root of
// the repository:
//
//	go run ./examples/orm/sqlc
//
// The transaction is the *sql.Tx that the generated code is given.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/examples/orm/sqlc/mysql"
	"github.com/create-info/persistent-queue/examples/orm/sqlc/postgres"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

//go:embed schema.sql
var createOrders string

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
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
		Db:            db,
		HandleJobFunc: shop.SendNotice,
	}}, logger.QueueLog{})
	defer shop.Stop(runner)
	jobs, err := queue_job.Open(db)
	if err != nil {
		return err
	}

	paid := order{rand.Text(), "Ann", 4200}
	if err := pay(ctx, driver, db, jobs, paid); err != nil {
		return err
	}
	refused := order{rand.Text(), "Bob", 9900}
	if err := pay(ctx, driver, db, jobs, refused); !errors.Is(err, shop.ErrRefused) {
		return fmt.Errorf("the second payment should be refused, and ended with: %v", err)
	}
	return shop.Check(ctx, db, paid.id, refused.id)
}

type order struct {
	id, customer string
	cents        int64
}

// pay records the order and adds the job of telling its customer: both, or neither.
func pay(ctx context.Context, driver string, db *sql.DB, jobs *queue_job.Jobs, order order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit, it does nothing

	if err := queriesIn(tx, driver).InsertOrder(ctx, order.id, order.customer, order.cents); err != nil {
		return err
	}
	job := queue_job.AddModelJob{JobType: shop.NoticeJob, JobParams: shop.Notice{Order: order.id}}
	if _, err := jobs.Add(ctx, tx, job); err != nil {
		return err
	}
	if err := shop.Charge(order.customer, order.cents); err != nil {
		return err
	}
	return tx.Commit()
}

// queriesIn is for a program that runs on several databases. With one, it would say mysql.New(tx).
func queriesIn(tx *sql.Tx, driver string) interface {
	InsertOrder(ctx context.Context, id, customer string, cents int64) error
} {
	if driver == "pgx" {
		return postgres.New(tx)
	}
	return mysql.New(tx)
}
