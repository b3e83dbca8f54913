package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

var theJob = queue_job.AddModelJob{JobType: 1, JobParams: "x"}

func addOne(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor, options ...queue_job.AddOption) queue_job.Added {
	t.Helper()
	job := theJob.With(options...)
	var added queue_job.Added
	var err error
	if job.Unique == queue_job.NotUnique {
		added.Id, err = jobs.Add(t.Context(), ex, job)
	} else {
		added, err = jobs.AddUnique(t.Context(), ex, job)
	}
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func finish(t *testing.T, db *sql.DB, id uint64, status queue_job.JobStatus) {
	t.Helper()
	execute(t, db, "UPDATE async_job_tab SET job_status = ? WHERE id = ?", int32(status), id)
}

func TestAJobsRowSaysWhatItsOptionsDo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		at := time.Unix(1_900_000_000, 1)
		id := addOne(t, jobs, d.DB, queue_job.At(at), queue_job.WithKey("ключ 7"), queue_job.WithPriority(queue_job.PriorityUrgent), queue_job.WithMaxRetries(-1)).Id
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND start_time = 1900000001 AND job_key = ? AND unique_in IS NULL AND priority = 2 AND max_retries = -1 AND job_status = 0", id, "ключ 7"); n != 1 {
			t.Error("the row does not say it")
		}
		id = addOne(t, jobs, d.DB).Id
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND start_time = 0 AND job_key IS NULL AND unique_in IS NULL AND priority = 0 AND max_retries IS NULL", id); n != 1 {
			t.Error("without options, something is set")
		}
		if err := queue_job.AddAsyncJob(d.DB, theJob.With(queue_job.UniqueKey("k", queue_job.UniqueForever), queue_job.WithMaxRetries(0))); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_key = 'k' AND unique_in = 1 AND max_retries = 0"); n != 1 {
			t.Error("AddAsyncJob left something out")
		}
	})
}

func nowOf(t *testing.T, d dbtest.Database) int64 {
	t.Helper()
	return number(t, d.DB, "SELECT "+map[string]string{
		"SQLite": "unixepoch()", "MariaDB": "UNIX_TIMESTAMP()", "MySQL": "UNIX_TIMESTAMP()", "TiDB": "UNIX_TIMESTAMP()", "PostgreSQL": "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS bigint)",
	}[d.Name])
}

func TestADelayIsCountedByTheDatabasesClockAndNeverShort(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for i, add := range []func(job queue_job.AddModelJob) uint64{
			func(job queue_job.AddModelJob) uint64 { return addOne(t, jobs, d.DB, queue_job.After(job.Delay)).Id },
			func(job queue_job.AddModelJob) uint64 {
				added, err := jobs.AddMany(t.Context(), d.DB, []queue_job.AddModelJob{theJob, job})
				if err != nil {
					t.Fatal(err)
				}
				return added[1].Id
			},
		} {
			before := nowOf(t, d)
			id := add(theJob.With(queue_job.After(90*time.Minute + 700*time.Millisecond)))
			start := number(t, d.DB, "SELECT start_time FROM async_job_tab WHERE id = ?", id)
			if after := nowOf(t, d); start < before+5401 || start > after+5402 {
				t.Errorf("way %d: starts at %d, added between %d and %d", i, start, before, after)
			}
		}
	})
}

