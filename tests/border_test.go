package tests

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// verbs are all verbs of Jobs, each with what they share.
func verbs(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, which queue_job.Selector) map[string]func() error {
	unique := queue_job.UniqueKey("k", queue_job.UniqueWhilePending)
	archived := []queue_job.Archived{{JobInfo: queue_job.JobInfo{Id: 1, Status: queue_job.JobStatusSuccess}}}
	return map[string]func() error{
		"Add":         func() error { _, err := jobs.Add(ctx, ex, theJob); return err },
		"AddUnique":   func() error { _, err := jobs.AddUnique(ctx, ex, theJob.With(unique)); return err },
		"AddMany":     func() error { _, err := jobs.AddMany(ctx, ex, manyJobs(3)); return err },
		"Cancel":      func() error { _, err := jobs.Cancel(ctx, ex, which); return err },
		"Reschedule":  func() error { _, err := jobs.Reschedule(ctx, ex, which, time.Now()); return err },
		"SetParams":   func() error { _, err := jobs.SetParams(ctx, ex, which, 1); return err },
		"SetPriority": func() error { _, err := jobs.SetPriority(ctx, ex, which, queue_job.PriorityHigh); return err },
		"Retry":       func() error { _, err := jobs.Retry(ctx, ex, which); return err },
		"RetryWith":   func() error { _, err := jobs.RetryWith(ctx, ex, which, 1); return err },
		"RetryAll":    func() error { _, err := jobs.RetryAll(ctx, ex, queue_job.RetryRange{JobType: 1}); return err },
		"Pause":       func() error { _, err := jobs.Pause(ctx, ex, 1); return err },
		"Resume":      func() error { _, err := jobs.Resume(ctx, ex, 1); return err },
		"PauseUntil":  func() error { _, err := jobs.PauseUntil(ctx, ex, 1, time.Now().Add(time.Hour)); return err },
		"Paused":      func() error { _, err := jobs.Paused(ctx, ex); return err },
		"Get":         func() error { _, err := jobs.Get(ctx, ex, which); return err },
		"List":        func() error { _, err := jobs.List(ctx, ex, queue_job.Filter{}); return err },
		"All": func() (err error) {
			for _, err = range jobs.All(ctx, ex, queue_job.Filter{}) {
			}
			return err
		},
		"Delete":     func() error { _, err := jobs.Delete(ctx, ex, queue_job.DeleteRange{Before: time.Now()}); return err },
		"DeleteJobs": func() error { _, err := jobs.DeleteJobs(ctx, ex, which); return err },
		"Restore":    func() error { _, err := jobs.Restore(ctx, ex, archived); return err },
		"Leases":     func() error { _, err := jobs.Leases(ctx, ex); return err },
		"Instances":  func() error { _, err := jobs.Instances(ctx, ex); return err },
		"HandOver":   func() error { return jobs.HandOver(ctx, ex, "job-1") },
		"Drain":      func() error { return jobs.Drain(ctx, ex, "0123456789ab", time.Hour) },
		"Undrain":    func() error { _, err := jobs.Undrain(ctx, ex, "0123456789ab"); return err },
		"Break":      func() error { return jobs.Break(ctx, ex, "job-1") },
		"AddFlow": func() error {
			f := queue_job.NewFlow("kind")
			f.Job("a", queue_job.AddModelJob{JobType: 1})
			_, err := jobs.AddFlow(ctx, ex, f)
			return err
		},
		"Flows":       func() error { _, err := jobs.Flows(ctx, ex, queue_job.FlowFilter{}); return err },
		"Flow":        func() error { _, err := jobs.Flow(ctx, ex, 1); return err },
		"CancelFlow":  func() error { _, err := jobs.CancelFlow(ctx, ex, 1); return err },
		"RetryFlow":   func() error { _, err := jobs.RetryFlow(ctx, ex, 1); return err },
		"SignalFlow":  func() error { return jobs.SignalFlow(ctx, ex, 1, "approved", 1) },
		"UndoFlow":    func() error { _, err := jobs.UndoFlow(ctx, ex, 1); return err },
		"DeleteFlows": func() error { _, err := jobs.DeleteFlows(ctx, ex, time.Now(), 1); return err },
		"SetLimits": func() error {
			_, err := jobs.SetLimits(ctx, ex, 1, queue_job.Limits{Workers: 1})
			return err
		},
		"SetShards": func() error { return jobs.SetShards(ctx, ex, 1, 2) },
		"Counts":    func() error { _, err := jobs.Counts(ctx, ex, queue_job.CountFilter{}); return err },
		"Attempts":  func() error { _, err := jobs.Attempts(ctx, ex, 1); return err },
	}
}

