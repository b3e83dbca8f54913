package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// counted counts the statements that go through it.
type counted struct {
	queue_job.Executor
	statements *atomic.Int64
}

func (c counted) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.statements.Add(1)
	return c.Executor.ExecContext(ctx, query, args...)
}

func (c counted) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.statements.Add(1)
	return c.Executor.QueryContext(ctx, query, args...)
}

func uniqueJobs(n int, unique queue_job.Uniqueness, options ...queue_job.AddOption) []queue_job.AddModelJob {
	list := make([]queue_job.AddModelJob, n)
	for i := range list {
		list[i] = queue_job.AddModelJob{JobType: 5, JobParams: i}.With(queue_job.UniqueKey(fmt.Sprint("k", i), unique)).With(options...)
	}
	return list
}

func TestThousandsOfUniqueJobsAreAddedInFewStatementsWhichSayWhoWasThere(t *testing.T) {
	t.Parallel()
	n := unlessShort(10_000, 4_000) / slack
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, unique := range []queue_job.Uniqueness{queue_job.UniqueWhilePending, queue_job.UniqueForever} {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			list := uniqueJobs(n, unique)
			there := map[int]uint64{}
			for _, i := range []int{0, 1, 17, n/2 - 1, n - 1} { // also the first and the last of a statement
				there[i] = addOne(t, jobs, d.DB, queue_job.UniqueKey(list[i].Key, unique), ofType5).Id
			}
			done := []int{3, 500 / slack, n - 2}
			for _, i := range done {
				id := addOne(t, jobs, d.DB, queue_job.UniqueKey(list[i].Key, unique), ofType5).Id
				finish(t, d.DB, id, queue_job.JobStatusSuccess)
				if unique == queue_job.UniqueForever {
					there[i] = id
				}
			}
			var statements atomic.Int64
			began := time.Now()
			added, err := jobs.AddMany(t.Context(), counted{d.DB, &statements}, list)
			if err != nil || len(added) != n {
				t.Fatal(len(added), err)
			}
			t.Logf("%d unique jobs (%d) in %d statements and %v", n, unique, statements.Load(), time.Since(began))
			if most := int64(5*(n/1000+1) + 1); statements.Load() > most {
				t.Errorf("%d statements, want at most %d", statements.Load(), most)
			}
			keyOf := keysOf(t, d.DB)
			for i, a := range added {
				id, was := there[i]
				if a.Existed != was || was && a.Id != id || keyOf[a.Id] != list[i].Key {
					t.Fatalf("uniqueness %d, job %d: %+v, and it was there: %t (%d); its row has the key %q", unique, i, a, was, id, keyOf[a.Id])
				}
			}
			if rows := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE unique_in = 5"); rows != int64(n) {
				t.Errorf("uniqueness %d: %d rows have a unique key, want %d", unique, rows, n)
			}
			again, err := jobs.AddMany(t.Context(), d.DB, list)
			if err != nil || slices.ContainsFunc(again, func(a queue_job.Added) bool { return !a.Existed }) {
				t.Errorf("uniqueness %d: the second time, not all were there, %v", unique, err)
			}
		}
	})
}

func ofType5(j *queue_job.AddModelJob) { j.JobType = 5 }

