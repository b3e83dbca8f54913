package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// changed expects a verb to have changed so many jobs.
func changed(t *testing.T, want int) func(int, error) {
	return func(n int, err error) {
		t.Helper()
		if n != want || err != nil {
			t.Errorf("changed %d, want %d: %v", n, want, err)
		}
	}
}

// changeInTime expects a verb to change so many jobs that were just added and fall due in two seconds. If the machine stood
// still for so long that they may have been handed out meanwhile, it does it again, with other jobs.
func changeInTime(t *testing.T, want int, addAndChange func() (int, error)) {
	t.Helper()
	for range 20 {
		began := time.Now()
		n, err := addAndChange()
		took := time.Since(began)
		if took < 1500*time.Millisecond || err != nil && !errors.Is(err, queue_job.ErrInFlight) {
			changed(t, want)(n, err)
			return
		}
		t.Logf("again, for it took %v", took)
	}
	t.Fatal("this machine does not come to it in time")
}

func get(t *testing.T, jobs *queue_job.Jobs, db *sql.DB, id uint64) *queue_job.JobInfo {
	t.Helper()
	info, err := jobs.Get(t.Context(), db, queue_job.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func inAnHour() queue_job.AddOption { return queue_job.After(time.Hour) }

func TestACancelledJobDoesNotRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		byID := addOne(t, jobs, d.DB).Id
		byKey := []uint64{addOne(t, jobs, d.DB, queue_job.WithKey("order-1")).Id, addOne(t, jobs, d.DB, queue_job.UniqueKey("order-1", queue_job.UniqueForever)).Id}
		done := addOne(t, jobs, d.DB, queue_job.WithKey("order-1")).Id
		finish(t, d.DB, done, queue_job.JobStatusSuccess)
		stays := addOne(t, jobs, d.DB, queue_job.WithKey("order-2")).Id
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(byID)))
		changed(t, 2)(jobs.Cancel(t.Context(), d.DB, queue_job.Key(1, "order-1")))
		changed(t, 0)(jobs.Cancel(t.Context(), d.DB, queue_job.Key(1, "order-1")))
		changed(t, 0)(jobs.Cancel(t.Context(), d.DB, queue_job.Key(2, "order-2")))
		changed(t, 0)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(done, 99)))
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitRuns(t, &ran, 1)
		after := addOne(t, jobs, d.DB).Id
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND job_status = 1", after)
		for _, run := range ran.all() {
			if run.id != stays && run.id != after {
				t.Errorf("job %d ran", run.id)
			}
		}
		for _, id := range append(byKey, byID) {
			if s := get(t, jobs, d.DB, id).Status; s != queue_job.JobStatusCancelled {
				t.Errorf("job %d is %v", id, s)
			}
		}
	})
}

func TestAKeyThatCannotBeAddedIsNotLookedFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		id := addOne(t, jobs, d.DB, queue_job.WithKey("order-1")).Id
		tx := begin(t, d.DB)
		for _, key := range []string{"order-1 ", " order-1", "order-1\x00", "order-1\xff", strings.Repeat("k", 129), ""} {
			if n, err := jobs.Cancel(t.Context(), tx, queue_job.Key(1, key)); n != 0 || !errors.Is(err, queue_job.ErrBadKey) {
				t.Errorf("%q: %d jobs are cancelled, %v", key, n, err)
			}
			if _, err := jobs.Get(t.Context(), tx, queue_job.Key(1, key)); !errors.Is(err, queue_job.ErrBadKey) || !errors.Is(err, queue_job.ErrNoJob) {
				t.Errorf("get %q: %v", key, err)
			}
			if list, err := jobs.List(t.Context(), tx, queue_job.Filter{Key: key}); key != "" && !errors.Is(err, queue_job.ErrBadKey) {
				t.Errorf("list %q: %d jobs, %v", key, len(list), err)
			}
			change := operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{Key: key}}
			if _, err := operate.Begin(asMary(t.Context()), jobs, d.DB, change); key != "" && !errors.Is(err, queue_job.ErrBadKey) {
				t.Errorf("an operation on %q: %v", key, err)
			}
		}
		changed(t, 1)(jobs.Cancel(t.Context(), tx, queue_job.ID(id))) // the transaction goes on
		commit(t, tx)
	})
}

