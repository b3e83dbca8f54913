package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/create-info/persistent-queue/queue_job"
)

var AskForRefund = queue_job.Define[OrderRef](103, "ask-for-refund")

func (s *shop) refundConfig() queue_job.Config {
	return AskForRefund.Handle(s.askForRefund, queue_job.Timeout(20*time.Second), func(c *queue_job.Config) {
		c.RatePerSecond = 20 // what the bank allows, to all instances together
	})
}

// refund begins to give the money of an order back.
func (s *shop) refund(ctx context.Context, id int64) (o Order, err error) {
	err = s.inTx(ctx, func(tx *gorm.DB, ex queue_job.Executor) error {
		if o, err = s.move(ctx, tx, ex, id, Paid, Refunding); err != nil {
			return err
		}
		_, err = AskForRefund.Add(ctx, s.jobs, ex, OrderRef{id}, queue_job.WithKey(orderKey(id)))
		return err
	})
	return o, err
}

// askForRefund is the handler. The first PUT asks the bank for a refund, and each further one how far it is.
func (s *shop) askForRefund(ctx context.Context, job *queue_job.Job, ref OrderRef) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("%s/refunds/%d", s.bankURL, ref.Order), nil)
	if err != nil {
		return queue_job.Fail(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return s.refunded(ctx, job, ref.Order)
	case http.StatusAccepted: // not decided yet; to ask again is no retry
		return queue_job.Snooze(10 * time.Second)
	case http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			seconds = 60
		}
		return queue_job.RetryAfter(time.Duration(seconds)*time.Second, errors.New("the bank is asked too often"))
	case http.StatusNotFound: // no retry helps
		return queue_job.Fail(errors.New("the bank does not know the payment"))
	default:
		return fmt.Errorf("the bank says %s", response.Status)
	}
}

func (s *shop) refunded(ctx context.Context, job *queue_job.Job, id int64) error {
	return s.complete(ctx, job, func(tx *gorm.DB, ex queue_job.Executor) error {
		o, err := s.move(ctx, tx, ex, id, Refunding, Refunded)
		if err != nil {
			return err
		}
		if err := s.addMail(ctx, ex, o); err != nil {
			return err
		}
		return s.addBooking(ctx, ex, o, -o.Cents)
	})
}
