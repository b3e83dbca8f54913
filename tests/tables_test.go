package tests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Tenants have the same types, and a job 1 each. What is said of one must not be taken for the other's.
func TestWhatIsSaidOfARunnersJobsTellsItsTablesApart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		m := metrics.New()
		var log lines
		var mu sync.Mutex
		told := map[string]uint64{}
		fail := func(ctx context.Context, job *queue_job.Job) error {
			slog.New(logger.Handler(slog.NewTextHandler(&log, nil))).InfoContext(ctx, "runs", "in", job.Tables)
			return queue_job.Fail(errors.New("no luck"))
		}
		options := []persistent_queue.Option{m.Option(), persistent_queue.WithOnDead(func(_ context.Context, dead []queue_job.Settled) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range dead {
				told[s.Job.Tables] += s.Job.Id
			}
		})}
		// The second handle is another database, as far as a Runner can tell; so is each handle of a pool of their own.
		second := dbtest.Open(t, d.Driver, d.DSN)
		jobs := map[string]int{"a_": 1, "b_": 2} // by prefix, how many there are
		for prefix, n := range jobs {
			if err := schema.Migrate(t.Context(), d.DB, schema.WithTablePrefix(prefix)); err != nil {
				t.Fatal(err)
			}
			for range n {
				execute(t, d.DB, "INSERT INTO "+prefix+"async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 0, 0, 0, 0)")
			}
		}
		r, err := persistent_queue.New([]queue_job.Config{
			{ServiceName: "work", JobType: 1, Db: d.DB, TablePrefix: "a_", FirstPullDay: -1, HandleJobFunc: fail},
			{ServiceName: "work", JobType: 1, Db: d.DB, TablePrefix: "b_", FirstPullDay: -1, HandleJobFunc: fail},
			{ServiceName: "work", JobType: 2, Db: second, TablePrefix: "a_", HandleJobFunc: fail},
		}, log.log(), options...)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{
			"runs_total{1 failed a_ work}": 1, "runs_total{1 failed b_ work}": 2, "leases_held{1 a_ work}": 1, "leases_held{1 b_ work}": 1, "leases_held{2 a_#2 work}": 1,
			"lease_changes_total{taken 1 a_ work}": 1, "lease_changes_total{taken 1 b_ work}": 1, "lease_changes_total{taken 2 a_#2 work}": 1, "run_duration_seconds{1 b_ work}": 2,
		}
		var got map[string]float64
		await(t, func() string { return fmt.Sprint(got) }, func() bool {
			got = scrape(t, m)
			return !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool { return got[name] != want[name] })
		})
		var tables []string
		for _, state := range r.Types() {
			tables = append(tables, fmt.Sprint(state.Tables, " ", state.JobType))
		}
		if !slices.Equal(tables, []string{"a_ 1", "b_ 1", "a_#2 2"}) {
			t.Errorf("the types are in %q", tables)
		}
		stop(t, r)
		if want := map[string]uint64{"a_": 1, "b_": 1 + 2}; !maps.Equal(told, want) {
			t.Errorf("OnDead was told of jobs whose ids add up to %v, want %v", told, want)
		}
		text := log.String()
		for _, part := range []string{"lease job-1 taken", "msg=runs", "job failed: no luck"} {
			for line := range strings.Lines(text) {
				if strings.Contains(line, part) && strings.Count(line, "tables=a_")+strings.Count(line, "tables=b_") != 1 {
					t.Errorf("the log does not say in which tables, once: %s", line)
				}
			}
			if !strings.Contains(text, part) {
				t.Errorf("the log never says %q", part)
			}
		}
	})
}

// Two Runners of a program may have the same metrics. A page that has a series twice is an error as a whole, for all metrics of the process.
func TestMetricsOfTwoRunnersNeverFailAPage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		m := metrics.New()
		migrate(t, d)
		for range 2 {
			startWith(t, []persistent_queue.Option{m.Option()}, dbtest.Open(t, d.Driver, d.DSN), queue_job.Config{ServiceName: "work", JobType: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		}
		add(t, d.DB, 3, 0)
		await(t, func() string { return fmt.Sprint(scrape(t, m)) }, func() bool {
			got := scrape(t, m)
			return got["runs_total{1 success work}"] == 3 && got["leases_held{1 work}"] == 1 && got["shards{1 work}"] == 1
		})
	})
}

func TestTheLogOfOneSetOfTablesDoesNotSayWhich(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var log lines
		r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "work", JobType: 1, Db: d.DB, TablePrefix: "a_", HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
			return queue_job.Fail(errors.New("no luck"))
		}}}, log.log())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, "INSERT INTO a_async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 0, 0, 0, 0)")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM a_async_job_tab WHERE job_status = 2")
		stop(t, r)
		if text := log.String(); strings.Contains(text, "tables=") || !strings.Contains(text, "no luck") {
			t.Errorf("the log says\n%s", text)
		}
	})
}
