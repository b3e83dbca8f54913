package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/create-info/persistent-queue/queue_job"
)

// Order is a row of the table orders.
type Order struct {
	ID       int64 `json:"id"`
	Customer int64 `json:"customer" gorm:"not null"`
	Cents    int64 `json:"cents" gorm:"not null"`
	State    State `json:"state" gorm:"size:16;not null"`
}

type State string

const (
	Unpaid    State = "unpaid"
	Cancelled State = "cancelled"
	Paid      State = "paid"
	Refunding State = "refunding"
	Refunded  State = "refunded"
)

var ErrState = errors.New("its state does not allow that")

// OrderRef are the parameters of jobs that read the order when they run.
type OrderRef struct {
	Order int64 `json:"order"`
}

func orderKey(id int64) string { return fmt.Sprintf("order-%d", id) }

var CancelUnpaid = queue_job.Define[OrderRef](101, "cancel-unpaid")

func (s *shop) cancelUnpaidConfig() queue_job.Config { return CancelUnpaid.Handle(s.cancelUnpaid) }

// place adds an order, with the job that cancels it unless it is paid within 15 minutes.
func (s *shop) place(ctx context.Context, customer, cents int64) (Order, error) {
	o := Order{Customer: customer, Cents: cents, State: Unpaid}
	err := s.inTx(ctx, func(tx *gorm.DB, ex queue_job.Executor) error {
		if err := tx.Create(&o).Error; err != nil {
			return err
		}
		_, err := s.jobs.AddMany(ctx, ex, []queue_job.AddModelJob{
			CancelUnpaid.New(OrderRef{o.ID}, queue_job.WithKey(orderKey(o.ID)), queue_job.After(15*time.Minute)),
			IndexOrder.New(OrderRef{o.ID}),
		})
		return err
	})
	return o, err
}

// pay takes that job back, and adds what follows a payment: all of it with the payment, or nothing.
func (s *shop) pay(ctx context.Context, id int64) (o Order, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB, ex queue_job.Executor) error {
		if o, err = s.move(ctx, tx, ex, id, Unpaid, Paid); err != nil {
			return err
		}
		if _, err := s.jobs.Cancel(ctx, ex, CancelUnpaid.Key(orderKey(id))); err != nil {
			return err
		}
		if err := s.addMail(ctx, ex, o); err != nil {
			return err
		}
		return s.addBooking(ctx, ex, o, o.Cents)
	})
	return o, err
}

// cancelUnpaid is the handler. An order that was paid at the same moment stays paid.
func (s *shop) cancelUnpaid(ctx context.Context, job *queue_job.Job, ref OrderRef) error {
	err := s.inTx(ctx, func(tx *gorm.DB, ex queue_job.Executor) error {
		_, err := s.move(ctx, tx, ex, ref.Order, Unpaid, Cancelled)
		return err
	})
	if errors.Is(err, ErrState) {
		return nil
	}
	return err
}

func (s *shop) order(ctx context.Context, id int64) (o Order, err error) {
	return o, s.db.WithContext(ctx).First(&o, id).Error
}

// move changes the state of an order, if it is in the state from, and adds the job that brings the order into the search.
func (s *shop) move(ctx context.Context, tx *gorm.DB, ex queue_job.Executor, id int64, from, to State) (o Order, err error) {
	moved := tx.Model(&Order{}).Where("id = ? AND state = ?", id, from).Update("state", to)
	if moved.Error != nil {
		return o, moved.Error
	}
	if err := tx.First(&o, id).Error; err != nil {
		return o, err
	}
	if moved.RowsAffected == 0 {
		return o, fmt.Errorf("order %d is %s: %w", id, o.State, ErrState)
	}
	_, err = IndexOrder.Add(ctx, s.jobs, ex, OrderRef{id})
	return o, err
}