func TestACancellationInATransactionHoldsIfItCommits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		id := addOne(t, jobs, d.DB, queue_job.WithKey("k"), inAnHour()).Id
		tx := begin(t, d.DB)
		changed(t, 1)(jobs.Cancel(t.Context(), tx, queue_job.Key(1, "k")))
		tx.Rollback()
		if s := get(t, jobs, d.DB, id).Status; s != queue_job.JobStatusInit {
			t.Errorf("rolled back: %v", s)
		}
		tx = begin(t, d.DB)
		changed(t, 1)(jobs.Cancel(t.Context(), tx, queue_job.Key(1, "k")))
		// The last one wins: a new one in the same transaction.
		next := addOne(t, jobs, tx, queue_job.UniqueKey("k", queue_job.UniqueWhilePending))
		commit(t, tx)
		if s := get(t, jobs, d.DB, id).Status; s != queue_job.JobStatusCancelled || next.Existed {
			t.Errorf("committed: %v, %+v", s, next)
		}
	})
}

// Ids of 64 bits come out of links and of other databases. On PostgreSQL there is no such number.
func TestAnIDThatNoRowCanHaveIsNotThere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), t.Context()
		id := addOne(t, jobs, d.DB).Id
		const none = 1<<64 - 1
		if _, err := jobs.Get(ctx, d.DB, queue_job.ID(none)); !errors.Is(err, queue_job.ErrNoJob) {
			t.Errorf("get: %v", err)
		}
		for _, c := range []struct {
			filter queue_job.Filter
			want   int
		}{
			{queue_job.Filter{IDs: []uint64{none}}, 0}, {queue_job.Filter{IDs: []uint64{id, none}}, 1}, {queue_job.Filter{After: none}, 0},
			{queue_job.Filter{Before: none}, 1}, {queue_job.Filter{Before: none, NewestFirst: true, JobTypes: []int32{1}}, 1},
		} {
			if list, err := jobs.List(ctx, d.DB, c.filter); err != nil || len(list) != c.want {
				t.Errorf("%+v: %d jobs, %v", c.filter, len(list), err)
			}
		}
		if runs, err := jobs.Attempts(ctx, d.DB, none); err != nil || len(runs) != 0 {
			t.Errorf("attempts: %d, %v", len(runs), err)
		}
		for _, f := range []operate.ActFilter{{Job: none}, {Operation: none}} {
			if acts, err := operate.Acts(ctx, jobs, d.DB, f); err != nil || len(acts) != 0 {
				t.Errorf("acts of %+v: %d, %v", f, len(acts), err)
			}
		}
		if _, err := operate.Acts(ctx, jobs, d.DB, operate.ActFilter{Before: none}); err != nil {
			t.Error(err)
		}
		if r, err := jobs.Retry(ctx, d.DB, queue_job.ID(none)); err != nil || r.Jobs != 0 {
			t.Errorf("retry: %+v, %v", r, err)
		}
		changed(t, 0)(jobs.DeleteJobs(ctx, d.DB, queue_job.ID(none)))
		changed(t, 0)(jobs.Reschedule(asMary(ctx), d.DB, queue_job.ID(none), time.Now()))
		changed(t, 1)(jobs.Cancel(ctx, d.DB, queue_job.ID(id, none)))
		if _, err := operate.Explain(ctx, jobs, d.DB, none); err != nil {
			t.Errorf("explain: %v", err)
		}
	})
}

