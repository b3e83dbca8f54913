package tests

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// queueBehind starts a Runner with one worker and adds jobs. The first run takes as long as is said, the second until it is let
// go, and the others note that they run: they wait behind the second when this returns.
func queueBehind(t *testing.T, d dbtest.Database, first time.Duration, jobs int) (ran *runs, goOn func()) {
	t.Helper()
	ran = &runs{}
	release := make(chan struct{})
	goOn = sync.OnceFunc(func() { close(release) })
	start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		ran.note(job)
		switch len(ran.all()) { // not their ids: jobs whose mark got no answer in time may come after others
		case 1:
			time.Sleep(first)
		case 2:
			<-release
		}
		return nil
	}})
	t.Cleanup(goOn)
	add(t, d.DB, jobs, 0)
	awaitRuns(t, ran, 2)
	awaitNumber(t, d.DB, 1, succeeded)
	return ran, goOn
}

const isMarked = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term <> 0"

func TestWhatWaitsBehindLongRunsIsNotInFlight(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		ran, goOn := queueBehind(t, d, 400*time.Millisecond, 4)
		jobs := open(t, d.DB)
		rounds := 0
		for until := time.Now().Add(time.Second); time.Now().Before(until); rounds++ {
			if n := number(t, d.DB, isMarked); n != 1 {
				t.Fatalf("%d rows are marked, want one: the job that runs", n)
			}
			changed(t, 1)(jobs.SetParams(t.Context(), d.DB, queue_job.ID(3), fmt.Sprint(rounds)))
			changed(t, 1)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(4), time.Now().Add(time.Hour)))
			if t.Failed() {
				return
			}
		}
		goOn()
		awaitNumber(t, d.DB, 3, succeeded)
		if list := ran.of(3); len(list) != 1 || list[0].job.JobParams != fmt.Sprintf("%q", fmt.Sprint(rounds-1)) {
			t.Errorf("it ran with %s after %d changes", list[0].job.JobParams, rounds)
		}
		if n := len(ran.of(4)); n != 0 {
			t.Errorf("%d runs of a job that was put off for an hour", n)
		}
	})
}

// The first run is short, so that rows are marked ahead of the worker, and the second turns out to be long.
func TestAJobThatIsCancelledBehindALongRunNeverStarts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		for _, first := range []time.Duration{5 * time.Millisecond, 400 * time.Millisecond} {
			t.Run(first.String(), func(t *testing.T) {
				if err := restart(d); err != nil {
					t.Fatal(err)
				}
				ran, goOn := queueBehind(t, d, first, 4)
				changed(t, 1)(open(t, d.DB).Cancel(t.Context(), d.DB, queue_job.ID(3)))
				pulse.wait(time.Second * slack) // the promise
				goOn()
				awaitNumber(t, d.DB, 3, succeeded)
				if n := len(ran.of(3)); n != 0 {
					t.Errorf("%d runs of a job that was cancelled", n)
				}
				if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = 3 AND job_status = 5 AND lost = 0"); n != 1 {
					t.Error("the row does not say cancelled")
				}
			})
		}
	})
}

func TestWhatWaitsForItsBatchToFillCanBeChangedAndCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const wait = 2 * time.Second
		var ran runs
		start(t, d.DB, queue_job.Config{BatchSize: 10, BatchWait: wait, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			for _, job := range batch {
				ran.note(job)
			}
			return nil
		}})
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 10, succeeded) // the type is open
		jobs := open(t, d.DB)
		added := time.Now()
		add(t, d.DB, 3, 0)
		for time.Since(added) < wait/2 {
			if n := number(t, d.DB, isMarked); n != 0 && time.Since(added) < wait {
				t.Fatalf("%d rows are marked while they wait for others", n)
			}
		}
		changed(t, 1)(jobs.SetParams(t.Context(), d.DB, queue_job.ID(11), "changed"))
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(12)))
		awaitNumber(t, d.DB, 12, succeeded)
		if list := ran.of(11); len(list) != 1 || list[0].job.JobParams != `"changed"` {
			t.Errorf("%d runs, the first with %s", len(list), list[0].job.JobParams)
		}
		if n := len(ran.of(12)); n != 0 {
			t.Errorf("%d runs of a job that was cancelled", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND attempts <> 1 OR lost <> 0"); n != 0 {
			t.Errorf("%d rows do not say one run, none lost", n)
		}
	})
}

// restart empties the table, and ids begin anew.
func restart(d dbtest.Database) error {
	empty := map[string]string{"mysql": "TRUNCATE TABLE async_job_tab", "pgx": "TRUNCATE TABLE async_job_tab RESTART IDENTITY", "sqlite": "DELETE FROM async_job_tab"}
	_, err := d.DB.Exec(empty[d.Driver])
	if err == nil && d.Driver == "sqlite" {
		_, err = d.DB.Exec("DELETE FROM sqlite_sequence WHERE name = 'async_job_tab'")
	}
	return err
}