func TestADuplicateByKeyIsNotAddedAndTellsWhoIsThere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		pending, forever := queue_job.UniqueKey("order-1", queue_job.UniqueWhilePending), queue_job.UniqueKey("order-1", queue_job.UniqueForever)
		addOne(t, jobs, d.DB, queue_job.WithKey("order-1")) // no obstacle
		first := addOne(t, jobs, d.DB, pending)
		if first.Existed {
			t.Fatal("the first one is a duplicate")
		}
		for _, status := range []queue_job.JobStatus{queue_job.JobStatusInit, queue_job.JobStatusContinue, queue_job.JobStatusRetry} {
			finish(t, d.DB, first.Id, status)
			for _, option := range []queue_job.AddOption{pending, forever} {
				if again := addOne(t, jobs, d.DB, option); !again.Existed || again.Id != first.Id {
					t.Errorf("beside one with status %v: %+v, want existed, id %d", status, again, first.Id)
				}
			}
		}
		if id, err := jobs.Add(t.Context(), d.DB, theJob.With(pending)); id != first.Id || err != nil {
			t.Errorf("Add: %d, %v", id, err)
		}
		for name, other := range map[string]queue_job.AddModelJob{
			"type": {JobType: 2}, "key": theJob.With(queue_job.UniqueKey("Order-1", queue_job.UniqueForever)), "uniqueness": theJob.With(queue_job.WithKey("order-1")),
		} {
			if name == "type" {
				other = other.With(forever)
			}
			if id, err := jobs.Add(t.Context(), d.DB, other); err != nil || id == first.Id {
				t.Errorf("another %s: %d, %v", name, id, err)
			}
		}
		for _, final := range []queue_job.JobStatus{queue_job.JobStatusSuccess, queue_job.JobStatusFailed, queue_job.JobStatusCancelled} {
			finish(t, d.DB, first.Id, final)
			if again := addOne(t, jobs, d.DB, forever); !again.Existed || again.Id != first.Id {
				t.Errorf("for ever, beside one with status %v: %+v", final, again)
			}
			next := addOne(t, jobs, d.DB, pending)
			if next.Existed || next.Id == first.Id {
				t.Errorf("while pending, beside one with status %v: %+v", final, next)
			}
			first = next
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_key = 'order-1' AND job_type = 1 AND unique_in = 1"); n != 1 {
			t.Errorf("%d rows hold the key", n)
		}
	})
}

func TestADuplicateLeavesTheTransactionWhole(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		jobs := open(t, d.DB)
		for i, unique := range []queue_job.Uniqueness{queue_job.UniqueWhilePending, queue_job.UniqueForever} {
			key := queue_job.UniqueKey(fmt.Sprint("k", i), unique)
			there := addOne(t, jobs, d.DB, key)
			done := addOne(t, jobs, d.DB, queue_job.UniqueKey(fmt.Sprint("done", i), unique))
			finish(t, d.DB, done.Id, queue_job.JobStatusSuccess)
			tx := begin.now(t)
			before := addOne(t, jobs, tx)
			if again := addOne(t, jobs, tx, key); !again.Existed || again.Id != there.Id {
				t.Errorf("%+v, want %d", again, there.Id)
			}
			if again := addOne(t, jobs, tx, queue_job.UniqueKey(fmt.Sprint("done", i), unique)); again.Existed != (unique == queue_job.UniqueForever) {
				t.Errorf("beside one that is done: %+v", again)
			}
			after := addOne(t, jobs, tx)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id IN (?, ?)", before.Id, after.Id); n != 2 {
				t.Errorf("%d of the transaction's 2 other jobs are there", n)
			}
		}
	})
}

// The transaction's picture of the table is older than the job that it must not duplicate.
func TestADuplicateIsFoundHoweverOldTheTransaction(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		old := addOne(t, jobs, d.DB, queue_job.UniqueKey("done", queue_job.UniqueWhilePending))
		tx := begin(t, d.DB)
		if _, err := tx.Exec("SELECT * FROM async_job_tab"); err != nil {
			t.Fatal(err)
		}
		there := addOne(t, jobs, d.DB, queue_job.UniqueKey("k", queue_job.UniqueWhilePending))
		finish(t, d.DB, old.Id, queue_job.JobStatusSuccess)
		if again := addOne(t, jobs, tx, queue_job.UniqueKey("k", queue_job.UniqueWhilePending)); !again.Existed || again.Id != there.Id {
			t.Errorf("%+v, want %d", again, there.Id)
		}
		if next := addOne(t, jobs, tx, queue_job.UniqueKey("done", queue_job.UniqueWhilePending)); next.Existed {
			t.Errorf("%+v, but the other one is done", next)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOfManyWhoAddAKeyAtOnceOneAddsIt(t *testing.T) {
	t.Parallel()
	const adders = 12
	rounds := unlessShort(30, 10)
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		jobs := open(t, d.DB)
		// Somebody reads from an old snapshot, so that the entries of keys that were taken from their rows stay, as they do
		// where the server has much to do: on MySQL and MariaDB, adders that meet there deadlock now and then.
		if d.Driver != "sqlite" { // there, a transaction would keep everybody from writing
			if _, err := begin.now(t).ExecContext(t.Context(), "SELECT * FROM async_job_tab"); err != nil {
				t.Fatal(err)
			}
		}
		for _, unique := range []queue_job.Uniqueness{queue_job.UniqueWhilePending, queue_job.UniqueForever} {
			for round := range rounds {
				key := queue_job.UniqueKey(fmt.Sprintf("round-%d-%d", unique, round), unique)
				if unique == queue_job.UniqueWhilePending && round%3 == 0 { // one that is done is there
					finish(t, d.DB, addOne(t, jobs, d.DB, key).Id, queue_job.JobStatusFailed)
				}
				ids := make([]queue_job.Added, adders)
				errs := make([]error, adders)
				var all sync.WaitGroup
				for i := range adders {
					all.Go(func() {
						if round%2 == 0 {
							ids[i], errs[i] = jobs.AddUnique(t.Context(), d.DB, theJob.With(key))
							return
						}
						errs[i] = begin.within(t.Context(), func(tx transaction) (err error) {
							ids[i], err = jobs.AddUnique(t.Context(), tx, theJob.With(key))
							return err
						})
					})
				}
				all.Wait()
				added := 0
				for i := range adders {
					if errs[i] != nil {
						t.Errorf("uniqueness %d, round %d: %v", unique, round, errs[i])
					} else if !ids[i].Existed {
						added++
					}
					if ids[i].Id != ids[0].Id {
						t.Errorf("uniqueness %d, round %d: ids %d and %d", unique, round, ids[i].Id, ids[0].Id)
					}
				}
				if added != 1 {
					t.Errorf("uniqueness %d, round %d: %d added it", unique, round, added)
				}
			}
		}
	})
}