// A waiting row may be in a runner's memory as it was before.
func TestARescheduledJobRunsAtItsNewTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, pulse := open(t, d.DB), feelPulse(t, d)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		var far, near uint64
		var due time.Time
		changeInTime(t, 1, func() (int, error) {
			far = addOne(t, jobs, d.DB, inAnHour()).Id
			key := fmt.Sprint("near ", far)
			near = addOne(t, jobs, d.DB, queue_job.After(2*time.Second), queue_job.WithKey(key)).Id
			changed(t, 1)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(far), time.Time{}))
			due = time.Unix(time.Now().Unix()+5, 0) // in four seconds or five
			return jobs.Reschedule(t.Context(), d.DB, queue_job.Key(1, key), due)
		})
		began := time.Now()
		await(t, func() string { return "the jobs have not run" }, func() bool { return len(ran.of(far)) > 0 && len(ran.of(near)) > 0 })
		first, second := ran.of(far)[0].started, ran.of(near)[0].started
		if !first.Before(second) {
			t.Errorf("the one that was put off started %v before the one that was made due at once", first.Sub(second))
		}
		if took, most := first.Sub(began), pulse.allows(3*time.Second*slack, began, first); took > most {
			t.Errorf("the one that was made due at once started after %v, want %v at most", took, most)
		}
		if late, most := second.Sub(due), pulse.allows(3*time.Second*slack, due, second); late < 0 || late > most {
			t.Errorf("the one that was put off started %v after its new time, want %v at most", late, most)
		}
		awaitNumber(t, d.DB, 2, succeeded+" AND id IN (?, ?)", far, near)
		changed(t, 0)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(far, near), time.Now()))
	})
}

func TestAJobWhoseParametersWereChangedRunsWithTheNewOnes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		var ids []uint64
		changeInTime(t, 5, func() (int, error) {
			ids = nil
			added, err := jobs.AddMany(t.Context(), d.DB, slices.Repeat([]queue_job.AddModelJob{theJob.With(queue_job.After(2 * time.Second))}, 5)) // they wait in memory
			for _, a := range added {
				ids = append(ids, a.Id)
			}
			if err != nil {
				return 0, err
			}
			time.Sleep(500 * time.Millisecond) // the tail, 100 ms apart at most, has them in memory; else less would be shown, and nothing fail
			return jobs.SetParams(t.Context(), d.DB, queue_job.ID(ids...), map[string]string{"say": "<новое>"})
		})
		for _, id := range ids {
			await(t, func() string { return fmt.Sprintf("job %d has not run", id) }, func() bool { return len(ran.of(id)) > 0 })
			if params := ran.of(id)[0].job.JobParams; params != `{"say":"<новое>"}` {
				t.Errorf("job %d ran with %s", id, params)
			}
		}
	})
}

// A transaction may have looked at the table before a job was marked, or before another one got its key.
func TestWhatATransactionHasSeenBeforeDecidesNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		busy := addOne(t, jobs, d.DB, inAnHour()).Id
		failed := addOne(t, jobs, d.DB, queue_job.UniqueKey("k", queue_job.UniqueWhilePending)).Id
		finish(t, d.DB, failed, queue_job.JobStatusFailed)
		execute(t, d.DB, "UPDATE async_job_tab SET unique_in = NULL WHERE id = ?", failed)
		tx := begin(t, d.DB)
		defer tx.Rollback()
		var n int
		if err := tx.QueryRow("SELECT COUNT(*) FROM async_job_tab").Scan(&n); err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET term = 9 WHERE id = ?", busy)
		addOne(t, jobs, d.DB, queue_job.UniqueKey("k", queue_job.UniqueWhilePending))
		if n, err := jobs.Reschedule(t.Context(), tx, queue_job.ID(busy), time.Now()); n != 0 || !errors.Is(err, queue_job.ErrInFlight) {
			t.Errorf("reschedule: %d, %v", n, err)
		}
		if n, err := jobs.SetParams(t.Context(), tx, queue_job.ID(busy), "new"); n != 0 || !errors.Is(err, queue_job.ErrInFlight) {
			t.Errorf("set the parameters: %d, %v", n, err)
		}
		if r, err := jobs.Retry(t.Context(), tx, queue_job.ID(failed)); err != nil || r.Jobs != 0 || !slices.Equal(r.Taken, []uint64{failed}) {
			t.Errorf("retry: %+v, %v", r, err)
		}
	})
}

