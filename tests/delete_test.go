package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// age makes rows look as if they had been added, and had come to their end, so long ago.
func age(t *testing.T, d dbtest.Database, by time.Duration, where string) {
	t.Helper()
	execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET create_time = create_time - %[1]d, update_time = update_time - %[1]d WHERE %[2]s", int64(by/time.Second), where))
}

func idsWhere(t *testing.T, d dbtest.Database, where string) (ids []uint64) {
	t.Helper()
	return column[uint64](t, d.DB, "SELECT id FROM async_job_tab WHERE "+where+" ORDER BY id")
}

func TestDeleteTakesOldFinishedJobsWithTheirAttemptsAndNoOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), t.Context()
		add(t, d.DB, 2500, 0)
		addType(t, d.DB, 2, 5, 0)
		first := idsWhere(t, d, "1 = 1")[0]
		status := "CASE WHEN (id - %d) %% 10 < 6 THEN 1 WHEN (id - %d) %% 10 < 8 THEN 2 WHEN (id - %d) %% 10 = 8 THEN 5 ELSE 4 END"
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = "+fmt.Sprintf(status, first, first, first))
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = NULL WHERE id = "+fmt.Sprint(first+9))
		age(t, d, 48*time.Hour, fmt.Sprintf("id < %d", first+2000))
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'retry', 'no luck', 1, 2, 'test' FROM async_job_tab")
		execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", first+9)) // somebody else did, and left its attempts

		day := time.Now().Add(-24 * time.Hour)
		for _, c := range []struct {
			which queue_job.DeleteRange
			want  int
		}{
			{queue_job.DeleteRange{Before: day, Statuses: []queue_job.JobStatus{queue_job.JobStatusCancelled}}, 200},
			{queue_job.DeleteRange{Before: day, JobTypes: []int32{2}}, 0},
			{queue_job.DeleteRange{Before: day, JobTypes: []int32{1, 7}, Limit: 150}, 150},
			{queue_job.DeleteRange{Before: day}, 1000}, // the default limit
			{queue_job.DeleteRange{Before: day, Limit: 10_000}, 450},
			{queue_job.DeleteRange{Before: day, Limit: 10_000}, 0},
		} {
			if n, err := jobs.Delete(ctx, d.DB, c.which); err != nil || n != c.want {
				t.Fatalf("%+v: %d jobs, %v; want %d", c.which, n, err, c.want)
			}
		}
		var want []uint64
		for i := range uint64(2505) {
			if i >= 2000 || i%10 == 9 && i != 9 {
				want = append(want, first+i)
			}
		}
		if got := idsWhere(t, d, "1 = 1"); !slices.Equal(got, want) {
			t.Errorf("%d rows are left, want %d", len(got), len(want))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != int64(len(want)) {
			t.Errorf("%d attempts are left, want %d", n, len(want))
		}
	})
}

func TestDeleteReadsAsMuchAtATimeHoweverLittleOfItsLimitIsLeft(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 2500, 0)
		ids := idsWhere(t, d, "1 = 1")
		for _, id := range []uint64{ids[0], ids[1], ids[2300], ids[2301]} {
			finish(t, d.DB, id, queue_job.JobStatusSuccess)
			execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) VALUES (?, 1, 1, 'retry', '', 1, 2, 'test')", id)
		}
		age(t, d, time.Hour, "job_status = 1")
		for _, want := range []int{3, 1} {
			var statements atomic.Int64
			n, err := jobs.Delete(t.Context(), counted{d.DB, &statements}, queue_job.DeleteRange{Before: time.Now().Add(-time.Minute), Limit: 3})
			if err != nil || n != want {
				t.Fatal(n, err)
			}
			if left := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); left != number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1") {
				t.Errorf("%d attempts are left", left)
			}
			if statements := statements.Load(); statements > 20 { // there are three pages
				t.Errorf("%d statements", statements)
			}
		}
	})
}

func TestTheJobWithTheLargestIDIsNotDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, n := range []int{1, 999, 1} { // one page ends with the newest row, and another is just full
			add(t, d.DB, n, 0)
			execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
			newest := idsWhere(t, d, "1 = 1")
			if deleted, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour)}); err != nil || deleted != len(newest)-1 {
				t.Fatalf("%d of %d jobs, %v", deleted, len(newest), err)
			}
			if left := idsWhere(t, d, "1 = 1"); len(left) != 1 || left[0] != newest[len(newest)-1] {
				t.Fatalf("%d are left", left)
			}
		}
	})
}

