package tests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestARunnerSaysWhetherItIsReadyAndWellAndWhatItDoes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		release := make(chan struct{})
		var waiting runs
		hold := func(_ context.Context, job *queue_job.Job) error {
			waiting.note(job)
			<-release
			return nil
		}
		const capacity = 2
		r := newRunner(t, d.DB, queue_job.Config{JobType: 1, HandleJobFunc: hold, WorkerPoolCapacity: capacity}, queue_job.Config{JobType: 7, HandleJobFunc: hold, Shards: 3})
		if err := r.Health(); !errors.Is(err, persistent_queue.ErrNotRunning) || r.Types() != nil {
			t.Error("before the start:", err, r.Types())
		}
		add(t, d.DB, 5, 0)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.Ready():
		case <-time.After(patience):
			t.Fatal("it does not get ready")
		}
		if err := r.Health(); err != nil {
			t.Error(err)
		}
		await(t, func() string { return "handlers, and leases" }, func() bool {
			types := r.Types()
			return len(waiting.all()) == capacity && types[len(types)-1].Held == 3
		})
		want := []persistent_queue.TypeState{{JobType: 1, TypeName: "test", Shards: 1, Held: 1, Running: capacity, Capacity: capacity, Waiting: 3, LeasesTaken: 1}, {JobType: 7, TypeName: "test", Shards: 3, Held: 3, Capacity: 100}}
		types := r.Types()
		if types[0].Overdue < 0 || types[0].Overdue > patience {
			t.Errorf("a job has been due for %v", types[0].Overdue)
		}
		want[0].Overdue = types[0].Overdue                                        // the table knows whole seconds
		if last := &types[len(types)-1]; last.LeasesTaken-last.LeasesEnded != 3 { // before the type was divided, there was one lease
			t.Errorf("%d leases were taken, and %d have ended", last.LeasesTaken, last.LeasesEnded)
		} else {
			last.LeasesTaken, last.LeasesEnded = 0, 0
		}
		if len(types) != len(want) || types[0] != want[0] || types[1] != want[1] {
			t.Errorf("%+v, want %+v", types, want)
		}
		close(release)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Health(); !errors.Is(err, persistent_queue.ErrNotRunning) || r.Types() != nil {
			t.Error("after the end:", err, r.Types())
		}
		awaitNumber(t, d.DB, 5, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 1)")
	})
}

func TestCloseWaitsAsLongAsWithGraceSays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const grace = 300 * time.Millisecond
		add(t, d.DB, 3, 0) // one for each try, whatever becomes of those before
		bestOfThree(t, func() error {
			var began runs
			var cause error
			r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithGrace(grace)}, d.DB, queue_job.Config{WorkerPoolCapacity: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				began.note(job)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			}})
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			awaitRuns(t, &began, 1)
			closing := time.Now()
			err := r.Close()
			if took := time.Since(closing); err != nil || took < grace || took > grace+2*time.Second*slack || !errors.Is(cause, persistent_queue.ErrStopped) {
				return fmt.Errorf("it took %v, %v; the handler's context ended: %v", took, err, cause)
			}
			return nil
		})
	})
}

func TestAJobThatRunsIsNotLateHoweverLongItRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		release := make(chan struct{})
		hold := func(context.Context, *queue_job.Job) error { <-release; return nil }
		start(t, d.DB, queue_job.Config{JobType: 7, HandleJobFunc: hold, WorkerPoolCapacity: 2, LockSecond: 3})
		t.Cleanup(func() { close(release) }) // before the end of the Runner
		const after = time.Second
		check := func() *operate.Health {
			h, err := operate.Check(t.Context(), jobs, d.DB, after)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		addType(t, d.DB, 7, 2, 0)
		await(t, func() string { return "two jobs that run" }, func() bool { return len(check().Types) > 0 && check().Types[0].Running == 2 })
		time.Sleep(after + 2*time.Second) // they fell due longer ago than that
		if h := check(); h.Late[7] != 0 || len(h.Findings) > 0 {
			t.Errorf("%d jobs are late: %+v", h.Late[7], h.Findings)
		}
		addType(t, d.DB, 7, 1, 0)
		await(t, func() string { return "the third job is late" }, func() bool { return check().Late[7] == 1 })
	})
}
