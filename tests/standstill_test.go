package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The tests of this file build states in which nothing runs, or nothing succeeds, and ask what is said of them.

func checked(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor) *operate.Health {
	t.Helper()
	h, err := operate.Check(t.Context(), jobs, ex, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// foundOf returns the finding of a kind; nil: there is none.
func foundOf(h *operate.Health, kind string) *operate.Finding {
	i := slices.IndexFunc(h.Findings, func(f operate.Finding) bool { return f.Kind == kind })
	if i < 0 {
		return nil
	}
	return &h.Findings[i]
}

func TestADatabaseThatIsReadOnlyAnswersAndTheRunnerIsNotWell(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var readOnly atomic.Bool
		handle := &eavesdropped{d.DB, d.DB, func(string) (fails, takesEffect bool) { return readOnly.Load(), false }}
		r := start(t, handle, queue_job.Config{LockSecond: 3, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		await(t, func() string { return "nobody takes the lease" }, func() bool { return r.Types()[0].Held == 1 })

		readOnly.Store(true) // and there is nothing to do
		await(t, func() string { return "it is well, and can run nothing" }, func() bool { return errors.Is(r.Health(), errStumbled) })
		if err := r.Health(); err != nil && strings.Contains(err.Error(), "not answered") {
			t.Errorf("the database does answer: %v", err)
		}
		readOnly.Store(false)
		await(t, func() string { return fmt.Sprint("it is not well again: ", r.Health()) }, func() bool { return r.Health() == nil })
	})
}

func TestAHolderThatHasToldNothingForMinutesIsFound(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		gone := keeper.New(context.Background(), st, "test@gone/1", keeper.NewID(), nil)
		taken, err := gone.Take(t.Context(), []keeper.Want{{Name: "job-1", Lock: 10 * time.Minute}, {Name: "job-2", Lock: 10 * time.Minute}})
		if err != nil || len(taken) != 2 {
			t.Fatal(taken, err)
		}
		if _, err := st.NameTypes(t.Context(), []record.TypeName{{JobType: 1, Name: "mails"}}); err != nil {
			t.Fatal(err)
		}
		if err := st.WriteSettings(t.Context(), []record.TypeSettings{{JobType: 1, Settings: `{"config":{"LockSecond":600}}`}}); err != nil {
			t.Fatal(err)
		}
		for _, lease := range taken {
			if err := st.WriteLines(t.Context(), []store.Line{{Lease: lease.Want.Name, Term: lease.Term, LineState: store.LineState{Workers: 10}}}); err != nil {
				t.Fatal(err)
			}
		}
		if h := checked(t, jobs, d.DB); foundOf(h, "silent") != nil || h.Verdict() != "One thing should be looked at." { // no instance is there
			t.Errorf("%s %+v", h.Verdict(), h.Findings)
		}
		execute(t, d.DB, "UPDATE async_job_now_tab SET told_at = told_at - 300")
		h := checked(t, jobs, d.DB)
		f := foundOf(h, "silent")
		if f == nil || f.Severity != operate.Warning || !strings.HasPrefix(f.Text, "test@gone/1 holds job-1, and has not told for 5m ") {
			t.Fatalf("it renewed its lease just now: %+v", h.Findings)
		}
		// That was its last renewal: half of the lease is over.
		execute(t, d.DB, fmt.Sprintf(map[string]string{
			"mysql": "UPDATE shedlock_tab SET lock_until = lock_until - INTERVAL %d SECOND", "pgx": "UPDATE shedlock_tab SET lock_until = lock_until - interval '%d seconds'", "sqlite": "UPDATE shedlock_tab SET lock_until = datetime(lock_until, '-%d seconds')",
		}[d.Driver], 300))
		h = checked(t, jobs, d.DB)
		f = foundOf(h, "silent")
		if f == nil || !strings.HasPrefix(f.Text, "test@gone/1 holds job-1, and has told nothing for 5m ") || !strings.Contains(f.Text, "others go on in ") {
			t.Errorf("it has not renewed its lease: %+v", h.Findings)
		}
		if len(h.Findings) != 2 { // the other one: no instance is there
			t.Errorf("of one process with two types: %+v", h.Findings)
		}
	})
}

