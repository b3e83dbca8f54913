package tests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const (
	sentSuccess = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1"
	itWaits     = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 3 AND term = 0"
	signalRows  = "SELECT COUNT(*) FROM async_job_step_tab WHERE kind = 2"
)

// answers notes what runs have heard of a signal.
type answers struct {
	mu   sync.Mutex
	runs []string
}

func (a *answers) await(ctx context.Context, job *queue_job.Job, name string, timeout time.Duration) error {
	answer, came, err := queue_job.Await[string](ctx, job, name, timeout)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.runs = append(a.runs, "waits")
	case came:
		a.runs = append(a.runs, answer)
	default:
		a.runs = append(a.runs, "too late")
	}
	return err
}

// runUntilItWaits runs a job that waits for an approval for an hour.
func runUntilItWaits(t *testing.T, d dbtest.Database, heard *answers) (id uint64) {
	t.Helper()
	id = runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
		return heard.await(ctx, job, "approval", time.Hour)
	})
	awaitNumber(t, d.DB, 1, itWaits)
	return id
}

func (a *answers) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.runs, ", ")
}

func sendSignal(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64, value any) {
	t.Helper()
	if err := jobs.Signal(t.Context(), ex, queue_job.ID(id), "approval", value); err != nil {
		t.Error(err)
	}
}

func TestASignalStartsTheJobThatWaitsForItAndLaterRunsReadIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var heard answers
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			err := heard.await(ctx, job, "approval", time.Hour)
			if err == nil && job.Attempt == 2 {
				return errors.New("not yet")
			}
			return err
		})
		awaitNumber(t, d.DB, 1, itWaits)
		e, err := operate.Explain(t.Context(), jobs, d.DB, id)
		if err != nil || e.Reasons[0].Kind != operate.NotDue || !strings.Contains(e.Reasons[0].Text, `It waits for the signal "approval", until `) {
			t.Errorf("%+v, %v", e, err)
		}
		sendSignal(t, jobs, d.DB, id, "yes ü")
		awaitNumber(t, d.DB, 1, sentSuccess)
		if got := heard.all(); got != "waits, yes ü, yes ü" {
			t.Error(got)
		}
		steps, err := jobs.Steps(t.Context(), d.DB, id)
		if err != nil || len(steps) != 1 || !steps[0].Signal || steps[0].Name != "approval" || string(steps[0].Value) != `"yes ü"` || steps[0].Until.IsZero() || steps[0].Ended.IsZero() {
			t.Errorf("%+v, %v", steps, err)
		}
		info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
		if err != nil || info.Retries != 1 || info.Attempts != 3 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

func TestASignalThatComesBeforeTheJobRunsWaitsForItAndStartsNothingElse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var heard answers
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		later := queue_job.AddModelJob{JobType: 1}.With(queue_job.After(time.Hour))
		id, err := jobs.Add(t.Context(), tx, later)
		if err != nil {
			t.Fatal(err)
		}
		sendSignal(t, jobs, tx, id, "early")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE start_time > ?", time.Now().Add(time.Minute).Unix()); n != 1 {
			t.Error("the signal has made a job due that does not wait for it")
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 4")
		if err := jobs.Signal(t.Context(), d.DB, queue_job.ID(id), "another", 1); err != nil {
			t.Error(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE start_time > ?", time.Now().Add(time.Minute).Unix()); n != 1 {
			t.Error("the signal has ended the wait for a retry")
		}
		changed(t, 1)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(id), time.Now()))
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			return heard.await(ctx, job, "approval", time.Hour)
		}})
		awaitNumber(t, d.DB, 1, sentSuccess)
		if got := heard.all(); got != "early" {
			t.Error(got)
		}
	})
}

// The signal comes when the run has looked and has not put the job back yet: the wake-up that is lost most easily.
func TestNoWakeUpIsLostBetweenALookAndItsSleep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		ways := map[string]func(id uint64){
			"it is committed in between": func(id uint64) { sendSignal(t, jobs, d.DB, id, "yes") },
		}
		if d.Name != "SQLite" { // which lets nobody write beside a transaction
			ways["its transaction is open when the job is put back"] = func(id uint64) {
				tx, err := d.DB.Begin()
				if err != nil {
					t.Error(err)
					return
				}
				sendSignal(t, jobs, tx, id, "yes")
				time.AfterFunc(300*time.Millisecond, func() { _ = tx.Commit() }) // meanwhile the outcome is sent, and waits
			}
		}
		for what, between := range ways {
			var heard answers
			var once atomic.Bool
			runner := newRunner(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				err := heard.await(ctx, job, "approval", time.Hour)
				if err != nil && once.CompareAndSwap(false, true) {
					between(job.Id)
				}
				return err
			}})
			if err := runner.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			done := number(t, d.DB, sentSuccess)
			if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}); err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, done+1, sentSuccess)
			stop(t, runner)
			if got := heard.all(); got != "waits, yes" {
				t.Errorf("%s: %s", what, got)
			}
		}
	})
}

