package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// newLock returns the lock named "report" unless the configuration names another, and gives it back after the test.
func newLock(t *testing.T, db queue_job.DB, cfg shedlock.Config) *shedlock.Lock {
	t.Helper()
	cfg.DB = db
	if cfg.ServiceName == "" {
		cfg.ServiceName = "report"
	}
	l, err := shedlock.New(cfg, logOf(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Unlock(context.Background()); err != nil && !errors.Is(err, shedlock.ErrNotHeld) {
			t.Error(err)
		}
	})
	return l
}

// twoLocks returns the same lock as two instances have it, each on a pool of its own.
func twoLocks(t *testing.T, d dbtest.Database, cfg shedlock.Config) (one, other *shedlock.Lock) {
	t.Helper()
	return newLock(t, d.DB, cfg), newLock(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
}

func wantTryLock(t *testing.T, l *shedlock.Lock, want bool) {
	t.Helper()
	if got, err := l.TryLock(t.Context()); err != nil || got != want {
		t.Fatalf("TryLock: %v, %v; want %v", got, err, want)
	}
}

func unlock(t *testing.T, l *shedlock.Lock) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantHeldFor holds a lock and sees that nobody else gets it.
func wantHeldFor(t *testing.T, d time.Duration, held, other *shedlock.Lock) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		wantTryLock(t, other, false)
		if err := held.Context().Err(); err != nil {
			t.Fatal(context.Cause(held.Context()))
		}
	}
}

// wantLost sees that a lock ends with ErrLost, when its row was taken away a moment ago.
func wantLost(t *testing.T, l *shedlock.Lock, within time.Duration) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(within * slack):
		time.Sleep(100 * time.Millisecond) // a process that stood still wakes to find both due
	}
	if l.Context().Err() == nil {
		t.Fatalf("the lock lives %v after it was lost", within*slack)
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, shedlock.ErrLost) || l.Term() != 0 {
		t.Errorf("cause %v, term %d; want ErrLost and 0", cause, l.Term())
	}
}

const expire = "UPDATE shedlock_tab SET lock_until = '2020-01-01 00:00:00'"

func TestALockExcludesOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{})
		elsewhere := newLock(t, d.DB, shedlock.Config{ServiceName: "another"})
		wantTryLock(t, one, true)
		wantTryLock(t, other, false)
		wantTryLock(t, one, false) // not even its own holder gets it twice
		if err := one.Lock(t.Context()); !errors.Is(err, shedlock.ErrHeld) {
			t.Errorf("Lock of a held lock: %v, want ErrHeld", err)
		}
		wantTryLock(t, elsewhere, true)
		unlock(t, one)
		wantTryLock(t, other, true)
		unlock(t, other)
		if err := other.Unlock(t.Context()); !errors.Is(err, shedlock.ErrNotHeld) {
			t.Errorf("Unlock of a free lock: %v, want ErrNotHeld", err)
		}
	})
}

func TestALockOutlivesItsLengthWhileItIsHeld(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{LockSecond: 8})
		wantTryLock(t, one, true)
		wantHeldFor(t, 10*time.Second, one, other)
	})
}

func TestLockWaitsUntilTheOtherUnlocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{})
		bestOfThree(t, func() error {
			wantTryLock(t, one, true)
			locked := make(chan error, 1)
			go func() { locked <- other.Lock(t.Context()) }()
			select {
			case err := <-locked:
				t.Fatalf("Lock of a lock that another holds: %v", err)
			case <-time.After(700 * time.Millisecond): // it has looked again
			}
			unlock(t, one)
			unlocked := time.Now()
			if err := <-locked; err != nil {
				t.Fatal(err)
			}
			took := time.Since(unlocked)
			if other.Context().Err() != nil || other.Term() == 0 {
				t.Error("the lock is not held after Lock")
			}
			unlock(t, other)
			if took > time.Second*slack {
				return fmt.Errorf("after Unlock, Lock took %v to return", took)
			}
			return nil
		})
	})
}

func TestLockEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{})
		wantTryLock(t, one, true)
		bestOfThree(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := other.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock: %v, want the context's error", err)
			}
			if took := time.Since(began); took > 300*time.Millisecond*slack {
				return fmt.Errorf("with a context of 100 ms, Lock took %v to return", took)
			}
			return nil
		})
	})
}

func TestUnlockReleasesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{LockSecond: 30})
		third := newLock(t, d.DB, shedlock.Config{})
		wantTryLock(t, one, true)
		execute(t, d.DB, expire)
		wantTryLock(t, other, true)
		if err := one.Unlock(t.Context()); !errors.Is(err, shedlock.ErrNotHeld) {
			t.Errorf("Unlock of a lock that another has taken: %v, want ErrNotHeld", err)
		}
		wantTryLock(t, third, false)
		if err := other.Context().Err(); err != nil {
			t.Error(err)
		}
		unlock(t, other)
	})
}

