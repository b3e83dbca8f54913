package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// numbered is a pool whose reading statements are numbered.
type numbered struct {
	*sql.DB
	sent atomic.Int64
}

func (c *numbered) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.sent.Add(1)
	return c.DB.QueryContext(ctx, query, args...)
}

// waits calls Wait, and returns what will be its result.
func waits(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		info, err := jobs.Wait(ctx, ex, id)
		result <- waited{info, err}
	}()
	return result
}

type waited struct {
	*queue_job.JobInfo
	err error
}

func (w waited) is(t *testing.T, state string) {
	t.Helper()
	if w.err != nil || w.State() != state {
		t.Errorf("waited for %+v, want a job that is %s: %v", w.JobInfo, state, w.err)
	}
}

func TestWaitReturnsAJobThatHasEndedHoweverItDid(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, goOn := open(t, d.DB), make(chan struct{})
		add(t, d.DB, 4, 0)
		ids := idsOf(t, d.DB, 4)
		changed(t, 1)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(ids[2]), time.Now().Add(time.Hour)))
		changed(t, 1)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(ids[3]), time.Now().Add(time.Hour)))
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			if job.Id == ids[1] {
				return queue_job.Fail(errors.New("no"))
			}
			return job.SetResult(ctx, "42")
		}})
		var results []<-chan waited
		for _, id := range ids {
			results = append(results, waits(t.Context(), jobs, d.DB, id), waits(t.Context(), jobs, d.DB, id))
		}
		time.AfterFunc(50*time.Millisecond, func() { close(goOn) })
		first := <-results[0]
		if first.is(t, queue_job.StateCompleted); first.JobInfo != nil && first.Result != "42" {
			t.Errorf("the result is %q", first.Result)
		}
		(<-results[1]).is(t, queue_job.StateCompleted)
		(<-results[2]).is(t, queue_job.StateFailed)
		(<-results[3]).is(t, queue_job.StateFailed)
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(ids[2])))
		(<-results[4]).is(t, queue_job.StateCancelled)
		(<-results[5]).is(t, queue_job.StateCancelled)
		if _, err := d.DB.Exec(fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", ids[3])); err != nil {
			t.Fatal(err)
		}
		if w := <-results[6]; !errors.Is(w.err, queue_job.ErrNoJob) || !strings.Contains(w.err.Error(), "deleted") {
			t.Errorf("waited for a job that was deleted: %v", w.err)
		}
		<-results[7]
		(<-waits(t.Context(), jobs, d.DB, ids[1])).is(t, queue_job.StateFailed) // it has ended before
	})
}

func TestWaitEndsWithItsContextAndSaysWhatItCannotWaitFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 1, uint32(time.Now().Unix()+3600))
		id := idsOf(t, d.DB, 1)[0]
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := jobs.Wait(ctx, d.DB, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited for a job that does not end: %v", err)
		}
		for _, none := range []uint64{0, id + 1} {
			if _, err := jobs.Wait(t.Context(), d.DB, none); !errors.Is(err, queue_job.ErrNoJob) {
				t.Errorf("waited for job %d: %v", none, err)
			}
		}
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := jobs.Wait(t.Context(), tx, id); err == nil || !strings.Contains(err.Error(), "commit first") {
			t.Errorf("waited in a transaction: %v", err)
		}
	})
}

// Whoever waits for a job that was retried since waits for its new end, also if it joins others that wait.
func TestWaitTellsNobodyOfAnEndBeforeIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 2, uint32(time.Now().Unix()+3600))
		ids := idsOf(t, d.DB, 2)
		ctx, cancel := context.WithCancel(t.Context())
		beside := waits(ctx, jobs, d.DB, ids[1])
		for range unlessShort(20, 8) {
			changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(ids[0])))
			old := waits(t.Context(), jobs, d.DB, ids[0])
			(<-old).is(t, queue_job.StateCancelled)
			old = waits(t.Context(), jobs, d.DB, ids[0])
			if again, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(ids[0])); again.Jobs != 1 || err != nil {
				t.Fatal(again, err)
			}
			short, done := context.WithTimeout(t.Context(), 30*time.Millisecond)
			if info, err := jobs.Wait(short, d.DB, ids[0]); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("told of its former end: %+v, %v", info, err)
			}
			done()
			changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(ids[0])))
			(<-old).is(t, queue_job.StateCancelled)
			if again, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(ids[0])); again.Jobs != 1 || err != nil {
				t.Fatal(again, err)
			}
		}
		cancel()
		if w := <-beside; !errors.Is(w.err, context.Canceled) {
			t.Error(w.err)
		}
	})
}

// One statement is for all: a thousand that wait cost what one costs, though some come and go meanwhile.
func TestAThousandWaitersOfAProcessShareTheirStatements(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const waiters, length = 1000, 6 * time.Second
		jobs, pool := open(t, d.DB), &numbered{DB: d.DB}
		add(t, d.DB, waiters+50, uint32(time.Now().Unix()+3600))
		ids := idsOf(t, d.DB, waiters+50)
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		var all sync.WaitGroup
		var wrong atomic.Int64
		wait := func(ctx context.Context, id uint64, ends bool) {
			all.Go(func() {
				if info, err := jobs.Wait(ctx, pool, id); ends && (err != nil || info.State() != queue_job.StateCancelled) ||
					!ends && !errors.Is(err, context.DeadlineExceeded) {
					wrong.Add(1)
				}
			})
		}
		for _, id := range ids[:waiters] {
			wait(ctx, id, false)
		}
		for _, id := range ids[waiters:] {
			wait(t.Context(), id, true)
			time.Sleep(length / 60)
			changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(id)))
		}
		<-ctx.Done()
		all.Wait()
		seconds := length.Seconds()
		if sent := pool.sent.Load(); float64(sent) > 5*seconds+2 || wrong.Load() > 0 { // the last ones read twice
			t.Errorf("%d statements in %v, want at most five a second; %d results are wrong", sent, length, wrong.Load())
		}
	})
}

// After some seconds, the next look is up to a second away. The end of a job that runs in this process is known at once.
func TestAnEndInThisProcessWakesItsWaiters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, pulse := open(t, d.DB), feelPulse(t, d)
		goOn := make(chan struct{})
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error {
			<-goOn
			return nil
		}})
		dbtest.BestOfThree(t, func() error {
			add(t, d.DB, 1, 0)
			id := column[uint64](t, d.DB, "SELECT MAX(id) FROM async_job_tab")[0]
			pool := &numbered{DB: d.DB}
			result := waits(t.Context(), jobs, pool, id)
			time.Sleep(2500 * time.Millisecond)
			before := pool.sent.Load()
			await(t, func() string { return "it does not look any more" }, func() bool { return pool.sent.Load() > before })
			goOn <- struct{}{}
			began := time.Now()
			(<-result).is(t, queue_job.StateCompleted)
			if took := time.Since(began); took > pulse.allows(300*time.Millisecond, began, time.Now()) {
				return fmt.Errorf("told after %v", took)
			}
			return nil
		})
	})
}