// The handler says with the job's status that the job goes on later, as handlers did before there were signals, and the signal comes before that is
// written. Afterwards it would start the job at once.
func TestASignalStartsAJobThatWaitsByItsStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var heard answers
		handle := func(ctx context.Context, job *queue_job.Job) error {
			err := heard.await(ctx, job, "approval", time.Hour)
			if err != nil {
				job.Status = queue_job.JobStatusContinue
				sendSignal(t, jobs, d.DB, job.Id, "yes")
			}
			return nil
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: handle, WaitTime: time.Hour})
		if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, sentSuccess)
		if got := heard.all(); got != "waits, yes" {
			t.Error(got)
		}
	})
}

// The sender's transaction is open when the run looks, or has a snapshot from before the wait.
func TestARunThatLooksWaitsForASenderWhoseTransactionIsOpen(t *testing.T) {
	t.Parallel()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var heard answers
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			if job.Attempt == 1 {
				tx, err := d.DB.Begin()
				if err != nil {
					return err
				}
				sendSignal(t, jobs, tx, job.Id, "yes")
				time.AfterFunc(200*time.Millisecond, func() { _ = tx.Commit() })
			}
			return heard.await(ctx, job, "approval", time.Hour)
		})
		awaitNumber(t, d.DB, 1, sentSuccess)
		if got := heard.all(); got != "yes" {
			t.Errorf("job %d: %s", id, got)
		}
	})
}

func TestASenderWithAnOldSnapshotWakesTheJobOrIsTold(t *testing.T) {
	t.Parallel()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var heard answers
		tx, err := d.DB.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			if _, err := tx.ExecContext(ctx, "SELECT COUNT(*) FROM async_job_step_tab"); err != nil && job.Attempt == 1 {
				return err
			}
			return heard.await(ctx, job, "approval", time.Hour)
		})
		awaitNumber(t, d.DB, 1, itWaits)
		err = jobs.Signal(t.Context(), tx, queue_job.ID(id), "approval", "yes")
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			if d.Name != "PostgreSQL" {
				t.Error(err)
			}
			_ = tx.Rollback()
			sendSignal(t, jobs, d.DB, id, "yes") // as whoever gets such an error has to
		}
		awaitNumber(t, d.DB, 1, sentSuccess)
		if got := heard.all(); got != "waits, yes" {
			t.Error(got)
		}
	})
}

func TestASignalThatIsRolledBackHasNotBeen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var heard answers
		id := runUntilItWaits(t, d, &heard)
		const asItWas = "SELECT changes * 4294967296 + start_time FROM async_job_tab"
		before := number(t, d.DB, asItWas)
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		sendSignal(t, jobs, tx, id, "no")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if after := number(t, d.DB, asItWas); after != before {
			t.Errorf("the row has changed: %d, %d", before, after)
		}
		sendSignal(t, jobs, d.DB, id, "yes")
		awaitNumber(t, d.DB, 1, sentSuccess)
		if got := heard.all(); got != "waits, yes" {
			t.Error(got)
		}
	})
}

func TestTheFirstSignalOfANameCounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var heard answers
		id := runUntilItWaits(t, d, &heard)
		const senders = 8
		errs := make([]error, senders)
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				errs[i] = jobs.Signal(t.Context(), d.DB, queue_job.ID(id), "approval", fmt.Sprint(i))
			})
		}
		all.Wait()
		awaitNumber(t, d.DB, 1, sentSuccess)
		taken, want := 0, ""
		for i, err := range errs {
			switch {
			case err == nil:
				taken, want = taken+1, fmt.Sprintf("waits, %d", i)
			case !errors.Is(err, queue_job.ErrSignalled) && !errors.Is(err, queue_job.ErrEnded):
				t.Error(err)
			}
		}
		if got := heard.all(); taken != 1 || got != want {
			t.Errorf("%d signals were taken; heard %q, want %q", taken, got, want)
		}
	})
}

