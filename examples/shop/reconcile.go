package main

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
)

var Reconcile = queue_job.Define[struct{}](105, "reconcile")

func (s *shop) reconcileConfig() queue_job.Config {
	return Reconcile.Handle(s.reconcile, func(c *queue_job.Config) { c.Schedule = cron.MustParse("CRON_TZ=Europe/Berlin 30 3 * * *") })
}

// reconcile is the handler. A difference is for people to look into, so no retry follows.
func (s *shop) reconcile(ctx context.Context, job *queue_job.Job, _ struct{}) error {
	differ, err := s.accountsThatDiffer(ctx)
	if err != nil {
		return err
	}
	if differ > 0 {
		return queue_job.Fail(fmt.Errorf("%d accounts differ from the ledger", differ))
	}
	return job.SetResult(ctx, "all accounts are the sums of their lines")
}

func (s *shop) accountsThatDiffer(ctx context.Context) (n int64, err error) {
	lines := s.db.Model(&LedgerLine{}).Select("customer, SUM(cents) AS cents").Group("customer")
	err = s.db.WithContext(ctx).Model(&Account{}).
		Joins("LEFT JOIN (?) AS lines_of ON lines_of.customer = accounts.customer", lines).
		Where("accounts.cents <> COALESCE(lines_of.cents, 0)").
		Count(&n).Error
	return n, err
}
