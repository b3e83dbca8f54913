// Xorm is a small shop on xorm. An order is paid and the job of telling the customer is added, in one transaction;
// a second order's payment is refused, and its job is gone with the transaction. From the root of the repository:
//
//	go run ./examples/orm/xorm
//
// The transaction is session.Tx().Tx, a *sql.Tx, once session.Begin was called.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
	"xorm.io/xorm"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Order is a row of the table orders.
type Order struct {
	ID       string `xorm:"varchar(26) pk 'id'"`
	Customer string `xorm:"varchar(100) notnull"`
	Cents    int64  `xorm:"notnull"`
}

func (Order) TableName() string { return "orders" }

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	engine, err := xorm.NewEngine(driver, dsn)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := engine.Context(ctx).Sync(new(Order)); err != nil {
		return err
	}
	sqlDB := engine.DB().DB // the *sql.DB beneath xorm

	runner := persistent_queue.Init([]queue_job.Config{{
		ServiceName:   "send-paid-notice",
		JobType:       shop.NoticeJob,
		Db:            sqlDB,
		HandleJobFunc: shop.SendNotice,
	}}, logger.QueueLog{})
	defer shop.Stop(runner)
	jobs, err := queue_job.Open(sqlDB)
	if err != nil {
		return err
	}

	paid := Order{rand.Text(), "Ann", 4200}
	if err := pay(ctx, engine, jobs, paid); err != nil {
		return err
	}
	refused := Order{rand.Text(), "Bob", 9900}
	if err := pay(ctx, engine, jobs, refused); !errors.Is(err, shop.ErrRefused) {
		return fmt.Errorf("the second payment should be refused, and ended with: %v", err)
	}
	return shop.Check(ctx, sqlDB, paid.ID, refused.ID)
}

// pay records the order and adds the job of telling its customer: both, or neither.
func pay(ctx context.Context, engine *xorm.Engine, jobs *queue_job.Jobs, order Order) error {
	session := engine.NewSession().Context(ctx)
	defer session.Close() // without a commit, it rolls back
	if err := session.Begin(); err != nil {
		return err
	}
	if _, err := session.Insert(&order); err != nil {
		return err
	}
	job := queue_job.AddModelJob{JobType: shop.NoticeJob, JobParams: shop.Notice{Order: order.ID}}
	if _, err := jobs.Add(ctx, session.Tx().Tx, job); err != nil {
		return err
	}
	if err := shop.Charge(order.Customer, order.Cents); err != nil {
		return err
	}
	return session.Commit()
}