func TestWhatWaitsIsNotLostWithTheProcess(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const jobs, ended = 22, 2
		w := startWorker(t, d, workerSettings{Types: []int32{1}, Capacity: 1, HandlerMS: 1000})
		add(t, d.DB, jobs, 0)
		awaitNumber(t, d.DB, ended, succeeded)
		await(t, func() string { return "the worker starts nothing" }, func() bool { return len(w.started()) > ended })
		time.Sleep(300 * time.Millisecond) // in the middle of a run
		w.end(syscall.SIGKILL)
		died := len(w.started()) - int(number(t, d.DB, succeeded))
		execute(t, d.DB, expire)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitNumber(t, d.DB, jobs, succeeded)
		if died != 1 {
			t.Fatalf("%d jobs were at work, want one", died)
		}
		if n := number(t, d.DB, "SELECT SUM(lost) FROM async_job_tab"); n != 1 {
			t.Errorf("%d runs count as lost, want one: the job that ran", n)
		}
		for _, run := range ran.all() {
			if _, again := w.started()[run.id]; again != (run.job.Lost == 1) {
				t.Errorf("job %d was told that %d of its runs were lost", run.id, run.job.Lost)
			}
		}
	})
}

// A job fails when it was lost three times, so it must not be lost again while it waits for others that are slow. The runs
// before were short, so other rows would be marked ahead of the workers.
func TestAJobThatWasLostIsInFlightOnlyWhileItRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const quick, workers, lost = 20, 2, 8
		var ran runs
		release := make(chan struct{})
		goOn := sync.OnceFunc(func() { close(release) })
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: workers, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			if job.Id > quick {
				<-release
			}
			return nil
		}})
		t.Cleanup(goOn)
		add(t, d.DB, quick, 0)
		awaitNumber(t, d.DB, quick, succeeded)
		add(t, d.DB, lost, uint32(time.Now().Unix()+3600))
		execute(t, d.DB, "UPDATE async_job_tab SET attempts = 1, lost = 1, start_time = ? WHERE id > ?", time.Now().Unix(), quick)
		awaitRuns(t, &ran, quick+workers)
		for until := time.Now().Add(time.Second); time.Now().Before(until); {
			if n := number(t, d.DB, isMarked); n != workers {
				t.Fatalf("%d rows are marked, and %d jobs run", n, workers)
			}
		}
		goOn()
		awaitNumber(t, d.DB, quick+lost, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 + lost OR lost > 1"); n != 0 || len(ran.all()) != quick+lost {
			t.Errorf("%d runs of %d jobs; %d rows do not say one run, none lost again", len(ran.all()), quick+lost, n)
		}
	})
}

// Business code holds the rows when their mark comes, while the type is paused: the mark passes over them or, on old servers, waits.
func TestAPauseHoldsForJobsWhoseRowsWereLocked(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) { // on SQLite, nobody pauses a type while another one writes
		const jobs = 1000
		var ran runs
		line := newWire(t, d)
		start(t, line, queue_job.Config{WorkerPoolCapacity: jobs, HandleJobFunc: ran.handler})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded) // the type is open

		add(t, d.DB, jobs, uint32(time.Now().Unix()+3))
		tx := begin(t, d.DB)
		if _, err := tx.Exec("SELECT id FROM async_job_tab WHERE id > 1 FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		mark := line.delay(aMark)
		mark.awaitSent(t)
		close(mark.arrive)
		pause(t, d.DB, 1)
		time.Sleep(1700 * time.Millisecond) // the promise is a second
		if n := len(ran.all()); n != 1 {
			t.Fatalf("%d jobs started while their rows were locked", n-1)
		}
		commit(t, tx)
		<-mark.done
		time.Sleep(time.Second * slack)
		if n := number(t, d.DB, isMarked); n != 0 {
			t.Errorf("%d rows are marked, and cannot be changed", n)
		}
		if n := len(ran.all()); n != 1 {
			t.Errorf("%d jobs started while their type was paused", n-1)
		}
		resume(t, d.DB, 1)
		awaitNumber(t, d.DB, 1+jobs, succeeded)
		if n := len(ran.all()); n != 1+jobs {
			t.Errorf("%d runs of %d jobs", n, 1+jobs)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); n != 0 {
			t.Errorf("%d rows do not say one run, none lost", n)
		}
	})
}

// Rows are marked before their time, as many as the workers seem to start at once. These turn out to be slow.
func TestWhatWaitsBehindSlowRunsCanBeChangedAndIsNotLostWithTheProcess(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const workers, n = 5, 300
		const inFlight = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term <> 0"
		jobs := open(t, d.DB)
		var ran runs
		release := make(chan struct{})
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: workers, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			<-release
			return ran.handler(ctx, job)
		}})
		due := time.Now().Add(3 * time.Second).Truncate(time.Second)
		add(t, d.DB, n, uint32(due.Unix()))
		var waiting int64
		awaitWithin(t, 10*time.Second*slack, func() string { return "most stay marked" }, func() bool {
			if time.Now().Before(due.Add(2*time.Second)) || number(t, d.DB, inFlight) >= workers+20 { // a few are ahead of the workers
				return false
			}
			waiting = number(t, d.DB, "SELECT MAX(id) FROM async_job_tab WHERE term = 0")
			set, err := jobs.SetParams(t.Context(), d.DB, queue_job.ID(uint64(waiting)), "changed")
			if err != nil && !errors.Is(err, queue_job.ErrInFlight) { // marked just now: another one will do
				t.Fatal(err)
			}
			return set == 1
		})
		close(release)
		awaitNumber(t, d.DB, n, succeeded)
		if list := ran.all(); len(list) != n {
			t.Errorf("%d runs of %d jobs", len(list), n)
		}
		if params := ran.of(uint64(waiting))[0].job.JobParams; params != `"changed"` {
			t.Errorf("job %d ran with %s", waiting, params)
		}
		if extra := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); extra != 0 {
			t.Errorf("%d jobs seem to have run more than once", extra)
		}
	})
}