func TestWhoeverStopsAndHasNoSuccessorIsFound(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		runs, release := make(chan struct{}, 1), make(chan struct{})
		r := start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { runs <- struct{}{}; <-release; return nil }})
		add(t, d.DB, 1, 0)
		<-runs // a mark alone would be taken back
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(context.WithoutCancel(t.Context())) }()
		defer func() {
			close(release)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}()
		var h *operate.Health
		await(t, func() string { return fmt.Sprintf("found: %+v", h.Findings) }, func() bool {
			h = checked(t, jobs, d.DB)
			return foundOf(h, "about to stop") != nil
		})
		if f := foundOf(h, "about to stop"); f.Severity != operate.Warning || !strings.Contains(f.Text, "is about to stop, and starts no more jobs of what nobody takes: job-1.") {
			t.Errorf("%+v", f)
		}
		time.Sleep(1500 * time.Millisecond) // for as long as somebody may still ask for its leases, it starts jobs
		late := addOne(t, jobs, d.DB)
		e := explained(t, jobs, d.DB, late.Id, "That instance is about to stop", operate.InLine)
		if !strings.HasPrefix(e.Reasons[0].Remedy, "Start an instance") {
			t.Errorf("%+v", e.Reasons)
		}
	})
}

func TestATypeNoneOfWhoseRunsSucceedsIsFound(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		const all = 12
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 5, WaitTime: time.Hour, HandleJobFunc: func(context.Context, *queue_job.Job) error { panic("no map") }},
			queue_job.Config{JobType: 2, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if job.Id%2 == 0 {
					return nil
				}
				return errStumbled
			}})
		add(t, d.DB, all, 0)
		addType(t, d.DB, 2, 2*all, 0)
		awaitNumber(t, d.DB, 3*all, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 0")
		var h *operate.Health
		await(t, func() string { return fmt.Sprintf("found: %+v", h.Findings) }, func() bool {
			h = checked(t, jobs, d.DB)
			return len(h.Findings) > 0
		})
		if f := foundOf(h, "all runs fail"); f == nil || f.Severity != operate.Warning || *f.JobType != 1 || f.Text != "None of its 12 runs has succeeded since its holders took it; their jobs are retried." || len(h.Findings) != 1 {
			t.Errorf("%+v", h.Findings)
		}
	})
}

// By the clock of the database, the job is late; by the clock of whoever looks, it is due in an hour.
func TestWhatIsLateIsSaidByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		conn, err := d.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const ahead = 2 * time.Hour
		goOn := func() { // a clock that is set so stands still
			t.Helper()
			if _, err := conn.ExecContext(t.Context(), fmt.Sprintf("SET timestamp = %d", time.Now().Add(ahead).Unix())); err != nil {
				t.Fatal(err)
			}
		}
		add(t, d.DB, 1, uint32(time.Now().Add(time.Hour).Unix()))
		for _, what := range []string{"no instance has ever run", "an instance has run"} {
			goOn()
			fleet, err := jobs.Fleet(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			about(t, what+": the moment of the look", fleet.Now, time.Now().Add(ahead))
			goOn()
			h := checked(t, jobs, conn)
			about(t, what+": the moment of the check", h.At, time.Now().Add(ahead))
			if h.Late[1] != 1 {
				t.Errorf("%s: %+v", what, h)
			}
			r := start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
			await(t, func() string { return "nobody takes the lease" }, func() bool { return r.Types()[0].Held == 1 })
			stop(t, r)
		}
		goOn()
		kept, err := faces.KeptOf(t.Context(), jobs, conn, nil)
		if err != nil {
			t.Fatal(err)
		}
		about(t, "the moment of what is kept", kept.At, time.Now().Add(ahead))
		execute(t, d.DB, "INSERT INTO async_job_log_tab (job_id, attempt, outcome, error, started, finished, instance, term) SELECT id, 1, 'retry', 'no', 1, 1, '', 1 FROM async_job_tab")
		e, err := faces.LatestErrors(t.Context(), jobs, conn, 1)
		if err != nil {
			t.Fatal(err)
		}
		if hour := time.Now().Add(ahead - time.Hour); e.All || e.Since.Before(hour.Add(-2*time.Minute)) || e.Since.After(hour.Add(time.Minute)) {
			t.Errorf("errors since %v, want about %v: %+v", e.Since, hour, e)
		}
	})
}

// The clock of the console's machine is an hour ahead of the database's.
func TestRunNowMeansAtOnceByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		behind := time.Now().Add(-time.Hour).Unix()
		db := dbtest.Open(t, d.Driver, d.DSN+map[bool]string{true: "&", false: "?"}[strings.Contains(d.DSN, "?")]+fmt.Sprintf("timestamp=%d", behind))
		jobs := open(t, db)
		job := addOne(t, jobs, db)
		execute(t, db, fmt.Sprintf("UPDATE async_job_tab SET start_time = %d", behind+600))
		browse(t, console.Handler(jobs)).press(fmt.Sprintf("/jobs/%d/run-now", job.Id), http.StatusOK)
		if due := number(t, db, "SELECT start_time FROM async_job_tab"); due > behind+1 {
			t.Errorf("the job is due %d seconds after somebody wanted it to run now", due-behind)
		}
	})
}
