package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// obliging is a table that does whatever it is told.
type obliging struct{ Jobs }

func (obliging) Mark(_ context.Context, ids []uint64, _ int64, _ store.Version, _, _ int64) (int, error) {
	return len(ids), nil
}

func (obliging) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	return len(ids), nil
}

// The way of a thousand no-op jobs from the rows that were read to the outcomes that are written, without a database.
func BenchmarkAThousandJobsFromLoadToSettle(b *testing.B) { benchmarkAThousandJobs(b, nil) }

func benchmarkAThousandJobs(b *testing.B, q *Quota) {
	workers, l := &later{}, lineOf(2*batchRowsMax)
	l.process.Log, l.process.Jobs, l.workers.pool, l.workers.most = logger.QueueLog{}, obliging{}, workers, 10
	l.workers.places, l.part.cfg.ServiceName = newPlaces(q, &l.workers), ""
	l.runner.handler = func(context.Context, *queue_job.Job) error { return nil }
	l.RoomCame = make(chan struct{}, 1)
	l.allow(time.Hour)
	lease := keeper.Unending(b.Context(), keeper.Want{Name: "job-1", Lock: time.Minute}, 7)
	sink, rows := l.sink(lease), make([]store.Row, batchRowsMax)
	for i := range rows {
		rows[i] = store.Row{ID: uint64(i + 1), JobType: 1, Params: "{}", CreateTime: 1, MaxRetries: store.NotSet}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range rows {
			sink.Offer(&rows[i])
		}
		marked, _ := l.marker.mark(b.Context(), lease, l.queue.picked(1, batchRowsMax))
		l.workers.start(0, marked...)
		workers.come()
		if w := l.settler.write(b.Context(), l.settler.taken()); len(w.tried) > 0 || l.queue.InMemory() > 0 {
			b.Fatal("not every job was settled")
		}
	}
}

func BenchmarkAnotherRowInAFullQueue(b *testing.B) {
	const limit = 50_000
	q := newQueue(limit, &find.Reads{})
	id := uint64(0)
	for range limit / 2 {
		id++
		q.offer(fresh(id))
	}
	b.ReportAllocs()
	for b.Loop() {
		id++
		q.offer(fresh(id))
		q.forget(q.picked(0, 1)...)
	}
}

func BenchmarkADelayedRowInAFullQueue(b *testing.B) {
	const limit = 50_000
	q := newQueue(limit, &find.Reads{})
	id := uint64(0)
	for range limit / 2 {
		id++
		q.offer(timed(id, int64(id%1000)+1))
	}
	b.ReportAllocs()
	for b.Loop() {
		id++
		q.offer(timed(id, int64(id%1000)+1))
		q.forget(q.picked(1e12, 1)...)
	}
}
