package tests

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestJobsDueInOneSecondStartOnTimeAndNoneEarly(t *testing.T) {
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const jobs = 1000
		bestOfThree(t, func() error {
			var ran runs
			due := time.Now().Add(2 * time.Second).Truncate(time.Second)
			add(t, d.DB, jobs/2, uint32(due.Unix()))
			r := start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
			add(t, d.DB, jobs/2, uint32(due.Unix()))
			awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
			stop(t, r)
			var late []time.Duration
			for _, run := range ran.all() {
				if run.started.Before(due) {
					t.Fatalf("job %d started %v early", run.id, due.Sub(run.started))
				}
				late = append(late, run.started.Sub(due))
			}
			p99 := percentile(late, 99)
			t.Logf("late by: p50 %v, p99 %v, most %v", percentile(late, 50), p99, percentile(late, 100))
			if p99 > 100*time.Millisecond*slack {
				return fmt.Errorf("99 of 100 started within %v, want 100 ms", p99)
			}
			return nil
		})
	})
}

func TestJobsDueNextWeekCostNothingToday(t *testing.T) {
	long(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{QueueMaxSize: 1000, HandleJobFunc: ran.handler})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		before := heap()
		nextWeek := uint32(time.Now().Add(7 * 24 * time.Hour).Unix())
		add(t, d.DB, 60_000, nextWeek)
		fresh := int64(1)
		bestOfThree(t, func() error {
			fresh++
			began := time.Now()
			add(t, d.DB, 1, 0)
			awaitNumber(t, d.DB, fresh, succeeded)
			took := time.Since(began)
			t.Logf("beside 60,000 rows due next week, a fresh job took %v", took)
			if took > 500*time.Millisecond*slack {
				return fmt.Errorf("the fresh job took %v", took)
			}
			return nil
		})
		grown := int64(heap()) - int64(before)
		t.Logf("the heap grew by %d kB", grown>>10)
		if grown > 1<<20 {
			t.Errorf("the heap grew by %d kB", grown>>10)
		}
		if n := int64(len(ran.all())); n != fresh {
			t.Errorf("%d runs, want %d", n, fresh)
		}
	})
}

// heap is how much is in use: the least of three readings, for each counts what became garbage since its collection.
func heap() uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
	}
	return least
}

func TestALateCommitRunsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) { // SQLite has one writer at a time: nothing commits late
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		for _, late := range []time.Duration{20 * time.Millisecond, heldOpen()} { // within the tail's memory, and beyond it
			bestOfThree(t, func() error {
				tx, err := d.DB.Begin()
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				id, err := open(t, d.DB).Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1})
				if err != nil {
					t.Fatal(err)
				}
				add(t, d.DB, 100, 0) // later rows, which run meanwhile
				awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0")
				<-time.After(late)
				committed := time.Now()
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				await(t, func() string { return fmt.Sprintf("the job committed %v late has not run", late) }, func() bool { return len(ran.of(id)) == 1 })
				took := ran.of(id)[0].started.Sub(committed)
				t.Logf("open for %v: ran %v after the commit", late, took)
				if took > 2*time.Second*slack {
					return fmt.Errorf("the job committed %v late ran %v after the commit", late, took)
				}
				return nil
			})
		}
	})
}

// heldOpen is how long the transaction stays open; PQ_TEST_LATE sets another length, such as 30s.
func heldOpen() time.Duration {
	if open, err := time.ParseDuration(os.Getenv("PQ_TEST_LATE")); err == nil {
		return open
	}
	return 5 * time.Second
}

func TestIDsMayJump(t *testing.T) {
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 3, 0)
		awaitNumber(t, d.DB, 3, succeeded)
		before := heap()
		execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time) VALUES (1099511627776, '{}', 1, 0, 0, 1900000000, 1)")
		dbtest.ContinueIDs(t, d)
		add(t, d.DB, 3, 0)
		awaitNumber(t, d.DB, 7, succeeded)
		if grown := int64(heap()) - int64(before); grown > 4<<20 {
			t.Errorf("the heap grew by %d kB", grown>>10)
		}
	})
}

