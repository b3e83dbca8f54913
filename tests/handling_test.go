package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestSnoozeRunsAgainAfterItsWaitAndIsNoRetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const wait = 300 * time.Millisecond
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			if job.Attempt < 4 {
				return queue_job.Snooze(wait)
			}
			return nil
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND attempts = 4 AND retries = 0")
		wantWaits(t, ran.all(), wait, wait, wait)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != 0 {
			t.Errorf("%d snoozes are in the log of what went wrong", n)
		}
	})
}

func TestADeferredRunCountsNeitherAsARunNorAsARetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const wait = 300 * time.Millisecond
		var ran runs
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			ran.note(job)
			if err := job.SetProgress(ctx, fmt.Sprint("run ", len(ran.all()))); err != nil {
				t.Error(err)
			}
			switch len(ran.all()) {
			case 1:
				return queue_job.Defer(0)
			case 2:
				return queue_job.Defer(wait)
			case 3:
				return errors.New("no luck")
			case 4:
				return fmt.Errorf("the lock is taken: %w", queue_job.Defer(time.Hour))
			}
			return nil
		}})
		jobs := open(t, d.DB)
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 3 AND deferred = 3")
		if _, err := jobs.Reschedule(t.Context(), d.DB, queue_job.ID(id), time.Now()); err != nil { // it comes from the table again
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, succeeded)
		list := ran.all()
		for i, want := range []struct{ attempt, retries int }{{1, 0}, {1, 0}, {1, 0}, {2, 1}, {2, 1}} {
			if len(list) <= i || list[i].job.Attempt != want.attempt || list[i].job.Retries != want.retries {
				t.Fatalf("run %d was not told attempt %d and %d retries: %+v", i+1, want.attempt, want.retries, list)
			}
		}
		if apart := list[2].started.Sub(list[1].started); apart < wait {
			t.Errorf("it ran again after %v, not after %v", apart, wait)
		}
		if job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id)); err != nil || job.Attempts != 5 || job.Deferred != 3 || job.Retries != 1 || job.Lost != 0 || job.Progress != "run 5" {
			t.Errorf("%+v, %v", job, err)
		}
		if log, err := jobs.Attempts(t.Context(), d.DB, id); err != nil || len(log) != 2 || log[0].Attempt != 3 || log[1].Attempt != 4 || log[1].Outcome != "continue" {
			t.Errorf("the log: %+v, %v", log, err)
		}
	})
}

// The table rounds the time of a job that runs again up to a whole second.
func TestNoRunIsToldThatItFallsDueLater(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 9, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			switch {
			case job.Attempt > 4:
				return nil
			case job.Attempt%2 == 0:
				return queue_job.RetryAfter(300*time.Millisecond, errors.New("no luck"))
			}
			return queue_job.Snooze(300 * time.Millisecond)
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded+" AND attempts = 5 AND retries = 2")
		for _, run := range ran.all() {
			if due, now := int64(run.job.NextExecuteTime), run.started.Unix(); due > now {
				t.Errorf("run %d started %d s before the time that it was told", run.job.Attempt, due-now)
			}
		}
	})
}

func TestFailAndCancelAreFinalHoweverManyRetriesAreLeft(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		gone := errors.New("the customer is gone")
		outcomes := []error{queue_job.Fail(gone), fmt.Errorf("order 7: %w", queue_job.Fail(gone)), queue_job.Cancel(gone), queue_job.Cancel(nil)}
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 9, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			return outcomes[job.Id-1]
		}})
		add(t, d.DB, len(outcomes), 0)
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = 1")
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5 AND attempts = 1")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE '%the customer is gone'"); n != 3 {
			t.Errorf("%d of 3 reasons are in the log", n)
		}
	})
}

func TestRetriesWaitAsTheirTimingSaysOrAsTheErrorDoes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const first, others, own = 100 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond
		var ran runs
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 4, WaitTime: time.Hour, RetryTiming: queue_job.Waits(first, others), HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			if job.Retries == 3 {
				return queue_job.RetryAfter(own, errors.New("come back later"))
			}
			return errors.New("no luck")
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = 5 AND retries = 4")
		wantWaits(t, ran.all(), first, others, others, own)
	})
}