func TestDeleteJobsTakesJobsThatDoNotRunAnyMore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), t.Context()
		for _, key := range []string{"a", "a", "b", "c", "d", "e", "f"} {
			addOne(t, jobs, d.DB, queue_job.WithKey(key))
		}
		ids := idsWhere(t, d, "1 = 1")
		for i, status := range []int{1, 0, 2, 5, 4, 0, 1} {
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = %d WHERE id = %d", status, ids[i]))
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 1 WHERE id = %d", ids[5])) // in flight
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'retry', 'no luck', 1, 2, 'test' FROM async_job_tab")
		deletes := func(ctx context.Context, want int, cause error, which queue_job.Selector) {
			t.Helper()
			if n, err := jobs.DeleteJobs(ctx, d.DB, which); n != want || !errors.Is(err, cause) {
				t.Errorf("%v: %d deleted, %v; want %d, %v", which, n, err, want, cause)
			}
		}
		deletes(ctx, 1, nil, queue_job.Key(1, "a"))
		deletes(ctx, 0, nil, queue_job.Key(1, "a")) // the other one waits
		deletes(ctx, 0, nil, queue_job.Key(2, "b"))
		deletes(ctx, 0, nil, queue_job.ID(ids[1], ids[4], ids[5], ids[6]+9))
		deletes(queue_job.WithActor(ctx, "mary", "it is private"), 2, queue_job.ErrNewest, queue_job.ID(ids...))
		deletes(ctx, 0, queue_job.ErrNewest, queue_job.ID(ids[6]))
		want := []uint64{ids[1], ids[4], ids[5], ids[6]}
		if left := idsWhere(t, d, "1 = 1"); !slices.Equal(left, want) {
			t.Errorf("%d are left, want %d", left, want)
		}
		if n := number(t, d.DB, "SELECT COUNT(DISTINCT job_id) FROM async_job_log_tab"); n != int64(len(want)) {
			t.Errorf("the log has runs of %d jobs, want %d", n, len(want))
		}
		acts, err := operate.Acts(ctx, jobs, d.DB, operate.ActFilter{})
		if err != nil || len(acts) != 1 || acts[0].Verb != "delete" || !slices.Equal(acts[0].Jobs, []uint64{ids[2], ids[3]}) {
			t.Errorf("noted: %+v, %v", acts, err)
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 0 WHERE id = %d", ids[6]))
		deletes(ctx, 0, nil, queue_job.ID(ids[6])) // the newest, and it waits
	})
}

func TestAUniqueKeyIsFreeAgainWhenItsJobIsDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, key := open(t, d.DB), queue_job.UniqueKey("order-1", queue_job.UniqueForever)
		there := addOne(t, jobs, d.DB, key)
		add(t, d.DB, 1, 0) // the newest
		if _, err := jobs.Cancel(t.Context(), d.DB, queue_job.ID(there.Id)); err != nil {
			t.Fatal(err)
		}
		if again := addOne(t, jobs, d.DB, key); !again.Existed {
			t.Fatal("the key is free although its job is there")
		}
		if n, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour)}); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if again := addOne(t, jobs, d.DB, key); again.Existed {
			t.Error("the key is taken although its job is gone")
		}
	})
}

// What a transaction has deleted is there until it is committed, and whoever makes a job run again keeps it.
func TestDeleteInATransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 3, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		which := queue_job.DeleteRange{Before: time.Now().Add(time.Hour)}
		tx := begin(t, d.DB)
		if n, err := jobs.Delete(t.Context(), tx, which); err != nil || n != 2 {
			t.Fatal(n, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		ids := idsWhere(t, d, "1 = 1")
		if retried, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(ids[0])); err != nil || retried.Jobs != 1 {
			t.Fatal(retried, err)
		}
		if n, err := jobs.Delete(t.Context(), d.DB, which); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if left := idsWhere(t, d, "1 = 1"); !slices.Equal(left, []uint64{ids[0], ids[2]}) {
			t.Errorf("%d are left of %d", left, ids)
		}
	})
}

func TestWhatDeleteRefuses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, now := open(t, d.DB), time.Now()
		for want, which := range map[string]queue_job.DeleteRange{
			"Before is not set":     {},
			"Limit is -1":           {Before: now, Limit: -1},
			"continue is not final": {Before: now, Statuses: []queue_job.JobStatus{queue_job.JobStatusSuccess, queue_job.JobStatusContinue}},
		} {
			if _, err := jobs.Delete(t.Context(), d.DB, which); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", which, err)
			}
		}
	})
}