// unlucky handles have some INSERTs end as a deadlock.
type unlucky struct {
	queue_job.Executor
	deadlock error
	times    *int
}

func (u unlucky) struck(query string) bool {
	if *u.times == 0 || !strings.HasPrefix(query, "INSERT") && !strings.HasPrefix(query, "UPDATE") {
		return false
	}
	*u.times--
	return true
}

func (u unlucky) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if u.struck(query) {
		return nil, u.deadlock
	}
	return u.Executor.ExecContext(ctx, query, args...)
}

func (u unlucky) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if u.struck(query) {
		return nil, u.deadlock
	}
	return u.Executor.QueryContext(ctx, query, args...)
}

// unluckyPool is a pool of connections as well.
type unluckyPool struct {
	unlucky
	poolMethods
}

type poolMethods interface {
	Conn(context.Context) (*sql.Conn, error)
	SetMaxOpenConns(int)
	Stats() sql.DBStats
}

func TestAJobIsAddedAndSteeredInSpiteOfADeadlockUnlessTheTransactionIsTheCallers(t *testing.T) {
	t.Parallel()
	deadlocks := map[string]error{
		"mysql": &mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001")), Message: "Deadlock found when trying to get lock"},
		"pgx":   &pgconn.PgError{Code: "40P01", Message: "deadlock detected"},
	}
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs, times, deadlock := open(t, d.DB), 3, deadlocks[d.Driver]
		key := queue_job.UniqueKey("k", queue_job.UniqueWhilePending)
		added, err := jobs.AddUnique(t.Context(), unluckyPool{unlucky{d.DB, deadlock, &times}, d.DB}, theJob.With(key))
		if err != nil || added.Existed || times != 0 {
			t.Errorf("%+v, %v; %d deadlocks are left", added, err, times)
		}
		times = 1
		tx := begin(t, d.DB)
		_, err = jobs.AddUnique(t.Context(), unlucky{tx, deadlock, &times}, theJob.With(queue_job.UniqueKey("another", queue_job.UniqueWhilePending)))
		if !errors.Is(err, deadlock) {
			t.Errorf("in a transaction that the server has undone: %v", err)
		}

		times = 3
		if n, err := jobs.Cancel(t.Context(), unluckyPool{unlucky{d.DB, deadlock, &times}, d.DB}, queue_job.ID(added.Id)); n != 1 || err != nil || times != 0 {
			t.Errorf("%d cancelled, %v; %d deadlocks are left", n, err, times)
		}
		times = 1
		if _, err := jobs.SetPriority(t.Context(), unlucky{tx, deadlock, &times}, queue_job.ID(added.Id), queue_job.PriorityHigh); !errors.Is(err, deadlock) {
			t.Errorf("in a transaction that the server has undone: %v", err)
		}
	})
}