// saysOnce fails the test unless the error has the words, once.
func saysOnce(t *testing.T, what string, err error, words string) {
	t.Helper()
	if err == nil || strings.Count(err.Error(), words) != 1 {
		t.Errorf("%s: %v, want %q", what, err, words)
	}
}

func TestAVerbWithoutAnExecutorSaysWhatToPass(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, none := range []queue_job.Executor{nil, (*sql.Tx)(nil), (*sql.DB)(nil)} {
			for what, verb := range verbs(t.Context(), open(t, d.DB), none, queue_job.ID(1)) {
				saysOnce(t, what, verb(), "the executor is nil; pass your transaction, or the *sql.DB")
			}
		}
		for what, verb := range verbs(t.Context(), new(queue_job.Jobs), d.DB, queue_job.ID(1)) {
			saysOnce(t, what, verb(), "make them with queue_job.Open")
		}
		saysOnce(t, "AddAsyncJob", queue_job.AddAsyncJob(nil, theJob), "the handle is nil; pass your *sql.DB")
		saysOnce(t, "Migrate", schema.Migrate(t.Context(), nil), "the handle is nil; pass your *sql.DB")
	})
}

func TestAVerbThatNamesNoJobSaysSo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, which := range []queue_job.Selector{{}, queue_job.ID()} {
			all := verbs(t.Context(), open(t, d.DB), d.DB, which)
			for _, what := range []string{"Cancel", "Reschedule", "SetParams", "SetPriority", "Retry", "DeleteJobs", "Get"} {
				saysOnce(t, what, all[what](), "no job is named; pass ids to queue_job.ID, or a key to queue_job.Key")
			}
			if err := all["Get"](); !errors.Is(err, queue_job.ErrNoJob) {
				t.Errorf("Get: %v, want ErrNoJob", err)
			}
		}
	})
}

func TestAddUniqueTakesUniqueJobsOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, job := range []queue_job.AddModelJob{theJob, theJob.With(queue_job.WithKey("k"))} {
			_, err := jobs.AddUnique(t.Context(), d.DB, job)
			saysOnce(t, job.Key, err, "give it a key and a uniqueness with the option UniqueKey, or call Add")
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 0 {
			t.Errorf("%d jobs were added", n)
		}
	})
}

func TestMissingTablesAreSaidWithTheRemedy(t *testing.T) {
	t.Parallel()
	const remedy = "call schema.Migrate, or start a Runner without WithoutMigration"
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		says := func(what string, err error) {
			t.Helper()
			if saysOnce(t, what, err, remedy); !errors.Is(err, queue_job.ErrNoTables) {
				t.Errorf("%s: %v is not ErrNoTables", what, err)
			}
		}
		_, err := queue_job.Open(d.DB)
		says("Open", err)
		says("AddAsyncJob", queue_job.AddAsyncJob(d.DB, theJob))
		lock := newLock(t, d.DB, shedlock.Config{})
		_, err = lock.TryLock(t.Context())
		says("TryLock", err)

		migrate(t, d)
		jobs := open(t, d.DB)
		if _, err = queue_job.Open(d.DB, queue_job.WithTablePrefix("other_")); err == nil || !strings.Contains(err.Error(), "with the same table prefix") {
			t.Errorf("Open with a prefix: %v", err)
		}
		execute(t, d.DB, "ALTER TABLE async_job_tab DROP COLUMN progress")
		_, err = jobs.List(t.Context(), d.DB, queue_job.Filter{})
		says("List without a column", err)
		for _, table := range []string{"async_job_tab", "async_job_log_tab", "async_job_type_tab", "async_job_now_tab", "async_job_stat_tab", "async_job_lease_log_tab", "async_job_act_tab", "async_job_step_tab", "async_job_schedule_tab", "async_job_flow_tab", "async_job_node_tab", "shedlock_tab"} {
			execute(t, d.DB, "DROP TABLE "+table)
		}
		for what, verb := range verbs(t.Context(), jobs, d.DB, queue_job.ID(1)) {
			says(what, verb())
		}
	})
}