// wantWaits holds that so much time lies between the runs, and little more.
func wantWaits(t *testing.T, list []run, waits ...time.Duration) {
	t.Helper()
	const late = 2 * time.Second * slack
	if len(list) != len(waits)+1 {
		t.Fatalf("%d runs, want %d", len(list), len(waits)+1)
	}
	for i, wait := range waits {
		if waited := list[i+1].started.Sub(list[i].started); waited < wait || waited > wait+late {
			t.Errorf("run %d started %v after the one before, want %v", i+2, waited, wait)
		}
	}
}

func TestRetriesMayBeUnlimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: queue_job.Unlimited, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Retries < 30 {
				return errors.New("not yet")
			}
			return nil
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND retries = 30")
	})
}

func TestAJobsOwnNumberOfRetriesWinsOverItsTypes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 4, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET max_retries = id - 1 WHERE id < 4") // 0, 1, 2 and none of its own
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return errors.New("no luck") }})
		awaitNumber(t, d.DB, 4, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND retries = COALESCE(max_retries, 0)")
	})
}

func TestARunThatTakesLongerThanItsTimeoutHasFailedIfItEndsWithAnError(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, Timeout: 100 * time.Millisecond, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, queue_job.ErrTimeout) {
				return fmt.Errorf("the cause is %w", cause)
			}
			if job.Id == 2 {
				return nil // it has made it all the same
			}
			return ctx.Err()
		}})
		add(t, d.DB, 2, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 1 AND job_status = 2 AND retries = 1")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 2 AND job_status = 1 AND retries = 0")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE 'job timed out after 100ms: context deadline exceeded'"); n != 2 {
			t.Errorf("%d of 2 runs are in the log as timed out", n)
		}
	})
}

func TestMiddlewareForAllTypesLiesOutsideThatOfOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		type key struct{}
		note := func(name string) queue_job.Middleware {
			return func(next queue_job.Handler) queue_job.Handler {
				return func(ctx context.Context, job *queue_job.Job) error {
					outer, _ := ctx.Value(key{}).(string)
					return next(context.WithValue(ctx, key{}, outer+name+" "), job)
				}
			}
		}
		handler := func(ctx context.Context, job *queue_job.Job) error {
			return job.SetResult(ctx, ctx.Value(key{}).(string))
		}
		noteBatch := func(name string) queue_job.BatchMiddleware {
			return func(next queue_job.BatchHandler) queue_job.BatchHandler {
				return func(ctx context.Context, jobs []*queue_job.Job) error {
					outer, _ := ctx.Value(key{}).(string)
					return next(context.WithValue(ctx, key{}, outer+name+" "), jobs)
				}
			}
		}
		batch := func(ctx context.Context, jobs []*queue_job.Job) error { return handler(ctx, jobs[0]) }
		configs := []queue_job.Config{
			{ServiceName: "test", JobType: 1, Db: d.DB, HandleJobFunc: handler, Middleware: []queue_job.Middleware{note("one"), note("two")}},
			{ServiceName: "test", JobType: 2, Db: d.DB, HandleJobFunc: handler},
			{ServiceName: "test", JobType: 3, Db: d.DB, HandleBatchFunc: batch, BatchMiddleware: []queue_job.BatchMiddleware{noteBatch("one")}},
		}
		r, err := persistent_queue.New(configs, logOf(t), persistent_queue.WithMiddleware(note("all"), note("every")), persistent_queue.WithBatchMiddleware(noteBatch("batches")))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		addType(t, d.DB, 1, 1, 0)
		addType(t, d.DB, 2, 1, 0)
		addType(t, d.DB, 3, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded+" AND job_type = 3 AND result = 'batches one '")
		awaitNumber(t, d.DB, 1, succeeded+" AND job_type = 1 AND result = 'all every one two '")
		awaitNumber(t, d.DB, 1, succeeded+" AND job_type = 2 AND result = 'all every '")
	})
}

