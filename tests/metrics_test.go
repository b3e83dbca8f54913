package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
	"github.com/prometheus/client_golang/prometheus"

	persistent_queue "github.com/create-info/persistent-queue"
)

// scrape reads the metrics as Prometheus does. A histogram counts as its number of observations.
func scrape(t *testing.T, m prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetValue())
				}
			}
			name := strings.TrimPrefix(family.GetName(), "persistent_queue_") + "{" + strings.Join(labels, " ") + "}"
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// Type 7 has two workers and one slot for each key: of three jobs, two run, and one is parked.
func TestMetricsSayWhatRunsWhatWaitsAndWhatCameOfIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		m, goOn := metrics.New(), make(chan struct{})
		r := startWith(t, []persistent_queue.Option{m.Option()}, d.DB,
			queue_job.Config{ServiceName: "mail", JobType: 7, WorkerPoolCapacity: 2, MaxPerKey: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error {
				<-goOn
				return nil
			}},
			queue_job.Config{ServiceName: "export", JobType: 8, Shards: 2, HandleJobFunc: func(context.Context, *queue_job.Job) error { return queue_job.Fail(context.Canceled) }})
		become := func(want map[string]float64) {
			t.Helper()
			var wrong []string
			await(t, func() string { return strings.Join(wrong, "; ") }, func() bool {
				values := scrape(t, m)
				wrong = nil
				for name, n := range want {
					if got, ok := values[name]; !ok || got != n {
						wrong = append(wrong, fmt.Sprintf("%s is %v (%v), want %v", name, got, ok, n))
					}
				}
				slices.Sort(wrong)
				return len(wrong) == 0
			})
		}
		become(map[string]float64{"healthy{}": 1, "leases_held{7 mail}": 1, "shards{7 mail}": 1, "leases_held{8 export}": 2, "shards{8 export}": 2, "lease_changes_total{taken 7 mail}": 1,
			"workers_limit{7 mail}": 2, "workers_busy{7 mail}": 0, "memory_jobs{7 waiting mail}": 0, "overdue_seconds{7 mail}": 0, "paused{7 mail}": 0})

		jobs := open(t, d.DB)
		for _, key := range []string{"a", "a", "b"} {
			if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 7, Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		addType(t, d.DB, 8, 2, 0)
		become(map[string]float64{"workers_busy{7 mail}": 2, "memory_jobs{7 parked mail}": 1, "start_delay_seconds{7 mail}": 2, "runs_total{8 failed export}": 2, "run_duration_seconds{8 export}": 2})
		await(t, func() string { return fmt.Sprint(scrape(t, m)) }, func() bool { return scrape(t, m)["overdue_seconds{7 mail}"] >= 1 })

		if _, err := jobs.Pause(t.Context(), d.DB, 7); err != nil {
			t.Fatal(err)
		}
		become(map[string]float64{"paused{7 mail}": 1, "paused{8 export}": 0})
		if _, err := jobs.Resume(t.Context(), d.DB, 7); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		become(map[string]float64{"runs_total{7 success mail}": 3, "start_delay_seconds{7 mail}": 3, "overdue_seconds{7 mail}": 0, "memory_jobs{7 parked mail}": 0, "paused{7 mail}": 0})

		stop(t, r)
		if values := scrape(t, m); values["healthy{}"] != 0 || values["runs_total{7 success mail}"] != 3 {
			t.Errorf("after the stop: %v", values)
		}
	})
}

// So Prometheus may ask as often as it likes.
func TestAScrapeOf200TypesTakesFewMillisecondsAndNoStatement(t *testing.T) {
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const types, limit = 200, 5 * time.Millisecond
		migrate(t, d)
		m := metrics.New()
		var configs []queue_job.Config
		for jobType := range int32(types) {
			configs = append(configs, queue_job.Config{ServiceName: fmt.Sprintf("type %d", jobType), JobType: jobType + 1,
				HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		}
		startWith(t, []persistent_queue.Option{m.Option()}, d.DB, configs...)
		for jobType := range int32(types) {
			addType(t, d.DB, jobType+1, 1, 0)
		}
		awaitNumber(t, d.DB, types, succeeded)
		d.DB.SetMaxOpenConns(1)
		only, err := d.DB.Conn(t.Context()) // so a statement would wait
		if err != nil {
			t.Fatal(err)
		}
		defer only.Close()
		registry := prometheus.NewRegistry()
		registry.MustRegister(m)
		took := time.Hour
		for round := 0; round < 20 || slack == 1 && took > limit && round < 600; round++ { // a busy machine lengthens most of them
			began := time.Now()
			if _, err := registry.Gather(); err != nil {
				t.Fatal(err)
			}
			took = min(took, time.Since(began))
		}
		if values := scrape(t, m); len(values) != 1+5+16*types { // five are of lives
			t.Errorf("%d metrics of %d types that run", len(values), types)
		}
		// It only computes, which the race detector makes slower by more than it does what waits.
		if t.Logf("a scrape takes %v", took); took > limit && slack == 1 {
			t.Errorf("a scrape takes %v, want %v at most", took, limit)
		}
	})
}

func TestOpenAndStuckFlowsAreMetricsByKind(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		if values := scrape(t, metrics.NewFlows(jobs, d.DB)); len(values) != 0 {
			t.Error(values)
		}
		for i := range 5 {
			id := addFlow(t, jobs, d.DB, chainOf([]string{"order", "refund"}[i%2], fmt.Sprint(i)))
			if first := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "a").JobId; i < 3 {
				execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = %d WHERE id = %d", []int{2, 5, 1}[i], first))
			}
		}
		id := addFlow(t, jobs, d.DB, chainOf("order", "cancelled"))
		if _, err := jobs.CancelFlow(t.Context(), d.DB, id); err != nil {
			t.Fatal(err)
		}
		f := metrics.NewFlows(jobs, d.DB)
		if _, err := jobs.UndoFlow(t.Context(), d.DB, addFlow(t, jobs, d.DB, chainOf("refund", "undone"))); err != nil {
			t.Fatal(err)
		}
		want := "map[flows{order moving}:2 flows{order stuck}:1 flows{order undoing}:0 flows{refund moving}:1 flows{refund stuck}:1 flows{refund undoing}:1]"
		if values := scrape(t, f); fmt.Sprint(values) != want {
			t.Errorf("%v, want %s", values, want)
		}
		execute(t, d.DB, "DROP TABLE async_job_node_tab")
		if values := scrape(t, f); fmt.Sprint(values) != want { // nothing is asked again so soon
			t.Error(values)
		}
		if values := scrape(t, metrics.NewFlows(jobs, d.DB)); len(values) != 0 {
			t.Error(values)
		}
	})
}
