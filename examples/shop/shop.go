package main

import (
	"context"

	"gorm.io/gorm"

	"github.com/create-info/persistent-queue/queue_job"
)

// shop is what requests and jobs share.
type shop struct {
	db      *gorm.DB
	jobs    *queue_job.Jobs
	bankURL string
	mail    func(ctx context.Context, m Mail, idempotencyKey string) error
	search  func(ctx context.Context, orders []Order) (refused map[int64]error, err error) // by the order's ID
}

// configs says how each type of job is run.
func (s *shop) configs() []queue_job.Config {
	return []queue_job.Config{
		s.cancelUnpaidConfig(),
		s.mailConfig(),
		s.refundConfig(),
		s.ledgerConfig(),
		s.reconcileConfig(),
		s.searchConfig(),
	}
}

// inTx hands do a transaction: for GORM, and for the verbs of the queue.
func (s *shop) inTx(ctx context.Context, do func(tx *gorm.DB, ex queue_job.Executor) error) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return do(tx, tx.Statement.ConnPool) })
}

// complete is inTx for a handler: what do writes, and the success of the job, happen together and once.
func (s *shop) complete(ctx context.Context, job *queue_job.Job, do func(tx *gorm.DB, ex queue_job.Executor) error) error {
	return s.inTx(ctx, func(tx *gorm.DB, ex queue_job.Executor) error {
		if err := do(tx, ex); err != nil {
			return err
		}
		return job.CompleteTx(ctx, ex)
	})
}