func TestTheObserverHearsOfEachRunAndItsPanicsHarmNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var heard sync.Map
		no := errors.New("no luck")
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, WaitTime: 10 * time.Millisecond, WorkerPoolCapacity: 2,
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				switch job.Id {
				case 1:
					return no
				case 2:
					panic("boom")
				}
				return nil
			},
			OnFinished: func(ctx context.Context, job *queue_job.Job, f queue_job.Finished) {
				if ctx.Err() == nil {
					heard.Store([2]int{int(job.Id), job.Attempt}, f)
				}
				panic("the observer is no good")
			}})
		add(t, d.DB, 50, 0)
		awaitNumber(t, d.DB, 48, succeeded)
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		of := func(id, attempt int) (f queue_job.Finished) { // the row may be written before the observer is told
			await(t, func() string { return fmt.Sprintf("nothing was heard of run %d of job %d", attempt, id) }, func() bool {
				got, ok := heard.Load([2]int{id, attempt})
				if ok {
					f = got.(queue_job.Finished)
				}
				return ok
			})
			return f
		}
		if f := of(1, 1); f.Status != queue_job.JobStatusRetry || !errors.Is(f.Err, no) || !f.RunsAgain() || f.Wait != 10*time.Millisecond {
			t.Errorf("of the first run: %+v", f)
		}
		if f := of(1, 2); f.Status != queue_job.JobStatusFailed || f.RunsAgain() || f.Wait != 0 {
			t.Errorf("of the last run: %+v", f)
		}
		if f := of(2, 1); f.Err == nil || !strings.HasPrefix(f.Err.Error(), "panic: boom") {
			t.Errorf("of a panic: %+v", f)
		}
		if f := of(50, 1); f.Status != queue_job.JobStatusSuccess || f.Err != nil || f.RunsAgain() || f.Took <= 0 {
			t.Errorf("of a success: %+v", f)
		}
	})
}

func TestAJobTellsItsHandlerWhatItIs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		due := time.Now().Unix() - 60
		created := due - 600
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key, priority) VALUES ('{}', 1, 0, ?, ?, ?, 'order-4711', 1)", due, created, created)
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			return errors.New("again")
		}})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		list := ran.all()
		job := list[0].job
		if job.Key != "order-4711" || job.Priority != queue_job.PriorityHigh || int64(job.CreateTime) != created || int64(job.NextExecuteTime) != due {
			t.Errorf("%+v", job)
		}
		if one, two := list[0].job.IdempotencyKey(), list[1].job.IdempotencyKey(); one != two || one != fmt.Sprintf("1-1-%d", created) {
			t.Errorf("the keys of two runs are %s and %s", one, two)
		}
	})
}

func TestAHandlerStoresProgressAndResult(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		step, seen := make(chan struct{}), make(chan struct{})
		longest := strings.Repeat("ä", 1024)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			for range 3 { // the same again in the same second is no loss of the job
				if err := job.SetProgress(ctx, "half way"); err != nil {
					return err
				}
			}
			step <- struct{}{}
			<-seen
			if err := job.SetResult(ctx, longest+"x"); !errors.Is(err, queue_job.ErrTextTooLong) || !strings.Contains(err.Error(), "1025 characters, the column holds 1024") {
				return fmt.Errorf("one character too many: %w", err)
			}
			for _, text := range []string{"a\xff", "a\x00"} {
				if job.SetResult(ctx, text) == nil || job.SetProgress(ctx, text) == nil {
					return fmt.Errorf("%q is stored", text)
				}
			}
			return job.SetResult(ctx, longest)
		}})
		add(t, d.DB, 1, 0)
		<-step
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE progress = 'half way' AND job_status = 0"); n != 1 {
			t.Error("the progress is not in the table while the job runs")
		}
		close(seen)
		awaitNumber(t, d.DB, 1, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE result = ?", longest); n != 1 {
			t.Error("the result is not in the table")
		}
	})
}

func TestARunWhoseJobIsNotItsOwnAnyMoreIsToldSo(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		began, taken, told := make(chan struct{}), make(chan struct{}), make(chan error, 3)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			ctx = context.WithoutCancel(ctx)
			began <- struct{}{}
			<-taken
			told <- job.SetProgress(ctx, "half way")
			told <- job.SetResult(ctx, "done")
			tx, err := begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			err = job.CompleteTx(ctx, tx)
			told <- err
			return err
		}})
		add(t, d.DB, 1, 0)
		<-began
		execute(t, d.DB, "UPDATE async_job_tab SET term = term + 1 WHERE id = 1")
		close(taken)
		for range 3 {
			if err := <-told; !errors.Is(err, queue_job.ErrNotOurs) {
				t.Errorf("it was told %v", err)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE progress IS NULL AND result IS NULL AND job_status = 0"); n != 1 {
			t.Error("it has written to the row all the same")
		}
	})
}