func TestAJobInFlightIsNeitherChangedNorRescheduled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		hold, running := make(chan struct{}), make(chan struct{}, 2)
		var once sync.Once
		release := func() { once.Do(func() { close(hold) }) }
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error {
			running <- struct{}{}
			<-hold
			return nil
		}})
		t.Cleanup(release)
		busy := addOne(t, jobs, d.DB, queue_job.WithKey("k")).Id
		<-running
		idle := addOne(t, jobs, d.DB, queue_job.WithKey("k"), inAnHour()).Id
		n, err := jobs.SetParams(t.Context(), d.DB, queue_job.Key(1, "k"), "new")
		if n != 1 || !errors.Is(err, queue_job.ErrInFlight) {
			t.Errorf("%d, %v; want one changed and the other in flight", n, err)
		}
		if n, err := jobs.Reschedule(t.Context(), d.DB, queue_job.ID(busy), time.Now()); n != 0 || !errors.Is(err, queue_job.ErrInFlight) {
			t.Errorf("reschedule: %d, %v", n, err)
		}
		changed(t, 2)(jobs.SetPriority(t.Context(), d.DB, queue_job.Key(1, "k"), queue_job.PriorityUrgent))
		if i := get(t, jobs, d.DB, busy); !i.InFlight || i.JobParams != `"x"` || i.Attempts != 1 || i.Priority != queue_job.PriorityUrgent {
			t.Errorf("%+v", i)
		}
		if i := get(t, jobs, d.DB, idle); i.InFlight || i.JobParams != `"new"` {
			t.Errorf("%+v", i)
		}
		release()
		awaitNumber(t, d.DB, 1, succeeded)
		changed(t, 0)(jobs.SetParams(t.Context(), d.DB, queue_job.ID(busy), "late"))
	})
}

func TestAFailedOrCancelledJobIsRetriedFromTheStart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		good := make(chan struct{})
		cancelled := addOne(t, jobs, d.DB, inAnHour()).Id
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(cancelled)))
		execute(t, d.DB, "UPDATE async_job_tab SET create_time = create_time - 10000000") // longer ago than a runner looks back
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			select {
			case <-good:
				return nil
			default:
				return errors.New("no")
			}
		}})
		failed := addOne(t, jobs, d.DB).Id
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND retries = 1")
		close(good)
		retried, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(failed, cancelled, 99))
		if err != nil || retried.Jobs != 2 || len(retried.Taken) != 0 {
			t.Errorf("%+v, %v", retried, err)
		}
		awaitNumber(t, d.DB, 2, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE retries = 0 AND lost = 0"); n != 2 {
			t.Errorf("%d rows say that they were not retried", n)
		}
		attempts, err := jobs.Attempts(t.Context(), d.DB, failed)
		if err != nil || len(attempts) != 2 || attempts[0].Attempt != 1 || attempts[0].Outcome != "retry" || attempts[1].Outcome != "failed" || attempts[1].Error != "no" || attempts[1].Started.IsZero() {
			t.Errorf("%+v, %v", attempts, err)
		}
		if retried, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(failed)); err != nil || retried.Jobs != 0 {
			t.Errorf("one that succeeded: %+v, %v", retried, err)
		}
	})
}