func TestOfManyWhoAddTheSameUniqueJobsAtOnceEachJobIsAddedByOne(t *testing.T) {
	t.Parallel()
	const adders, rounds, n = 4, 6, 300
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for round := range rounds {
			unique := queue_job.Uniqueness(1 + round%2)
			list := uniqueJobs(n, unique)
			if unique == queue_job.UniqueWhilePending { // those of an earlier round are done
				execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
			} else {
				execute(t, d.DB, "DELETE FROM async_job_tab")
			}
			results := make([][]queue_job.Added, adders)
			errs := make([]error, adders)
			var all sync.WaitGroup
			for a := range adders {
				own := slices.Concat(list[a*n/adders:], list[:a*n/adders]) // each begins elsewhere
				all.Go(func() { results[a], errs[a] = jobs.AddMany(t.Context(), d.DB, own) })
			}
			all.Wait()
			by, keys := map[string][]int{}, keysOf(t, d.DB)
			for a := range adders {
				if errs[a] != nil {
					t.Fatalf("round %d: %v", round, errs[a])
				}
				for i, one := range results[a] {
					key := list[(i+a*n/adders)%n].Key
					if !one.Existed {
						by[key] = append(by[key], a)
					}
					if keys[one.Id] != key {
						t.Fatalf("round %d: adder %d got id %d for %q, whose row has %q", round, a, one.Id, key, keys[one.Id])
					}
				}
			}
			for _, job := range list {
				if len(by[job.Key]) != 1 {
					t.Fatalf("round %d, uniqueness %d: %q was added by %v", round, unique, job.Key, by[job.Key])
				}
			}
		}
	})
}

