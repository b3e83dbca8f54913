package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// cancelAndRetry does both in one breath, before anybody can have looked at the row in between.
func cancelAndRetry(t *testing.T, d dbtest.Database, id uint64) {
	t.Helper()
	jobs := open(t, d.DB)
	changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(id)))
	if retried, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(id)); err != nil || retried.Jobs != 1 {
		t.Fatal(retried, err)
	}
}

func TestARunThatIsCancelledEndsAlsoIfItsJobIsRetriedAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		type end struct {
			at    time.Time
			cause error
		}
		ended, heard := make(chan end, 9), make(chan queue_job.Finished, 9)
		start(t, d.DB, queue_job.Config{
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				ran.note(job)
				if job.Attempt > 1 {
					return nil
				}
				select {
				case <-ctx.Done():
				case <-time.After(patience):
				}
				ended <- end{time.Now(), context.Cause(ctx)}
				return errors.New("too late")
			},
			OnFinished: func(_ context.Context, job *queue_job.Job, f queue_job.Finished) { heard <- f },
		})
		done := int64(0)
		bestOfThree(t, func() error {
			add(t, d.DB, 1, 0)
			before := len(ran.all())
			id := awaitRuns(t, &ran, before+1)[before].id
			asked := time.Now()
			cancelAndRetry(t, d, id)
			told := <-ended
			if !errors.Is(told.cause, queue_job.ErrCancelled) {
				t.Errorf("the context ended with %v", told.cause)
			}
			if f := <-heard; !f.Dropped || f.Status != queue_job.JobStatusCancelled {
				t.Errorf("the observer heard of %+v", f)
			}
			done++
			awaitNumber(t, d.DB, done, succeeded)
			<-heard
			list := ran.of(id)
			if len(list) != 2 || list[1].job.Attempt != 2 || list[1].job.Lost != 0 || list[1].job.Retries != 0 {
				t.Errorf("%d runs, want two, numbered", len(list))
			}
			if took := told.at.Sub(asked); took > time.Second*slack {
				return fmt.Errorf("the run ended after %v", took)
			}
			if late := list[1].started.Sub(told.at); late > 2*time.Second*slack {
				return fmt.Errorf("the retried run started %v after the cancelled one", late)
			}
			return nil
		})
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != 0 {
			t.Errorf("%d runs are in the log of what went wrong", n)
		}
	})
}

// The handler does not end before the test lets it, so it has the job when its lease has gone elsewhere, and the job is retried.
func TestARetriedJobWaitsForTheHandlerThatHasItHoweverTheLeaseMoves(t *testing.T) {
	t.Parallel()
	for _, move := range []string{"HandOver", "Replace", "SetShards", "Stop"} {
		t.Run(move, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d dbtest.Database) { retriedElsewhere(t, d, move) })
		})
	}
}

func retriedElsewhere(t *testing.T, d dbtest.Database, move string) {
	migrate(t, d)
	jobs := open(t, d.DB)
	var ran runs
	var ended atomic.Int64
	end, cause := make(chan struct{}), make(chan error, 1)
	let := sync.OnceFunc(func() { close(end) })
	cfg := queue_job.Config{LockSecond: 60, WorkerPoolCapacity: 4, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		ran.note(job)
		if job.Id > 1 || job.Attempt > 1 {
			return nil
		}
		<-end
		cause <- context.Cause(ctx)
		ended.Store(time.Now().UnixNano())
		return errors.New("too late")
	}}
	one := start(t, d.DB, cfg)
	t.Cleanup(let)
	add(t, d.DB, 1, 0)
	awaitRuns(t, &ran, 1)
	stopped := moveLease(t, d, jobs, one, cfg, move)
	others := func(n int) { // on each shard; whoever starts them has seen the retried job
		t.Helper()
		before := len(ran.all())
		for i := range n {
			add(t, d.DB, 1, 0)
			awaitRuns(t, &ran, before+i+1)
		}
	}
	others(4)
	cancelAndRetry(t, d, 1)
	for range 3 {
		time.Sleep(700 * time.Millisecond) // a sweep brings the retried job, and the watch tells its handler
		others(4)
	}
	if n := len(ran.of(1)); n != 1 {
		t.Errorf("the job has started %d times, and its first handler has it", n)
	}
	let()
	if err := <-cause; !errors.Is(err, queue_job.ErrCancelled) {
		t.Errorf("the context ended with %v", err)
	}
	await(t, func() string { return "the retried job does not start" }, func() bool { return len(ran.of(1)) == 2 })
	again := ran.of(1)[1]
	if again.started.UnixNano() < ended.Load() || again.job.Attempt != 2 || again.job.Lost != 0 {
		t.Errorf("attempt %d, %d lost, has started %v after the first handler's end", again.job.Attempt, again.job.Lost,
			time.Duration(again.started.UnixNano()-ended.Load()))
	}
	<-stopped
	awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_now_tab WHERE lock_name LIKE 'rest-%'")
}