// effects is a table that handlers write to, in the database of the jobs.
func effects(t *testing.T, d dbtest.Database) {
	t.Helper()
	execute(t, d.DB, "CREATE TABLE effects (job bigint NOT NULL, run bigint NOT NULL)")
}

// completeWithEffect is what a handler does that wants its effect exactly once.
func completeWithEffect(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	return completeIn(ctx, bySQL(db), job)
}

func completeIn(ctx context.Context, begin beginner, job *queue_job.Job) error {
	tx, err := begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO effects VALUES (%d, %d)", job.Id, job.Attempt)); err != nil {
		return err
	}
	if err := job.CompleteTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestAJobIsCompletedInTheHandlersTransaction(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		const jobs = 200
		effects(t, d)
		var heard atomic.Int64
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 5,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				err := completeIn(ctx, begin, job)
				if job.Id%2 == 0 && err == nil {
					err = errors.New("what happens after the commit changes nothing")
				}
				return err
			},
			OnFinished: func(_ context.Context, _ *queue_job.Job, f queue_job.Finished) {
				if f.Status == queue_job.JobStatusSuccess {
					heard.Add(1)
				}
			}})
		add(t, d.DB, jobs, 0)
		awaitNumber(t, d.DB, jobs, succeeded+" AND attempts = 1")
		if n := number(t, d.DB, "SELECT COUNT(DISTINCT job) FROM effects"); n != jobs {
			t.Errorf("%d effects of %d jobs", n, jobs)
		}
		await(t, func() string { return fmt.Sprintf("the observer heard of %d successes", heard.Load()) }, func() bool { return heard.Load() == jobs })
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != 0 {
			t.Errorf("%d runs are in the log of what went wrong", n)
		}
	})
}

func TestARunThatDoesNotCommitItsCompletionHasFailed(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		effects(t, d)
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 3, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if job.Retries == 2 {
				return completeIn(ctx, begin, job)
			}
			tx, err := begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback() // and no commit
			if job.Retries == 1 {
				job.Status = queue_job.JobStatusSuccess // it knows no better
			}
			return job.CompleteTx(ctx, tx)
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded+" AND attempts = 3 AND retries = 2")
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'retry' AND error LIKE '%was not committed%'")
	})
}

func TestAHandlerMayBeginItsTransactionAgain(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		effects(t, d)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			tx, err := begin(ctx)
			if err != nil {
				return err
			}
			err = job.CompleteTx(ctx, tx)
			if err = errors.Join(err, tx.Rollback()); err != nil { // as after a deadlock
				return err
			}
			return completeIn(ctx, begin, job)
		}})
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
	})
}

// unlike is a pool with the methods of a transaction and a Conn of its own, as bun's DB is one, and as GORM's is with
// PrepareStmt, which has no Conn at all.
type unlike struct{ *sql.DB }

func (unlike) Conn(context.Context) (wrapped struct{ *sql.Conn }, err error) { return wrapped, nil }

func TestAJobIsNotCompletedOutsideATransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pools := []queue_job.Executor{d.DB, unlike{d.DB}, struct{ queue_job.Executor }{d.DB}, nil, (*sql.Tx)(nil)}
		failed := errors.New("and then the handler fails")
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			return errors.Join(job.CompleteTx(ctx, pools[job.Id-1]), failed)
		}})
		add(t, d.DB, len(pools), 0)
		awaitNumber(t, d.DB, int64(len(pools)), "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		for words, want := range map[string]int64{"is no transaction": 3, "transaction is nil": 2} {
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE '%"+words+"%'"); n != want {
				t.Errorf("%d runs were told %q, want %d", n, words, want)
			}
		}
	})
}

func TestAJobIsCompletedInWhateverCarriesATransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		wraps := []func(*sql.Tx) queue_job.Executor{
			func(tx *sql.Tx) queue_job.Executor { return tx },
			func(tx *sql.Tx) queue_job.Executor { return struct{ *sql.Tx }{tx} },
			func(tx *sql.Tx) queue_job.Executor { return &sqlx.Tx{Tx: tx} },
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if int(job.Id) > len(wraps) {
				conn, err := d.DB.Conn(ctx)
				if err != nil {
					return err
				}
				defer conn.Close()
				if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
					return err
				}
				if err := job.CompleteTx(ctx, conn); err != nil {
					return err
				}
				_, err = conn.ExecContext(ctx, "COMMIT")
				return err
			}
			tx, err := d.DB.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := job.CompleteTx(ctx, wraps[job.Id-1](tx)); err != nil {
				return err
			}
			return tx.Commit()
		}})
		add(t, d.DB, len(wraps)+1, 0)
		awaitNumber(t, d.DB, int64(len(wraps)+1), "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (1, 2)")
		if n := number(t, d.DB, succeeded); n != int64(len(wraps)+1) {
			t.Errorf("%d of %d jobs were completed", n, len(wraps)+1)
		}
	})
}

func TestOfTwoRunsAtTheSameTimeOneHasItsEffect(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		effects(t, d)
		began, goOn, ended := make(chan struct{}, 9), make(chan struct{}), make(chan error, 9)
		handler := func(ctx context.Context, job *queue_job.Job) error {
			if job.Attempt > 1 {
				return completeIn(ctx, begin, job)
			}
			began <- struct{}{}
			<-goOn
			err := completeIn(context.WithoutCancel(ctx), begin, job)
			ended <- err
			return err
		}
		for range 2 { // the lease is so long that the other one takes it before the holder asks for it again
			start(t, d.DB, queue_job.Config{LockSecond: 30, HandleJobFunc: handler})
		}
		add(t, d.DB, 1, 0)
		<-began
		// The first holder loses its lease, and hears of it too late. If it is the first to take it again, it knows that its handler has the job, and
		// loses it once more.
		var stolen time.Time
		await(t, func() string { return "the job does not run again" }, func() bool {
			if time.Since(stolen) > 3*time.Second {
				execute(t, d.DB, "UPDATE shedlock_tab SET locked_by = 'nobody', lock_until = locked_at WHERE lock_name = 'job-1'")
				stolen = time.Now()
			}
			return number(t, d.DB, succeeded+" AND attempts = 2 AND lost = 1") == 1
		})
		close(goOn)
		if err := <-ended; !errors.Is(err, queue_job.ErrNotOurs) {
			t.Errorf("the run that came too late was told %v", err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM effects"); n != 1 {
			t.Errorf("%d effects of one job", n)
		}
	})
}

func TestTheContextOfACancelledJobEndsWithinASecondAndItsOutcomeIsDropped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const jobs = 4
		began, ended := make(chan uint64, jobs), make(chan error, jobs)
		var dropped atomic.Int64
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 5,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				began <- job.Id
				<-ctx.Done()
				ended <- context.Cause(ctx)
				if job.Id%2 == 0 {
					job.Status = queue_job.JobStatusSuccess
				}
				return ctx.Err()
			},
			OnFinished: func(_ context.Context, _ *queue_job.Job, f queue_job.Finished) {
				if f.Dropped && f.Status == queue_job.JobStatusCancelled {
					dropped.Add(1)
				}
			}})
		add(t, d.DB, 1, 0)
		other := <-began
		var cancelled int64
		bestOfThree(t, func() error {
			add(t, d.DB, jobs, 0)
			var ids []uint64
			for range jobs {
				ids = append(ids, <-began)
			}
			asked := time.Now()
			if n, err := open(t, d.DB).Cancel(t.Context(), d.DB, queue_job.ID(ids...)); err != nil || n != jobs {
				t.Fatal(n, err)
			}
			cancelled += jobs
			for range jobs {
				if cause := <-ended; !errors.Is(cause, queue_job.ErrCancelled) {
					t.Errorf("the context ended with %v", cause)
				}
			}
			if took := time.Since(asked); took > time.Second*slack {
				return fmt.Errorf("the contexts ended after %v", took)
			}
			return nil
		})
		await(t, func() string { return fmt.Sprintf("%d runs were dropped", dropped.Load()) }, func() bool { return dropped.Load() == cancelled })
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5 AND attempts = 1"); n != cancelled {
			t.Errorf("%d of %d jobs stayed cancelled", n, cancelled)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != 0 {
			t.Errorf("%d cancelled runs are in the log of what went wrong", n)
		}
		select {
		case cause := <-ended:
			t.Errorf("the run of a job that nobody cancelled ended with %v", cause)
		default:
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1 WHERE id = ?", other) // by hand
		if cause := <-ended; !errors.Is(cause, queue_job.ErrCancelled) {
			t.Errorf("the context of a job that was finished by hand ended with %v", cause)
		}
	})
}