func inTx(ctx context.Context, db *sql.DB, act func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := act(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func manyJobs(n int) []queue_job.AddModelJob {
	list := make([]queue_job.AddModelJob, n)
	for i := range list {
		list[i] = queue_job.AddModelJob{JobType: 5, JobParams: i}
		switch i % 7 {
		case 3:
			list[i] = list[i].With(queue_job.WithKey(fmt.Sprintf(`k"\,{}%d`, i)), queue_job.WithPriority(queue_job.PriorityHigh))
		case 5:
			list[i] = list[i].With(queue_job.WithMaxRetries(i))
		}
	}
	return list
}

func expectIDs(t *testing.T, db *sql.DB, added []queue_job.Added) {
	t.Helper()
	rows, err := db.Query("SELECT id, params FROM async_job_tab WHERE job_type = 5")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	paramsOf := map[uint64]string{}
	for rows.Next() {
		var id uint64
		var params string
		if err := rows.Scan(&id, &params); err != nil {
			t.Fatal(err)
		}
		paramsOf[id] = params
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for i, one := range added {
		if paramsOf[one.Id] != fmt.Sprint(i) {
			t.Fatalf("job %d has id %d, whose row says %q", i, one.Id, paramsOf[one.Id])
		}
	}
}

func TestManyJobsAreAddedInFewStatementsAndTheirIdsAreInOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var others sync.WaitGroup
		busy, stop := context.WithCancel(t.Context())
		defer others.Wait()
		defer stop()
		for range 2 { // who take ids in between
			others.Go(func() {
				for busy.Err() == nil {
					if _, err := jobs.AddMany(context.Background(), d.DB, []queue_job.AddModelJob{theJob, theJob, theJob}); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond) // SQLite's lock has no queue: writers without a pause may keep another from it for its five seconds
				}
			})
		}
		began := time.Now()
		added, err := jobs.AddMany(t.Context(), d.DB, manyJobs(10_000))
		if err != nil || len(added) != 10_000 {
			t.Fatal(len(added), err)
		}
		t.Logf("10,000 jobs in %v", time.Since(began))
		stop()
		others.Wait()
		expectIDs(t, d.DB, added)
		if n := number(t, d.DB, `SELECT COUNT(*) FROM async_job_tab WHERE job_type = 5 AND priority = 1 AND job_key = ?`, `k"\,{}3`); n != 1 {
			t.Error("a key or a priority is not what was given")
		}
		if n := number(t, d.DB, `SELECT COUNT(*) FROM async_job_tab WHERE job_type = 5 AND max_retries = 5 AND job_key IS NULL AND priority = 0`); n != 1 {
			t.Error("a number of retries is not what was given")
		}
	})
}

func TestManyJobsHaveTheRightIdsWhateverTheStepBetweenIds(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		conn, err := d.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "SET SESSION auto_increment_increment = 3, SESSION auto_increment_offset = 2"); err != nil {
			t.Fatal(err)
		}
		added, err := open(t, d.DB).AddMany(t.Context(), conn, manyJobs(2500))
		if err != nil {
			t.Fatal(err)
		}
		if added[1].Id-added[0].Id != 3 {
			t.Fatalf("ids %d and %d: the step is not 3", added[0].Id, added[1].Id)
		}
		expectIDs(t, d.DB, added)
	})
}

func TestManyJobsInATransactionAreAllThereOrNone(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		d.DB.SetMaxOpenConns(1)
		jobs := open(t, d.DB)
		tx := begin.now(t)
		if _, err := jobs.AddMany(t.Context(), tx, manyJobs(1500)); err != nil {
			t.Fatal(err)
		}
		tx.Rollback()
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 0 {
			t.Errorf("%d rows are left of a transaction that was rolled back", n)
		}
		if err := begin.within(t.Context(), func(tx transaction) error {
			_, err := jobs.AddMany(t.Context(), tx, manyJobs(1500))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.AddMany(t.Context(), d.DB, manyJobs(1500)); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 3000 {
			t.Errorf("%d rows, want 3000", n)
		}
	})
}

func TestAmongManyJobsADuplicateIsToldFromTheOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		there := addOne(t, jobs, d.DB, queue_job.UniqueKey("b", queue_job.UniqueForever))
		added, err := jobs.AddMany(t.Context(), d.DB, []queue_job.AddModelJob{
			theJob,
			theJob.With(queue_job.UniqueKey("a", queue_job.UniqueWhilePending)),
			theJob.With(queue_job.UniqueKey("b", queue_job.UniqueForever)),
			theJob,
			theJob.With(queue_job.UniqueKey("a", queue_job.UniqueWhilePending)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if added[0].Existed || added[1].Existed || !added[2].Existed || added[3].Existed || !added[4].Existed || added[2].Id != there.Id || added[4].Id != added[1].Id {
			t.Errorf("%+v", added)
		}
	})
}

