package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const lostInLog = "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'lost'"

// lose adds a job as it stands when its process has died: under an earlier term.
func lose(t *testing.T, d dbtest.Database) {
	t.Helper()
	add(t, d.DB, 1, 0)
	execute(t, d.DB, "UPDATE async_job_tab SET term = 7, attempts = 1")
}

func TestALostRunIsInTheLogBeforeAnyOtherEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		goOn := make(chan struct{})
		lose(t, d)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			<-goOn
			return nil
		}})
		t.Cleanup(func() { close(goOn) })
		awaitRuns(t, &ran, 1)
		awaitWithin(t, 2*time.Second*slack, func() string { return "the lost run is not in the log" }, func() bool { return number(t, d.DB, lostInLog) == 1 })
		if job := ran.all()[0].job; job.Lost != 1 || job.Attempt != 2 {
			t.Errorf("the run was told attempt %d, lost %d", job.Attempt, job.Lost)
		}
	})
}

// The handler completes its job itself, so there is no outcome to write that could take the row of the log along.
func TestNothingLostIsMissingInTheLogAfterStop(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		effects(t, d)
		lose(t, d)
		line := newWire(t, d)
		line.refuse(aLogRow, 2)
		r := start(t, line, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			return completeWithEffect(ctx, d.DB, job)
		}})
		awaitNumber(t, d.DB, 1, succeeded)
		stop(t, r)
		if n := number(t, d.DB, lostInLog); n != 1 {
			t.Errorf("%d of the lost runs are in the log, want 1", n)
		}
	})
}

func TestARowThatTheLogRefusedIsWrittenLater(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		line := newWire(t, d)
		start(t, line, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return errors.New("no luck") }})
		line.refuse(aLogRow, 2)
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		awaitWithin(t, 5*time.Second*slack, func() string { return "the log does not say why the job failed" }, func() bool {
			return number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = 1 AND attempt = 1 AND outcome = 'failed' AND error = 'no luck'") == 1
		})
		if n := line.willRefuse(aLogRow); n != 0 {
			t.Errorf("the log was to refuse %d more", n)
		}
	})
}

// Stop has little time, so the run's context ends. Its handler has completed the job by then, and commits that.
func TestASuccessThatIsCommittedWhileStopHasNoPatienceIsTold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, how := range []string{"with an error", "without an error"} {
			t.Run(how, func(t *testing.T) {
				execute(t, d.DB, "DELETE FROM async_job_tab")
				execute(t, d.DB, "DELETE FROM async_job_log_tab")
				completed, heard := make(chan struct{}), make(chan queue_job.Finished, 1)
				r := start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 5,
					HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
						tx, err := d.DB.BeginTx(context.WithoutCancel(ctx), nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						if err := job.CompleteTx(ctx, tx); err != nil {
							return err
						}
						close(completed)
						<-ctx.Done()
						if err := tx.Commit(); err != nil || how == "without an error" {
							return err
						}
						return ctx.Err()
					},
					OnFinished: func(_ context.Context, _ *queue_job.Job, f queue_job.Finished) { heard <- f }})
				add(t, d.DB, 1, 0)
				<-completed
				soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if err := r.Stop(soon); err != nil {
					t.Error(err)
				}
				if n := number(t, d.DB, succeeded); n != 1 {
					t.Error("the success that was committed is not in the table")
				}
				if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != 0 {
					t.Errorf("%d rows of the log say that the run went wrong", n)
				}
				if f := <-heard; f.Status != queue_job.JobStatusSuccess || f.Dropped {
					t.Errorf("the observer heard of %+v, want a success that is written", f)
				}
			})
		}
	})
}
