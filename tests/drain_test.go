package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// of is an instance of a fleet.
func (f fleet) of(id string) queue_job.Instance {
	i := slices.IndexFunc(f.instances, func(i queue_job.Instance) bool { return i.Id == id })
	if i < 0 {
		return queue_job.Instance{}
	}
	return f.instances[i]
}

func TestAnInstanceThatIsDrainedHasNoLeaseWithinTwoSecondsAndNothingRunsTwice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var s ledger
		configs := typesOf(6, queue_job.Config{LockSecond: 3, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			defer s.begin(job)()
			time.Sleep(2 * time.Millisecond)
			return nil
		}})
		for range 3 {
			start(t, dbtest.Open(t, d.Driver, d.DSN), configs...)
		}
		even := func(f fleet) bool {
			return len(f.instances) == 3 && !slices.ContainsFunc(f.instances, func(i queue_job.Instance) bool { return len(i.Leases) != 2 })
		}
		one := awaitFleet(t, jobs, d.DB, even).instances[0].Id
		end := flow(t, d.DB, 1, 5*time.Millisecond)
		bestOfThree(t, func() error {
			s.awaitStart(t)
			began := time.Now()
			if err := jobs.Drain(t.Context(), d.DB, one, time.Hour); err != nil {
				t.Fatal(err)
			}
			f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.of(one).Leases) == 0 })
			took := time.Since(began)
			if until := f.of(one).DrainedUntil; time.Until(until) < 59*time.Minute || f.of(one).Leaving {
				t.Errorf("%+v", f.of(one))
			}
			for begin := time.Now(); time.Since(begin) < unlessShort(6*time.Second, 2*time.Second); time.Sleep(50 * time.Millisecond) {
				if leases := lookAtFleet(t, jobs, d.DB).of(one).Leases; len(leases) > 0 {
					t.Fatalf("it is drained, and has %v", leases)
				}
			}
			// Two of three are drained, and the third has everything.
			two := f.instances[slices.IndexFunc(f.instances, func(i queue_job.Instance) bool { return i.Id != one })].Id
			if err := jobs.Drain(t.Context(), d.DB, two, time.Minute); err != nil {
				t.Fatal(err)
			}
			awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.of(one).Leases)+len(f.of(two).Leases) == 0 })
			for _, id := range []string{one, two} {
				if was, err := jobs.Undrain(t.Context(), d.DB, id); err != nil || !was {
					t.Errorf("%v, %v", was, err)
				}
			}
			awaitFleet(t, jobs, d.DB, even)
			t.Logf("it had no lease after %v; the type's starts paused for %v at worst", took, s.longestPause(began))
			if took > 2*time.Second*slack {
				return fmt.Errorf("it had no lease after %v", took)
			}
			return nil
		})
		end()
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
		if n := s.twice(); n > 0 {
			t.Errorf("%d jobs were started twice", n)
		}
	})
}

func TestADrainEndsByItselfAndLeavesWhatRunsNowhereElse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran runs
		configs := typesOf(3, queue_job.Config{LockSecond: 3, HandleJobFunc: ran.handler})
		start(t, d.DB, slices.Clone(configs[:2])...) // start sets the handle in them
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" && f.holderOf(2) != "" })
		start(t, dbtest.Open(t, d.Driver, d.DSN), slices.Clone(configs[1:])...)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(3) != "" && len(f.instances) == 2 })
		one := f.holderOf(1)
		if err := jobs.Drain(t.Context(), d.DB, one, 4*time.Second); err != nil {
			t.Fatal(err)
		}
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return slices.Equal(f.of(one).Leases, []string{"job-1"}) })
		if id := addOne(t, jobs, d.DB, ofType(1)).Id; id == 0 {
			t.Fatal("no job")
		}
		await(t, func() string { return "its only type's job has not run" }, func() bool { return len(ran.all()) == 1 })
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.of(one).DrainedUntil.IsZero() })
	})
}

