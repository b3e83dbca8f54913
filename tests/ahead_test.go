package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/bulk"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// aDayAhead is the SQL, for each driver, of what a column of time in shedlock_tab says if the database's clock was a day ahead.
func aDayAhead(driver, column string) string {
	return fmt.Sprintf(map[string]string{"mysql": "%s + INTERVAL 1 DAY", "pgx": "%s + interval '1 day'", "sqlite": "datetime(%s, '+1 day')"}[driver], column)
}

// leaveBehind takes leases as a process does that dies then, while the database's clock is a day ahead.
func leaveBehind(t *testing.T, d dbtest.Database, length time.Duration, names ...string) {
	t.Helper()
	st, err := record.Open(t.Context(), d.DB, "")
	if err != nil {
		t.Fatal(err)
	}
	gone := keeper.New(context.Background(), st, "test@gone/1", keeper.NewID(), nil)
	var wants []keeper.Want
	for _, name := range names {
		wants = append(wants, keeper.Want{Name: name, Lock: length})
	}
	if taken, err := gone.Take(t.Context(), wants); err != nil || len(taken) != len(names) {
		t.Fatal(taken, err)
	}
	execute(t, d.DB, fmt.Sprintf("UPDATE shedlock_tab SET lock_until = %s, locked_at = %s", aDayAhead(d.Driver, "lock_until"), aDayAhead(d.Driver, "locked_at")))
}

func TestTheLeasesOfAProcessThatDiedWhileTheClockWasAheadAreTakenOver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const length = 3 * time.Second
		// Under the second lease, jobs of an earlier holder ran when their process died.
		leaveBehind(t, d, length, "job-1", "rest-1-7", "at-aaaaaaaaaaaa", "report")
		add(t, d.DB, 1, 0)
		add(t, d.DB, 1, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 7, attempts = 1 WHERE id = (SELECT first FROM (SELECT MIN(id) AS first FROM async_job_tab) AS jobs)")
		began := time.Now()
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler, LockSecond: 2})
		lock := newLock(t, d.DB, shedlock.Config{LockSecond: 2})
		if err := lock.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if held := time.Since(began); held < length {
			t.Errorf("the lock was taken after %v, while its holder could trust it for %v", held, length)
		}
		awaitRuns(t, &ran, 2)
		for _, run := range ran.all() {
			if after := run.started.Sub(began); after < length {
				t.Errorf("job %d started after %v, while the holder could trust the lease for %v", run.id, after, length)
			}
		}
	})
}

