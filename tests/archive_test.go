package tests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// whole reads all jobs with their runs.
func whole(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) (list []queue_job.Archived) {
	t.Helper()
	for info, err := range jobs.All(t.Context(), d.DB, queue_job.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		runs, err := jobs.Attempts(t.Context(), d.DB, info.Id)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, queue_job.Archived{JobInfo: info, Runs: runs})
	}
	return list
}

func TestWhatIsArchivedAsItIsDeletedIsRestoredAsItWas(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), t.Context()
		tenRetries := 10
		for _, job := range []queue_job.AddModelJob{
			{JobType: 1, JobParams: map[string]string{"text": "it's \"quoted\" \\ % ? $1 — 你好"}},
			{JobType: 1, JobParams: strings.Repeat("long ", 2000)},
			{JobType: 2, Key: "order-47", Priority: queue_job.PriorityHigh, MaxRetries: &tenRetries, Meta: map[string]string{"tenant": "acme", "trace": "0-1"}},
			{JobType: 2, Key: "order-48", Group: "customer-7", StartTime: uint32(time.Now().Unix())},
			{JobType: 1, JobParams: 0},
			{JobType: 1, Meta: map[string]string{"full": strings.Repeat("<", 1024-len(`{"full":""}`))}},
		} {
			if _, err := jobs.Add(ctx, d.DB, job); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := jobs.AddUnique(ctx, d.DB, queue_job.AddModelJob{JobType: 3, Key: "once", Unique: queue_job.UniqueForever}); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 250, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = CASE WHEN job_type = 2 THEN 2 ELSE 1 END, term = 7, attempts = 5, retries = 3, lost = 1, deferred = 1, progress = 'half', result = 'it''s done'")
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 6, 'retry', 'no luck', 1001, 2002, 'test' FROM async_job_tab")
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 2, 7, 'lost', '', 0, 3003, 'test' FROM async_job_tab WHERE job_type = 2")
		add(t, d.DB, 1, 0) // the one with the largest id is not deleted
		age(t, d, 48*time.Hour, "1 = 1")
		before := whole(t, d, jobs)

		var lines []string
		n, err := jobs.Delete(ctx, d.DB, queue_job.DeleteRange{Before: time.Now().Add(-time.Hour), Limit: 10_000, Archive: func(_ context.Context, some []queue_job.Archived) error {
			if len(some) > 100 {
				t.Errorf("%d jobs with a call", len(some))
			}
			for _, job := range some {
				line, err := json.Marshal(job)
				if err != nil {
					return err
				}
				lines = append(lines, string(line))
			}
			return nil
		}})
		if err != nil || n != len(before)-1 || len(lines) != n {
			t.Fatal(n, err, len(lines))
		}
		if left := whole(t, d, jobs); len(left) != 1 || number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab") > 0 {
			t.Fatalf("%d jobs are left", len(left))
		}
		archived := make([]queue_job.Archived, len(lines))
		for i, line := range lines {
			if err := json.Unmarshal([]byte(line), &archived[i]); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []int{n, 0} {
			if restored, err := jobs.Restore(queue_job.WithActor(ctx, "anna", "too early"), d.DB, archived); err != nil || restored != want {
				t.Fatalf("%d jobs are restored, want %d: %v", restored, want, err)
			}
		}
		if acts, err := operate.Acts(ctx, jobs, d.DB, operate.ActFilter{Actor: "anna"}); err != nil || len(acts) != 1 || acts[0].Verb != "restore" || acts[0].Changed != n {
			t.Errorf("noted: %+v, %v", acts, err)
		}
		after := whole(t, d, jobs)
		if len(after) != len(before) {
			t.Fatalf("%d jobs, and there were %d", len(after), len(before))
		}
		for i := range before {
			after[i].AsOf, before[i].AsOf = time.Time{}, time.Time{} // when they were read
			if !reflect.DeepEqual(after[i], before[i]) {
				t.Errorf("restored: %+v\nwas: %+v", after[i], before[i])
			}
		}

		var ran runs
		cfg := queue_job.Config{JobType: 2, HandleJobFunc: ran.handler}
		start(t, d.DB, cfg)
		again := before[3].Id
		if r, err := jobs.Retry(ctx, d.DB, queue_job.ID(again)); err != nil || r.Jobs != 1 {
			t.Fatal(r, err)
		}
		await(t, func() string { return "the restored job does not run" }, func() bool { return len(ran.of(again)) == 1 })
		awaitNumber(t, d.DB, 1, fmt.Sprintf("SELECT job_status FROM async_job_tab WHERE id = %d", again))
		if restored, err := jobs.Restore(ctx, d.DB, archived[3:4]); err != nil || restored != 0 || number(t, d.DB, fmt.Sprintf("SELECT job_status FROM async_job_tab WHERE id = %d", again)) != 1 {
			t.Errorf("a job that is there was restored over: %d, %v", restored, err)
		}
	})
}

