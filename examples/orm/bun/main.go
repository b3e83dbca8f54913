// Bun is a small shop on bun. An order is paid and the job of telling the customer is added, in one transaction;
// a second order's payment is refused, and its job is gone with the transaction. From the root of the repository:
//
//	go run ./examples/orm/bun
//
// The transaction is tx.Tx, the *sql.Tx inside a bun.Tx. The methods of bun.Tx itself write the arguments into the
// statement, which is no help to one that has its placeholders in the database's own words, such as $1.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Order is a row of the table orders.
type Order struct {
	ID       string `bun:"type:varchar(26),pk"`
	Customer string `bun:"type:varchar(100),notnull"`
	Cents    int64  `bun:",notnull"`
}

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	sqlDB, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	db := bun.NewDB(sqlDB, dialect(driver))
	defer db.Close()
	if _, err := db.NewCreateTable().Model((*Order)(nil)).IfNotExists().Exec(ctx); err != nil {
		return err
	}

	runner := persistent_queue.Init([]queue_job.Config{{
		ServiceName:   "send-paid-notice",
		JobType:       shop.NoticeJob,
		Db:            sqlDB, // which bun stands on
		HandleJobFunc: shop.SendNotice,
	}}, logger.QueueLog{})
	defer shop.Stop(runner)
	jobs, err := queue_job.Open(sqlDB)
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
	return shop.Check(ctx, sqlDB, paid.ID, refused.ID)
}

// pay records the order and adds the job of telling its customer: both, or neither.
func pay(ctx context.Context, db *bun.DB, jobs *queue_job.Jobs, order Order) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&order).Exec(ctx); err != nil {
			return err
		}
		job := queue_job.AddModelJob{JobType: shop.NoticeJob, JobParams: shop.Notice{Order: order.ID}}
		if _, err := jobs.Add(ctx, tx.Tx, job); err != nil {
			return err
		}
		return shop.Charge(order.Customer, order.Cents) // an error rolls back
	})
}

func dialect(driver string) schema.Dialect {
	switch driver {
	case "mysql":
		return mysqldialect.New()
	case "pgx":
		return pgdialect.New()
	default:
		return sqlitedialect.New()
	}
}