func TestAJobWhoseKeyIsTakenIsNotRetried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		whilePending := queue_job.UniqueKey("k", queue_job.UniqueWhilePending)
		old := addOne(t, jobs, d.DB, whilePending, inAnHour()).Id
		finish(t, d.DB, old, queue_job.JobStatusFailed)
		next := addOne(t, jobs, d.DB, whilePending, inAnHour()).Id
		free := addOne(t, jobs, d.DB, queue_job.WithKey("other"), inAnHour()).Id
		unique := addOne(t, jobs, d.DB, queue_job.UniqueKey("third", queue_job.UniqueForever), inAnHour()).Id
		finish(t, d.DB, free, queue_job.JobStatusFailed)
		finish(t, d.DB, unique, queue_job.JobStatusFailed)
		retried, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(free, old, unique))
		if err != nil || retried.Jobs != 2 || !slices.Equal(retried.Taken, []uint64{old}) {
			t.Errorf("%+v, %v; want two, and %d left", retried, err, old)
		}
		if s := get(t, jobs, d.DB, old).Status; s != queue_job.JobStatusFailed {
			t.Errorf("it is %v", s)
		}
		if again := addOne(t, jobs, d.DB, whilePending); !again.Existed || again.Id != next {
			t.Errorf("%+v", again)
		}
		if retried, err = jobs.Retry(t.Context(), d.DB, queue_job.Key(1, "k")); err != nil || retried.Jobs != 0 || len(retried.Taken) != 1 {
			t.Errorf("by key: %+v, %v", retried, err)
		}
	})
}

func TestAllFailedJobsOfATimeAreRetriedInChunks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 2600, 0)
		addType(t, d.DB, 2, 10, 0)
		const outage = 1_700_000_000
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, update_time = ?", outage)
		execute(t, d.DB, "UPDATE async_job_tab SET update_time = ? WHERE id <= 50", outage-1)
		execute(t, d.DB, "UPDATE async_job_tab SET update_time = ? WHERE id > 50 AND id <= 100", outage+3600)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 5 WHERE id > 100 AND id <= 150")
		during := queue_job.RetryRange{JobType: 1, From: time.Unix(outage, 0), To: time.Unix(outage+3600, 0)}
		some := during
		some.Limit = 1200
		for _, c := range []struct {
			which queue_job.RetryRange
			want  int
		}{{some, 1200}, {during, 1250}, {during, 0}, {queue_job.RetryRange{JobType: 1, Cancelled: true, To: during.To}, 100}, {queue_job.RetryRange{JobType: 1}, 50}} {
			if retried, err := jobs.RetryAll(t.Context(), d.DB, c.which); err != nil || retried.Jobs != c.want {
				t.Errorf("%+v: %+v, %v; want %d", c.which, retried, err, c.want)
			}
		}
		if retried, err := jobs.RetryAll(t.Context(), d.DB, queue_job.RetryRange{JobType: 1, Limit: -1}); err == nil || !strings.Contains(err.Error(), "RetryRange.Limit") {
			t.Errorf("at most -1 jobs: %+v, %v", retried, err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND job_type = 1"); n != 2600 {
			t.Errorf("%d of 2600 wait", n)
		}
	})
}

func TestAJobIsReadAsItStands(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		before := time.Now().Add(-time.Second)
		due := time.Unix(1_900_000_000, 0)
		id := addOne(t, jobs, d.DB, queue_job.At(due), queue_job.UniqueKey("k", queue_job.UniqueForever), queue_job.WithPriority(queue_job.PriorityHigh), queue_job.WithMaxRetries(0)).Id
		execute(t, d.DB, "UPDATE async_job_tab SET progress = '3 of 4', result = 'fine' WHERE id = ?", id)
		i, err := jobs.Get(t.Context(), d.DB, queue_job.Key(1, "k"))
		if err != nil {
			t.Fatal(err)
		}
		if i.Id != id || i.JobType != 1 || i.JobParams != `"x"` || i.Status != queue_job.JobStatusInit || !i.Pending() || !i.Due.Equal(due) || i.Created.Before(before) || i.Updated.Before(before) ||
			i.InFlight || i.Key != "k" || !i.Unique || i.Priority != queue_job.PriorityHigh || *i.MaxRetries != 0 || i.Progress != "3 of 4" || i.Result != "fine" {
			t.Errorf("%+v", i)
		}
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('', 7, NULL, NULL, 5, 6)")
		bare, err := jobs.List(t.Context(), d.DB, queue_job.Filter{JobTypes: []int32{7}})
		if err != nil || len(bare) != 1 || bare[0].Status != queue_job.JobStatusInit || bare[0].MaxRetries != nil || bare[0].Unique || bare[0].Due.Unix() != 5 || bare[0].Updated.Unix() != 6 {
			t.Errorf("%+v, %v", bare, err)
		}
		for _, none := range []queue_job.Selector{queue_job.ID(99), queue_job.ID(), queue_job.Key(1, "none"), queue_job.Key(1, ""), queue_job.Key(2, "k")} {
			if _, err := jobs.Get(t.Context(), d.DB, none); !errors.Is(err, queue_job.ErrNoJob) {
				t.Errorf("%v: %v", none, err)
			}
		}
	})
}