func TestADrainThatCannotBeSaysWhy(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		expect := func(id string, lasts time.Duration, says ...string) {
			t.Helper()
			err := jobs.Drain(t.Context(), d.DB, id, lasts)
			for _, text := range says {
				if !errors.Is(err, queue_job.ErrRefused) || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want refused, and %q", err, text)
				}
			}
		}
		config := queue_job.Config{JobType: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		start(t, d.DB, config)
		one := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 1 }).instances[0].Id
		expect("0123456789ab", time.Hour, `drain "0123456789ab"`, "no such instance is there", "Instances")
		expect(one, time.Hour, "no other instance of service", "stays")
		expect(one, time.Millisecond, "from a second to 30 days")
		start(t, d.DB, config)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 })
		two := f.instances[slices.IndexFunc(f.instances, func(i queue_job.Instance) bool { return i.Id != one })].Id
		ctx := queue_job.WithActor(t.Context(), "mary", "a new kernel")
		for _, lasts := range []time.Duration{time.Hour, 2 * time.Hour} { // the second time counts anew
			var err error
			await(t, func() string { return fmt.Sprint(err) }, func() bool { // the other instance may be seen before it can take a lease
				err = jobs.Drain(ctx, d.DB, one, lasts)
				return err == nil
			})
			until := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return !f.of(one).DrainedUntil.IsZero() }).of(one).DrainedUntil
			if off := time.Until(until) - lasts; off.Abs() > 30*time.Second {
				t.Errorf("drained until %v, for %v", until, lasts)
			}
		}
		expect(two, time.Hour, "no other instance of service", "Undrain another")
		b := browse(t, console.Handler(jobs))
		if page := b.get("/workers", http.StatusOK); !strings.Contains(page, "drained until") || !strings.Contains(page, "Undrain") {
			t.Errorf("the console does not say so: %s", page)
		}
		if was, err := jobs.Undrain(ctx, d.DB, one); err != nil || !was {
			t.Errorf("%v, %v", was, err)
		}
		if was, err := jobs.Undrain(ctx, d.DB, one); err != nil || was {
			t.Errorf("%v, %v", was, err)
		}
		if page := b.press("/instances/"+two+"/drain", http.StatusOK); !strings.Contains(page, "takes none") {
			t.Errorf("%s", page)
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Actor: "mary"})
		var verbs []string
		for _, a := range acts {
			verbs = append(verbs, a.Verb)
			if a.JobType != nil || !strings.Contains(a.Detail, one) || a.Why != "a new kernel" {
				t.Errorf("%+v", a)
			}
		}
		if err != nil || !slices.Equal(verbs, []string{"undrain", "drain", "drain"}) {
			t.Errorf("%v, %v", verbs, err)
		}
	})
}

func TestALeaseThatIsBrokenGoesOnElsewhereAndWhatItsHolderWritesIsDropped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		const lock = 6 * time.Second
		type call struct {
			began, ended time.Time
			term         int64
		}
		calls, begun, again := make(chan call, 10), make(chan struct{}, 10), make(chan struct{}, 10)
		config := queue_job.Config{JobType: 1, LockSecond: uint32(lock / time.Second), NeedRetry: true, MaxRetries: 3, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			c := call{began: time.Now(), term: job.Term}
			if job.Lost == 0 {
				begun <- struct{}{}
				<-ctx.Done() // the first run works on until it hears of it, and writes when the second one has begun
				c.ended = time.Now()
				<-again
			} else {
				c.ended = time.Now()
				again <- struct{}{}
			}
			calls <- c
			return nil
		}}
		start(t, d.DB, config)
		id := addOne(t, jobs, d.DB, ofType(1)).Id
		<-begun // a job that is only marked would be taken back, and not lost
		start(t, dbtest.Open(t, d.Driver, d.DSN), config)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 && f.holderOf(1) != "" })
		before := f.leases[0]
		broken := time.Now()
		if err := jobs.Break(t.Context(), d.DB, "job-1"); err != nil {
			t.Fatal(err)
		}
		f = awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" && f.leases[0].Term > before.Term })
		first, second := <-calls, <-calls
		if first.term > second.term {
			first, second = second, first
		}
		if heard := first.ended.Sub(broken); heard > lock/3+time.Second*slack {
			t.Errorf("the old holder's handler heard of it after %v, and a third of the lease is %v", heard, lock/3)
		}
		if first.term != before.Term || second.term <= before.Term {
			t.Errorf("terms %d and %d, and the lease was broken under %d", first.term, second.term, before.Term)
		}
		awaitNumber(t, d.DB, 1, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE id = %d AND job_status = 1", id))
		job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
		if err != nil || job.Attempts != 2 || job.Lost != 1 {
			t.Errorf("%+v, %v", job, err)
		}
		for name, says := range map[string]string{"jobs": "it is not the lease of a job type", "job-2": "nobody holds it"} {
			if err := jobs.Break(t.Context(), d.DB, name); !errors.Is(err, queue_job.ErrRefused) || !strings.Contains(err.Error(), says) {
				t.Errorf("break %s: %v", name, err)
			}
		}
	})
}
