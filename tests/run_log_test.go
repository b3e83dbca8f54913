package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// application is the log of an application, as its handlers use it.
func application() *slog.Logger {
	return slog.New(logger.Handler(slog.NewTextHandler(io.Discard, nil)))
}

// said are the logs of the runs of a job, each as "number: text", without the times.
func said(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, id uint64) (all []string) {
	t.Helper()
	logs, err := jobs.RunLogs(t.Context(), d.DB, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		all = append(all, fmt.Sprintf("%d: %s", l.Attempt, regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(l.Text, "")))
		if ago := time.Since(l.Ended); ago < -time.Minute || ago > time.Minute || l.Term == 0 {
			t.Errorf("%+v", l)
		}
	}
	return all
}

func requireSaid(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, id uint64, want ...string) {
	t.Helper()
	if got := said(t, d, jobs, id); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whoever sees a job's end sees what its runs have logged: the lines are written before the outcome.
func TestWhatTheRunsOfAJobHaveLoggedIsKeptWithIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		log, jobs := application(), open(t, d.DB)
		handle := func(ctx context.Context, job *queue_job.Job) error {
			log.InfoContext(ctx, "charging 漢", "run", job.Attempt)
			switch job.Attempt {
			case 1:
				return errors.New("not yet")
			case 2:
				panic("not yet either")
			}
			log.WarnContext(ctx, "<script>charged</script>")
			return nil
		}
		retries := queue_job.Config{HandleJobFunc: handle, NeedRetry: true, MaxRetries: 5, WaitTime: 10 * time.Millisecond}
		kept, plain, silent, completed := retries, retries, retries, retries
		kept.KeepLog, silent.KeepLog, completed.KeepLog = true, true, true
		plain.JobType, silent.JobType, completed.JobType = 2, 3, 4
		silent.HandleJobFunc = func(context.Context, *queue_job.Job) error { return nil }
		completed.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error {
			tx, err := d.DB.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			log.InfoContext(ctx, "completing")
			return errors.Join(job.CompleteTx(ctx, tx), tx.Commit())
		}
		start(t, d.DB, kept, plain, silent, completed)
		var ids [5]uint64
		for jobType := range ids {
			if jobType == 0 {
				continue
			}
			id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: int32(jobType)})
			if err != nil {
				t.Fatal(err)
			}
			if job, err := jobs.Wait(t.Context(), d.DB, id); err != nil || job.Status != queue_job.JobStatusSuccess {
				t.Fatalf("%+v, %v", job, err)
			}
			ids[jobType] = id
		}
		all := []string{"1: level=INFO msg=\"charging 漢\" run=1\n", "2: level=INFO msg=\"charging 漢\" run=2\n",
			"3: level=INFO msg=\"charging 漢\" run=3\nlevel=WARN msg=<script>charged</script>\n"}
		requireSaid(t, d, jobs, ids[1], all...)
		requireSaid(t, d, jobs, ids[2])
		requireSaid(t, d, jobs, ids[3])
		await(t, func() string {
			return "what a job has logged that ended in its own transaction is not kept behind that"
		}, func() bool {
			logs, err := jobs.RunLogs(t.Context(), d.DB, ids[4])
			return err == nil && len(logs) > 0
		})
		requireSaid(t, d, jobs, ids[4], "1: level=INFO msg=completing\n")
		if steps, err := jobs.Steps(t.Context(), d.DB, ids[1]); err != nil || len(steps) != 0 {
			t.Errorf("they are steps: %+v, %v", steps, err)
		}
		page := browse(t, console.Handler(jobs)).get(fmt.Sprint("/jobs/", ids[1]), http.StatusOK)
		if !strings.Contains(page, "What its runs have logged") || !strings.Contains(page, "msg=&lt;script&gt;charged") || strings.Contains(page, "<script>charged") {
			t.Errorf("the page: %s", page)
		}

		age(t, d, 48*time.Hour, fmt.Sprint("id = ", ids[1]))
		execute(t, d.DB, "UPDATE async_job_step_tab SET created = created - 172800")
		var text []byte
		n, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(-time.Hour), Archive: func(_ context.Context, all []queue_job.Archived) (err error) {
			text, err = json.Marshal(all)
			return err
		}})
		if left := number(t, d.DB, "SELECT COUNT(*) FROM async_job_step_tab WHERE job_id = ?", ids[1]); err != nil || n != 1 || left != 0 {
			t.Fatalf("%d deleted, %v; %d rows are left", n, err, left)
		}
		var archived []queue_job.Archived
		if err := json.Unmarshal(text, &archived); err != nil {
			t.Fatal(err)
		}
		if n, err := jobs.Restore(t.Context(), d.DB, archived); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		requireSaid(t, d, jobs, ids[1], all...)
		if _, err := jobs.DeleteJobs(t.Context(), d.DB, queue_job.ID(ids[1])); err != nil {
			t.Fatal(err)
		}
		if left := number(t, d.DB, "SELECT COUNT(*) FROM async_job_step_tab WHERE job_id = ?", ids[1]); left != 0 {
			t.Errorf("%d rows are left of a job that was deleted", left)
		}
	})
}

