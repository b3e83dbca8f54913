package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// How soon things happen is measured beside other queues by tests/bench, on the databases that it knows. TiDB is none of
// them.

func TestOnTiDBJobsOfABurstStartWithin30Milliseconds(t *testing.T) {
	dbtest.TiDB(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		const jobs = 3500
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		all := 0
		bestOfThree(t, func() error {
			due := time.Now().Add(8 * time.Second).Truncate(time.Second)
			add(t, d.DB, jobs, uint32(due.Unix()))
			time.Sleep(time.Until(due.Add(time.Second))) // a look at the table would be in the way
			all += jobs
			awaitNumber(t, d.DB, int64(all), succeeded)
			var late []time.Duration
			for _, run := range ran.all()[all-jobs:] {
				if run.started.Before(due) {
					t.Fatalf("job %d started %v early", run.id, due.Sub(run.started))
				}
				late = append(late, run.started.Sub(due))
			}
			if len(ran.all()) != all {
				t.Fatalf("%d runs of %d jobs", len(ran.all()), all)
			}
			p99 := percentile(late, 99)
			t.Logf("%d jobs due in one second; late by: p50 %v, p99 %v, most %v", jobs, percentile(late, 50), p99, percentile(late, 100))
			if p99 > 30*time.Millisecond*slack {
				return fmt.Errorf("99 of 100 started within %v, want 30 ms", p99)
			}
			return nil
		})
	})
}

func TestOnTiDBHalfOfAHundredJobsASecondStartWithin15MillisecondsOfTheirINSERT(t *testing.T) {
	dbtest.TiDB(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		const jobs, pace = 1000, 10 * time.Millisecond
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1' AND term > 0")
		all := 0
		bestOfThree(t, func() error {
			began := make(map[uint64]time.Time, jobs)
			first := time.Now()
			for i := range jobs {
				time.Sleep(time.Until(first.Add(time.Duration(i) * pace)))
				now := time.Now()
				id, err := execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, create_time, update_time) VALUES ('{}', 1, %d, %[1]d)", now.Unix())).LastInsertId()
				if err != nil {
					t.Fatal(err)
				}
				began[uint64(id)] = now
			}
			all += jobs
			await(t, func() string { return fmt.Sprintf("%d of %d jobs have started", len(ran.all()), all) }, func() bool { return len(ran.all()) == all })
			var waits []time.Duration
			for _, run := range ran.all()[all-jobs:] {
				waits = append(waits, run.started.Sub(began[run.id]))
			}
			p50 := percentile(waits, 50)
			t.Logf("%d jobs, %v apart, started after their INSERT began: p50 %v, p99 %v, most %v", jobs, pace, p50, percentile(waits, 99), percentile(waits, 100))
			if p50 > 15*time.Millisecond*slack {
				return fmt.Errorf("half of the jobs started within %v, want 15 ms", p50)
			}
			return nil
		})
	})
}

// Each server of a cluster would take ids from a block of its own, and the tail follows the ids.
func TestOnTiDBIDsDoNotComeInBlocks(t *testing.T) {
	t.Parallel()
	dbtest.TiDB(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		var name, ddl string
		if err := d.DB.QueryRow("SHOW CREATE TABLE async_job_tab").Scan(&name, &ddl); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(ddl, "AUTO_ID_CACHE=1 ") {
			t.Errorf("the table takes ids in blocks: %s", ddl)
		}
	})
}