func TestAllYieldsJobsPageByPageBothWays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const n = 2500
		jobs := open(t, d.DB)
		add(t, d.DB, n, 0)
		addType(t, d.DB, 2, 3, 0)
		for _, c := range []struct {
			filter     queue_job.Filter
			enough     int // then the caller has seen enough
			want, last int
		}{
			{queue_job.Filter{JobTypes: []int32{1}}, n + 1, n, n},
			{queue_job.Filter{NewestFirst: true}, n + 10, n + 3, 1},
			{queue_job.Filter{Limit: 2000}, n, 2000, 2000},
			{queue_job.Filter{Limit: 1001, After: 100, NewestFirst: true}, n, 1001, n + 3 - 1000},
			{queue_job.Filter{}, 1200, 1200, 1200},
			{queue_job.Filter{JobTypes: []int32{9}}, 1, 0, 0},
		} {
			var ids []uint64
			for info, err := range jobs.All(t.Context(), d.DB, c.filter) {
				if err != nil {
					t.Fatal(err)
				}
				if ids = append(ids, info.Id); len(ids) == c.enough {
					break
				}
			}
			if len(ids) != c.want || c.want > 0 && ids[c.want-1] != uint64(c.last) {
				t.Errorf("%+v: %d jobs, want %d and the last to be %d", c.filter, len(ids), c.want, c.last)
			}
		}
	})
}

func TestJobsAreListedInPagesBothWays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		addType(t, d.DB, 1, 25, 0)
		addType(t, d.DB, 2, 25, 1_900_000_000)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, update_time = 1000 WHERE id % 5 = 0")
		execute(t, d.DB, "UPDATE async_job_tab SET job_key = 'k', create_time = 2000 WHERE id % 10 = 1")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = NULL WHERE id % 5 = 3")
		list := func(f queue_job.Filter) (ids []uint64) {
			t.Helper()
			for f.Limit = 7; ; {
				page, err := jobs.List(t.Context(), d.DB, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range page {
					ids = append(ids, i.Id)
				}
				if len(page) < 7 {
					return ids
				}
				f.After = page[6].Id
				if f.NewestFirst {
					f.After, f.Before = 0, page[6].Id
				}
			}
		}
		where := func(fits func(id uint64) bool) (ids []uint64) {
			for id := uint64(1); id <= 50; id++ {
				if fits(id) {
					ids = append(ids, id)
				}
			}
			return ids
		}
		for name, c := range map[string]struct {
			filter queue_job.Filter
			fits   func(id uint64) bool
		}{
			"all":                   {queue_job.Filter{}, func(uint64) bool { return true }},
			"type":                  {queue_job.Filter{JobTypes: []int32{2}}, func(id uint64) bool { return id > 25 }},
			"failed":                {queue_job.Filter{Statuses: []queue_job.JobStatus{queue_job.JobStatusFailed}}, func(id uint64) bool { return id%5 == 0 }},
			"pending":               {queue_job.Filter{Statuses: queue_job.PendingStatuses(), JobTypes: []int32{1, 2}}, func(id uint64) bool { return id%5 != 0 }},
			"key":                   {queue_job.Filter{Key: "k"}, func(id uint64) bool { return id%10 == 1 }},
			"key and type":          {queue_job.Filter{Key: "k", JobTypes: []int32{1}}, func(id uint64) bool { return id%10 == 1 && id <= 25 }},
			"created":               {queue_job.Filter{CreatedTo: time.Unix(2001, 0)}, func(id uint64) bool { return id%10 == 1 }},
			"updated":               {queue_job.Filter{UpdatedFrom: time.Unix(1000, 0), UpdatedTo: time.Unix(1001, 0)}, func(id uint64) bool { return id%5 == 0 }},
			"due":                   {queue_job.Filter{DueFrom: time.Unix(1_900_000_000, 0)}, func(id uint64) bool { return id > 25 }},
			"due as it was created": {queue_job.Filter{DueFrom: time.Unix(2000, 0), DueTo: time.Unix(2001, 0)}, func(id uint64) bool { return id <= 25 && id%10 == 1 }},
		} {
			want := where(c.fits)
			if got := list(c.filter); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			c.filter.NewestFirst = true
			slices.Reverse(want)
			if got := list(c.filter); !slices.Equal(got, want) {
				t.Errorf("%s, newest first: %v, want %v", name, got, want)
			}
		}
	})
}