func TestALockIsTakenForMinLockSecondHoweverSoonItIsUnlocked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const least = 2 * time.Second
		one, other := twoLocks(t, d, shedlock.Config{MinLockSecond: 2})
		bestOfThree(t, func() error {
			// Late in a second is where cutting fractions off would show.
			await(t, func() string { return "the second does not end" }, func() bool { return time.Now().Nanosecond() > 700e6 })
			taken := time.Now() // a moment earlier than the database's
			wantTryLock(t, one, true)
			unlock(t, one)
			await(t, func() string { return "the lock is not free" }, func() bool {
				free, err := other.TryLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return free
			})
			after := time.Since(taken)
			if after < least {
				t.Errorf("the lock was free %v after it was taken, want %v at least", after, least)
			}
			unlock(t, other)
			execute(t, d.DB, expire) // for whoever measures again
			if after > least+1500*time.Millisecond*slack {
				return fmt.Errorf("the lock was free no sooner than %v after it was taken, want %v", after, least)
			}
			return nil
		})
	})
}

func TestTheContextEndsWithErrLostWhenTheRowIsTakenAway(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		locks := map[string]*shedlock.Lock{}
		for name, takeAway := range map[string]string{
			"taken":   "UPDATE shedlock_tab SET locked_by = 'thief'",
			"expired": expire,
			"deleted": "DELETE FROM shedlock_tab",
		} {
			locks[name] = newLock(t, d.DB, shedlock.Config{ServiceName: name, LockSecond: 2})
			wantTryLock(t, locks[name], true)
			execute(t, d.DB, takeAway+" WHERE lock_name = ?", name)
		}
		for name, l := range locks {
			wantLost(t, l, 2*time.Second)
			if err := l.Unlock(t.Context()); !errors.Is(err, shedlock.ErrNotHeld) {
				t.Errorf("%s: Unlock of a lost lock: %v, want ErrNotHeld", name, err)
			}
		}
	})
}

func TestALostLockCanBeTakenAgainWithALargerTerm(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{LockSecond: 8})
		wantTryLock(t, one, true)
		first := one.Term()
		execute(t, d.DB, "UPDATE shedlock_tab SET locked_by = 'thief'")
		wantLost(t, one, 8*time.Second)
		execute(t, d.DB, expire)
		if err := one.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second := one.Term(); second <= first {
			t.Errorf("term %d after %d", second, first)
		}
		wantHeldFor(t, 7*time.Second, one, other) // until the first one's time is over: what kept it does not disturb the second
		unlock(t, one)
		wantTryLock(t, other, true)
	})
}

func TestTermsOnlyGrow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{})
		var last int64
		for i := range 20 {
			l := one
			if i%3 == 0 {
				l = other
			}
			wantTryLock(t, l, true)
			if l.Term() <= last {
				t.Fatalf("term %d after %d", l.Term(), last)
			}
			last = l.Term()
			unlock(t, l)
			if i%5 == 0 {
				time.Sleep(5 * time.Millisecond) // without the row, they grow if no more were taken than milliseconds have passed
				execute(t, d.DB, "DELETE FROM shedlock_tab")
			}
		}
	})
}

func TestDoAndTryDoRunUnderTheLockAndUnlock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := twoLocks(t, d, shedlock.Config{})
		broken := errors.New("broken")
		work := func(ctx context.Context) error {
			wantTryLock(t, other, false)
			if ran, err := other.TryDo(ctx, func(context.Context) error { return nil }); ran || err != nil {
				t.Errorf("TryDo beside it: %v, %v", ran, err)
			}
			return errors.Join(broken, ctx.Err())
		}
		wantFree := func(after string) {
			t.Helper()
			if one.Term() != 0 || one.Context().Err() == nil {
				t.Errorf("after %s the lock is held", after)
			}
			wantTryLock(t, other, true)
			unlock(t, other)
		}

		if err := one.Do(t.Context(), work); !errors.Is(err, broken) {
			t.Errorf("Do: %v, want fn's error", err)
		}
		wantFree("Do")
		if ran, err := one.TryDo(t.Context(), work); !ran || !errors.Is(err, broken) {
			t.Errorf("TryDo: %v, %v; want fn's error", ran, err)
		}
		wantFree("TryDo")
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("Do swallowed a panic")
				}
			}()
			one.Do(t.Context(), func(context.Context) error { panic("boom") })
		}()
		wantFree("a panic")
		if err := one.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}

func TestDoEndsItsFunctionsContextWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		l := newLock(t, d.DB, shedlock.Config{LockSecond: 2})
		err := l.Do(t.Context(), func(ctx context.Context) error {
			execute(t, d.DB, "DELETE FROM shedlock_tab")
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(patience):
				return errors.New("the context lives on")
			}
		})
		if !errors.Is(err, shedlock.ErrLost) || !errors.Is(err, shedlock.ErrNotHeld) {
			t.Errorf("Do: %v, want fn's ErrLost, and ErrNotHeld from unlocking", err)
		}
	})
}

