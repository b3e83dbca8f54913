package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestEveryJobRunsOnceAndSucceeds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		add(t, d.DB, 500, 0) // before the start
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 500, 0) // after it
		awaitNumber(t, d.DB, 1000, succeeded)
		if n := len(ran.all()); n != 1000 {
			t.Errorf("%d runs of 1000 jobs", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR retries <> 0 OR lost <> 0"); n != 0 {
			t.Errorf("%d rows do not say one attempt, no retry, none lost", n)
		}
	})
}

func TestOneRunnerServesOneJobTypeInSeveralSetsOfTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		prefixes := []string{"", "east_", "west_"}
		ran := make([]runs, len(prefixes))
		var configs []queue_job.Config
		for i, prefix := range prefixes {
			configs = append(configs, queue_job.Config{TablePrefix: prefix, HandleJobFunc: ran[i].handler})
		}
		r := start(t, d.DB, configs...)
		jobs := make([]*queue_job.Jobs, len(prefixes))
		for i, prefix := range prefixes {
			var err error
			if jobs[i], err = queue_job.Open(d.DB, queue_job.WithTablePrefix(prefix)); err != nil {
				t.Fatal(err)
			}
			for range 10 * (i + 1) {
				if _, err := jobs[i].Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, prefix := range prefixes {
			awaitNumber(t, d.DB, int64(10*(i+1)), "SELECT COUNT(*) FROM "+prefix+"async_job_tab WHERE job_status = 1 AND attempts = 1")
			if n := len(ran[i].all()); n != 10*(i+1) {
				t.Errorf("%q: %d runs of %d jobs", prefix, n, 10*(i+1))
			}
		}
		stop(t, r)
		for _, prefix := range prefixes {
			if n := number(t, d.DB, "SELECT COUNT(*) FROM "+prefix+"shedlock_tab WHERE lock_name LIKE 'job-%' AND term > 0"); n != 1 {
				t.Errorf("%q: %d leases were taken, want 1", prefix, n)
			}
		}
	})
}

func TestAFailingJobIsRetriedAfterWaitTimeUntilMaxRetries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const wait = 300 * time.Millisecond
		var ran runs
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 2, WaitTime: wait, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			return fmt.Errorf("no luck %d", job.Retries)
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = 3 AND retries = 2")
		list := ran.all()
		if len(list) != 3 {
			t.Fatalf("%d runs, want 3", len(list))
		}
		for i, run := range list {
			if run.job.Retries != i || run.job.Attempt != i+1 || run.job.Status != queue_job.JobStatusInit {
				t.Errorf("run %d: retries %d, attempt %d, status %v", i, run.job.Retries, run.job.Attempt, run.job.Status)
			}
			if i > 0 && run.started.Sub(list[i-1].started) < wait {
				t.Errorf("run %d started %v after the one before, sooner than %v", i, run.started.Sub(list[i-1].started), wait)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 1 AND (attempt < 3 AND outcome = 'retry' OR attempt = 3 AND outcome = 'failed') AND error LIKE 'no luck%' AND started > 0 AND finished >= started"); n != 3 {
			t.Errorf("%d of 3 attempts are in the log", n)
		}
	})
}

func TestRetriesAreCountedInTheTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		cfg := queue_job.Config{NeedRetry: true, MaxRetries: 3, WaitTime: time.Hour, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			return errors.New("no")
		}}
		add(t, d.DB, 1, 0)
		for i := 1; i <= 4; i++ { // a new process for every attempt
			r := start(t, d.DB, cfg)
			awaitNumber(t, d.DB, int64(i), "SELECT COALESCE(MAX(attempts), 0) FROM async_job_tab WHERE term = 0 OR job_status = 2")
			stop(t, r)
			execute(t, d.DB, "UPDATE async_job_tab SET start_time = ?", time.Now().Unix()) // the hour has passed
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND retries = 3"); n != 1 || len(ran.all()) != 4 {
			t.Errorf("failed rows with 3 retries: %d, runs: %d; want 1 and 4", n, len(ran.all()))
		}
	})
}

func TestContinueRunsAgainAndIsNoRetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		start(t, d.DB, queue_job.Config{WaitTime: 50 * time.Millisecond, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Retries != 0 {
				return fmt.Errorf("retries is %d", job.Retries)
			}
			if job.Attempt < 5 {
				job.Status = queue_job.JobStatusContinue
			}
			return nil
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND attempts = 5 AND retries = 0")
	})
}

func TestTheHandlersStatusWinsOverItsError(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		type outcome struct {
			set  queue_job.JobStatus
			err  error
			want queue_job.JobStatus
		}
		no := errors.New("no")
		outcomes := []outcome{
			{queue_job.JobStatusInit, nil, queue_job.JobStatusSuccess},
			{queue_job.JobStatusInit, no, queue_job.JobStatusFailed}, // Retry, but NeedRetry is false
			{queue_job.JobStatusSuccess, no, queue_job.JobStatusSuccess},
			{queue_job.JobStatusFailed, nil, queue_job.JobStatusFailed},
			{queue_job.JobStatusRetry, nil, queue_job.JobStatusFailed},
			{queue_job.JobStatusCancelled, nil, queue_job.JobStatusCancelled},
			{77, nil, queue_job.JobStatusFailed},
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			o := outcomes[job.Id-1]
			job.Status = o.set
			return o.err
		}})
		add(t, d.DB, len(outcomes), 0)
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0")
		for i, o := range outcomes {
			if got := number(t, d.DB, fmt.Sprintf("SELECT job_status FROM async_job_tab WHERE id = %d", i+1)); queue_job.JobStatus(got) != o.want {
				t.Errorf("status set %v, error %v: written %v, want %v", o.set, o.err, queue_job.JobStatus(got), o.want)
			}
		}
	})
}

