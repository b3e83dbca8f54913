// Gorm is a small shop on GORM. An order is paid and the job of telling the customer is added, in one transaction;
// a second order's payment is refused, and its job is gone with the transaction. From the root of the repository:
//
//	go run ./examples/orm/gorm
//
// The transaction is tx.Statement.ConnPool. Not tx.DB(): that leads out of it, and a job that is added there stays when
// the transaction rolls back. trap_test.go shows both.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/glebarez/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Order is a row of the table orders.
type Order struct {
	ID       string `gorm:"size:26"`
	Customer string `gorm:"size:100;not null"`
	Cents    int64  `gorm:"not null"`
}

func main() { shop.Main(run) }

func run(ctx context.Context, driver, dsn string) error {
	db, err := gorm.Open(dialector(driver, dsn), &gorm.Config{})
	if err != nil {
		return err
	}
	sqlDB, err := db.DB() // the *sql.DB beneath GORM
	if err != nil {
		return err
	}
	defer sqlDB.Close()
	if err := db.WithContext(ctx).AutoMigrate(&Order{}); err != nil {
		return err
	}

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
func pay(ctx context.Context, db *gorm.DB, jobs *queue_job.Jobs, order Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		job := queue_job.AddModelJob{JobType: shop.NoticeJob, JobParams: shop.Notice{Order: order.ID}}
		if _, err := jobs.Add(ctx, tx.Statement.ConnPool, job); err != nil {
			return err
		}
		return shop.Charge(order.Customer, order.Cents) // an error rolls back
	})
}

func dialector(driver, dsn string) gorm.Dialector {
	switch driver {
	case "mysql":
		return mysql.Open(dsn)
	case "pgx":
		return postgres.Open(dsn)
	default:
		return sqlite.Open(dsn)
	}
}
