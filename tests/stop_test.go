package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestStopDrainsUndoesAndHandsOverAtOnce(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const jobs = 3000
		config := func(ran *runs) queue_job.Config {
			return queue_job.Config{WorkerPoolCapacity: 5, LockSecond: 60, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				ran.note(job)
				time.Sleep(5 * time.Millisecond)
				return nil
			}}
		}
		elsewhere := dbtest.Open(t, d.Driver, d.DSN)
		bestOfThree(t, func() error {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			var first, second runs
			holder := start(t, d.DB, config(&first))
			add(t, d.DB, 1, 0)
			awaitRuns(t, &first, 1) // it has the lease
			term := number(t, d.DB, "SELECT term FROM shedlock_tab WHERE lock_name = 'job-1'")
			successor := start(t, elsewhere, config(&second)) // stands by
			add(t, d.DB, jobs-1, 0)
			awaitRuns(t, &first, 100)
			stop(t, holder)
			stopped := time.Now()
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND (term = ? OR term = 0 AND attempts <> 0)", term); n != 0 {
				t.Errorf("%d rows were left marked, or count a run that was not", n)
			}
			await(t, func() string { return "nobody took over" }, func() bool { return len(second.all()) > 0 })
			gap := second.all()[0].started.Sub(stopped)
			t.Logf("the successor started %v after Stop", gap)
			awaitNumber(t, d.DB, jobs, succeeded)
			stop(t, successor)
			if n := len(first.all()) + len(second.all()); n != jobs {
				t.Errorf("%d runs of %d jobs", n, jobs)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); n != 0 {
				t.Errorf("%d rows do not say one attempt, none lost", n)
			}
			if gap > time.Second*slack {
				return fmt.Errorf("the successor started %v after Stop", gap)
			}
			return nil
		})
	})
}

func TestStopCancelsHandlersWhenItsTimeIsUpAndTheirJobsRunAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		bestOfThree(t, func() error { // when its time is up, Stop waits for two seconds more
			execute(t, d.DB, "DELETE FROM async_job_tab")
			execute(t, d.DB, "DELETE FROM async_job_log_tab")
			began := make(chan struct{})
			r := start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
				close(began)
				<-ctx.Done()
				return context.Cause(ctx)
			}})
			add(t, d.DB, 1, 0)
			<-began
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := r.Stop(ctx); err != nil {
				return fmt.Errorf("the handler heeded its context, and Stop says %v", err)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 4 AND retries = 0 AND term = 0"); n != 1 {
				t.Error("the job does not wait to run again, uncounted")
			}
			var reason string
			if err := d.DB.QueryRow("SELECT error FROM async_job_log_tab").Scan(&reason); err != nil || !strings.Contains(reason, "stopped") {
				t.Errorf("logged reason %q, %v", reason, err)
			}
			return nil
		})
	})
}

// That of signal.NotifyContext is over when a main function comes to its deferred Stop.
func TestStopWithAContextThatIsOverLetsHandlersEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancelLate()
		for what, ctx := range map[string]context.Context{"cancelled": over, "past its deadline": late} {
			began := make(chan struct{})
			cut := make(chan error, 1)
			r := start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
				close(began)
				select {
				case <-ctx.Done():
					cut <- context.Cause(ctx)
				case <-time.After(500 * time.Millisecond):
					cut <- nil
				}
				return context.Cause(ctx)
			}})
			add(t, d.DB, 1, 0)
			<-began
			if err := r.Stop(ctx); err != nil {
				t.Errorf("%s: Stop says %v", what, err)
			}
			if err := <-cut; err != nil {
				t.Errorf("%s: the handler was cut short: %v", what, err)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1"); n != 0 {
				t.Errorf("%s: the job has not succeeded", what)
			}
		}
	})
}

func TestStopSaysWhoStillRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		began, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var log lines
		r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "test", JobType: 1, Db: d.DB, HandleJobFunc: func(context.Context, *queue_job.Job) error {
			close(began)
			<-release
			close(ended)
			return nil
		}}}, log.log())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = r.Stop(ctx)
		if text := log.String(); strings.Contains(text, "trying again") || strings.Contains(text, "context canceled") {
			t.Errorf("nothing has failed, and nothing is tried again; the log says\n%s", text)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 handler still runs") {
			t.Errorf("Stop says %v", err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND locked_by <> ''"); n != 1 {
			t.Errorf("%d leases", n)
		}
		close(release)
		<-ended
	})
}

func TestStopIsSafeTwiceAndBeforeStart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		r := newRunner(t, d.DB, queue_job.Config{HandleJobFunc: (&runs{}).handler})
		stop(t, r)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err == nil {
			t.Error("a second Start says nothing")
		}
		stop(t, r)
		stop(t, r)
		if err := r.Start(t.Context()); err != nil {
			t.Errorf("a stopped runner does not start again: %v", err)
		}
		stop(t, r)
	})
}

func TestAThousandStartsAndStopsLeaveNothingBehind(t *testing.T) {
	long(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		cycles := 1000
		if slack > 1 || d.Name == "MySQL" { // which takes long for each; what is left behind is the process's
			cycles = 20
		}
		var ran atomic.Int64
		d.DB.SetMaxOpenConns(8)
		cfg := queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { ran.Add(1); return nil }}
		r := newRunner(t, d.DB, cfg)
		cycle := func() {
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			add(t, d.DB, 1, 0)
			stop(t, r)
		}
		cycle()
		d.DB.SetMaxIdleConns(0) // idle connections have goroutines too
		goroutines := runtime.NumGoroutine()
		d.DB.SetMaxIdleConns(8)
		for range cycles {
			cycle()
		}
		d.DB.SetMaxIdleConns(0)
		await(t, func() string { return "goroutines are left behind" }, func() bool { return runtime.NumGoroutine() <= goroutines })
		if s := d.DB.Stats(); s.InUse != 0 || s.MaxOpenConnections != 8 {
			t.Errorf("%d connections in use, limit %d; want 0 and 8", s.InUse, s.MaxOpenConnections)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND (term <> 0 OR attempts <> 0) OR lost <> 0 OR attempts > 1"); n != 0 {
			t.Errorf("%d rows are marked or count a run that was not", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%'"); n != 1 {
			t.Errorf("%d leases, want 1", n)
		}
		t.Logf("%d of %d jobs ran in between", ran.Load(), cycles+1)
		start(t, d.DB, cfg)
		awaitNumber(t, d.DB, int64(cycles)+1, succeeded)
	})
}
