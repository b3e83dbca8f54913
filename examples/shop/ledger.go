package main

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/create-info/persistent-queue/queue_job"
)

// LedgerLine is a row of ledger_lines, which only grows.
type LedgerLine struct {
	ID       int64
	OrderID  int64 `gorm:"not null"`
	Customer int64 `gorm:"not null;index"`
	Cents    int64 `gorm:"not null"`
}

// Account is a row of accounts: the sum of a customer's lines.
type Account struct {
	Customer int64 `gorm:"primaryKey;autoIncrement:false"`
	Cents    int64 `gorm:"not null"`
}

type Booking struct {
	Order    int64 `json:"order"`
	Customer int64 `json:"customer"`
	Cents    int64 `json:"cents"`
}

var BookMoney = queue_job.Define[Booking](104, "book-money")

// ledgerConfig has a customer's bookings run in their order. As the next one waits for it, a booking is never given up.
func (s *shop) ledgerConfig() queue_job.Config {
	return BookMoney.Handle(s.bookMoney, queue_job.Retries(queue_job.Unlimited, nil), func(c *queue_job.Config) { c.OrderedByKey = true })
}

func (s *shop) addBooking(ctx context.Context, ex queue_job.Executor, o Order, cents int64) error {
	_, err := BookMoney.Add(ctx, s.jobs, ex, Booking{o.ID, o.Customer, cents}, queue_job.WithKey(fmt.Sprintf("customer-%d", o.Customer)))
	return err
}

// bookMoney is the handler. However often the job runs, whoever dies: there is one line.
func (s *shop) bookMoney(ctx context.Context, job *queue_job.Job, b Booking) error {
	return s.complete(ctx, job, func(tx *gorm.DB, _ queue_job.Executor) error {
		if err := tx.Create(&LedgerLine{OrderID: b.Order, Customer: b.Customer, Cents: b.Cents}).Error; err != nil {
			return err
		}
		return tx.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "customer"}},
			DoUpdates: clause.Assignments(map[string]any{"cents": gorm.Expr("accounts.cents + ?", b.Cents)}),
		}).Create(&Account{b.Customer, b.Cents}).Error
	})
}
