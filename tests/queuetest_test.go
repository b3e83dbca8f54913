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

func TestAJobIsLostAsOftenAsItsTypeAllows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		handler := func(context.Context, *queue_job.Job) error { return nil }
		q := queuetest.Apart(t, d.DB, queue_job.Config{JobType: 1, LostLimit: 1, HandleJobFunc: handler}, queue_job.Config{JobType: 2, LostLimit: -1, HandleJobFunc: handler})
		add := func(jobType int32) uint64 {
			id, err := q.Jobs.Add(t.Context(), q.DB, queue_job.AddModelJob{JobType: jobType})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		once, always := add(1), add(2)
		q.LoseOne(once)
		execute(t, d.DB, "UPDATE "+q.TablePrefix+"async_job_tab SET lost = 126 WHERE job_type = 2") // the column ends at 127
		for range 3 {
			q.LoseOne(always)
		}
		q.RunDue()
		for id, want := range map[uint64]queue_job.JobInfo{once: {Status: queue_job.JobStatusFailed, Lost: 1}, always: {Status: queue_job.JobStatusSuccess, Lost: 127}} {
			if info, err := q.Jobs.Get(t.Context(), q.DB, queue_job.ID(id)); err != nil || info.Status != want.Status || info.Lost != want.Lost {
				t.Errorf("%+v, %v; want %v, lost %d times", info, err, want.Status, want.Lost)
			}
		}
	})
}

// On each database, a process that dies at a commit has committed, or has not, and what it has not committed is gone.
func TestACaseComesToTheSameEndWhereverItsProcessDiesOnEveryDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "CREATE TABLE crash_stock (order_id bigint PRIMARY KEY, n bigint)")
		orders := 0
		whole := d.Name == "SQLite" || !testing.Short() // each pass makes tables, which takes servers long
		queuetest.CrashEverywhere(t, func(t *testing.T) queuetest.World {
			orders++
			order, mails, flow := orders, map[string]bool{}, uint64(0)
			return queuetest.World{
				DB: d.DB,
				Start: func(q *queuetest.Queue) {
					q.Handle(queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
						return takeFromStock(ctx, q, job, order)
					}}, queue_job.Config{JobType: 2, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
						_, err := queue_job.Step(ctx, job, "mail", func(context.Context) (int, error) { mails[job.StepKey("mail")] = true; return 0, nil })
						return err
					}})
				},
				Begin: func(q *queuetest.Queue) {
					execute(t, q.DB, "INSERT INTO crash_stock VALUES (?, 10)", order)
					f := queue_job.NewFlow("order").OnFailure(queue_job.Undo)
					f.Job("take", queue_job.AddModelJob{JobType: 1, JobParams: -1}).Undo(queue_job.AddModelJob{JobType: 1, JobParams: 1})
					if whole {
						f.Job("mail", queue_job.AddModelJob{JobType: 2}).After("take")
						f.Job("ship", queue_job.AddModelJob{JobType: 1, JobParams: 0}).After("mail")
					}
					added, err := q.Jobs.AddFlow(t.Context(), q.DB, f)
					if err != nil {
						t.Fatal(err)
					}
					flow = added.Id
				},
				Check: func(q *queuetest.Queue) {
					f, err := q.Jobs.Flow(t.Context(), q.DB, flow)
					n := number(t, q.DB, "SELECT n FROM crash_stock WHERE order_id = ?", order)
					if err != nil || whole && (f.State != queue_job.FlowUndone || n != 10 || len(mails) != 1) || !whole && (f.State != queue_job.FlowDone || n != 9) {
						t.Errorf("%+v, %v; %d in stock, %d mails", f, err, n, len(mails))
					}
				},
			}
		})
	})
}

// takeFromStock changes the stock of an order by the number of its job, which 0 cannot be.
func takeFromStock(ctx context.Context, q *queuetest.Queue, job *queue_job.Job, order int) error {
	var n int
	if err := job.Decode(&n); err != nil {
		return err
	}
	if n == 0 {
		return queue_job.Fail(errors.New("it cannot be shipped"))
	}
	tx, err := q.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = queue_job.StepTx(ctx, job, tx, "change", func(ctx context.Context) (int, error) {
		_, err := tx.ExecContext(ctx, dbtest.Rebind(q.DB, "UPDATE crash_stock SET n = n + ? WHERE order_id = ?"), n, order)
		return n, err
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

type daily struct{}

func (daily) Next(after time.Time) time.Time {
	return after.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}