func TestIDsMayBeginAnew(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 50, 0)
		awaitNumber(t, d.DB, 50, succeeded)
		anew := map[string][]string{
			"mysql":  {"TRUNCATE TABLE async_job_tab"},
			"pgx":    {"TRUNCATE TABLE async_job_tab RESTART IDENTITY"},
			"sqlite": {"DELETE FROM async_job_tab", "DELETE FROM sqlite_sequence"},
		}
		for _, statement := range anew[d.Driver] {
			execute(t, d.DB, statement)
		}
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 10, succeeded)
	})
}

func TestAfterInitWorkThatIsAWeekOldIsLeftAloneAndAfterNewItRuns(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		ago := func(days float64) int64 { return time.Now().Add(-time.Duration(days * float64(24*time.Hour))).Unix() }
		row := func(status string, start, created int64) string {
			return fmt.Sprintf("('{}', 1, %s, %d, %d, %d)", status, start, created, created)
		}
		soon := time.Now().Unix() + 3
		rows := []string{
			// Too old: due when created, due at a time, a retry, and with a NULL status.
			row("0", 0, ago(8)), row("0", ago(7.5), ago(300)), row("4", ago(9), ago(9)), row("NULL", 0, ago(30)),
			// To run: young ones, and an old row that is due in the future.
			row("0", 0, ago(6)), row("0", ago(6.5), ago(300)), row("4", ago(1), ago(9)), row("NULL", 0, ago(0)), row("0", soon, ago(300)),
		}
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES "+strings.Join(rows, ", "))
		var log lines
		r := persistent_queue.Init([]queue_job.Config{{ServiceName: "test", JobType: 1, Db: d.DB, HandleJobFunc: (&runs{}).handler}}, log.log())
		defer stop(t, r)
		awaitNumber(t, d.DB, 5, succeeded)
		<-time.After(1500 * time.Millisecond) // a sweep later, the rest is still left alone
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id <= 4 AND attempts = 0 AND (job_status <> 1 OR job_status IS NULL)"); n != 4 {
			t.Errorf("%d of 4 old rows were left alone", n)
		}
		if !strings.Contains(log.String(), "4 jobs left alone") {
			t.Errorf("no warning counts the 4 jobs:\n%s", log.String())
		}
		stop(t, r)

		start(t, d.DB, queue_job.Config{HandleJobFunc: (&runs{}).handler})
		awaitNumber(t, d.DB, 9, succeeded)
	})
}

func TestABacklogBeyondQueueMaxSizeWaitsInTheTable(t *testing.T) {
	long(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const jobs = 20_000 / slack
		addBig(t, d, jobs)
		before := heap()
		var most uint64
		r := start(t, d.DB, queue_job.Config{QueueMaxSize: 200, LoadLimit: 100, WorkerPoolCapacity: 10,
			HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		await(t, func() string { return "the backlog has not run" }, func() bool {
			most = max(most, heap())
			<-time.After(50 * time.Millisecond)
			return number(t, d.DB, succeeded) == jobs
		})
		stop(t, r)
		// 200 rows of 4 kB each are waiting at most, and some more are on their way.
		if grown := int64(most) - int64(before); grown > 16<<20 {
			t.Errorf("the heap grew by %d kB", grown>>10)
		} else {
			t.Logf("the heap grew by %d kB", grown>>10)
		}
	})
}

// addBig adds jobs with parameters of 4,000 characters.
func addBig(t *testing.T, d dbtest.Database, n int) {
	t.Helper()
	row := "('" + strings.Repeat("x", 4000) + "', 1, 0, 0, 2000000000, 0)"
	for ; n > 0; n -= 500 {
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES "+
			strings.Repeat(row+", ", 499)+row)
	}
}

func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)-1)*p/100]
}
