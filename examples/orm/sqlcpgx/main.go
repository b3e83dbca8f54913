// Sqlcpgx is a small shop on the code that sqlc generates for pgx/v5, and so on PostgreSQL alone. An order is paid and the job of telling
// the customer is added, in one pgx.Tx; a second order's payment is refused, and its job is gone with the transaction. From the root of
// the repository:
//
//	go run ./examples/orm/sqlcpgx -driver pgx -dsn 'postgres://user:password@127.0.0.1:5432/test'
//
// The transaction is the pgx.Tx that the generated code is given, in pgxqueue.Tx.
package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/examples/orm/sqlcpgx/postgres"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/pgxqueue"
	"github.com/create-info/persistent-queue/queue_job"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

//go:embed schema.sql
var createOrders string

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	if driver != "pgx" {
		return errors.New("pgx is for PostgreSQL alone; use -driver pgx and -dsn")
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, createOrders); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool) // the Runner of a bigger program gets a pool of its own
	defer db.Close()

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
	if err := pay(ctx, pool, jobs, paid); err != nil {
		return err
	}
	refused := order{rand.Text(), "Bob", 9900}
	if err := pay(ctx, pool, jobs, refused); !errors.Is(err, shop.ErrRefused) {
		return fmt.Errorf("the second payment should be refused, and ended with: %v", err)
	}
	return shop.Check(ctx, db, paid.id, refused.id)
}

type order struct {
	id, customer string
	cents        int64
}

// pay records the order and adds the job of telling its customer: both, or neither.
func pay(ctx context.Context, pool *pgxpool.Pool, jobs *queue_job.Jobs, order order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.New(tx).InsertOrder(ctx, order.id, order.customer, order.cents); err != nil { // generated
			return err
		}
		job := queue_job.AddModelJob{JobType: shop.NoticeJob, JobParams: shop.Notice{Order: order.id}}
		if _, err := jobs.Add(ctx, pgxqueue.Tx(tx), job); err != nil {
			return err
		}
		return shop.Charge(order.customer, order.cents)
	})
}