func TestManyLargeJobsAreSplitBySize(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		large := queue_job.AddModelJob{JobType: 1, JobParams: strings.Repeat("世", 4094)}
		list := make([]queue_job.AddModelJob, 600) // 7 MB
		for i := range list {
			list[i] = large
		}
		list[300].JobParams = strings.Repeat("x", queue_job.ParamsMax-2)
		if _, err := open(t, d.DB).AddMany(t.Context(), d.DB, list); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE LENGTH(params) >= 4096 OR LENGTH(long_params) = 1048576"); n != 600 {
			t.Errorf("%d rows, want 600", n)
		}
	})
}

const notUTF8 = queue_job.JSON("\"\xff\"")

func TestWhatCannotBeAddedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		tx := begin(t, d.DB)
		for what, option := range map[string]queue_job.AddOption{
			"ten years":   queue_job.After(12 * 365 * 24 * time.Hour),
			"2106":        queue_job.At(time.Unix(1<<33, 0)),
			"128":         queue_job.WithKey(strings.Repeat("k", 129)),
			"white space": queue_job.WithKey("k\n"),
			"UTF-8":       queue_job.WithKey("\xff"),
			"zero":        queue_job.WithKey("a\x00b"),
			"not UTF-8":   func(j *queue_job.AddModelJob) { j.JobParams = notUTF8 },
			"needs a key": queue_job.UniqueKey("", queue_job.UniqueForever),
			"retries":     queue_job.WithMaxRetries(-2),
			"priority":    queue_job.WithPriority(3),
			"use one":     func(j *queue_job.AddModelJob) { j.StartTime, j.Delay = 1, 1 },
		} {
			if _, err := jobs.AddUnique(t.Context(), tx, theJob.With(option)); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
			if _, err := jobs.AddMany(t.Context(), tx, []queue_job.AddModelJob{theJob, theJob.With(option)}); err == nil || !strings.Contains(err.Error(), "job 2 of 2") {
				t.Errorf("%s among many: %v", what, err)
			}
		}
		for _, params := range []any{notUTF8, greeting{Name: "rapport-\xe9t\xe9.pdf"}} {
			refused := func(what string, err error) {
				if err == nil || !strings.Contains(err.Error(), "UTF-8") {
					t.Errorf("parameters that are not UTF-8 are %s: %v", what, err)
				}
			}
			_, err := jobs.Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1, JobParams: params})
			refused("added", err)
			_, err = jobs.AddMany(t.Context(), tx, []queue_job.AddModelJob{{JobType: 1}, {JobType: 1, JobParams: params}})
			refused("added with others", err)
			refused("added by AddAsyncJob", queue_job.AddAsyncJob(d.DB, queue_job.AddModelJob{JobType: 1, JobParams: params}))
			_, err = jobs.SetParams(t.Context(), tx, queue_job.ID(1), params)
			refused("set", err)
			_, err = jobs.RetryWith(t.Context(), tx, queue_job.ID(1), params)
			refused("retried with", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 0 {
			t.Errorf("%d rows", n)
		}
		if _, err := jobs.Add(t.Context(), d.DB, theJob.With(queue_job.WithKey(strings.Repeat("世", 128)))); err != nil {
			t.Error(err)
		}
		if _, err := jobs.Add(t.Context(), d.DB, theJob.With(queue_job.WithKey(" k"))); !errors.Is(err, queue_job.ErrBadKey) {
			t.Error(err)
		}
	})
}

type greeting struct {
	Name  string
	Times int
}

func TestAJobWithATypeReachesItsHandler(t *testing.T) {
	t.Parallel()
	hello := queue_job.Define[greeting](1, "hello")
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		got := make(chan greeting, 1)
		cfg := hello.Handle(func(_ context.Context, _ *queue_job.Job, g greeting) error {
			got <- g
			return nil
		})
		if cfg.ServiceName != "hello" || cfg.JobType != 1 {
			t.Errorf("service %q, type %d", cfg.ServiceName, cfg.JobType)
		}
		start(t, d.DB, cfg)
		if _, err := open(t, d.DB).Add(t.Context(), d.DB, hello.New(greeting{"Anna", 3}, queue_job.WithKey("anna"))); err != nil {
			t.Fatal(err)
		}
		if g := <-got; g != (greeting{"Anna", 3}) {
			t.Errorf("%+v", g)
		}
	})
}

