package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestBatchesAreFilledAndNoLargerThanBatchSize(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const size, capacity, jobs = 7, 3, 700
		var running, mostCalls, full, calls atomic.Int64
		add(t, d.DB, jobs, 0)
		start(t, d.DB, queue_job.Config{BatchSize: size, BatchWait: time.Minute, WorkerPoolCapacity: capacity, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			for now := running.Add(1); ; {
				if old := mostCalls.Load(); now <= old || mostCalls.CompareAndSwap(old, now) {
					break
				}
			}
			defer running.Add(-1)
			calls.Add(1)
			if len(batch) > size {
				return fmt.Errorf("%d jobs", len(batch))
			}
			if len(batch) == size {
				full.Add(1)
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		}})
		awaitNumber(t, d.DB, jobs, succeeded)
		if mostCalls.Load() != capacity {
			t.Errorf("%d calls at a time, want %d", mostCalls.Load(), capacity)
		}
		if full.Load() != calls.Load() {
			t.Errorf("%d of %d batches were full", full.Load(), calls.Load())
		}
	})
}

func TestABatchWaitsNoLongerThanBatchWait(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const wait = 6 * time.Second // long: what happens in between may come some seconds late
		type call struct {
			at   time.Time
			jobs int
		}
		calls := make(chan call, 100)
		start(t, d.DB, queue_job.Config{BatchSize: 10, BatchWait: wait, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			calls <- call{time.Now(), len(batch)}
			return nil
		}})
		add(t, d.DB, 10, 0)
		if first := <-calls; first.jobs != 10 { // the line may not have been up
			t.Fatalf("a batch of %d", first.jobs)
		}
		began := time.Now()
		add(t, d.DB, 10, 0)
		if full := <-calls; full.jobs != 10 || full.at.Sub(began) > wait {
			t.Errorf("a full batch of %d came after %v", full.jobs, full.at.Sub(began))
		}
		began = time.Now()
		add(t, d.DB, 3, 0)
		<-time.After(wait / 4)
		add(t, d.DB, 2, 0)
		if part := <-calls; part.jobs != 5 || part.at.Sub(began) < wait-wait/8 || part.at.Sub(began) > wait*3/2*slack {
			t.Errorf("a batch of %d came after %v, want 5 after %v", part.jobs, part.at.Sub(began), wait)
		}
	})
}

func TestEachJobOfABatchHasItsOwnOutcome(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 40, 0)
		r := start(t, d.DB, queue_job.Config{BatchSize: 10, WorkerPoolCapacity: 1, NeedRetry: true, MaxRetries: 1, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			errs := make(queue_job.BatchErrors, len(batch))
			for i, job := range batch {
				switch job.Id % 5 {
				case 1:
					errs[i] = fmt.Errorf("no luck with %d", job.Id)
				case 2:
					job.Status = queue_job.JobStatusCancelled
				case 3:
					if job.Retries == 0 {
						errs[i] = errors.New("once more")
					}
				}
			}
			slices.Reverse(batch) // the list is the handler's own
			return fmt.Errorf("batch: %w", errs)
		}})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 4)")
		for rest, want := range []string{"job_status = 1 AND attempts = 1", "job_status = 2 AND retries = 1", "job_status = 5 AND attempts = 1", "job_status = 1 AND retries = 1", "job_status = 1 AND attempts = 1"} {
			if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE id %% 5 = %d AND %s", rest, want)); n != 8 {
				t.Errorf("%d of 8 jobs have %s", n, want)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE 'no luck with%'"); n != 16 {
			t.Errorf("%d of 16 attempts are in the log with their own error", n)
		}
		stop(t, r)
	})
}

func TestAPanicOrGoexitEndsAWholeBatchAndCostsNoSlot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 80, 0)
		var calls atomic.Int64
		start(t, d.DB, queue_job.Config{BatchSize: 10, WorkerPoolCapacity: 2, BatchWait: time.Minute, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			switch calls.Add(1) {
			case 1:
				panic("boom")
			case 2:
				runtime.Goexit()
			case 3:
				return errors.New("all of them")
			case 4:
				return queue_job.BatchErrors{nil} // not one for each
			}
			return nil
		}})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0")
		for _, reason := range []string{"panic: boom%", "%(runtime.Goexit)", "all of them", "%1 errors for%"} {
			n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'failed' AND error LIKE '"+reason+"'")
			if n != 10 {
				t.Errorf("%d jobs of a batch of 10 ended with %s", n, reason)
			}
		}
	})
}

func TestOfABatchEachJobIsCancelledByItself(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 3, 0)
		type call struct {
			ctx context.Context
			end chan error
		}
		calls := make(chan call)
		start(t, d.DB, queue_job.Config{BatchSize: 3, BatchWait: time.Minute, HandleBatchFunc: func(ctx context.Context, batch []*queue_job.Job) error {
			c := call{ctx, make(chan error)}
			calls <- c
			return <-c.end
		}})
		one := <-calls
		cancelJobs(t, d.DB, 2)
		<-time.After(1200 * time.Millisecond)
		if one.ctx.Err() != nil {
			t.Error("the context ended for one of three")
		}
		one.end <- nil
		awaitNumber(t, d.DB, 2, succeeded)
		add(t, d.DB, 3, 0)
		two := <-calls
		cancelJobs(t, d.DB, 4, 5, 6)
		select {
		case <-two.ctx.Done():
			if cause := context.Cause(two.ctx); !errors.Is(cause, queue_job.ErrCancelled) {
				t.Errorf("the context ended with %v", cause)
			}
		case <-time.After(patience):
			t.Error("all three are cancelled, and the context lives on")
		}
		two.end <- errors.New("too late")
		awaitNumber(t, d.DB, 4, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5 AND id IN (2, 4, 5, 6)")
	})
}

func cancelJobs(t *testing.T, db *sql.DB, ids ...uint64) {
	t.Helper()
	jobs := open(t, db)
	for _, id := range ids {
		if _, err := jobs.Cancel(t.Context(), db, queue_job.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobsThatWaitForABatchToFillAreNotMarkedAndAStopDoesNotWaitForThem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		called, pulse := make(chan int, 1), feelPulse(t, d)
		r := start(t, d.DB, queue_job.Config{BatchSize: 10, BatchWait: time.Minute, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			called <- len(batch)
			return nil
		}})
		add(t, d.DB, 12, 0)
		if n := <-called; n != 10 {
			t.Fatalf("a call of %d", n)
		}
		awaitNumber(t, d.DB, 10, succeeded)
		jobs := open(t, d.DB)
		if n, err := jobs.Reschedule(t.Context(), d.DB, queue_job.ID(idsWhere(t, d, "job_status = 0")...), time.Now().Add(time.Hour)); n != 2 || err != nil {
			t.Errorf("%d of 2 jobs rescheduled, %v", n, err)
		}
		began := time.Now()
		stop(t, r)
		if took, most := time.Since(began), pulse.allows(time.Second*slack, began, time.Now()); took > most {
			t.Errorf("Stop took %v, want %v at most", took, most)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term = 0 AND attempts = 0"); n != 2 {
			t.Errorf("%d of 2 jobs are as they were", n)
		}
	})
}
