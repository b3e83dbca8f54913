package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// successor is a Runner that has taken a job type over from a holder that was cut off. It runs the first job, and has the
// others in memory, as its predecessor left them.
type successor struct {
	ran  runs
	goOn chan struct{} // closed when the first job may end
}

// succeed has a holder run jobs 1 and 2, and cuts it off. Its run of job 2 ends as told, which it writes when the successor
// has the row in memory. The successor's runs of job 2 end so too.
func succeed(t *testing.T, d dbtest.Database, cfg queue_job.Config, end func(job *queue_job.Job) error) (holder *runs, s *successor) {
	t.Helper()
	holder, s = &runs{}, &successor{goOn: make(chan struct{})}
	line := newWire(t, d)
	began, cutOff := make(chan struct{}, 2), make(chan struct{})
	theirs := cfg
	theirs.WorkerPoolCapacity, theirs.LockSecond = 2, 4
	theirs.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error {
		holder.note(job)
		began <- struct{}{}
		<-cutOff
		if job.Id == 2 {
			return end(job)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	start(t, line, theirs)
	t.Cleanup(line.mend) // before it is stopped
	add(t, d.DB, 2, 0)
	<-began
	<-began
	line.cut()
	close(cutOff)

	t.Cleanup(func() {
		select {
		case <-s.goOn:
		default:
			close(s.goOn)
		}
	})
	cfg.WorkerPoolCapacity = 1
	cfg.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error {
		s.ran.note(job)
		switch job.Id {
		case 1:
			<-s.goOn
			return nil
		case 2:
			return end(job)
		}
		return nil
	}
	start(t, d.DB, cfg)
	awaitRuns(t, &s.ran, 1)
	line.mend()
	awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 2 AND term = 0") // the holder's outcome is written
	return holder, s
}

// passTurn lets the first job end, and waits until a job has run whose turn comes after job 2.
func (s *successor) passTurn(t *testing.T, d dbtest.Database) {
	t.Helper()
	add(t, d.DB, 1, 0)
	close(s.goOn)
	awaitNumber(t, d.DB, 1, succeeded+" AND id = 3")
}

func TestASuccessorStartsNoJobThatItsPredecessorHasPutOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		_, s := succeed(t, d, queue_job.Config{}, func(*queue_job.Job) error { return queue_job.Snooze(time.Hour) })
		s.passTurn(t, d)
		if early := s.ran.of(2); len(early) != 0 {
			t.Errorf("the job was put off for an hour, and %d runs of it started", len(early))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = 2 AND job_status = 3 AND term = 0 AND attempts = 1 AND lost = 0 AND start_time > ?", time.Now().Unix()+3000); n != 1 {
			t.Error("the row does not say one run, and another in an hour")
		}
	})
}

func TestATakeoverMakesNoRetryMoreAndGivesEachRunANumberOfItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		holder, s := succeed(t, d, queue_job.Config{NeedRetry: true, MaxRetries: 1, WaitTime: 10 * time.Millisecond}, func(job *queue_job.Job) error {
			return fmt.Errorf("run %d", job.Attempt)
		})
		s.passTurn(t, d)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 2 AND job_status = 2")
		list := append(holder.of(2), s.ran.of(2)...)
		if len(list) != 2 {
			t.Errorf("%d runs, want one and its only retry", len(list))
		}
		for i, run := range list {
			if run.job.Attempt != i+1 || run.job.Retries != i || run.job.Lost != 0 {
				t.Errorf("run %d was told attempt %d, retries %d, lost %d", i+1, run.job.Attempt, run.job.Retries, run.job.Lost)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = 2 AND attempts = 2 AND retries = 1 AND lost = 0"); n != 1 {
			t.Error("the row does not say two runs, one of them a retry")
		}
		awaitAtLeast(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 2")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 2"); n != 2 {
			t.Errorf("%d rows of the log, want one for each run", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 2 AND (attempt = 1 AND outcome = 'retry' AND error = 'run 1' OR attempt = 2 AND outcome = 'failed' AND error = 'run 2')"); n != 2 {
			t.Errorf("%d of 2 rows of the log say how the runs ended", n)
		}
	})
}

