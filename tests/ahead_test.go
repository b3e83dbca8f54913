package tests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
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
	st, err := store.Open(t.Context(), d.DB, "")
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