func TestPanicsAndGoexitCostNoSlot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 3, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			switch job.Id % 3 {
			case 0:
				panic("boom")
			case 1:
				runtime.Goexit()
			}
			return nil
		}})
		add(t, d.DB, 300, 0)
		awaitNumber(t, d.DB, 100, succeeded)
		awaitNumber(t, d.DB, 200, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE 'panic: boom%'"); n != 100 {
			t.Errorf("%d of 100 panics are in the log", n)
		}
	})
}

// deepError has a cause that panics if it is asked for, as those with a nil pointer inside do.
type deepError struct{ cause *deepError }

func (deepError) Error() string   { return "deep" }
func (e deepError) Unwrap() error { return *e.cause }

func TestAnErrorThatPanicsWhenItIsLookedAtCostsNoSlot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 2, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Id%2 == 0 {
				return deepError{}
			}
			return nil
		}})
		add(t, d.DB, 20, 0)
		awaitNumber(t, d.DB, 10, succeeded)
		awaitNumber(t, d.DB, 10, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE 'panic in the handler%'"); n != 10 {
			t.Errorf("%d of 10 panics are in the log", n)
		}
	})
}

func TestNoMoreThanWorkerPoolCapacityRunAtATime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var running, most atomic.Int64
		met := make(chan struct{})
		meet := sync.OnceFunc(func() { close(met) })
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 7, HandleJobFunc: func(context.Context, *queue_job.Job) error {
			now := running.Add(1)
			for {
				if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
					break
				}
			}
			if now == 7 {
				meet()
			}
			select { // the first ones wait for each other
			case <-met:
			case <-time.After(time.Minute):
			}
			time.Sleep(2 * time.Millisecond)
			running.Add(-1)
			return nil
		}})
		add(t, d.DB, 500, 0)
		awaitNumber(t, d.DB, 500, succeeded)
		if most.Load() != 7 {
			t.Errorf("%d ran at a time, want 7", most.Load())
		}
	})
}

func TestAHungHandlerHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		release := make(chan struct{})
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 2, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Id == 1 {
				<-release
			}
			return nil
		}})
		t.Cleanup(func() { close(release) })
		add(t, d.DB, 200, 0)
		awaitNumber(t, d.DB, 199, succeeded)
	})
}

func TestATypesBacklogDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		addType(t, d.DB, 1, 5000, 0)
		start(t, d.DB,
			queue_job.Config{JobType: 1, WorkerPoolCapacity: 1, QueueMaxSize: 100, LoadLimit: 50, HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
				return nil
			}},
			queue_job.Config{JobType: 2, HandleJobFunc: ran.handler})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM (SELECT 1 FROM async_job_tab WHERE job_status = 1 LIMIT 1) AS one")
		began := time.Now()
		addType(t, d.DB, 2, 100, 0)
		await(t, func() string { return "the other type's jobs have not run" }, func() bool { return len(ran.all()) == 100 })
		n := number(t, d.DB, succeeded+" AND job_type = 1")
		t.Logf("100 jobs of the other type ran within %v; of the backlog, %d of 5000 had run", time.Since(began), n)
		if n > 500 { // each takes 20 ms, one after the other
			t.Errorf("%d jobs of the backlog ran before 100 of the other type had", n)
		}
	})
}

func TestFreshDueAndRetriedJobsShareTheWorkers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 2, NeedRetry: true, MaxRetries: 1, QueueMaxSize: 100, LoadLimit: 100,
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				ran.note(job)
				time.Sleep(2 * time.Millisecond)
				if job.JobParams == `"retry"` && job.Retries == 0 {
					return errors.New("once more")
				}
				return nil
			}})
		add(t, d.DB, 4000, 0) // some four seconds of work
		for range 5 {
			if err := queue_job.AddAsyncJob(d.DB, queue_job.AddModelJob{JobType: 1, JobParams: "due", StartTime: uint32(time.Now().Unix())}); err != nil {
				t.Fatal(err)
			}
		}
		awaitNumber(t, d.DB, 5, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND params = '\"due\"'")
		before := 0 // runs before the last of them
		for i, run := range ran.all() {
			if run.job.JobParams == `"due"` {
				before = i
			}
		}
		if before > 3500 {
			t.Errorf("%d runs came before the last due job's: it waited for the fresh ones", before)
		}
	})
}

func TestBadRowsStopNobody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		const plain = "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES "
		execute(t, d.DB, plain+"('not JSON {', 1, NULL, NULL, 1, 1), ('{}', 1, 99, 0, 1, 1), ('{}', 1, -1, 0, 1, 1), ('{}', 4711, 0, 0, 1, 1), ('', 1, NULL, 0, 4294967295, 0), ('{}', 1, 4, NULL, 1, 1), ('{}', 1, 3, 0, 1, 1)")
		execute(t, d.DB, plain+"('{}', 1, 0, 4294967295, 1, 1)") // due in the year 2106
		start(t, d.DB, queue_job.Config{FirstPullDay: -1, HandleJobFunc: ran.handler})
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 14, succeeded)
		for _, status := range []int{99, -1} {
			if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_status = %d AND attempts = 0", status)); n != 1 {
				t.Errorf("the row of status %d was touched", status)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts = 0 AND (job_type = 4711 OR start_time = 4294967295)"); n != 2 {
			t.Errorf("%d of 2 rows that are not to run were left alone", n)
		}
	})
}