func TestALockThatWasTakenWhileTheClockWasAheadLastsNoLongerThanMinLockSecond(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{MinLockSecond: 2})
		wantTryLock(t, one, true)
		execute(t, d.DB, fmt.Sprintf("UPDATE shedlock_tab SET lock_until = lock_until, locked_at = %s", aDayAhead(d.Driver, "locked_at")))
		unlock(t, one)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second*slack)
		defer cancel()
		if err := other.Lock(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatWasPutOffWhileTheClockWasAheadWaitsForAsLongAsItWasTo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const day = 24 * 60 * 60
		right, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, now := t.Context(), time.Now().Unix()
		ahead := right.ByClock(func() time.Time { return time.Now().Add(day * time.Second) })
		yesterday := right.ByClock(func() time.Time { return time.Now().Add(-day * time.Second) })
		must := func(n int, err error) {
			t.Helper()
			if n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		again := func(st *record.Store, wait float64) func(id uint64) {
			return func(id uint64) {
				read := store.Version{}
				must(st.Mark(ctx, []uint64{id}, now+2*day, read, 9, time.Now().Add(48*time.Hour).UnixMilli()))
				must(st.Settle(ctx, []uint64{id}, store.Again{Term: 9, Attempt: 1, Status: 4, Wait: wait, Retried: 1}))
			}
		}
		due := map[uint64]int64{} // from now
		job := func(what string, added, want int64, acts ...func(id uint64)) {
			t.Helper()
			add(t, d.DB, 1, uint32(added))
			id := uint64(number(t, d.DB, "SELECT MAX(id) FROM async_job_tab"))
			for _, act := range acts {
				act(id)
			}
			due[id] = want
			t.Logf("job %d: %s", id, what)
		}
		const stays = -1 // as it was added
		job("a retry in ten seconds", 0, 10, again(ahead, 10))
		job("at once", 0, 0, again(ahead, 0))
		job("put off for three days", 0, 3*day, again(ahead, 3*day))
		job("a retry whose priority was changed later", 0, 60, again(ahead, 60), func(id uint64) { must(right.SetPriority(ctx, []uint64{id}, 1)) })
		job("a cancelled job that somebody retried", 0, 0, func(id uint64) {
			must(ahead.Cancel(ctx, []uint64{id}))
			n, _, err := ahead.Retry(ctx, []uint64{id})
			must(n, err)
		})
		job("a job that was to run by now", 0, 0, func(id uint64) { must(ahead.Reschedule(ctx, []uint64{id}, now+3600)) })
		job("a retry that was marked by a process that died", 0, 0, again(ahead, 0), func(id uint64) {
			must(ahead.Mark(ctx, []uint64{id}, now+2*day, store.Version{Attempts: 1}, 10, time.Now().Add(48*time.Hour).UnixMilli()))
		})
		job("a delayed job", now+3*day, stays)
		job("a delayed job that was changed then", now+3*day, stays, func(id uint64) { must(ahead.SetParams(ctx, []uint64{id}, "{}")) })
		job("a job of the day after next", 0, 2*day, func(id uint64) { must(ahead.Reschedule(ctx, []uint64{id}, now+2*day)) })
		job("a retry in an hour, put off when the clock was right", 0, 3600, again(right, 3600))
		job("a retry in two days, put off when the clock was behind", 0, day, again(yesterday, 2*day))
		before := versions(t, d)
		if ids, err := right.WrittenAhead(ctx, []int32{1}, now+day+60, 100); err != nil || len(ids) != 0 {
			t.Errorf("%v, %v while this process's clock is ahead as well", ids, err)
		}
		for range 2 { // the second time, it changes nothing
			ids, err := right.WrittenAhead(ctx, []int32{1, 2}, now, 100)
			if err == nil && len(ids) > 0 {
				_, err = right.MendAhead(ctx, ids, now)
			}
			if err != nil {
				t.Fatal(err)
			}
			for id, want := range due {
				row := versions(t, d)[id]
				if want == stays {
					want = 3 * day
				}
				if got := row.start - time.Now().Unix(); got > want+2 || got < want-10*slack {
					t.Errorf("job %d is due in %d s, want %d", id, got, want)
				}
			}
		}
		for id, after := range versions(t, d) {
			if was := before[id]; after.start != was.start && after.term == 0 && after.changes == was.changes {
				t.Errorf("job %d was given another time, and counts no change", id)
			} else if after.term != 0 && after.changes != was.changes {
				t.Errorf("job %d is in flight, and counts a change", id)
			}
		}
	})
}

// rowTimes is how a row stands, as far as times go.
type rowTimes struct{ start, term, changes int64 }

func versions(t *testing.T, d dbtest.Database) map[uint64]rowTimes {
	t.Helper()
	all := map[uint64]rowTimes{}
	eachRow(t, d.DB, "SELECT id, start_time, term, changes FROM async_job_tab", func(rows *sql.Rows) error {
		var id uint64
		var r rowTimes
		err := rows.Scan(&id, &r.start, &r.term, &r.changes)
		all[id] = r
		return err
	})
	return all
}

func TestWhatAHandlerWaitsForSinceTheClockWasAheadComesAsSoonAsItWasTo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const hour, day = 3600, 24 * 3600
		right, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, now := t.Context(), time.Now().Unix()
		ahead := right.ByClock(func() time.Time { return time.Now().Add(day * time.Second) })
		waits := func(st *record.Store, clock int64, attempt int32, step store.Step, wait int64) {
			t.Helper()
			n, err := st.Mark(ctx, []uint64{step.JobID}, now+2*day, store.Version{Attempts: attempt - 1}, int64(attempt), (now+2*day)*1000)
			if n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if step.Name != "" {
				if step.Attempt, step.Term, step.Until = attempt, int64(attempt), (clock+wait)*1000; step.Kind == store.StepSleep {
					step.Ended = clock * 1000
				}
				if recorded, err := st.RecordStep(ctx, step); err != nil || !recorded {
					t.Fatal(recorded, err)
				}
			}
			n, err = st.Settle(ctx, []uint64{step.JobID}, store.Again{Term: int64(attempt), Attempt: attempt, Status: 3, Wait: float64(wait)})
			if n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		add(t, d.DB, 4, 0)
		jobs := idsOf(t, d.DB, 4)
		waits(ahead, now+day, 1, store.Step{JobID: jobs[0], Kind: store.StepSleep, Name: "nap"}, hour)
		waits(ahead, now+day, 1, store.Step{JobID: jobs[1], Kind: store.StepSignal, Name: "approval"}, hour)
		waits(right, now, 1, store.Step{JobID: jobs[2], Kind: store.StepSleep, Name: "nap"}, 3*day) // recorded before, and seen again
		waits(ahead, now+day, 2, store.Step{JobID: jobs[2]}, 2*day)
		waits(right, now, 1, store.Step{JobID: jobs[3], Kind: store.StepSignal, Name: "approval"}, 3*day)
		waits(ahead, now+day, 2, store.Step{JobID: jobs[3]}, 2*day)
		for range 2 { // sent again, it changes nothing
			if _, err := right.MendAhead(ctx, jobs, now); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []int64{hour, hour, 3 * day, 3 * day} {
			left := number(t, d.DB, fmt.Sprintf("SELECT until_at FROM async_job_step_tab WHERE job_id = %d", jobs[i]))/1000 - now
			if left < want-2 || left > want+30 {
				t.Errorf("job %d waits for %d s, want %d", i, left, want)
			}
			due := number(t, d.DB, fmt.Sprintf("SELECT start_time FROM async_job_tab WHERE id = %d", jobs[i])) - now
			if due > want+30 {
				t.Errorf("job %d is due in %d s, want %d at most", i, due, want)
			}
		}
	})
}

