package tests

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const (
	followers    = "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2"
	firstSuccess = "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 1 AND job_status = 1"
)

// follower is a job that follows another one.
func follower(of *queue_job.Job) queue_job.AddModelJob {
	return queue_job.AddModelJob{JobType: 2, JobParams: fmt.Sprintf("after %d", of.Id)}
}

type traceKey struct{}

func TestJobsThatFollowAreAddedOnceWithTheSuccessOfTheirRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		codec := codecOf(t, "key")
		jobs, err := queue_job.Open(d.DB, queue_job.WithCodec(codec), queue_job.OnAdd(func(ctx context.Context, job *queue_job.AddModelJob) error {
			job.Meta["trace"] = fmt.Sprint(ctx.Value(traceKey{}))
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		var ran runs
		heard := make(chan string, 9)
		both := queue_job.Config{NeedRetry: true, MaxRetries: 9, WaitTime: time.Millisecond,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				ran.note(job)
				if job.JobType == 2 {
					heard <- job.JobParams + job.Meta["trace"] + job.Key
					return nil
				}
				ctx = context.WithValue(ctx, traceKey{}, job.Attempt)
				first, second := follower(job), follower(job).With(queue_job.After(time.Hour))
				err := errors.Join(jobs.Then(ctx, job, first.With(queue_job.WithKey("order"))), jobs.Then(ctx, job, second, second))
				if n := number(t, d.DB, followers); n != 0 || err != nil {
					t.Errorf("before the end of run %d: %d jobs, %v", job.Attempt, n, err)
				}
				switch job.Attempt {
				case 1:
					return errors.New("not yet")
				case 2:
					return queue_job.Snooze(0)
				case 3:
					panic("no luck")
				}
				return err
			}}
		second := both
		second.JobType = 2
		startWith(t, []persistent_queue.Option{persistent_queue.WithCodec(codec)}, d.DB, both, second)
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := <-heard, fmt.Sprintf(`"after %d"4order`, id); got != want {
			t.Errorf("%s follows, want %s", got, want)
		}
		if n := number(t, d.DB, followers); n != 3 || len(ran.of(id)) != 4 {
			t.Errorf("%d jobs follow %d runs", n, len(ran.of(id)))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2 AND params LIKE '%after%'"); n != 0 {
			t.Errorf("%d jobs that follow are not encoded", n)
		}
		if n := number(t, d.DB, fmt.Sprintf("%s AND start_time > %d", followers, time.Now().Add(50*time.Minute).Unix())); n != 2 {
			t.Errorf("%d jobs are due in an hour", n)
		}
	})
}

// The process stands still when the handler has returned, and wakes when the job is another run's.
func TestWhatARunThatDoesNotCountHasHadFollowIsNotAdded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for what, meanwhile := range map[string]func(id uint64){
			"another holder has it": func(id uint64) { takeOver(t, d, id) },
			"it was cancelled":      func(id uint64) { changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(id))) },
			"it was deleted":        func(id uint64) { execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", id)) },
			"it was done by other means": func(id uint64) {
				execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", id))
			},
		} {
			ended := make(chan struct{}, 9)
			runner := newRunner(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				defer func() { ended <- struct{}{} }()
				err := jobs.Then(ctx, job, follower(job))
				meanwhile(job.Id)
				return err
			}})
			if err := runner.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}); err != nil {
				t.Fatal(err)
			}
			<-ended
			stop(t, runner)
			if n := number(t, d.DB, followers); n != 0 {
				t.Errorf("%s: %d jobs follow a run that does not count", what, n)
			}
			execute(t, d.DB, "DELETE FROM async_job_tab")
		}
	})
}

