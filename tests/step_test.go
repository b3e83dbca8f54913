package tests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// runJob adds a job of type 1, and has a handler run it, up to six times.
func runJob(t *testing.T, d dbtest.Database, handle queue_job.Handler) (id uint64) {
	t.Helper()
	jobs := open(t, d.DB)
	start(t, d.DB, queue_job.Config{HandleJobFunc: handle, NeedRetry: true, MaxRetries: 5, WaitTime: 10 * time.Millisecond})
	id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAStepThatIsRecordedIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var calls atomic.Int32
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			got, err := queue_job.Step(ctx, job, "charge 漢", func(context.Context) (map[string]int, error) {
				return map[string]int{"call": int(calls.Add(1))}, nil
			})
			if err != nil || got["call"] != 1 {
				t.Errorf("run %d: %v, %v", job.Attempt, got, err)
			}
			if job.Attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
		steps, err := jobs.Steps(t.Context(), d.DB, id)
		if err != nil || len(steps) != 1 || steps[0].Name != "charge 漢" || string(steps[0].Value) != `{"call":1}` || steps[0].Attempt != 1 {
			t.Errorf("%+v, %v", steps, err)
		}
	})
}

// takeOver does what the mark of another holder does to a row that is in flight.
func takeOver(t *testing.T, d dbtest.Database, id uint64) {
	execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = term + 1, attempts = attempts + 1, lost = lost + 1 WHERE id = %d", id))
}

// The process stands still between the effect and the record, or dies there; and wakes when somebody else has the job.
func TestTheEffectOfAStepInATransactionHappensOnceOrNotAtAll(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		isolations := []sql.IsolationLevel{sql.LevelDefault}
		if d.Name != "SQLite" {
			isolations = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
		}
		execute(t, d.DB, "CREATE TABLE effect (job bigint)")
		jobs := open(t, d.DB)
		for _, isolation := range isolations {
			for what, meanwhile := range map[string]func(id uint64){
				"another holder has it": func(id uint64) { takeOver(t, d, id) },
				"it was cancelled": func(id uint64) {
					if _, err := jobs.Cancel(t.Context(), d.DB, queue_job.ID(id)); err != nil {
						t.Error(err)
					}
				},
			} {
				execute(t, d.DB, "DELETE FROM effect")
				ended := make(chan error, 10)
				runner := newRunner(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
					ctx = context.WithoutCancel(ctx) // deaf
					if d.Name == "SQLite" {          // which lets nobody write beside a transaction
						return stepInTx(ctx, d, job, isolation, func() {}, func() { meanwhile(job.Id) }, ended)
					}
					return stepInTx(ctx, d, job, isolation, func() { meanwhile(job.Id) }, func() {}, ended)
				}})
				if err := runner.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
				if err != nil {
					t.Fatal(err)
				}
				first := <-ended
				stop(t, runner)
				if first == nil {
					t.Errorf("%s, %v: the step was recorded", what, isolation)
				} else {
					t.Logf("%s, %v: %v", what, isolation, first)
				}
				if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM effect WHERE job = %d", id)); n != 0 {
					t.Errorf("%s, %v: %d effects of a run that has not the job any more", what, isolation, n)
				}
				if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_step_tab"); n != 0 {
					t.Errorf("%s, %v: %d records", what, isolation, n)
				}
				execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
			}
		}
	})
}

// stepInTx has an effect in a step. It commits only what StepTx allows.
func stepInTx(ctx context.Context, d dbtest.Database, job *queue_job.Job, isolation sql.IsolationLevel, within, before func(), ended chan<- error) error {
	before()
	tx, err := d.DB.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = queue_job.StepTx(ctx, job, tx, "reserve", func(ctx context.Context) (int, error) {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO effect (job) VALUES (%d)", job.Id))
		within()
		return 1, err
	})
	if err == nil {
		err = tx.Commit()
	}
	ended <- err
	return err
}

func TestAStepInATransactionThatIsRolledBackIsDoneAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "CREATE TABLE effect (job bigint)")
		runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			for _, commits := range []bool{false, true} { // an earlier one, and that of a process that dies before its commit
				tx, err := d.DB.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				calls := 0
				got, err := queue_job.StepTx(ctx, job, tx, "reserve", func(ctx context.Context) (int, error) {
					calls++
					_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO effect (job) VALUES (%d)", job.Id))
					return job.Attempt, err
				})
				if err != nil || job.Attempt == 3 && (calls != 0 || got != 2) {
					t.Errorf("run %d: %d, %d calls, %v", job.Attempt, got, calls, err)
				}
				if calls > 0 && d.Name != "SQLite" {
					if _, err := queue_job.Step(ctx, job, "beside", func(context.Context) (int, error) { return 1, nil }); err == nil {
						t.Error("a step waits for the transaction of its own run")
					}
				}
				if job.Attempt == 3 {
					return nil
				}
				if !commits || job.Attempt == 1 {
					err = tx.Rollback()
				} else {
					err = tx.Commit()
				}
				if err != nil {
					t.Error(err)
				}
			}
			return errors.New("not yet")
		})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM effect"); n != 1 {
			t.Errorf("%d effects", n)
		}
		if n := number(t, d.DB, "SELECT steps FROM async_job_tab"); n != 1 {
			t.Errorf("%d steps counted", n)
		}
	})
}

func TestAStepOfALateRunIsNotRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		ended := make(chan error, 10)
		runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			_, err := queue_job.Step(ctx, job, "charge", func(context.Context) (int, error) {
				takeOver(t, d, job.Id)
				return 1, nil
			})
			ended <- err
			return err
		})
		if err := <-ended; !errors.Is(err, queue_job.ErrNotOurs) {
			t.Error(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_step_tab"); n != 0 {
			t.Errorf("%d records", n)
		}
	})
}

func TestAJobThatSleepsGoesOnLaterHoweverItsHandlerEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var began, woke atomic.Int64
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			began.CompareAndSwap(0, time.Now().UnixMilli())
			if err := job.Sleep(ctx, "nap", 1500*time.Millisecond); err != nil {
				if job.Attempt == 1 {
					return nil // forgotten
				}
				return err
			}
			woke.CompareAndSwap(0, time.Now().UnixMilli())
			return nil
		})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		if slept := time.Duration(woke.Load()-began.Load()) * time.Millisecond; slept < 1300*time.Millisecond || slept > 20*time.Second {
			t.Errorf("it slept for %v", slept)
		}
		info, err := open(t, d.DB).Get(t.Context(), d.DB, queue_job.ID(id))
		if err != nil || info.Retries != 0 || info.Attempts < 2 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

func TestOtherParametersAskWhatBecomesOfTheSteps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var calls atomic.Int32
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			_, err := queue_job.Step(ctx, job, "charge", func(context.Context) (int32, error) { return calls.Add(1), nil })
			return errors.Join(queue_job.Fail(errors.New("no")), err)
		})
		runs := int64(0)
		again := func(retried queue_job.Retried, err error) {
			t.Helper()
			if runs++; retried.Jobs != 1 || err != nil {
				t.Fatal(retried, err)
			}
			awaitNumber(t, d.DB, 1, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = %d", runs+1))
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		which := queue_job.ID(id)
		again(jobs.Retry(t.Context(), d.DB, which))
		if r, err := jobs.RetryWith(t.Context(), d.DB, which, "other"); !errors.Is(err, queue_job.ErrHasSteps) || r.Jobs != 0 {
			t.Error(r, err)
		}
		again(jobs.RetryWith(t.Context(), d.DB, which, "other", queue_job.KeepSteps))
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
		again(jobs.RetryWith(t.Context(), d.DB, which, "other", queue_job.FromStart))
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls after FromStart", n)
		}
	})
}

func TestStepsGoWithTheirJobAndComeBackWithIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		addRows(t, d.DB, 4, func(int) row { return row{} })
		ids := idsOf(t, d.DB, 4)
		created := number(t, d.DB, fmt.Sprintf("SELECT create_time FROM async_job_tab WHERE id = %d", ids[0]))
		for i, id := range ids[:3] {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, step_value) "+
				"VALUES (%d, 0, 'charge', %d, 1, 1, 5000, '%d'), (%[1]d, 0, 'of another', %[4]d, 1, 1, 5000, '1')", id, created, i, created-1))
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		var archive []queue_job.Archived
		later := time.Now().Add(time.Hour)
		n, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: later, Limit: 2, Archive: func(_ context.Context, jobs []queue_job.Archived) error {
			text, err := json.Marshal(jobs)
			return errors.Join(err, json.Unmarshal(text, &archive))
		}})
		if n != 2 || err != nil || len(archive) != 2 || len(archive[1].Steps) != 1 || string(archive[1].Steps[0].Value) != "1" {
			t.Fatalf("%d, %v, %+v", n, err, archive)
		}
		if left := column[uint64](t, d.DB, "SELECT DISTINCT job_id FROM async_job_step_tab"); !slices.Equal(left, ids[2:3]) {
			t.Errorf("steps of %d are left", left)
		}
		if n, err := jobs.Restore(t.Context(), d.DB, archive); n != 2 || err != nil {
			t.Error(n, err)
		}
		steps, err := jobs.Steps(t.Context(), d.DB, ids[1])
		if err != nil || len(steps) != 1 || steps[0].Name != "charge" || string(steps[0].Value) != "1" || steps[0].Ended.UnixMilli() != 5000 {
			t.Errorf("%+v, %v", steps, err)
		}
		if n, err := jobs.DeleteJobs(t.Context(), d.DB, queue_job.ID(ids[2])); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_step_tab WHERE job_id = %d", ids[2])); n != 0 {
			t.Errorf("%d steps of a deleted job", n)
		}
	})
}