// The handler heeds no context, so nothing can end its run.
func TestARetriedJobRunsBesideACancelledRunThatIsDeaf(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		effects(t, d)
		var ran runs
		goOn, told, second := make(chan struct{}), make(chan error, 3), make(chan struct{})
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			ran.note(job)
			if job.Attempt > 1 {
				<-second
				return nil
			}
			<-goOn
			ctx = context.WithoutCancel(ctx)
			told <- job.SetProgress(ctx, "half way")
			told <- job.SetResult(ctx, "done")
			err := completeWithEffect(ctx, d.DB, job)
			told <- err
			return err
		}})
		add(t, d.DB, 1, 0)
		awaitRuns(t, &ran, 1)
		asked := time.Now()
		t.Cleanup(func() { close(second) })
		func() {
			defer close(goOn)
			cancelAndRetry(t, d, 1)
			awaitWithin(t, 20*time.Second, func() string { return "the retried job waits for the run that is hung" }, func() bool { return len(ran.all()) == 2 })
		}()
		took := ran.all()[1].started.Sub(asked)
		t.Logf("the retried run started after %v", took)
		if took > 12*time.Second*slack {
			t.Errorf("the retried run started after %v", took)
		}
		for range 3 {
			if err := <-told; !errors.Is(err, queue_job.ErrNotOurs) {
				t.Errorf("the run that was cancelled was told %v", err)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term <> 0 AND attempts = 2 AND progress IS NULL AND result IS NULL"); n != 1 {
			t.Error("the run that was cancelled has written to the row of the one that runs")
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM effects"); n != 0 {
			t.Error("the run that was cancelled has had its effect")
		}
		second <- struct{}{}
		awaitNumber(t, d.DB, 1, succeeded+" AND attempts = 2")
	})
}

func TestAJobIsRetriedWithOtherParametersAndNeverRunsAgainWithItsOldOnes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			if job.JobParams == `"bad"` {
				return queue_job.Fail(errors.New("such an order is not there"))
			}
			return nil
		}})
		const n = 20
		for range n {
			addAsync(t, d.DB, queue_job.AddModelJob{JobType: 1, JobParams: "bad"})
		}
		awaitNumber(t, d.DB, n, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		ids := idsWhere(t, d, "1 = 1")
		long := strings.Repeat("x", 100_000) // does not fit into params
		for i, id := range ids {
			params := []string{"good", long}[i%2]
			r, err := jobs.RetryWith(queue_job.WithActor(t.Context(), "mary", "a typo"), d.DB, queue_job.ID(id), params)
			if err != nil || r.Jobs != 1 {
				t.Fatal(r, err)
			}
		}
		awaitNumber(t, d.DB, n, succeeded)
		for i, id := range ids {
			list := ran.of(id)
			if want := fmt.Sprintf("%q", []string{"good", long}[i%2]); len(list) != 2 || list[1].job.JobParams != want || list[1].job.Retries != 0 {
				t.Errorf("job %d ran %d times, at last with %.20s; want twice, and %.20s", id, len(list), list[len(list)-1].job.JobParams, want)
			}
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Job: ids[0]})
		if err != nil || len(acts) != 1 || acts[0].Verb != "retry" || acts[0].Detail != `{"before":"\"bad\"","after":"\"good\""}` {
			t.Errorf("%+v, %v", acts, err)
		}
		if r, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(ids[0]), "again"); err != nil || r.Jobs != 0 {
			t.Errorf("a job that has succeeded: %+v, %v", r, err)
		}
		if _, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(ids[0]), strings.Repeat("x", queue_job.ParamsMax)); !errors.Is(err, queue_job.ErrParamsTooLong) {
			t.Errorf("too long: %v", err)
		}
	})
}
