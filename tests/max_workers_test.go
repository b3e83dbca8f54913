package tests

import (
	"context"
	"sync"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// startLimited runs a Runner that runs at most so many handlers at a time.
func startLimited(t *testing.T, most int, d dbtest.Database, configs ...queue_job.Config) {
	t.Helper()
	startWith(t, []persistent_queue.Option{persistent_queue.WithMaxWorkers(most)}, d.DB, configs...)
}

// crowd counts the jobs that run at a time and, by type, that have run.
type crowd struct {
	mu      sync.Mutex
	running int
	most    int
	done    map[int32]int
}

func (c *crowd) enter(int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.most = max(c.most, c.running)
}

func (c *crowd) leave(jobType int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.done == nil {
		c.done = map[int32]int{}
	}
	c.done[jobType]++
}

func (c *crowd) count(jobType int32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[jobType]
}

// Two of the types have tables of their own, so that to the Runner they are on another database.
func TestAProcessRunsNoMoreHandlersThanItsLimitAndAllTypesHaveTheirTurns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const most, many, few = 3, 1500, 20
		var c crowd
		configs := typesOf(4, queue_job.Config{WorkerPoolCapacity: 10, LockSecond: 3, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			c.enter(job.JobType)
			defer c.leave(job.JobType)
			time.Sleep(3 * time.Millisecond)
			return nil
		}})
		configs[2].TablePrefix, configs[3].TablePrefix = "other_", "other_"
		startLimited(t, most, d, configs...)
		other, err := queue_job.Open(d.DB, queue_job.WithTablePrefix("other_"))
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"shedlock_tab", "other_shedlock_tab"} {
			awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM "+table+" WHERE lock_name LIKE 'job-%' AND term > 0")
		}
		addType(t, d.DB, 1, many, 0)
		await(t, func() string { return "the first type does not begin" }, func() bool { return c.count(1) > 0 })
		addType(t, d.DB, 2, few, 0)
		for jobType := range int32(2) {
			if _, err := other.AddMany(t.Context(), d.DB, jobsOfType(3+jobType, few)); err != nil {
				t.Fatal(err)
			}
		}
		await(t, func() string { return "the other types do not come to an end" }, func() bool { return c.count(2) == few && c.count(3) == few && c.count(4) == few })
		n := c.count(1)
		t.Logf("%d of %d jobs of the first type had run by then", n, many)
		if n > many/2 {
			t.Errorf("%d jobs of three types waited until %d of the first had run", 3*few, n)
		}
		await(t, func() string { return "the first type does not come to an end" }, func() bool { return c.count(1) == many })
		if n := c.atMost(); n != most {
			t.Errorf("%d handlers ran at a time, want %d", n, most)
		}
	})
}

func jobsOfType(jobType int32, n int) (jobs []queue_job.AddModelJob) {
	for range n {
		jobs = append(jobs, queue_job.AddModelJob{JobType: jobType})
	}
	return jobs
}

// A machine that stands still for a second costs marks, so no other test runs beside it.
func TestWhatMayNotRunYetIsNotMarked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const most = 2
		var c crowd
		end := make(chan struct{})
		startLimited(t, most, d, typesOf(3, queue_job.Config{WorkerPoolCapacity: 10, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			c.enter(job.JobType)
			defer c.leave(job.JobType)
			<-end
			return nil
		}})...)
		for jobType := range int32(3) {
			addType(t, d.DB, jobType+1, 10, 0)
		}
		const inFlight = "SELECT COUNT(*) FROM async_job_tab WHERE term <> 0"
		awaitNumber(t, d.DB, most, inFlight)
		time.Sleep(1500 * time.Millisecond) // sweeps come by
		if n := number(t, d.DB, inFlight); n != most {
			t.Errorf("%d jobs are marked, and %d may run", n, most)
		}
		close(end)
		awaitNumber(t, d.DB, 30, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE changes <> 0"); n > 0 {
			t.Errorf("%d jobs were marked too early", n)
		}
		if n := c.atMost(); n != most {
			t.Errorf("%d handlers ran at a time, want %d", n, most)
		}
	})
}