func TestJobsAreCountedByTypeAndStatusAndPausedTypesShow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		addType(t, d.DB, 1, 20, 0)
		addType(t, d.DB, -2, 5, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1 WHERE id <= 7")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = NULL WHERE id IN (8, 9)")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 4 WHERE id = 10")
		for range 2 {
			for i, jobType := range []int32{1, 3} {
				if again, err := jobs.Pause(t.Context(), d.DB, jobType); err != nil || i == 1 && !again {
					t.Error(again, err)
				}
			}
			if ran, err := jobs.Pause(t.Context(), d.DB, 1); ran || err != nil {
				t.Errorf("paused twice: %v, %v", ran, err)
			}
			if paused, err := jobs.Resume(t.Context(), d.DB, 3); !paused || err != nil {
				t.Error(paused, err)
			}
			if paused, err := jobs.Resume(t.Context(), d.DB, 3); paused || err != nil {
				t.Errorf("resumed twice: %v, %v", paused, err)
			}
		}
		if _, err := jobs.Pause(t.Context(), d.DB, 4); err != nil {
			t.Fatal(err)
		}
		counts, err := jobs.Counts(t.Context(), d.DB, queue_job.CountFilter{})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, c := range counts {
			text += fmt.Sprintf("%d %v %v; ", c.JobType, c.ByStatus, !c.Paused.IsZero())
			if !c.Paused.IsZero() && time.Since(c.Paused) > time.Minute {
				t.Errorf("paused since %v", c.Paused)
			}
		}
		if want := "-2 map[init:5] false; 1 map[init:12 success:7 retry:1] true; 4 map[] true; "; text != want {
			t.Errorf("%s, want %s", text, want)
		}
		counts, err = jobs.Counts(t.Context(), d.DB, queue_job.CountFilter{JobTypes: []int32{1}, Statuses: queue_job.PendingStatuses()})
		if err != nil || len(counts) != 1 || len(counts[0].ByStatus) != 2 || counts[0].ByStatus[queue_job.JobStatusInit] != 12 {
			t.Errorf("%+v, %v", counts, err)
		}
		paused, err := jobs.Paused(t.Context(), d.DB)
		if err != nil || len(paused) != 2 || paused[1].IsZero() || paused[4].IsZero() {
			t.Errorf("%v, %v", paused, err)
		}
	})
}