func TestAnAnswerToTheCommitThatIsLostAddsWhatFollowsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		const n = 20
		for what, arrives := range map[string]bool{"its answer is lost": true, "it is lost": false} {
			lossy := &lossy{arrives: arrives}
			pool := sql.OpenDB(lossyConnector{d.DB.Driver(), d.DSN, lossy})
			t.Cleanup(func() { pool.Close() })
			runner := newRunner(t, pool, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				return jobs.Then(ctx, job, follower(job))
			}})
			if err := runner.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			lossy.left.Store(1)
			before, done := number(t, d.DB, followers), number(t, d.DB, firstSuccess)
			if _, err := jobs.AddMany(t.Context(), d.DB, make1(n)); err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, done+n, firstSuccess)
			stop(t, runner)
			if lossy.left.Load() > 0 {
				t.Errorf("%s: no commit was lost", what)
			}
			if got := number(t, d.DB, followers) - before; got != n {
				t.Errorf("%s: %d jobs follow %d", what, got, n)
			}
		}
	})
}

// lossy says of which commits nobody hears.
type lossy struct {
	arrives bool         // they reach the server
	left    atomic.Int32 // how many more
}

type lossyConnector struct {
	driver driver.Driver
	dsn    string
	lossy  *lossy
}

func (c lossyConnector) Driver() driver.Driver { return c.driver }

func (c lossyConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	return &lossyConn{Conn: conn, lossy: c.lossy}, err
}

// lossyConn loses the commit of a transaction in which a follower was inserted.
type lossyConn struct {
	driver.Conn
	lossy    *lossy
	inserted bool
}

func (c *lossyConn) note(query string) (isLost bool) {
	switch {
	case query == "COMMIT":
		isLost = c.inserted && c.lossy.left.Add(-1) >= 0
		c.inserted = false
	case query == "ROLLBACK":
		c.inserted = false
	case strings.HasPrefix(query, "INSERT INTO async_job_tab"):
		c.inserted = true
	}
	return isLost
}

func (c *lossyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	isLost := c.note(query)
	if isLost && !c.lossy.arrives {
		return nil, errBroken
	}
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if isLost && err == nil {
		err = errBroken
	}
	return result, err
}

func (c *lossyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.note(query)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *lossyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *lossyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

func (c *lossyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checks, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checks.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// The outcomes of a call are written together, and some of them do not count.
func TestOfRunsThatAreWrittenTogetherEachHasItsOwnFollowers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const n = 60
		jobs := open(t, d.DB)
		var began sync.WaitGroup
		began.Add(n)
		runner := newRunner(t, d.DB, queue_job.Config{WorkerPoolCapacity: n, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if job.JobType == 2 {
				return nil
			}
			err := jobs.Then(ctx, job, follower(job), follower(job))
			if job.Id%7 == 0 {
				takeOver(t, d, job.Id)
			}
			began.Done()
			began.Wait()
			return err
		}})
		if err := runner.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		added, err := jobs.AddMany(t.Context(), d.DB, make1(n))
		if err != nil {
			t.Fatal(err)
		}
		began.Wait()
		stop(t, runner)
		for _, a := range added {
			want := int64(2)
			if a.Id%7 == 0 {
				want = 0
			}
			if got := number(t, d.DB, fmt.Sprintf("%s AND params = '\"after %d\"'", followers, a.Id)); got != want {
				t.Errorf("%d jobs follow job %d, want %d", got, a.Id, want)
			}
		}
	})
}