func archivedJobs(ids ...uint64) (list []queue_job.Archived) {
	at := time.Now().Add(-time.Hour)
	for _, id := range ids {
		list = append(list, queue_job.Archived{
			JobInfo: queue_job.JobInfo{Id: id, JobType: 1, JobParams: "{}", Status: queue_job.JobStatusFailed, Due: at, Created: at, Updated: at},
			Runs:    []queue_job.Attempt{{Attempt: 1, Outcome: "failed", Error: fmt.Sprint("of ", id), Finished: at, Instance: "test", Term: 5}},
		})
	}
	return list
}

func TestInNewTablesAJobThatIsAddedGetsNoIDOfARestoredOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, some := range [][]queue_job.Archived{archivedJobs(1, 2, 3, 4), archivedJobs(2)} {
			if _, err := jobs.Restore(t.Context(), d.DB, some); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if id := addOne(t, jobs, d.DB).Id; id <= 4 {
					t.Errorf("a new job has the id %d", id)
				}
			}
		}
	})
}

func TestAJobThatIsThereGetsNoRunsOfAnArchive(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		there := addOne(t, jobs, d.DB).Id
		n, err := jobs.Restore(t.Context(), d.DB, append(archivedJobs(there, there+1, there+2), archivedJobs(there+1)...))
		if err != nil || n != 2 {
			t.Fatal(n, err)
		}
		for id, want := range map[uint64]int{there: 0, there + 1: 1, there + 2: 1} {
			if runs, err := jobs.Attempts(t.Context(), d.DB, id); err != nil || len(runs) != want {
				t.Errorf("job %d has %d runs, want %d: %v", id, len(runs), want, err)
			}
		}
	})
}

func TestWhatARunnerDeletesIsArchivedBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 60, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = CASE WHEN id % 2 = 0 THEN 2 ELSE 1 END, attempts = 1")
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'failed', 'no luck', 1001, 2002, 'test' FROM async_job_tab WHERE job_status = 2")
		age(t, d, 48*time.Hour, "1 = 1")
		alike := func(list []queue_job.Archived) []queue_job.Archived { // the first instance names the type
			for i := range list {
				if list[i].TypeName = ""; len(list[i].Runs) == 0 {
					list[i].Runs = nil
				}
			}
			return list
		}
		before := alike(whole(t, d, jobs))
		works := func(archive func(context.Context, []queue_job.Archived) error) (*persistent_queue.Runner, *lines) {
			t.Helper()
			var log lines
			r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "test", JobType: 1, Db: d.DB, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}}, log.log(),
				persistent_queue.WithRetention(queue_job.Retention{Done: time.Hour, Failed: time.Hour}), persistent_queue.WithArchive(archive))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return r, &log
		}
		called := make(chan struct{})
		r, log := works(func(context.Context, []queue_job.Archived) error { return errors.New("no room") })
		await(t, log.String, func() bool { return strings.Contains(log.String(), "no room; they stay") })
		stop(t, r)
		free := func() { execute(t, d.DB, "DELETE FROM shedlock_tab WHERE lock_name LIKE 'retain-%'") } // it is kept for ten minutes
		free()
		over := make(chan struct{})
		defer close(over)
		r, _ = works(func(context.Context, []queue_job.Archived) error {
			close(called)
			<-over // whatever its context says
			return nil
		})
		<-called
		stop(t, r) // nobody waits for the archive
		if left := alike(whole(t, d, jobs)); !reflect.DeepEqual(left, before) {
			t.Fatalf("%d jobs are left of %d", len(left), len(before))
		}
		free()

		var mu sync.Mutex
		var archived []queue_job.Archived
		r, _ = works(func(_ context.Context, some []queue_job.Archived) error {
			mu.Lock()
			defer mu.Unlock()
			archived = append(archived, some...)
			return nil
		})
		defer stop(t, r)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab")
		mu.Lock()
		defer mu.Unlock()
		if !reflect.DeepEqual(alike(archived), before[:len(before)-1]) {
			t.Errorf("%d jobs are archived of %d, or otherwise than they were", len(archived), len(before)-1)
		}
	})
}

