package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const handOvers = "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'away-%'"

// holderOf is the instance that holds a type's lease; empty: none does.
func (f fleet) holderOf(jobType int32) string {
	for _, l := range f.leases {
		if l.JobType == jobType {
			return l.Instance
		}
	}
	return ""
}

// What the machine takes for a start at that moment does not count.
func TestABusyTypeIsHandedOverWithinASecondIfSomebodyAsksForThat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, pulse := open(t, d.DB), feelPulse(t, d)
		bestOfThree(t, func() error {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			var s ledger
			configs := typesOf(2, queue_job.Config{LockSecond: 3, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				defer s.begin(job)()
				time.Sleep(2 * time.Millisecond)
				return nil
			}})
			one := start(t, d.DB, configs...)
			two := start(t, dbtest.Open(t, d.Driver, d.DSN), configs...)
			f := awaitFleet(t, jobs, d.DB, func(f fleet) bool {
				return f.holderOf(1) != "" && f.holderOf(2) != "" && f.holderOf(1) != f.holderOf(2)
			})
			end := flow(t, d.DB, 1, 3*time.Millisecond)
			var moves, pauses []time.Duration
			for range unlessShort(5, 3) {
				s.awaitStart(t)
				from, other := f.holderOf(1), f.holderOf(2)
				began := time.Now()
				if err := jobs.HandOver(t.Context(), d.DB, "job-1"); err != nil {
					t.Fatal(err)
				}
				f = awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != from && f.holderOf(1) != "" })
				moves = append(moves, time.Since(began)-pulse.allows(0, began, time.Now()))
				if f.holderOf(1) != other {
					t.Errorf("%s has it, want %s", f.holderOf(1), other)
				}
				s.awaitStart(t)
				pauses = append(pauses, s.longestPause(began))
				// The shares become even again: the other type goes the other way, and this one stays.
				f = awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(2) == from && f.holderOf(1) != "" })
				if f.holderOf(1) != other {
					t.Errorf("the type came back to %s, although another could go there", from)
				}
			}
			end()
			awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
			stop(t, one)
			stop(t, two)
			p50 := percentile(moves, 50)
			t.Logf("the lease moved within %v in the middle, %v at worst; the type's starts paused for %v at worst", p50, percentile(moves, 100), percentile(pauses, 100))
			if n := s.twice(); n > 0 {
				t.Errorf("%d jobs were started twice", n)
			}
			if worst := percentile(moves, 100); p50 > time.Second*slack || worst > 2*time.Second*slack {
				return fmt.Errorf("the lease moved within %v in the middle, %v at worst", p50, worst)
			}
			return nil
		})
	})
}

func TestALeaseThatIsHandedOverForNothingComesBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		all := typesOf(2, queue_job.Config{LockSecond: 3, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		start(t, d.DB, all[0])
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" })
		start(t, dbtest.Open(t, d.Driver, d.DSN), all...)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 && f.holderOf(2) != "" })
		one, two := f.holderOf(1), f.holderOf(2)
		if one == two {
			t.Fatal("one instance has both")
		}
		if err := jobs.HandOver(t.Context(), d.DB, "job-1"); err != nil {
			t.Fatal(err)
		}
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) == two })
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) == one }) // the other type is not one of its own
		if err := jobs.HandOver(t.Context(), d.DB, "job-1"); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, handOvers); n != 1 {
			t.Errorf("%d rows ask for hand-overs; the first one was over", n)
		}
	})
}

// tidied is a handle beside which an instance starts: before the first change of a lease, that instance deletes the leases
// that have ended.
type tidied struct {
	*sql.DB
	done bool
}

func (d *tidied) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if strings.Contains(query, "SET term = ") && !d.done {
		d.done = true
		if _, err := d.DB.ExecContext(ctx, "DELETE FROM shedlock_tab WHERE lock_name LIKE 'away-%'"); err != nil {
			return nil, err
		}
	}
	return d.DB.ExecContext(ctx, query, args...)
}

func TestAHandOverThatIsAskedForWhileAnInstanceStartsIsNotForgotten(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		start(t, dbtest.Open(t, d.Driver, d.DSN), queue_job.Config{JobType: 2, HandleJobFunc: ran.handler})
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 && f.holderOf(1) != "" })
		ex := &tidied{DB: d.DB}
		if err := jobs.HandOver(t.Context(), ex, "job-1"); err != nil {
			t.Fatal(err)
		}
		if !ex.done {
			t.Fatal("no lease was changed")
		}
		if n := number(t, d.DB, handOvers+" AND locked_by <> ''"); n != 1 {
			t.Errorf("%d leases ask for a hand-over, want 1", n)
		}
	})
}

func TestAHandOverThatCannotBeSaysWhy(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		expect := func(name string, says ...string) {
			t.Helper()
			err := jobs.HandOver(t.Context(), d.DB, name)
			for _, part := range says {
				if !errors.Is(err, queue_job.ErrRefused) || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v, want refused, and %q", name, err, part)
				}
			}
		}
		expect("jobs", `hand over "jobs"`, "it is not the lease of a job type", `such as "job-7"`)
		expect("job-1", "no instance holds it", "job type 1")
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" && len(f.instances) == 1 })
		expect("job-1", `there is no other instance of service "test"`, "start one that has a configuration for job type 1")

		start(t, dbtest.Open(t, d.Driver, d.DSN), queue_job.Config{JobType: 2, HandleJobFunc: ran.handler})
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 })
		tx := begin(t, d.DB)
		if err := jobs.HandOver(t.Context(), tx, "job-1"); err != nil {
			t.Error(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if n := number(t, d.DB, handOvers); n != 0 {
			t.Errorf("%d rows ask for a hand-over that was rolled back", n)
		}
		for range 2 { // the second one changes nothing
			if err := jobs.HandOver(t.Context(), d.DB, "job-1"); err != nil {
				t.Error(err)
			}
		}
		if n := number(t, d.DB, handOvers); n != 1 {
			t.Errorf("%d rows ask for a hand-over", n)
		}
	})
}