func TestOfTwentyWhoTryAtOnceOneGetsTheLock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, values := range []int{1, 20} {
			locks := make([]*shedlock.Lock, values)
			for i := range locks {
				locks[i] = newLock(t, d.DB, shedlock.Config{ServiceName: fmt.Sprint("of ", values)})
			}
			var winners atomic.Int64
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					won, err := locks[i%values].TryLock(t.Context())
					if err != nil {
						t.Error(err)
					}
					if won {
						winners.Add(1)
					}
				})
			}
			all.Wait()
			if n := winners.Load(); n != 1 {
				t.Errorf("20 tries on %d values: %d got the lock", values, n)
			}
		}
	})
}

func TestABareCounterUnderTheLockIsExact(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const lockers, times = 4, 25
		execute(t, d.DB, "CREATE TABLE counter_tab (n int NOT NULL)")
		execute(t, d.DB, "INSERT INTO counter_tab VALUES (0)")
		count := func(db *sql.DB, l *shedlock.Lock) error {
			for taken := false; !taken; time.Sleep(time.Millisecond) {
				var err error
				if taken, err = l.TryLock(t.Context()); err != nil {
					return err
				}
			}
			var n int
			err := db.QueryRow("SELECT n FROM counter_tab").Scan(&n)
			if err == nil {
				_, err = db.Exec(fmt.Sprintf("UPDATE counter_tab SET n = %d", n+1))
			}
			return errors.Join(err, l.Unlock(t.Context()))
		}
		var all sync.WaitGroup
		for range lockers {
			db := dbtest.Open(t, d.Driver, d.DSN)
			l := newLock(t, db, shedlock.Config{})
			all.Go(func() {
				for range times {
					if err := count(db, l); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if n := number(t, d.DB, "SELECT n FROM counter_tab"); n != lockers*times {
			t.Errorf("the counter is %d, want %d", n, lockers*times)
		}
	})
}

// SQLite is left out by what it is: there, no second connection is opened beside a busy one.
func TestABusyPoolOfOneKeepsItsLock(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		pool := dbtest.Open(t, d.Driver, d.DSN)
		pool.SetMaxOpenConns(1)
		one, other := newLock(t, pool, shedlock.Config{LockSecond: 8}), newLock(t, d.DB, shedlock.Config{})
		wantTryLock(t, one, true)
		busy, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Close()
		wantHeldFor(t, 10*time.Second, one, other)
	})
}

// The other leaves the file free for a millisecond at a time. After a while, SQLite's own waiting looks ten times a second.
func TestALockIsKeptWhileAnotherWritesAllTheTime(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		lock := newLock(t, dbtest.Open(t, d.Driver, d.DSN), shedlock.Config{LockSecond: 2})
		wantTryLock(t, lock, true)
		for until := time.Now().Add(8 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
			tx, err := d.DB.Begin() // it takes the write lock
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Millisecond)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := lock.Context().Err(); err != nil {
				t.Fatal(context.Cause(lock.Context()))
			}
		}
		unlock(t, lock)
	})
}

func TestALockLeavesThePoolAsItWas(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pool := dbtest.Open(t, d.Driver, d.DSN)
		pool.SetMaxOpenConns(1)
		l, short := newLock(t, pool, shedlock.Config{}), newLock(t, pool, shedlock.Config{LockSecond: 2})
		want := func(after string) {
			t.Helper()
			if s := pool.Stats(); s.InUse != 0 || s.MaxOpenConnections != 1 {
				t.Fatalf("%s: %d connections are in use, and the limit is %d, was 1", after, s.InUse, s.MaxOpenConnections)
			}
		}
		for range 100 {
			wantTryLock(t, l, true)
			unlock(t, l)
			want("unlocked")
		}
		wantTryLock(t, short, true)
		execute(t, d.DB, "DELETE FROM shedlock_tab")
		wantLost(t, short, 2*time.Second)
		if err := short.Unlock(t.Context()); !errors.Is(err, shedlock.ErrNotHeld) {
			t.Error(err)
		}
		want("unlocked when it was lost")
	})
}

// A renewal that changes nothing is read back, with the name that the row has; by a clock that stands still, every one is.
func TestNamesThatDifferInCaseLockNobodyOut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one := newLock(t, d.DB, shedlock.Config{ServiceName: "Report"})
		wantTryLock(t, one, true)
		unlock(t, one)
		pool := d.DB
		if d.Driver == "mysql" { // elsewhere, these are two names
			now := number(t, d.DB, "SELECT UNIX_TIMESTAMP()")
			pool = dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{"timestamp": fmt.Sprint(now)}))
		}
		other := newLock(t, pool, shedlock.Config{ServiceName: "rEPORT", LockSecond: 8})
		same := newLock(t, pool, shedlock.Config{ServiceName: "rEPORT"})
		wantTryLock(t, other, true)
		wantHeldFor(t, 4*time.Second, other, same) // a renewal later
		unlock(t, other)
		wantTryLock(t, one, true)
	})
}