func TestAFlowIsUndoneInTimeThoughItsFailureWasCountedWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		const day = 24 * time.Hour
		jobs, right := open(t, d.DB), storeOf(t, d.DB)
		ahead := right.ByClock(func() time.Time { return time.Now().Add(day) })
		flow := func(options ...queue_job.FlowOption) *queue_job.Flow {
			f := queue_job.NewFlow("order", options...)
			f.Job("a", part("a"))
			return f
		}
		failed := addFlow(t, jobs, d.DB, flow().OnFailure(queue_job.UndoAfter(10*time.Minute)))
		withDeadline := addFlow(t, jobs, d.DB, flow(queue_job.FlowDeadline(time.Hour)).OnFailure(queue_job.UndoAfter(10*time.Minute)))
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		for _, id := range []uint64{failed, withDeadline} {
			if c, err := ahead.CountEnds(t.Context(), nodesOf(t, right, id), true, 10); err != nil || c.Ends != 1 {
				t.Fatal(c, err)
			}
		}
		added, there, err := ahead.AddFlow(t.Context(), &store.Flow{Kind: "order", Nodes: 1, UndoAfter: store.NotUndone, Deadline: 3600})
		if err != nil || there {
			t.Fatal(err)
		}
		later := addFlow(t, jobs, d.DB, flow(queue_job.FlowDeadline(3*day))) // which stays as it is
		for range 2 {                                                        // the second time, it changes nothing
			if _, err := right.MendFlowsAhead(t.Context()); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[uint64]time.Duration{failed: 10 * time.Minute, withDeadline: time.Hour, added: time.Hour, later: 3 * day} {
				due := time.Until(time.Unix(number(t, d.DB, fmt.Sprintf("SELECT due_at FROM async_job_flow_tab WHERE id = %d", id)), 0))
				if due > want+2*time.Second || due < want-30*time.Second*slack {
					t.Errorf("flow %d is looked at in %v, want %v", id, due, want)
				}
			}
		}
	})
}

func TestAnOperationGoesOnWhoseWorkerDiedWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		add(t, d.DB, 1, uint32(time.Now().Unix()+3600))
		id, err := operate.Begin(asMary(t.Context()), jobs, d.DB, operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{1}}})
		if err != nil {
			t.Fatal(err)
		}
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		ahead := st.ByClock(func() time.Time { return time.Now().Add(24 * time.Hour) })
		if ours, err := ahead.ClaimOperation(t.Context(), id, "gone", int64(bulk.Silent/time.Second)); err != nil || len(ours) != 1 {
			t.Fatal(ours, err)
		}
		start(t, d.DB, queue_job.Config{JobType: 2, HandleJobFunc: (&runs{}).handler})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_act_tab WHERE state = 'done'")
	})
}