func TestWhatIsNotArchivedStays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), t.Context()
		add(t, d.DB, 251, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		which := queue_job.DeleteRange{Before: time.Now().Add(time.Hour), Limit: 1000}
		full, calls := errors.New("no space left"), 0
		which.Archive = func(context.Context, []queue_job.Archived) error {
			if calls++; calls > 1 {
				return full
			}
			return nil
		}
		if n, err := jobs.Delete(ctx, d.DB, which); n != 100 || !errors.Is(err, full) || number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab") != 151 {
			t.Errorf("deleted %d, %v", n, err)
		}
		// Somebody has a job run again while it is archived.
		first := idsWhere(t, d, "1 = 1")[0]
		which.Archive = func(ctx context.Context, some []queue_job.Archived) error {
			if some[0].Id == first {
				r, err := jobs.Retry(ctx, d.DB, queue_job.ID(first))
				if err != nil || r.Jobs != 1 {
					return fmt.Errorf("%v, %w", r, err)
				}
			}
			return nil
		}
		if n, err := jobs.Delete(ctx, d.DB, which); err != nil || n != 149 || number(t, d.DB, fmt.Sprintf("SELECT job_status FROM async_job_tab WHERE id = %d", first)) != 0 {
			t.Errorf("deleted %d, %v", n, err)
		}
	})
}

func TestWhatRestoreRefuses(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		for want, job := range map[string]queue_job.JobInfo{
			"job 4 is retry; only jobs that do not run any more": {Id: 4, Status: queue_job.JobStatusRetry},
			"a job has no id": {Status: queue_job.JobStatusSuccess},
		} {
			if _, err := open(t, d.DB).Restore(t.Context(), d.DB, []queue_job.Archived{{JobInfo: job}}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}

// An instance may have a job in memory for longer than others take to archive it and to put it back. It runs the job as it has it, if
// the row still has the version that it read.
func TestAVersionOfAJobNeverComesAgainWithOtherParameters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), t.Context()
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		dice := rand.New(rand.NewPCG(seed, 0))
		id := addOne(t, jobs, d.DB, queue_job.UniqueKey("k", queue_job.UniqueWhilePending)).Id
		addOne(t, jobs, d.DB, inAnHour()) // the one with the largest id is not deleted
		errKept := errors.New("the disk is full")
		archived, read := []queue_job.Archived{}, map[string]string{}
		archive := func(then error) (int, error) {
			n, err := jobs.Delete(ctx, d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour), Archive: func(_ context.Context, some []queue_job.Archived) error {
				text, err := json.Marshal(some) // as most archives keep them
				if err == nil {
					some = nil
					err = json.Unmarshal(text, &some)
				}
				archived = append(archived, some...)
				return errors.Join(then, err)
			}})
			if errors.Is(err, errKept) {
				err = nil
			}
			return n, err
		}
		acts := []string{}
		for step := range unlessShort(300, 100) {
			var err error
			act := dice.IntN(8)
			switch act {
			case 0, 1:
				_, err = jobs.Cancel(ctx, d.DB, queue_job.ID(id))
			case 2:
				_, err = jobs.RetryWith(ctx, d.DB, queue_job.ID(id), step)
			case 3:
				_, err = jobs.SetParams(ctx, d.DB, queue_job.ID(id), step)
			case 4:
				_, err = archive(errKept)
			case 5:
				_, err = archive(nil)
			case 6:
				if len(archived) > 0 {
					_, err = jobs.Restore(ctx, d.DB, []queue_job.Archived{archived[dice.IntN(len(archived))]})
				}
			case 7: // the key is taken
				var added queue_job.Added
				added, err = jobs.AddUnique(ctx, d.DB, queue_job.AddModelJob{JobType: 1, JobParams: step}.With(queue_job.UniqueKey("k", queue_job.UniqueWhilePending)))
				if err == nil && !added.Existed {
					execute(t, d.DB, "DELETE FROM async_job_tab WHERE id = ?", added.Id)
				}
			}
			if err != nil {
				t.Fatalf("act %d: %v", act, err)
			}
			acts = append(acts, fmt.Sprint(act))
			var version, params string
			err = d.DB.QueryRow(dbtest.Rebind(d.DB, "SELECT CONCAT(CONCAT(CONCAT(term, ','), attempts), CONCAT(',', changes)), params FROM async_job_tab WHERE id = ? AND job_status = 0"), id).Scan(&version, &params)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if before, seen := read[version]; seen && before != params {
				t.Fatalf("version %s had the parameters %s and has %s, after the acts %v", version, before, params, acts)
			}
			read[version] = params
		}
	})
}
