package main

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

var IndexOrder = queue_job.Define[OrderRef](106, "index-order")

func (s *shop) searchConfig() queue_job.Config {
	return IndexOrder.HandleBatch(s.indexOrders, func(c *queue_job.Config) { c.BatchSize, c.BatchWait = 500, time.Second })
}

// indexOrders is the handler. An order may have several jobs in the batch, and goes to the search engine once.
func (s *shop) indexOrders(ctx context.Context, batch []queue_job.Typed[OrderRef]) error {
	ids := make([]int64, len(batch))
	for i, job := range batch {
		ids[i] = job.Params.Order
	}
	var orders []Order
	if err := s.db.WithContext(ctx).Find(&orders, ids).Error; err != nil {
		return err
	}
	refused, err := s.search(ctx, orders)
	if err != nil {
		return err
	}
	errs := queue_job.JobErrors{}
	for _, job := range batch {
		if err := refused[job.Params.Order]; err != nil {
			errs[job.Id] = err
		}
	}
	return errs
}