func TestWhoSendsASignalThatNobodyTakesIsToldWhy(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		ctx, jobs := t.Context(), open(t, d.DB)
		id, err := jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 1}.With(queue_job.WithKey("order-7")))
		if err != nil {
			t.Fatal(err)
		}
		send := func(which queue_job.Selector, want error) {
			t.Helper()
			for _, acting := range []context.Context{ctx, queue_job.WithActor(ctx, "ann", "she said yes")} {
				tx, err := d.DB.Begin()
				if err != nil {
					t.Fatal(err)
				}
				if err := jobs.Signal(acting, tx, which, "approval", 1); !errors.Is(err, want) {
					t.Errorf("%v: %v, want %v", which, err, want)
				}
				if err := tx.Commit(); err != nil {
					t.Errorf("%v: the transaction cannot go on: %v", which, err)
				}
				if want == nil {
					return
				}
			}
		}
		send(queue_job.ID(id+100), queue_job.ErrNoJob)
		send(queue_job.Key(1, "order-8"), queue_job.ErrNoJob)
		send(queue_job.Key(1, "order-7"), nil)
		send(queue_job.ID(id), queue_job.ErrSignalled)
		changed(t, 1)(jobs.Cancel(ctx, d.DB, queue_job.ID(id)))
		send(queue_job.ID(id), queue_job.ErrEnded)
		send(queue_job.Key(1, "order-7"), queue_job.ErrEnded)
		if err := jobs.Signal(ctx, d.DB, queue_job.ID(id), "", 1); err == nil {
			t.Error("a signal without a name")
		}
		if err := jobs.Signal(ctx, d.DB, queue_job.ID(id), "approval", strings.Repeat("x", queue_job.StepValueMax)); !errors.Is(err, queue_job.ErrStepValue) {
			t.Error(err)
		}
		// A row of a job that had the id before is none of this one's.
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 0, create_time = create_time + 1")
		if err := jobs.Signal(queue_job.WithActor(ctx, "ann", "she said yes"), d.DB, queue_job.ID(id), "approval", 1); err != nil {
			t.Error(err)
		}
		if n := number(t, d.DB, signalRows); n != 1 {
			t.Errorf("%d rows", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab WHERE verb = 'signal' AND actor = 'ann'"); n != 1 {
			t.Errorf("%d acts are noted", n)
		}
	})
}

func TestTheEndOfAWaitIsADecisionThatStays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var heard answers
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			wait := 1200 * time.Millisecond // as long as a job has to be put back for
			if job.Attempt > 3 {
				wait = time.Hour
			}
			if err := heard.await(ctx, job, "approval", wait); err != nil {
				return err
			}
			return queue_job.Fail(errors.New("refunded"))
		})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		if err := jobs.Signal(t.Context(), d.DB, queue_job.ID(id), "approval", "yes"); !errors.Is(err, queue_job.ErrEnded) {
			t.Error(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 4, start_time = 2000000000")
		if err := jobs.Signal(t.Context(), d.DB, queue_job.ID(id), "approval", "yes"); !errors.Is(err, queue_job.ErrSignalLate) {
			t.Error(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		if again, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(id)); err != nil || again.Jobs != 1 {
			t.Fatal(again, err)
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = 3")
		if got := heard.all(); got != "waits, too late, too late" {
			t.Error(got)
		}
		if _, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(id), "other"); !errors.Is(err, queue_job.ErrHasSteps) {
			t.Error(err)
		}
		if again, err := jobs.RetryWith(t.Context(), d.DB, queue_job.ID(id), "other", queue_job.FromStart); err != nil || again.Jobs != 1 {
			t.Fatal(again, err)
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 3 AND attempts = 4")
		sendSignal(t, jobs, d.DB, id, "yes")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = 5")
		if got := heard.all(); got != "waits, too late, too late, waits, yes" {
			t.Error(got)
		}
	})
}

// What the sender is told is what each run hears, however near the signal is to the end of the wait.
func TestASignalBesideTheEndOfItsWaitIsOneOfTheTwo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		const n, wait = 40, 600 * time.Millisecond // less than a second: it is waited for in the handler, and the end is sharp
		var mu sync.Mutex
		heard, ends := map[uint64][]string{}, make(chan uint64, n)
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 5, WaitTime: time.Millisecond,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				if job.Attempt == 1 {
					ends <- job.Id
				}
				_, came, err := queue_job.Await[int](ctx, job, "approval", wait)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if heard[job.Id] = append(heard[job.Id], fmt.Sprint(came)); len(heard[job.Id]) < 2 {
					return errors.New("once more")
				}
				return nil
			}})
		if _, err := jobs.AddMany(t.Context(), d.DB, make1(n)); err != nil {
			t.Fatal(err)
		}
		told := map[uint64]error{}
		var all sync.WaitGroup
		for i := range n {
			id := <-ends
			all.Go(func() {
				time.Sleep(wait + time.Duration(i-n/2)*2*time.Millisecond)
				err := jobs.Signal(t.Context(), d.DB, queue_job.ID(id), "approval", 1)
				mu.Lock()
				defer mu.Unlock()
				told[id] = err
			})
		}
		all.Wait()
		awaitNumber(t, d.DB, n, sentSuccess)
		taken := 0
		for id, err := range told {
			want := "[true true]"
			if err != nil {
				want = "[false false]"
			} else {
				taken++
			}
			if got := fmt.Sprint(heard[id]); got != want {
				t.Errorf("job %d: the sender was told %v, and the runs heard %s", id, err, got)
			}
			if err != nil && !errors.Is(err, queue_job.ErrSignalLate) && !errors.Is(err, queue_job.ErrEnded) {
				t.Error(err)
			}
		}
		t.Logf("%d of %d signals were in time", taken, n)
	})
}

