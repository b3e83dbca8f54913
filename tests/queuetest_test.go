package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestATestsQueueGoesByItsClockOnEveryDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		q := queuetest.Wrap(t, d.DB, queue_job.Config{
			JobType: 1, NeedRetry: true, MaxRetries: 1, WaitTime: 1500 * time.Millisecond, Schedule: daily{},
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if job.Attempt == 1 && job.JobParams == `"mail"` {
					return errors.New("mailbox busy")
				}
				return nil
			},
		})
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		at := q.Now().Add(time.Hour)
		if _, err := q.Jobs.Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1, JobParams: "mail", StartTime: uint32(at.Unix())}); err != nil {
			t.Fatal(err)
		}
		q.In(tx).RequireAdded(1, queuetest.Params("mail"), queuetest.DueAt(at))
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		q.RunDue() // it may be midnight
		q.RequireAdded(1, queuetest.Params("mail"), queuetest.Status(queue_job.JobStatusInit))
		q.Advance(time.Hour)
		q.RunDue()
		job := q.RequireAdded(1, queuetest.Params("mail"), queuetest.Status(queue_job.JobStatusRetry))
		q.Advance(2 * time.Second)
		if run := q.RunOne(job.Id); run.Status != queue_job.JobStatusSuccess || run.Attempts != 2 || run.Error != "" {
			t.Errorf("%+v", run)
		}
		before := len(q.Added(1, queuetest.Params(nil)))
		q.Advance(48 * time.Hour)
		q.RunDue()
		if n := len(q.Added(1, queuetest.Params(nil), queuetest.Status(queue_job.JobStatusSuccess))); n != before+2 {
			t.Errorf("the schedule's jobs ran %d times in two days", n-before)
		}
	})
}

func TestTestsThatRunSideBySideHaveTablesOfTheirOwnAndMayLoseRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		before := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab")
		for range 2 {
			runs := 0
			q := queuetest.Apart(t, d.DB, queue_job.Config{JobType: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error { runs++; return nil }})
			id, err := q.Jobs.Add(t.Context(), q.DB, theJob)
			if err != nil {
				t.Fatal(err)
			}
			q.LoseOne(id)
			if run := q.RunOne(id); run.Status != queue_job.JobStatusSuccess || run.Lost != 1 || runs != 2 || len(q.Added(1)) != 1 {
				t.Errorf("%+v, %d runs", run, runs)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != before {
			t.Errorf("%d jobs came into the tables without a prefix", n-before)
		}
	})
}

type daily struct{}

func (daily) Next(after time.Time) time.Time {
	return after.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}
