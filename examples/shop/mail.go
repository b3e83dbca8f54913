package main

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Mail tells a customer what has become of an order.
type Mail struct {
	Customer int64 `json:"customer"`
	Order    int64 `json:"order"`
	News     State `json:"news"`
}

var SendMail = queue_job.Define[Mail](102, "send-mail")

func (s *shop) mailConfig() queue_job.Config {
	return SendMail.Handle(s.sendMail,
		queue_job.Retries(10, queue_job.Exponential(5*time.Second, time.Hour)),
		queue_job.Timeout(20*time.Second),
		queue_job.Workers(10))
}

// addMail adds the mail about the state of an order: one, however often it is called.
func (s *shop) addMail(ctx context.Context, ex queue_job.Executor, o Order) error {
	key := fmt.Sprintf("%s-%s", orderKey(o.ID), o.State)
	_, err := SendMail.Add(ctx, s.jobs, ex, Mail{o.Customer, o.ID, o.State}, queue_job.UniqueKey(key, queue_job.UniqueForever))
	return err
}

// sendMail is the handler. A job may run twice: by the key, which stays the same, the mail server drops the second mail.
func (s *shop) sendMail(ctx context.Context, job *queue_job.Job, m Mail) error {
	return s.mail(ctx, m, job.IdempotencyKey())
}