// Each key is that of seven types, so the key alone does not say which row has it. Nor does the type.
func TestUniqueJobsOfManyTypesAreAddedTogetherAndToldApart(t *testing.T) {
	t.Parallel()
	const adders, rounds, n, types = 2, 4, 700, 7
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for round := range rounds {
			unique := queue_job.Uniqueness(1 + round%2)
			execute(t, d.DB, "DELETE FROM async_job_tab")
			list := uniqueJobs(n, unique)
			for i := range list {
				list[i] = list[i].With(queue_job.UniqueKey(fmt.Sprint("k", i/types), unique))
				list[i].JobType = int32(5 + i%types)
			}
			there, done := addOne(t, jobs, d.DB, queue_job.UniqueKey(list[9].Key, unique), func(j *queue_job.AddModelJob) { j.JobType = list[9].JobType }).Id, uint64(0)
			if unique == queue_job.UniqueWhilePending {
				done = addOne(t, jobs, d.DB, queue_job.UniqueKey(list[8].Key, unique), func(j *queue_job.AddModelJob) { j.JobType = list[8].JobType }).Id
				finish(t, d.DB, done, queue_job.JobStatusSuccess)
			}
			var statements atomic.Int64
			results, errs := make([][]queue_job.Added, adders), make([]error, adders)
			var all sync.WaitGroup
			for a := range adders {
				all.Go(func() { results[a], errs[a] = jobs.AddMany(t.Context(), counted{d.DB, &statements}, list) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if most := int64(2 * adders * n / 10); statements.Load() > most {
				t.Errorf("%d statements, want at most %d", statements.Load(), most)
			}
			rows := uniqueRows(t, d.DB)
			for i := range list {
				owners, id := 0, results[0][i].Id
				for a := range adders {
					if !results[a][i].Existed {
						owners++
					}
					if results[a][i].Id != id {
						t.Errorf("round %d, job %d: two ids, %d and %d", round, i, id, results[a][i].Id)
					}
				}
				want := 1
				if i == 9 {
					want = 0
				}
				row := uniqueRow{list[i].JobType, list[i].JobType, list[i].Key}
				if owners != want || rows[id] != row || i == 9 && id != there || i == 8 && id == done {
					t.Fatalf("round %d, job %d: added by %d of them, with id %d: %+v, want %+v", round, i, owners, id, rows[id], row)
				}
			}
		}
	})
}

type uniqueRow struct {
	jobType, uniqueIn int32
	key               string
}

func uniqueRows(t *testing.T, db *sql.DB) map[uint64]uniqueRow {
	t.Helper()
	rows, err := db.Query("SELECT id, job_type, unique_in, job_key FROM async_job_tab WHERE unique_in IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[uint64]uniqueRow{}
	for rows.Next() {
		var id uint64
		var row uniqueRow
		if err := rows.Scan(&id, &row.jobType, &row.uniqueIn, &row.key); err != nil {
			t.Fatal(err)
		}
		all[id] = row
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestManyUniqueJobsInATransactionAreAllThereOrNone(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		jobs, list := open(t, d.DB), uniqueJobs(1500, queue_job.UniqueWhilePending)
		tx := begin.now(t)
		if _, err := jobs.AddMany(t.Context(), tx, list); err != nil {
			t.Fatal(err)
		}
		tx.Rollback()
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 0 {
			t.Errorf("%d rows are left of a transaction that was rolled back", n)
		}
		if err := begin.within(t.Context(), func(tx transaction) error {
			added, err := jobs.AddMany(t.Context(), tx, list)
			if slices.ContainsFunc(added, func(a queue_job.Added) bool { return a.Existed }) {
				t.Error("some were there after a rollback")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 1500 {
			t.Errorf("%d rows, want 1500", n)
		}
	})
}

func TestAJobThatWaitsIsReplacedAndOneThatRunsOrIsDoneIsNot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add := func(key string, params any, options ...queue_job.AddOption) queue_job.Added {
			t.Helper()
			return addOne(t, jobs, d.DB, append([]queue_job.AddOption{queue_job.UniqueKey(key, queue_job.UniqueForever), func(j *queue_job.AddModelJob) { j.JobParams = params }}, options...)...)
		}
		waits, runs, done := add("waits", "old", queue_job.After(time.Hour)), add("runs", "old"), add("done", "old")
		execute(t, d.DB, "UPDATE async_job_tab SET retries = 2, lost = 1, job_status = 4 WHERE id = ?", waits.Id)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 9 WHERE id = ?", runs.Id)
		finish(t, d.DB, done.Id, queue_job.JobStatusSuccess)

		replace := queue_job.ReplaceWaiting()
		for _, c := range []struct {
			there queue_job.Added
			key   string
			is    bool
		}{{waits, "waits", true}, {runs, "runs", false}, {done, "done", false}} {
			if got := add(c.key, "new", replace, queue_job.After(30*time.Minute), queue_job.WithPriority(queue_job.PriorityHigh), queue_job.WithMaxRetries(3)); !got.Existed || got.Id != c.there.Id || got.Replaced != c.is {
				t.Errorf("%s: %+v", c.key, got)
			}
		}
		if got := add("none", "new", replace); got.Existed || got.Replaced {
			t.Errorf("%+v", got)
		}
		info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(waits.Id))
		if err != nil || info.JobParams != `"new"` || info.Status != queue_job.JobStatusInit || info.Retries != 0 || info.Lost != 0 || info.Priority != queue_job.PriorityHigh || *info.MaxRetries != 3 ||
			time.Until(info.Due) < 25*time.Minute || time.Until(info.Due) > 35*time.Minute || !info.Unique {
			t.Errorf("%+v, %v", info, err)
		}
		if n := number(t, d.DB, `SELECT COUNT(*) FROM async_job_tab WHERE params = '"old"' AND max_retries IS NULL`); n != 2 {
			t.Errorf("%d jobs are as they were, want 2", n)
		}
		if _, err := jobs.Add(t.Context(), d.DB, theJob.With(replace)); err == nil {
			t.Error("a job that is not unique may replace others")
		}
	})
}

// A transaction may have looked at the table before the jobs were marked. What it has seen says nothing of whether they wait.
func TestAJobThatIsInFlightIsNotSaidToBeReplaced(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		list := uniqueJobs(3, queue_job.UniqueWhilePending, queue_job.ReplaceWaiting())
		old, err := jobs.AddMany(t.Context(), d.DB, list)
		if err != nil {
			t.Fatal(err)
		}
		tx := begin(t, d.DB)
		defer tx.Rollback()
		var n int
		if err := tx.QueryRow("SELECT COUNT(*) FROM async_job_tab").Scan(&n); err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET term = 9 WHERE id = ?", old[1].Id)
		if got, err := jobs.AddUnique(t.Context(), tx, list[1]); err != nil || !got.Existed || got.Replaced {
			t.Errorf("by itself: %+v, %v", got, err)
		}
		added, err := jobs.AddMany(t.Context(), tx, list)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range added {
			if got.Id != old[i].Id || got.Replaced != (i != 1) {
				t.Errorf("job %d of many: %+v", i, got)
			}
		}
	})
}

