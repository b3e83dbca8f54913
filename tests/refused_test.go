package tests

import (
	"context"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// every is a schedule with a time in each span.
type every time.Duration

func (e every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// A database that is down mostly refuses at once. Whoever waited for nothing but the answer would try thousands of times a second.
func TestADatabaseThatRefusesAtOnceIsAskedSeldom(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const most, span, plenty = 15, 5 * time.Second, 1 << 30
		var ran runs
		handle := func(ctx context.Context, job *queue_job.Job) error {
			sleep(ctx, 20*time.Millisecond)
			return ran.handler(ctx, job)
		}
		features := map[string]func(*queue_job.Config){
			"plain":    func(*queue_job.Config) {},
			"dormant":  func(cfg *queue_job.Config) { cfg.DormantAfter = time.Second },
			"shards":   func(cfg *queue_job.Config) { cfg.Shards = 2 },
			"keys":     func(cfg *queue_job.Config) { cfg.MaxPerKey = 1 },
			"ordered":  func(cfg *queue_job.Config) { cfg.OrderedByKey = true },
			"schedule": func(cfg *queue_job.Config) { cfg.Schedule = every(time.Second) },
			"rate":     func(cfg *queue_job.Config) { cfg.RatePerSecond = 100 },
			"batches": func(cfg *queue_job.Config) {
				cfg.HandleJobFunc, cfg.BatchSize = nil, 5
				cfg.HandleBatchFunc = func(ctx context.Context, jobs []*queue_job.Job) error { return handle(ctx, jobs[0]) }
			},
			"unloaded": func(cfg *queue_job.Config) { cfg.QueueMaxSize = 2 },
		}
		w := newWire(t, d)
		var configs []queue_job.Config
		for _, set := range features {
			cfg := queue_job.Config{JobType: int32(len(configs) + 1), WorkerPoolCapacity: 2, HandleJobFunc: handle}
			set(&cfg)
			configs = append(configs, cfg)
		}
		options := []persistent_queue.Option{
			persistent_queue.WithMaxWorkers(10), persistent_queue.WithRetention(queue_job.Retention{Done: time.Hour}),
		}
		r := newRunnerWith(t, options, w, configs...)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, cfg := range configs {
			addType(t, d.DB, cfg.JobType, 500, 0)
		}
		await(t, func() string { return "nothing runs" }, func() bool { return len(ran.all()) > 100 })
		w.refuse("", plenty)
		sleep(t.Context(), span) // what could be done without the database is done
		before := w.willRefuse("")
		sleep(t.Context(), span)
		each := float64(before-w.willRefuse("")) / span.Seconds() / float64(len(configs))
		w.refuse("", 0)
		t.Logf("%.1f statements a second for each of %d types", each, len(configs))
		if each > most {
			t.Errorf("%.0f statements a second were refused for each type, want at most %d", each, most)
		}
		stop(t, r)
	})
}