// The predecessor may also run an earlier version of this library, which unmarks rows without a trace.
func TestAJobThatItsPredecessorDidNotStartIsNotLost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 2, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 7, attempts = 1")
		s := &successor{goOn: make(chan struct{})}
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			s.ran.note(job)
			if job.Id == 1 {
				<-s.goOn
			}
			return nil
		}})
		awaitRuns(t, &s.ran, 1)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 0, attempts = attempts - 1 WHERE id = 2 AND term = 7")
		close(s.goOn)
		awaitNumber(t, d.DB, 2, succeeded)
		list := s.ran.of(2)
		if len(list) != 1 || list[0].job.Attempt != 1 || list[0].job.Lost != 0 {
			t.Errorf("%d runs; want one that was told that it is the first, and none lost", len(list))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = 2 AND attempts = 1 AND lost = 0"); n != 1 {
			t.Error("the row does not say one run, none lost")
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 1 AND outcome = 'lost'")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 2"); n != 0 {
			t.Error("the log says that a run of the job was lost")
		}
	})
}

// The job was lost twice before. Its holder is not dead, and comes back in the last moment.
func TestNothingIsSaidToHaveFailedThatItsPredecessorPutsOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 1, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 7, attempts = 3, lost = 2")
		line := newWire(t, d)
		fails := line.delay(aLastLoss)
		said := &lines{}
		cfg := queue_job.Config{ServiceName: "test", JobType: 1, Db: line, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		r, err := persistent_queue.New([]queue_job.Config{cfg}, said.log())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		fails.awaitSent(t)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 3, start_time = ?, term = 0 WHERE id = 1 AND term = 7 AND attempts = 3", time.Now().Unix()+3600)
		fails.deliver(t)
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded+" AND id = 2")
		stop(t, r)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = 1 AND job_status = 3 AND lost = 2 AND attempts = 3"); n != 1 {
			t.Error("the job that was put off is not as its holder left it")
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 1"); n != 0 {
			t.Errorf("%d rows of the log say that it went wrong", n)
		}
		if strings.Contains(said.String(), "job failed") {
			t.Errorf("the log says that it failed:\n%s", said)
		}
	})
}

func TestTheLogNamesTheProcessThatDied(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		w := startWorker(t, d, workerSettings{Types: []int32{1}, Capacity: 1, HandlerMS: int(patience.Milliseconds())})
		add(t, d.DB, 1, 0)
		await(t, func() string { return "the worker starts nothing" }, func() bool { return len(w.started()) == 1 })
		w.end(syscall.SIGKILL)
		execute(t, d.DB, expire)
		start(t, d.DB, queue_job.Config{ServiceName: "billing", RenamedFrom: "test", HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'lost'")
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		var instance, reason string
		if err := d.DB.QueryRow("SELECT instance, error FROM async_job_log_tab WHERE outcome = 'lost'").Scan(&instance, &reason); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("test@%s/%d", host, w.Process.Pid); instance != want {
			t.Errorf("the log says that %s died, want %s", instance, want)
		}
		if want := fmt.Sprintf("process died while running it; noticed by billing@%s/%d", host, os.Getpid()); reason != want {
			t.Errorf("the log says %q, want %q", reason, want)
		}
	})
}

func TestLeasesAndTheLogNameTheServiceOfTheirType(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		fail := func(context.Context, *queue_job.Job) error { return errors.New("no luck") }
		start(t, d.DB,
			queue_job.Config{ServiceName: "billing", JobType: 1, HandleJobFunc: fail},
			queue_job.Config{ServiceName: "shipping", JobType: 2, HandleJobFunc: fail})
		services := map[int32]string{1: "billing@%", 2: "shipping@%"}
		for jobType := range services {
			addType(t, d.DB, jobType, 1, 0)
		}
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_log_tab")
		for jobType, service := range services {
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab JOIN async_job_tab ON async_job_tab.id = job_id WHERE job_type = ? AND instance LIKE ?", jobType, service); n != 1 {
				t.Errorf("the log's row of type %d does not name %s", jobType, service)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = ? AND locked_by LIKE ?", fmt.Sprintf("job-%d", jobType), service); n != 1 {
				t.Errorf("the lease of type %d does not name %s", jobType, service)
			}
		}
	})
}
