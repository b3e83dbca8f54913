package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	meanBetweenOrders = 150 * time.Millisecond
	customers         = 40

	// The partner can be reached for half of each period. So half of the runs fail: twice as many have to start as jobs come, and some
	// more, for the rest of a bad minute to be done in the good one.
	partnerPeriod = 2 * time.Minute
	partnerShare  = 0.3 // of the orders
	partnerRate   = 4.5 // runs a second
)

// order is what most jobs are about.
type order struct {
	Number   int
	Customer string
	Token    string // which the console masks
}

type nothing struct{}

var (
	mail     = queue_job.Define[order](1, "order-mail")
	invoice  = queue_job.Define[order](2, "invoice")
	partner  = queue_job.Define[order](3, "partner")
	picture  = queue_job.Define[order](4, "picture")
	report   = queue_job.Define[nothing](5, "report")
	reminder = queue_job.Define[order](6, "reminder")
	sms      = queue_job.Define[order](7, "sms")
)

// jobTypes says how an instance runs each type.
func jobTypes() []queue_job.Config {
	mails := mail.Handle(func(ctx context.Context, _ *queue_job.Job, _ order) error {
		if err := work(ctx, 100*time.Millisecond, time.Second); err != nil {
			return err
		}
		return perhaps(0.1, errors.New("the mail server answers 451: try again later"))
	})
	mails.NeedRetry, mails.MaxRetries, mails.RetryTiming = true, 4, queue_job.Exponential(2*time.Second, time.Minute)

	invoices := invoice.Handle(func(ctx context.Context, job *queue_job.Job, o order) error {
		const steps = 5
		for step := range steps {
			if err := work(ctx, 200*time.Millisecond, 500*time.Millisecond); err != nil {
				return err
			}
			if err := job.SetProgress(ctx, fmt.Sprintf("%d of %d pages", step+1, steps)); err != nil {
				return err
			}
		}
		return job.SetResult(ctx, fmt.Sprintf(`{"file": "invoice-%d.pdf"}`, o.Number))
	})
	invoices.OrderedByKey, invoices.WorkerPoolCapacity = true, 16

	partners := partner.Handle(func(ctx context.Context, _ *queue_job.Job, _ order) error {
		if time.Now().Unix()%int64(partnerPeriod.Seconds()) >= int64(partnerPeriod.Seconds())/2 {
			return errors.New("POST https://partner.example/orders: connection refused")
		}
		return work(ctx, 50*time.Millisecond, 200*time.Millisecond)
	})
	partners.RatePerSecond, partners.NeedRetry, partners.MaxRetries = partnerRate, true, queue_job.Unlimited
	partners.RetryTiming = queue_job.Exponential(5*time.Second, 30*time.Second)

	pictures := picture.Handle(func(ctx context.Context, _ *queue_job.Job, _ order) error {
		return work(ctx, time.Second, 5*time.Second)
	})
	pictures.Shards, pictures.WorkerPoolCapacity, pictures.Timeout = instancesAtATime, 6, 10*time.Second

	reports := report.Handle(func(ctx context.Context, _ *queue_job.Job, _ nothing) error {
		return work(ctx, 8*time.Second, 12*time.Second)
	})
	reports.Schedule, reports.ScheduleParams = cron.MustParse("@every 20s"), nothing{}

	reminders := reminder.Handle(func(ctx context.Context, _ *queue_job.Job, _ order) error {
		return work(ctx, 10*time.Millisecond, 50*time.Millisecond)
	})

	messages := sms.Handle(func(ctx context.Context, _ *queue_job.Job, o order) error {
		if err := work(ctx, 50*time.Millisecond, 300*time.Millisecond); err != nil {
			return err
		}
		return perhaps(0.3, queue_job.Fail(fmt.Errorf("customer %s has no number", o.Customer)))
	})

	return []queue_job.Config{mails, invoices, partners, pictures, reports, reminders, messages}
}

// work takes a time between two, or until ctx is done.
func work(ctx context.Context, least, most time.Duration) error {
	select {
	case <-time.After(least + rand.N(most-least)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// perhaps returns err with this probability.
func perhaps(probability float64, err error) error {
	if rand.Float64() < probability {
		return err
	}
	return nil
}

// order adds the jobs of an order, in a transaction as an application has it.
func (s *shop) order(ctx context.Context) error {
	o := order{Number: rand.IntN(1_000_000), Customer: fmt.Sprintf("c-%d", rand.IntN(customers)), Token: "only the handler may know"}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = mail.Add(ctx, s.jobs, tx, o, queue_job.WithKey(fmt.Sprintf("order-%d", o.Number)))
	for _, also := range []struct {
		probability float64
		what        queue_job.Definition[order]
		options     []queue_job.AddOption
	}{
		{0.3, invoice, []queue_job.AddOption{queue_job.WithKey(o.Customer)}},
		{partnerShare, partner, nil},
		{0.2, picture, nil},
		{0.1, sms, []queue_job.AddOption{queue_job.WithPriority(queue_job.PriorityHigh)}},
		{0.1, reminder, []queue_job.AddOption{queue_job.After(rand.N(time.Hour))}},
	} {
		if err == nil && rand.Float64() < also.probability {
			_, err = also.what.Add(ctx, s.jobs, tx, o, also.options...)
		}
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// addReminders adds what is due on the next days.
func (s *shop) addReminders(ctx context.Context) error {
	var all []queue_job.AddModelJob
	for n := range 500 {
		all = append(all, reminder.New(order{Number: n, Customer: fmt.Sprintf("c-%d", n%customers)}, queue_job.After(time.Duration(n)*10*time.Minute)))
	}
	_, err := s.jobs.AddMany(ctx, s.db, all)
	return err
}