type newGreeting struct {
	Name  string
	Times string // was a number
}

func TestAJobThatAnOlderProgramCannotReadIsRetriedUntilANewerOneRunsIt(t *testing.T) {
	t.Parallel()
	older, newer := queue_job.Define[greeting](1, "hello"), queue_job.Define[newGreeting](1, "hello")
	retries := queue_job.Retries(1000, queue_job.Waits(time.Second))
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for batch, cfg := range []queue_job.Config{
			older.Handle(func(context.Context, *queue_job.Job, greeting) error { return nil }, retries),
			older.HandleBatch(func(context.Context, []queue_job.Typed[greeting]) error { return nil }, retries),
		} {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			old := newRunner(t, d.DB, cfg)
			if err := old.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			id, err := newer.Add(t.Context(), open(t, d.DB), d.DB, newGreeting{"Anna", "many"})
			if err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, 1, "SELECT CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END FROM async_job_log_tab WHERE job_id = ? AND outcome = 'retry' AND error LIKE '%hello%Times%another version%'", id)
			final, err := newer.Add(t.Context(), open(t, d.DB), d.DB, newGreeting{"Berta", "many"}, queue_job.WithMaxRetries(0))
			if err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND job_status = 2 AND attempts = 1", final)
			stop(t, old)
			got := make(chan newGreeting, 1)
			next := newRunner(t, d.DB, newer.Handle(func(_ context.Context, _ *queue_job.Job, g newGreeting) error {
				got <- g
				return nil
			}))
			if err := next.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if g := <-got; g != (newGreeting{"Anna", "many"}) {
				t.Errorf("batch %d: %+v", batch, g)
			}
			awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND job_status = 1", id)
			stop(t, next)
		}
	})
}

type renamedGreeting struct {
	Name  string
	Often int // was called Times
}

func TestARenamedFieldIsNoticedIfATypeIsStrict(t *testing.T) {
	t.Parallel()
	before, after := queue_job.Define[greeting](1, "hello"), queue_job.Define[renamedGreeting](1, "hello")
	retries := queue_job.Retries(1000, queue_job.Waits(time.Second))
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, cfg := range []queue_job.Config{
			after.Handle(func(context.Context, *queue_job.Job, renamedGreeting) error { return nil }, retries, queue_job.StrictParams()),
			after.HandleBatch(func(context.Context, []queue_job.Typed[renamedGreeting]) error { return nil }, retries, queue_job.StrictParams()),
		} {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			strict := newRunner(t, d.DB, cfg)
			if err := strict.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			id, err := before.Add(t.Context(), open(t, d.DB), d.DB, greeting{"Anna", 3})
			if err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, 1, "SELECT CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END FROM async_job_log_tab WHERE job_id = ? AND outcome = 'retry' AND error LIKE '%hello%unknown field%Times%'", id)
			known, err := after.Add(t.Context(), open(t, d.DB), d.DB, renamedGreeting{"Berta", 3})
			if err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND job_status = 1 AND attempts = 1", known)
			stop(t, strict)

			got := make(chan renamedGreeting, 1)
			lax := newRunner(t, d.DB, after.Handle(func(_ context.Context, _ *queue_job.Job, g renamedGreeting) error {
				got <- g
				return nil
			}))
			if err := lax.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if g := <-got; g != (renamedGreeting{"Anna", 0}) {
				t.Errorf("a type that is not strict got %+v", g)
			}
			stop(t, lax)
		}
	})
}

// In one transaction, the job of a key is cancelled and another one added: the last one wins.
func TestJobsAreReplacedInTransactionsSideBySide(t *testing.T) {
	t.Parallel()
	const keys, rounds = 6, 20
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var all sync.WaitGroup
		for k := range keys {
			all.Go(func() {
				key := fmt.Sprintf("order-%d", k)
				for range rounds {
					if err := inTx(t.Context(), d.DB, func(tx *sql.Tx) error {
						if _, err := jobs.Cancel(t.Context(), tx, queue_job.Key(1, key)); err != nil {
							return err
						}
						_, err := jobs.AddUnique(t.Context(), tx, theJob.With(queue_job.UniqueKey(key, queue_job.UniqueWhilePending)))
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND unique_in = 1"); n != keys {
			t.Errorf("%d jobs are pending, want one for each of %d keys", n, keys)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5"); n != keys*(rounds-1) {
			t.Errorf("%d jobs are cancelled, want %d", n, keys*(rounds-1))
		}
	})
}
