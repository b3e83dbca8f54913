// Ent is a small shop on ent. An order is paid and the job of telling the customer is added, in one transaction;
// a second order's payment is refused, and its job is gone with the transaction. From the root of the repository:
//
//	go run ./examples/orm/ent
//
// The transaction is the *ent.Tx itself, if the code is generated with the feature sql/execquery: see ent/generate.go.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/ent/ent"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	sqlDB, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	dialectOf := map[string]string{"sqlite": dialect.SQLite, "mysql": dialect.MySQL, "pgx": dialect.Postgres}
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialectOf[driver], sqlDB)))
	defer client.Close()
	if err := client.Schema.Create(ctx); err != nil {
		return err
	}

	runner := persistent_queue.Init([]queue_job.Config{{
		ServiceName:   "send-paid-notice",
		JobType:       shop.NoticeJob,
		Db:            sqlDB, // which ent stands on
		HandleJobFunc: shop.SendNotice,
	}}, logger.QueueLog{})
	defer shop.Stop(runner)
	jobs, err := queue_job.Open(sqlDB)
	if err != nil {
		return err
	}

	paid := ent.Order{ID: rand.Text(), Customer: "Ann", Cents: 4200}
	if err := pay(ctx, client, jobs, paid); err != nil {
		return err
	}
	refused := ent.Order{ID: rand.Text(), Customer: "Bob", Cents: 9900}
	if err := pay(ctx, client, jobs, refused); !errors.Is(err, shop.ErrRefused) {
		return fmt.Errorf("the second payment should be refused, and ended with: %v", err)
	}
	return shop.Check(ctx, sqlDB, paid.ID, refused.ID)
}

// pay records the order and adds the job of telling its customer: both, or neither.
func pay(ctx context.Context, client *ent.Client, jobs *queue_job.Jobs, order ent.Order) error {
	tx, err := client.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit, it does nothing

	err = tx.Order.Create().SetID(order.ID).SetCustomer(order.Customer).SetCents(order.Cents).Exec(ctx)
	if err != nil {
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