// With the same parameters, nobody could tell later which jobs the statement has changed.
func TestWhatIsReplacedIsLockedBefore(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		jobs := open(t, d.DB)
		list := uniqueJobs(1000, queue_job.UniqueWhilePending, queue_job.ReplaceWaiting())
		if _, err := jobs.AddMany(t.Context(), d.DB, list); err != nil {
			t.Fatal(err)
		}
		var statements atomic.Int64
		if err := begin.within(t.Context(), func(tx transaction) error {
			_, err := jobs.AddMany(t.Context(), counted{tx, &statements}, list)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if n := statements.Load(); n > 10 { // five to add, one to lock, four to replace; and outside of a transaction, its beginning and its end
			t.Errorf("%d statements", n)
		}
	})
}

func TestManyJobsReplaceThoseThatWait(t *testing.T) {
	t.Parallel()
	const n = 600
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		old, err := jobs.AddMany(t.Context(), d.DB, uniqueJobs(n, queue_job.UniqueWhilePending, queue_job.After(time.Hour), func(j *queue_job.AddModelJob) { j.JobParams = "old" }))
		if err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET term = 9 WHERE id = ?", old[4].Id)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2 WHERE id = ?", old[5].Id)
		list := uniqueJobs(n+1, queue_job.UniqueWhilePending, queue_job.ReplaceWaiting())
		for i := range list {
			list[i].Delay = time.Duration(i%3) * time.Hour
		}
		added, err := jobs.AddMany(t.Context(), d.DB, list)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range added {
			isNew := i == 5 || i == n
			if a.Existed == isNew || a.Replaced != (!isNew && i != 4) || i < n && !isNew && a.Id != old[i].Id {
				t.Fatalf("job %d: %+v", i, a)
			}
		}
		for i := range 3 {
			from, to := time.Duration(i)*time.Hour-10*time.Minute, time.Duration(i)*time.Hour+10*time.Minute
			due := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term = 0 AND (start_time = 0 AND %d = 0 OR start_time >= %d AND start_time <= %d)", i,
				time.Now().Add(from).Unix(), time.Now().Add(to).Unix()))
			want := int64((n + 1 + 2 - i) / 3)
			if i == 1 { // of which one runs
				want--
			}
			if due != want {
				t.Errorf("%d jobs are due in %d hours, want %d", due, i, want)
			}
		}
		for i, a := range added {
			if i != 4 {
				info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(a.Id))
				if err != nil || info.JobParams != fmt.Sprint(i) {
					t.Fatalf("job %d has the parameters %s, %v", i, info.JobParams, err)
				}
			}
			if i > 20 {
				break
			}
		}
	})
}

func TestAReplacedJobRunsWithItsNewParametersThoughTheOldOnesWaitInMemory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		got := make(chan string, 9)
		r := start(t, d.DB, queue_job.Config{HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			got <- job.JobParams
			return nil
		}})
		jobs := open(t, d.DB)
		key := queue_job.UniqueKey("k", queue_job.UniqueWhilePending)
		old := addOne(t, jobs, d.DB, key, queue_job.After(2500*time.Millisecond)) // within the three seconds that wait in memory
		await(t, func() string { return "the job is not in memory" }, func() bool { return r.Types()[0].Waiting == 1 })
		last := addOne(t, jobs, d.DB, key, queue_job.ReplaceWaiting(), func(j *queue_job.AddModelJob) { j.JobParams = "new" })
		if last.Id != old.Id || !last.Replaced {
			t.Fatalf("%+v, and before %+v", last, old)
		}
		if params := <-got; params != `"new"` {
			t.Error(params)
		}
	})
}