// Jobs are changed while a runner marks and settles them: each runs, or is cancelled, and none twice.
func TestJobsAreSteeredWhileTheyRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const n = 600
		jobs := open(t, d.DB)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 1, 0)
		awaitRuns(t, &ran, 1) // it has the lease
		var ids []uint64
		list := make([]queue_job.AddModelJob, n)
		for i := range list {
			list[i] = theJob.With(queue_job.WithKey(fmt.Sprint("k", i%50)))
		}
		added, err := jobs.AddMany(t.Context(), d.DB, list)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range added {
			ids = append(ids, a.Id)
		}
		var cancelled int
		var steering sync.WaitGroup
		steering.Go(func() {
			for i := range 50 {
				if n, err := jobs.Cancel(t.Context(), d.DB, queue_job.Key(1, fmt.Sprint("k", i))); err != nil {
					t.Error(err)
				} else {
					cancelled += n
				}
			}
		})
		steering.Go(func() {
			for some := range slices.Chunk(ids, 20) {
				if _, err := jobs.SetPriority(t.Context(), d.DB, queue_job.ID(some...), queue_job.PriorityHigh); err != nil {
					t.Error(err)
				}
				if _, err := jobs.SetParams(t.Context(), d.DB, queue_job.ID(some...), "y"); err != nil && !errors.Is(err, queue_job.ErrInFlight) {
					t.Error(err)
				}
			}
		})
		steering.Wait()
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status NOT IN (1, 5)")
		if got := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5"); int(got) != cancelled {
			t.Errorf("%d are cancelled, and Cancel said %d", got, cancelled)
		}
		for _, id := range ids {
			if runs := ran.of(id); len(runs) > 1 {
				t.Errorf("job %d ran %d times", id, len(runs))
			}
		}
		t.Logf("%d cancelled, %d runs", cancelled, len(ran.all()))
	})
}

// It waits in the runner's memory, behind others.
func TestAJobThatBecomesUrgentOvertakesThoseBeforeIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		add(t, d.DB, 1500, 0)
		last := addOne(t, jobs, d.DB).Id
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			time.Sleep(5 * time.Millisecond)
			return nil
		}})
		awaitRuns(t, &ran, 50)
		changed(t, 1)(jobs.SetPriority(t.Context(), d.DB, queue_job.ID(last), queue_job.PriorityUrgent))
		before := len(ran.all())
		await(t, func() string { return "it has not run" }, func() bool { return len(ran.of(last)) > 0 })
		place := slices.IndexFunc(ran.all(), func(r run) bool { return r.id == last })
		if place-before > 900 {
			t.Errorf("it started when %d of 1500 others had run, %d before it became urgent", place, before)
		} else {
			t.Logf("%d others had run, %d before it became urgent", place, before)
		}
	})
}

func TestATimeOf1970IsRefusedAndIsNoLimit(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		add(t, d.DB, 2, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		for _, old := range []time.Time{time.Unix(0, 0), time.Unix(0, 1), time.Unix(-1, 0)} {
			for name, f := range map[string]queue_job.Filter{
				"Filter.CreatedFrom": {CreatedFrom: old}, "Filter.CreatedTo": {CreatedTo: old}, "Filter.UpdatedFrom": {UpdatedFrom: old},
				"Filter.UpdatedTo": {UpdatedTo: old}, "Filter.DueFrom": {DueFrom: old}, "Filter.DueTo": {DueTo: old},
			} {
				_, list := jobs.List(ctx, d.DB, f)
				var all error
				for _, all = range jobs.All(ctx, d.DB, f) {
				}
				change := operate.Change{Verb: operate.Delete, Filter: f}
				_, preview := operate.PreviewOf(ctx, jobs, d.DB, change)
				_, begin := operate.Begin(ctx, jobs, d.DB, change)
				for what, err := range map[string]error{"List": list, "All": all, "PreviewOf": preview, "Begin": begin} {
					if err == nil || !strings.Contains(err.Error(), name+" is "+old.String()) || !strings.Contains(err.Error(), "use a time after 1970") {
						t.Errorf("%s with %s %v: %v", what, name, old, err)
					}
				}
			}
			if _, err := jobs.Counts(ctx, d.DB, queue_job.CountFilter{DueBefore: old}); err == nil || !strings.Contains(err.Error(), "CountFilter.DueBefore is "+old.String()) {
				t.Errorf("Counts before %v: %v", old, err)
			}
			changed(t, 0)(jobs.Delete(ctx, d.DB, queue_job.DeleteRange{Before: old}))
		}
	})
}