func TestThenSaysWhatCannotFollow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		want := func(err error, words string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v, want %q", err, words)
			}
		}
		inTx := func(ctx context.Context, do func(tx *sql.Tx)) {
			tx, err := d.DB.BeginTx(ctx, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer tx.Rollback()
			do(tx)
		}
		third := make(chan *queue_job.Job, 1)
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			ok := follower(job)
			switch job.Attempt {
			case 1:
				want((*queue_job.Jobs)(nil).Then(ctx, job, ok), "were not opened")
				want(jobs.Then(ctx, &queue_job.Job{}, ok), "no runner has started")
				want(jobs.Then(ctx, job, ok.With(queue_job.UniqueKey("a", queue_job.UniqueForever))), "cannot be unique")
				want(jobs.Then(ctx, job, ok, queue_job.AddModelJob{}), "JobType is 0")
				want(jobs.Then(ctx, job, make([]queue_job.AddModelJob, 1)...), "JobType is 0")
				many := make1(queue_job.ThenMax + 1)
				want(jobs.Then(ctx, job, many...), "the most is 1000")
				for i := range 5 {
					many[i].JobParams = strings.Repeat("x", queue_job.ParamsMax-2)
				}
				want(jobs.Then(ctx, job, many[:5]...), "too long")
				inTx(ctx, func(tx *sql.Tx) {
					if err := job.CompleteTx(ctx, tx); err != nil {
						t.Error(err)
					}
					want(jobs.Then(ctx, job, ok), "in its transaction")
				})
				return errors.New("not yet")
			case 2:
				if err := jobs.Then(ctx, job, ok); err != nil {
					t.Error(err)
				}
				inTx(ctx, func(tx *sql.Tx) { want(job.CompleteTx(ctx, tx), "in its transaction") })
				asleep := job.Sleep(ctx, "nap", 1100*time.Millisecond)
				if err := jobs.Then(ctx, job, ok); !errors.Is(err, queue_job.ErrAsleep) {
					t.Error(err)
				}
				return asleep
			case 3:
				third <- job
				if err := jobs.Then(ctx, job, ok); err != nil {
					t.Error(err)
				}
				inTx(ctx, func(tx *sql.Tx) {
					if err := errors.Join(job.FailTx(ctx, tx, "given up"), tx.Commit()); err != nil {
						t.Error(err)
					}
				})
			}
			return nil
		})
		awaitNumber(t, d.DB, 1, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND id = %d", id))
		kept := <-third
		await(t, func() string { return "it may still be called" }, func() bool {
			err := jobs.Then(t.Context(), kept, follower(kept))
			return err != nil && strings.Contains(err.Error(), "handler has")
		})
		if n := number(t, d.DB, followers); n != 0 {
			t.Errorf("%d jobs follow one that has failed", n)
		}
	})
}

func TestThenNeedsAHandleThatBeginsTransactions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, heard := open(t, d.DB), make(chan error, 9)
		start(t, newWire(t, d), queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			heard <- jobs.Then(ctx, job, follower(job))
			return nil
		}})
		add(t, d.DB, 1, 0)
		if err := <-heard; err == nil || !strings.Contains(err.Error(), "begins no transactions") {
			t.Error(err)
		}
	})
}

// An index of the users' own refuses what follows, until it is in nobody's way.
func TestARunWhoseFollowersTheDatabaseRefusesHasFailedAndIsRetried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "CREATE UNIQUE INDEX of_a_user ON async_job_tab (job_group)")
		jobs := open(t, d.DB)
		inTheWay, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 3, Group: "g"})
		if err != nil {
			t.Fatal(err)
		}
		var settled heard
		startWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(func(_ context.Context, list []queue_job.Settled) {
			for _, s := range list {
				settled.note(s)
			}
		})}, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 50, WaitTime: 200 * time.Millisecond, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if job.Key == "plain" {
				return nil
			}
			return jobs.Then(ctx, job, follower(job).With(queue_job.WithGroup("g")))
		}})
		if _, err := jobs.AddMany(t.Context(), d.DB, []queue_job.AddModelJob{{JobType: 1}, {JobType: 1, Key: "plain"}}); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, firstSuccess) // the other one
		awaitAtLeast(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'retry' AND error LIKE '%cannot be added%'")
		if n := number(t, d.DB, followers); n != 0 {
			t.Errorf("%d jobs follow", n)
		}
		execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", inTheWay))
		awaitNumber(t, d.DB, 2, firstSuccess)
		if n := number(t, d.DB, followers); n != 1 {
			t.Errorf("%d jobs follow", n)
		}
		await(t, func() string { return "nobody was told of the success" }, func() bool {
			all := settled.of("")
			return len(all) > 1 && all[0].Status == queue_job.JobStatusRetry && all[0].Err != nil && all[len(all)-1].Status == queue_job.JobStatusSuccess
		})
	})
}