func make1(n int) []queue_job.AddModelJob {
	list := make([]queue_job.AddModelJob, n)
	for i := range list {
		list[i].JobType = 1
	}
	return list
}

func TestARunThatHasNotTheJobAnyMoreNeitherWaitsNorEndsAWait(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, late := range []bool{false, true} {
			ended := make(chan error, 10)
			runner := newRunner(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				ctx = context.WithoutCancel(ctx) // deaf
				if late {
					go func() { // while it waits for the last part of a second, which it does in the handler
						awaitNumber(t, d.DB, 1, signalRows)
						takeOver(t, d, job.Id)
					}()
				} else {
					takeOver(t, d, job.Id)
				}
				_, _, err := queue_job.Await[int](ctx, job, "approval", 900*time.Millisecond)
				ended <- err
				return err
			}})
			if err := runner.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, d.DB).Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, queue_job.ErrNotOurs) {
				t.Error(late, err)
			}
			want := int64(0)
			if late {
				want = 1 // which is open still
			}
			if n := number(t, d.DB, signalRows+" AND ended_at = 0"); n != want || n != number(t, d.DB, signalRows) {
				t.Errorf("%t: %d waits", late, n)
			}
			stop(t, runner)
			execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		}
	})
}

func TestASignalIsEncodedAsTheJobIs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := openWith(t, d.DB, codecOf(t, "a"))
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		sendSignal(t, jobs, d.DB, id, secret)
		noSecretIn(t, d)
		if err := jobs.Signal(t.Context(), d.DB, queue_job.ID(id+1, id), "approval", secret); !errors.Is(err, queue_job.ErrNoJob) || !errors.Is(err, queue_job.ErrSignalled) {
			t.Error(err)
		}
		steps, err := jobs.Steps(t.Context(), d.DB, id)
		if err != nil || len(steps) != 1 || string(steps[0].Value) != `"`+secret+`"` {
			t.Errorf("%+v, %v", steps, err)
		}
	})
}

func TestASignalIsArchivedAndRestoredWithItsJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		ctx, jobs := t.Context(), open(t, d.DB)
		id, err := jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		sendSignal(t, jobs, d.DB, id, "yes")
		created := number(t, d.DB, "SELECT create_time FROM async_job_tab")
		execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at) VALUES (%d, 2, 'open', %d, 1, 1, 0, 9000)", id, created))
		add(t, d.DB, 1, 0) // the newest one stays
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		const rows = "SELECT COUNT(*) FROM async_job_step_tab WHERE kind = 2 AND (name = 'open' AND ended_at = 0 AND until_at = 9000 AND step_value IS NULL " +
			"OR name = 'approval' AND ended_at > 0 AND until_at IS NULL AND step_value = '\"yes\"')"
		if n := number(t, d.DB, rows); n != 2 {
			t.Fatal(n)
		}
		var archive []queue_job.Archived
		_, err = jobs.Delete(ctx, d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour), Archive: func(_ context.Context, jobs []queue_job.Archived) error {
			text, err := json.Marshal(jobs)
			return errors.Join(err, json.Unmarshal(text, &archive))
		}})
		if err != nil || number(t, d.DB, signalRows) != 0 {
			t.Fatal(err)
		}
		if n, err := jobs.Restore(ctx, d.DB, archive); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n := number(t, d.DB, rows); n != 2 {
			t.Errorf("%d rows are as they were: %+v", n, archive)
		}
	})
}