// The types of another service, and what is too young or is to be kept, stay.
func TestARunnerDeletesWhatHasOutlivedItsRetention(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 600, 0)
		addType(t, d.DB, 2, 10, 0)
		handled := func(_ context.Context, job *queue_job.Job) error {
			switch job.Id % 4 {
			case 0:
				return errors.New("no luck")
			case 1:
				return queue_job.Cancel(errors.New("no use"))
			}
			return nil
		}
		cfg := queue_job.Config{JobType: 1, HandleJobFunc: handled, Schedule: cron.MustParse("@every 1s")}
		r := newRunnerWith(t, nil, d.DB, cfg, queue_job.Config{JobType: 2, HandleJobFunc: handled})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status NOT IN (1, 2, 5) AND job_key IS NULL")
		scheduled := number(t, d.DB, "SELECT cron_at FROM async_job_type_tab WHERE job_type = 1")
		awaitAtLeast(t, d.DB, scheduled+1, "SELECT cron_at FROM async_job_type_tab WHERE job_type = 1")
		stop(t, r)
		age(t, d, 30*time.Hour, "id % 8 < 4 AND job_key IS NULL") // the newest row, which is never deleted, is one of the schedule
		old := "create_time < " + fmt.Sprint(time.Now().Add(-24*time.Hour).Unix()) + " AND job_type = 1"
		if n := len(idsWhere(t, d, old+" AND job_status = 1")); n < 100 {
			t.Fatalf("%d old jobs: this proves nothing", n)
		}
		kept := idsWhere(t, d, "NOT ("+old+" AND job_status IN (1, 2))")
		attempts := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id IN (SELECT id FROM async_job_tab WHERE NOT ("+old+" AND job_status IN (1, 2)))")

		var log lines
		keep := queue_job.Retention{Done: 24 * time.Hour, Failed: 24 * time.Hour}
		cfg.Schedule, cfg.ServiceName, cfg.Db = nil, "test", d.DB
		cfg.HandleJobFunc = func(context.Context, *queue_job.Job) error { return nil } // if a job of the schedule is left
		r, err := persistent_queue.New([]queue_job.Config{cfg}, log.log(), persistent_queue.WithRetention(keep))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE "+old+" AND job_status IN (1, 2)")
		await(t, log.String, func() bool {
			return strings.Contains(log.String(), "rows deleted, as WithRetention says") && strings.Contains(log.String(), "rows of finished jobs kept for ever")
		})
		stop(t, r)
		if got := idsWhere(t, d, "1 = 1"); !slices.Equal(got, kept) {
			t.Errorf("%d rows are left, want %d", len(got), len(kept))
		}
		if got := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); got != attempts || got == 0 {
			t.Errorf("%d attempts are left, want %d", got, attempts)
		}
	})
}

