package tests

import (
	"context"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A row of each table is about one type, or about what was, or about nobody's jobs. So a transaction that locks such rows, and stays open,
// holds up no other type, neither here nor on an instance that starts meanwhile.
func TestLockedRowsOfAnyTableHoldUpNoOtherType(t *testing.T) {
	t.Parallel()
	locks := []struct{ table, where string }{
		{"async_job_type_tab", " WHERE job_type IN (2, 4)"}, // first: the other instance divides type 4
		{"shedlock_tab", " WHERE lock_name IN ('job-2', 'job-2/1')"},
		{"async_job_tab", " WHERE job_type = 2"},
		{"async_job_log_tab", ""},
		{"async_job_now_tab", ""},
		{"async_job_stat_tab", ""},
		{"async_job_lease_log_tab", ""},
		{"async_job_act_tab", ""},
		{"async_job_schedule_tab", ""},
	}
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB cannot leave out locked rows, so its statements wait")
		}
		const bound, startBound = 3 * time.Second, 5 * time.Second        // before, it was as long as the lock
		moment := unlessShort(500*time.Millisecond, 250*time.Millisecond) // instances look at leases twice a second, and beat each second
		var ran runs
		pulse := feelPulse(t, d)
		config := func(jobType int32, set func(*queue_job.Config)) queue_job.Config {
			cfg := queue_job.Config{JobType: jobType, WorkerPoolCapacity: 10, HandleJobFunc: ran.handler}
			set(&cfg)
			return cfg
		}
		configs := func(shardsOf4 int) []queue_job.Config {
			return []queue_job.Config{
				config(1, func(*queue_job.Config) {}),
				config(2, func(cfg *queue_job.Config) { cfg.Shards = 2 }),
				config(3, func(cfg *queue_job.Config) { cfg.DormantAfter = time.Second }),
				config(4, func(cfg *queue_job.Config) { cfg.Shards = shardsOf4 }),
			}
		}
		start(t, d.DB, configs(0)...)
		late := func(jobType int32) time.Duration {
			addType(t, d.DB, jobType, 1, 0)
			added := time.Now()
			id := uint64(number(t, d.DB, "SELECT MAX(id) FROM async_job_tab"))
			await(t, func() string { return "it does not start" }, func() bool { return len(ran.of(id)) > 0 })
			return time.Since(added)
		}
		fresh := int32(10) // a type that nobody has run yet
		for _, lock := range locks {
			for jobType := int32(1); jobType <= 4; jobType++ {
				late(jobType)
			}
			locked := time.Now()
			tx, err := d.DB.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("SELECT * FROM " + lock.table + lock.where + " FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			worst := time.Duration(0)
			measure := func(span time.Duration) {
				for began := time.Now(); time.Since(began) < span; sleep(t.Context(), 20*time.Millisecond) {
					worst = max(worst, late(1))
				}
			}
			measure(moment)
			other := newRunner(t, d.DB, append(configs(2), config(fresh, func(*queue_job.Config) {}), config(fresh+1, func(cfg *queue_job.Config) { cfg.Shards = 2 }))...)
			began := time.Now()
			if err := other.Start(t.Context()); err != nil {
				t.Error(err)
			}
			starting := time.Since(began)
			plain, divided := late(fresh), late(fresh+1)
			measure(4 * moment)
			stop(t, other)
			measure(moment)
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
			fresh += 2
			t.Logf("%s: others start within %v; an instance starts in %v, new types in %v and %v", lock.table, worst.Round(time.Millisecond),
				starting.Round(time.Millisecond), plain.Round(time.Millisecond), divided.Round(time.Millisecond))
			most := pulse.allows(bound*slack, locked, time.Now())
			if max(worst, plain, divided) > most || starting > most+(startBound-bound)*slack {
				t.Errorf("rows of %s are locked: others start within %v, new types within %v and %v on an instance that starts in %v; want %v",
					lock.table, worst, plain, divided, starting, most)
			}
		}
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
	})
}