func TestARunThatWasOvertakenWritesOverNoOtherLog(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		log, jobs := application(), open(t, d.DB)
		ended := make(chan struct{})
		runner := newRunner(t, d.DB, queue_job.Config{KeepLog: true, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			defer close(ended)
			takeOver(t, d, job.Id)
			st, err := record.Open(ctx, d.DB, "")
			if err == nil {
				err = st.KeepLogs(ctx, []store.Step{{JobID: job.Id, Kind: store.StepLog, Name: fmt.Sprintf("log 2/%d", job.Term+1), Created: int64(job.CreateTime),
					Attempt: 2, Term: job.Term + 1, Ended: time.Now().UnixMilli() - 1, Value: `"of the holder\n"`}}, 10)
			}
			log.InfoContext(ctx, "late")
			return err
		}})
		if err := runner.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		stop(t, runner)
		requireSaid(t, d, jobs, id, "2: of the holder\n", "1: level=INFO msg=late\n")
	})
}

func TestTheLogsOfTheLastRunsAreKeptAndNoStepsOrRetriesMindThem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		log, jobs := application(), open(t, d.DB)
		const runs = 12
		start(t, d.DB, queue_job.Config{KeepLog: true, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			log.InfoContext(ctx, "run")
			if job.Attempt < runs {
				return queue_job.Snooze(0)
			}
			if job.JobParams == `"again"` {
				_, err := queue_job.Step(ctx, job, "once", func(context.Context) (int, error) { return 1, nil })
				return errors.Join(err, queue_job.Fail(errors.New("after the step")))
			}
			return queue_job.Fail(errors.New("enough"))
		}})
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		failed := func() {
			t.Helper()
			if job, err := jobs.Wait(t.Context(), d.DB, id); err != nil || job.Status != queue_job.JobStatusFailed {
				t.Fatalf("%+v, %v", job, err)
			}
		}
		failed()
		all := said(t, d, jobs, id)
		if len(all) != 10 || !strings.HasPrefix(all[0], "3: ") || !strings.HasPrefix(all[9], "12: ") {
			t.Errorf("%q", all)
		}
		if r, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(id), "again"); err != nil || r.Jobs != 1 {
			t.Fatal("a log counts as a step", r, err)
		}
		failed()
		if _, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(id), "more"); !errors.Is(err, queue_job.ErrHasSteps) {
			t.Error(err)
		}
		if r, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(id), "more", queue_job.FromStart); err != nil || r.Jobs != 1 {
			t.Fatal(r, err)
		}
		failed()
		if all = said(t, d, jobs, id); len(all) != 10 || !strings.HasPrefix(all[0], "5: ") {
			t.Errorf("who began anew has forgotten the logs: %q", all)
		}
	})
}

func TestALogThatCannotBeWrittenCostsNoOutcome(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		app, jobs := application(), open(t, d.DB)
		start(t, d.DB, queue_job.Config{KeepLog: true, HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
			app.InfoContext(ctx, "lost")
			return nil
		}})
		execute(t, d.DB, "ALTER TABLE async_job_step_tab RENAME TO not_here")
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		if job, err := jobs.Wait(t.Context(), d.DB, id); err != nil || job.Status != queue_job.JobStatusSuccess {
			t.Fatalf("%+v, %v", job, err)
		}
		execute(t, d.DB, "ALTER TABLE not_here RENAME TO async_job_step_tab")
		requireSaid(t, d, jobs, id)
	})
}