// What is deleted in many steps is committed at once where that keeps nobody waiting: with many connections, and with more than one writer.
func TestNobodyWaitsForADeletionThatRests(t *testing.T) {
	t.Parallel()
	const old, perStep, failsAt = 100, 10, 4
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		addType(t, d.DB, 2, old, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'retry', '', 1, 2, 'test' FROM async_job_tab WHERE id % 2 = 0")
		age(t, d, 30*time.Hour, "job_type = 2")
		add(t, d.DB, 1, 0)
		of := record.Old{Before: map[int32]int64{2: time.Now().Add(-24 * time.Hour).Unix()}}
		for _, c := range []struct {
			conns int // 0: without a limit
			fails bool
		}{{0, true}, {5, true}, {0, false}} {
			d.DB.SetMaxOpenConns(c.conns)
			together := c.conns == 0 && d.Name != "SQLite"
			there := func() int { return int(number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2")) }
			before, steps := there(), 0
			want := before
			switch {
			case c.fails && together:
				want = 0
			case c.fails:
				want = failsAt * perStep
			}
			page, err := st.FindOld(t.Context(), of, 0, old)
			if err != nil {
				t.Fatal(err)
			}
			deletion, err := st.DeleteOld(t.Context(), of, page, record.Steps{Rows: perStep, Turn: func(ctx context.Context, rows int, send func(context.Context) error) error {
				want := before
				if !together {
					want = max(0, before-steps*perStep)
				}
				if n := there(); n != want {
					t.Errorf("%+v: %d rows are there before step %d, want %d", c, n, steps, want)
				}
				add(t, d.DB, 1, 0)
				if left := max(0, min(perStep, before-steps*perStep)); rows != left {
					t.Errorf("%+v: step %d is for %d rows, want %d", c, steps, rows, left)
				}
				if steps == failsAt && c.fails {
					return errors.New("no luck")
				}
				steps++
				return send(ctx)
			}})
			if c.fails != (err != nil) {
				t.Errorf("%+v: %v", c, err)
			}
			for left := deletion.Strays && err == nil; left; { // of the rows that were deleted before a statement failed
				strays, err := st.DeleteStrays(t.Context(), page, record.Steps{Rows: perStep})
				if left = strays.Strays; err != nil {
					t.Fatal(err)
				}
			}
			if n := before - there(); deletion.Rows != want || n != want {
				t.Errorf("%+v: deleted %d, by its own account %d, want %d", c, n, deletion.Rows, want)
			}
		}
		d.DB.SetMaxOpenConns(0)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n > 0 {
			t.Errorf("%d attempts are left", n)
		}
	})
}

// Somebody deletes many rows by hand, and leaves what the log has of them. All of that lies before the first row that is left, and
// a transaction must not hold it all.
func TestOfManyAttemptsWithoutARowATransactionDeletesFew(t *testing.T) {
	t.Parallel()
	const byHand, left, perStep = 1200, 20, 10
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		attempts := func() int { return int(number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab")) }
		orphans := func() {
			add(t, d.DB, byHand+left, 0)
			execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
			execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'retry', '', 1, 2, 'test' FROM async_job_tab")
			age(t, d, 30*time.Hour, "1 = 1")
			ids := idsWhere(t, d, "1 = 1")
			execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id < %d", ids[byHand]))
			add(t, d.DB, 1, 0)
		}
		orphans()
		of := record.Old{Before: map[int32]int64{2: time.Now().Add(-24 * time.Hour).Unix()}}
		page, err := st.FindOld(t.Context(), of, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		steps := record.Steps{Rows: perStep}
		deletion, err := st.DeleteOld(t.Context(), of, page, steps)
		if n := attempts(); err != nil || deletion.Rows != left || !deletion.Strays || n != byHand {
			t.Errorf("%+v, %v; %d attempts are left, want %d", deletion, err, n, byHand)
		}
		for tries := 0; deletion.Strays && err == nil && tries < 2*byHand/perStep; tries++ {
			deletion, err = st.DeleteStrays(t.Context(), page, steps)
		}
		if n := attempts(); err != nil || deletion.Strays || n > 0 {
			t.Errorf("%+v, %v; %d attempts are left", deletion, err, n)
		}

		execute(t, d.DB, "DELETE FROM async_job_tab")
		orphans()
		if n, err := open(t, d.DB).Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(-24 * time.Hour)}); err != nil || n != left || attempts() > 0 {
			t.Errorf("%d deleted, %v; %d attempts are left", n, err, attempts())
		}
	})
}

func TestADeletionWhoseLastStatementMeetsADeadlockIsSentAgain(t *testing.T) {
	t.Parallel()
	const old = 30
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, old, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		age(t, d, 30*time.Hour, "1 = 1")
		add(t, d.DB, 1, 0)
		of := record.Old{Before: map[int32]int64{2: time.Now().Add(-24 * time.Hour).Unix()}}
		page, err := st.FindOld(t.Context(), of, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		deadlocks := 0
		deletion, err := st.DeleteOld(t.Context(), of, page, record.Steps{Rows: old, Turn: func(ctx context.Context, rows int, send func(context.Context) error) error {
			if rows == 0 && deadlocks == 0 { // the attempts
				deadlocks++
				return errors.New("Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction")
			}
			return send(ctx)
		}})
		again := d.Name != "SQLite" // there, each statement is a transaction of its own
		if (err == nil) != again || deletion.Rows != old || number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab") != 1 {
			t.Errorf("%+v, %v", deletion, err)
		}
	})
}

// The time of a schedule is noted beside the jobs, so a deleted job does not come a second time.
func TestAScheduledJobThatWasDeletedDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var r runs
		cfg := queue_job.Config{HandleJobFunc: r.handler, Schedule: cron.MustParse("@every 1s")}
		runner := start(t, d.DB, cfg)
		await(t, func() string { return "two times of the schedule" }, func() bool { return len(r.all()) >= 2 })
		stop(t, runner)
		add(t, d.DB, 1, 0) // the newest
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		before := len(r.all())
		if n, err := open(t, d.DB).Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour)}); err != nil || n < 2 {
			t.Fatal(n, err)
		}
		start(t, d.DB, cfg)
		await(t, func() string { return "two more times of the schedule" }, func() bool { return len(r.all()) >= before+2 })
		times := map[uint32]bool{}
		for _, run := range r.all() {
			if times[run.job.StartTime] {
				t.Errorf("%d came twice", run.job.StartTime)
			}
			times[run.job.StartTime] = true
		}
	})
}
