package tests

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAHighJobOvertakesABacklogThatDoesNotFitTheMemory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		overtake(t, d, 20_000, func(r *queue_job.Config) { r.QueueMaxSize, r.LoadLimit = 200, 100 })
	})
}

// A million rows keep the servers busy for minutes: PQ_TEST_BACKLOG=1000000 is for runs of this test alone.
func TestAHighJobOvertakesAMillion(t *testing.T) {
	t.Parallel()
	backlog, err := strconv.Atoi(os.Getenv("PQ_TEST_BACKLOG"))
	if err != nil {
		t.Skip("left out: it disturbs others; set PQ_TEST_BACKLOG=1000000 and run it alone")
	}
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		overtake(t, d, backlog, func(*queue_job.Config) {})
	})
}

// An UPDATE along the due index would lock rows whose priority is as it should be, and deadlock with whoever settles them. A row that is
// locked and has a priority that is none is left alone: the sweep of all types would wait for it.
func TestLookingForPrioritiesThatAreNoneWaitsForNobody(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		addRows(t, d.DB, 5, func(i int) row { return row{priority: 9 * (i % 2)} })
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, id := range []int{1, 3, 4} { // one by one: for a list, a server may lock all rows of a small table
			if _, err := tx.Exec(fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", id)); err != nil {
				t.Fatal(err)
			}
		}
		// The transaction stays open: who waits for it waits for InnoDB's 50 s, or for ever.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := st.ClampPriorities(ctx, []int32{1}); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT priority FROM async_job_tab WHERE id = 2"); n != 2 {
			t.Errorf("priority %d", n)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := st.ClampPriorities(ctx, []int32{1}); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT priority FROM async_job_tab WHERE id = 4"); n != 2 {
			t.Errorf("priority %d when the lock is gone", n)
		}
	})
}

// overtake adds a backlog, and then high jobs: at once, in a moment, and by hand with a priority that is none.
func overtake(t *testing.T, d dbtest.Database, backlog int, change func(*queue_job.Config)) {
	migrate(t, d)
	addRows(t, d.DB, 10_000, func(i int) row { return row{priority: -(i % 2)} }) // low ones and normal ones
	for n := 10_000; n < backlog; n *= 2 {
		execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority) SELECT params, job_type, job_status, start_time, create_time, update_time, priority FROM async_job_tab ORDER BY id LIMIT %d", min(n, backlog-n)))
	}
	started := make(chan run, 100)
	cfg := queue_job.Config{WorkerPoolCapacity: 5, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		if job.Id > uint64(backlog) {
			started <- run{id: job.Id, started: time.Now()}
		}
		time.Sleep(10 * time.Millisecond)
		return nil
	}}
	change(&cfg)
	start(t, d.DB, cfg)
	await(t, func() string { return "nothing runs" }, func() bool {
		return number(t, d.DB, "SELECT COUNT(*) FROM (SELECT 1 FROM async_job_tab WHERE job_status = 1 LIMIT 60) AS few") == 60
	})
	for _, high := range []struct {
		priority int
		in       int64 // seconds; 0: at once
	}{{1, 0}, {2, 0}, {100, 0}, {1, 2}, {1, 4}} {
		bestOfThree(t, func() error {
			added := row{priority: high.priority}
			due := time.Now() // it may start before the INSERT has returned
			if high.in > 0 {
				added.at = due.Unix() + high.in
				due = time.Unix(added.at, 0)
			}
			addRows(t, d.DB, 1, func(int) row { return added })
			select {
			case r := <-started:
				late := r.started.Sub(due)
				t.Logf("a job of priority %d started %v after it was due", high.priority, late)
				if late < -20*time.Millisecond {
					t.Errorf("a job of priority %d started %v before it was due", high.priority, -late)
				}
				if late > time.Second*slack {
					return fmt.Errorf("a job of priority %d started %v after it was due", high.priority, late)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("a job of priority %d did not start", high.priority)
			}
			return nil
		})
	}
	if left := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0"); left < int64(backlog)/2 {
		t.Errorf("only %d of the backlog are left: this proves nothing", left)
	}
}

func TestLowJobsAreNotStarvedBehindManyHighOnes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const lows, highs = 50, 2000
		addRows(t, d.DB, lows, func(int) row { return row{priority: -1} })
		addRows(t, d.DB, highs, func(int) row { return row{priority: 1} })
		var low, high atomic.Int64
		// Neither level fits in memory beside all of the other, and what fits is work for three seconds: the high ones are
		// still there when a page comes late.
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 2, QueueMaxSize: 600, LoadLimit: 100, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Id <= lows {
				low.Add(1)
			} else {
				high.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}})
		var beside int64
		await(t, func() string {
			return fmt.Sprintf("%d of %d low jobs ran beside %d high ones", low.Load(), lows, high.Load())
		}, func() bool {
			beside = high.Load()
			return low.Load() == lows
		})
		t.Logf("%d high jobs beside %d low ones", beside, lows)
		switch {
		case beside < 5*lows:
			t.Errorf("%d high jobs beside %d low ones: priorities do not count", beside, lows)
		case beside == highs:
			t.Errorf("all %d high jobs ran first: low ones starve while more of them come", highs)
		}
	})
}

func TestRowsWithAPriorityThatIsNoneRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		odd := func(int) row { return row{priority: -100} }
		addRows(t, d.DB, 5, odd)
		start(t, d.DB, queue_job.Config{HandleJobFunc: new(runs).handler})
		awaitNumber(t, d.DB, 5, succeeded)
		addRows(t, d.DB, 5, odd)
		addRows(t, d.DB, 5, func(int) row { return row{priority: 99, at: time.Now().Unix() + 5} }) // beyond the tail's horizon
		awaitNumber(t, d.DB, 15, succeeded)
	})
}