func pause(t *testing.T, db *sql.DB, jobType int32) {
	t.Helper()
	if changed, err := open(t, db).Pause(t.Context(), db, jobType); err != nil || !changed {
		t.Fatal(changed, err)
	}
}

func resume(t *testing.T, db *sql.DB, jobType int32) {
	t.Helper()
	if changed, err := open(t, db).Resume(t.Context(), db, jobType); err != nil || !changed {
		t.Fatal(changed, err)
	}
}

func TestAPausedTypeStartsNothingWithinASecondAndGoesOnWithinOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		var ran runs
		slow := func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			time.Sleep(5 * time.Millisecond)
			return nil
		}
		var other runs
		configs := []queue_job.Config{{JobType: 1, WorkerPoolCapacity: 2, HandleJobFunc: slow}, {JobType: 2, HandleJobFunc: other.handler}}
		first := start(t, d.DB, slices.Clone(configs)...)
		add(t, d.DB, 5000, 0)
		await(t, func() string { return "nothing runs" }, func() bool { return len(ran.all()) > 10 })
		start(t, d.DB, slices.Clone(configs)...) // it stands by, and heeds the pause too when it takes over
		const termOf = "SELECT term FROM shedlock_tab WHERE lock_name = 'job-1'"
		term := number(t, d.DB, termOf)

		pause(t, d.DB, 1)
		pulse.wait(time.Second * slack) // the promise
		list := ran.all()
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term <> 0") // what was marked is given back
		stop(t, first)
		await(t, func() string { return "the type has no new holder" }, func() bool { return number(t, d.DB, termOf) > term })
		addType(t, d.DB, 2, 10, 0)
		awaitNumber(t, d.DB, 10, succeeded+" AND job_type = 2")
		late := newRunner(t, d.DB, configs...)
		if err := late.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop(t, late)
		if n := len(ran.all()); n != len(list) {
			t.Errorf("%d jobs started while the type was paused", n-len(list))
		}

		resume(t, d.DB, 1)
		resumed := time.Now()
		await(t, func() string { return "nothing runs after the pause" }, func() bool { return len(ran.all()) > len(list) })
		next := ran.all()[len(list)].started
		if took, most := next.Sub(resumed), pulse.allows(time.Second*slack, resumed, next); took > most {
			t.Errorf("the next job started %v after the pause, want %v at most", took, most)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE lost <> 0"); n != 0 {
			t.Errorf("%d runs count as lost", n)
		}
	})
}

func TestWhatRunsWhenItsTypeIsPausedEndsAsUsual(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		began, goOn := make(chan struct{}), make(chan struct{})
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
			began <- struct{}{}
			<-goOn
			return ctx.Err()
		}})
		add(t, d.DB, 1, 0)
		<-began
		pause(t, d.DB, 1)
		time.Sleep(1500 * time.Millisecond) // three looks at the pauses
		close(goOn)
		awaitNumber(t, d.DB, 1, succeeded)
	})
}

func TestWhatAHandlerLogsSaysWhichJobItIsAbout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var log lines
		to := slog.New(logger.Handler(slog.NewTextHandler(&log, nil)))
		r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "test", JobType: 1, Db: d.DB, NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			to.InfoContext(ctx, "mine")
			if job.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}}}, logger.QueueLog{Slog: to})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer stop(t, r)
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		for _, want := range []string{
			"msg=mine service=test job_id=1 job_type=1 attempt=1 term=",
			"msg=mine service=test job_id=1 job_type=1 attempt=2 term=",
			"msg=\"job runs again at once: not yet\" service=test job_id=1 job_type=1 attempt=1 term=",
		} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log does not say %q once:\n%s", want, &log)
			}
		}
		for line := range strings.Lines(log.String()) {
			if strings.Count(line, "job_id=") > 1 {
				t.Errorf("twice in one line: %s", line)
			}
		}
	})
}