func TestAJobIsDeletedOnlyIfBothItsTimesAreOld(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		now := time.Now().Unix()
		const year = 365 * 24 * 60 * 60
		for _, row := range []struct{ created, ended int64 }{
			{now - 30, now - year}, // the database's clock was a year behind when it ended
			{now - year, now - year + 1},
			{now - year, now - 30},
			{now + year, now - year}, // somebody's clock was a year ahead when it was added, or the database's a year behind when it ended
			{now, now},
		} {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 1, 0, %d, %d)", row.created, row.ended))
		}
		n, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Unix(now-3600, 0)})
		if err != nil || n != 1 {
			t.Errorf("%d jobs are deleted (%v), want the one of which both times are old", n, err)
		}
	})
}

func TestADrainThatBeganWhileTheClockWasAheadEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		configs := typesOf(2, queue_job.Config{LockSecond: 3, HandleJobFunc: (&runs{}).handler})
		start(t, d.DB, slices.Clone(configs)...)
		start(t, dbtest.Open(t, d.Driver, d.DSN), slices.Clone(configs)...)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 && f.holderOf(1) != "" && f.holderOf(2) != "" })
		one := f.holderOf(1)
		if err := jobs.Drain(t.Context(), d.DB, one, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE shedlock_tab SET lock_until = %s WHERE lock_name LIKE 'away-%%'", aDayAhead(d.Driver, "lock_until")))
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.of(one).DrainedUntil.After(time.Now().Add(time.Hour)) })
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.of(one).DrainedUntil.IsZero() && len(f.of(one).Leases) == 1 })
	})
}

func TestAPauseWithAnEndAfterOneThatBeganWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		var ran runs
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.ByClock(func() time.Time { return time.Now().Add(24 * time.Hour) }).Pause(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(3 * time.Second).Truncate(time.Second)
		if changed, err := st.PauseUntil(t.Context(), 1, until.Unix()); !changed || err != nil {
			t.Fatal(changed, err)
		}
		add(t, d.DB, 1, 0)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitRuns(t, &ran, 1)
		if early := until.Sub(ran.all()[0].started); early > 0 {
			t.Errorf("the job ran %v before the end of the pause", early)
		}
	})
}

// setClocks has sessions of PostgreSQL that look for names in the schema public first go by clocks that can be set.
const setClocks = `
CREATE TABLE clock_off (seconds double precision NOT NULL);
INSERT INTO clock_off VALUES (0);
CREATE FUNCTION statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  'SELECT pg_catalog.statement_timestamp() + seconds * interval ''1 second'' FROM clock_off';
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second'' FROM clock_off'`

func TestAfterTheClockWasADayAheadForThreeSecondsNothingStandsStillAndNothingIsGone(t *testing.T) {
	t.Parallel()
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, setClocks)
		db := dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{"search_path": "public, pg_catalog"}))
		set := func(off time.Duration) {
			execute(t, d.DB, fmt.Sprintf("UPDATE clock_off SET seconds = %f", off.Seconds()))
		}
		hour := time.Now().Add(-time.Hour).Unix()
		for range 3 { // of which the last has the largest id for a moment
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 1, 0, %d, %[1]d)", hour))
		}
		var ahead atomic.Bool
		var ran, scheduled runs
		options := []persistent_queue.Option{persistent_queue.WithRetention(queue_job.Retention{Done: 12 * time.Hour})}
		r := newRunnerWith(t, options, db,
			queue_job.Config{JobType: 1, LockSecond: 3, NeedRetry: true, MaxRetries: queue_job.Unlimited, WaitTime: time.Second, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if ahead.Load() {
					return errors.New("not now")
				}
				ran.note(job)
				return nil
			}},
			queue_job.Config{JobType: 2, LockSecond: 3, Schedule: cron.MustParse("@every 1s"), HandleJobFunc: scheduled.handler})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer stop(t, r)
		awaitRuns(t, &scheduled, 1)
		ahead.Store(true)
		set(24 * time.Hour)
		for range 10 {
			add(t, d.DB, 3, 0)
			time.Sleep(300 * time.Millisecond)
		}
		set(0)
		ahead.Store(false)
		right := time.Now()
		await(t, func() string { return fmt.Sprintf("%d of 30 jobs have run", len(ran.all())) }, func() bool { return len(ran.all()) >= 30 })
		await(t, func() string { return "the schedule does not go on" }, func() bool {
			return slices.ContainsFunc(scheduled.all(), func(r run) bool {
				return r.started.After(right.Add(5*time.Second)) && r.job.Due().Before(time.Now().Add(time.Minute))
			})
		})
		t.Logf("all is as it was after %v", time.Since(right))
		if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE create_time = %d", hour)); n != 3 {
			t.Errorf("%d of 3 jobs are left that ended an hour ago, and are kept for twelve", n)
		}
	})
}
