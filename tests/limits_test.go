package tests

import (
	"context"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// now is how many jobs run at this moment.
func (c *crowd) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// atMost is how many jobs have run at a time.
func (c *crowd) atMost() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// mostFrom forgets how many have run at a time, and returns a function that says how many have since then.
func (c *crowd) mostFrom() func() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = c.running
	return c.atMost
}

func TestLimitsLowerWhatATypeMayUseOnAllInstancesAndAreTakenBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const capacity, few, rate, jobs = 10, 2, 20, 4000
		var c crowd
		var ran runs
		config := func() queue_job.Config {
			return queue_job.Config{WorkerPoolCapacity: capacity, LockSecond: 3, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				c.enter(job.JobType)
				defer c.leave(job.JobType)
				time.Sleep(20 * time.Millisecond)
				return ran.handler(ctx, job)
			}}
		}
		first := start(t, d.DB, config())
		second := start(t, d.DB, config())
		verbs := open(t, d.DB)
		await(t, func() string { return "nobody has told how the type is run" }, func() bool {
			types, err := verbs.Types(t.Context(), d.DB)
			return err == nil && len(types) == 1 && !types[0].Told.IsZero()
		})
		set := func(limits queue_job.Limits) {
			t.Helper()
			for _, want := range []bool{true, false} { // what is set already is no change
				if changed, err := verbs.SetLimits(t.Context(), d.DB, 1, limits); err != nil || changed != want {
					t.Fatalf("SetLimits(%+v): %t, %v", limits, changed, err)
				}
			}
			types, err := verbs.Types(t.Context(), d.DB)
			if err != nil || len(types) != 1 || types[0].Limits != limits || types[0].Config.WorkerPoolCapacity != capacity {
				t.Fatalf("%+v, %v; want %+v", types, err, limits)
			}
		}
		add(t, d.DB, jobs, 0)
		full := func() {
			t.Helper()
			await(t, func() string { return "too few jobs run at a time" }, func() bool { return c.now() == capacity })
		}
		full()

		set(queue_job.Limits{Workers: few})
		heeded := func() bool {
			most, before := c.mostFrom(), len(ran.all())
			await(t, func() string { return "hardly any job runs" }, func() bool { return len(ran.all()) > before+2*capacity })
			return most() <= few
		}
		await(t, func() string { return "too many jobs run at a time" }, heeded)
		if !heeded() {
			t.Error("more jobs run at a time again than the limit says")
		}

		set(queue_job.Limits{RatePerSecond: rate})
		at := time.Now()
		lately := func() (n int) {
			for _, run := range ran.all() {
				if time.Since(run.started) < time.Second {
					n++
				}
			}
			return n
		}
		await(t, func() string { return "too many jobs start in a second" }, func() bool { return time.Since(at) > time.Second && lately() <= rate+few })
		at = time.Now()
		stop(t, first) // either may have had the lease
		third := start(t, d.DB, config())
		stop(t, second)
		before := len(ran.all())
		await(t, func() string { return "nobody goes on" }, func() bool { return len(ran.all()) > before+rate })
		var times []time.Time
		for _, started := range inOrder(ran.all()) {
			if started.After(at) {
				times = append(times, started)
			}
		}
		if n := mostInASecond(times); n > rate+few+capacity {
			t.Errorf("%d jobs started in a second, of a type that is limited to %d, with a burst of %d", n, rate, few)
		}

		set(queue_job.Limits{})
		full()
		awaitNumber(t, d.DB, jobs, succeeded)
		stop(t, third)
		if n := len(ran.all()); n != jobs {
			t.Errorf("%d runs of %d jobs", n, jobs)
		}
	})
}

func TestLimitsOfATypeThatNobodyRunsWaitForIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var c crowd
		verbs := open(t, d.DB)
		if changed, err := verbs.SetLimits(t.Context(), d.DB, 1, queue_job.Limits{Workers: 1}); err != nil || !changed {
			t.Fatal(changed, err)
		}
		add(t, d.DB, 30, 0)
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 5, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			c.enter(job.JobType)
			defer c.leave(job.JobType)
			time.Sleep(time.Millisecond)
			return nil
		}})
		awaitNumber(t, d.DB, 30, succeeded)
		if n := c.atMost(); n != 1 {
			t.Errorf("%d jobs ran at a time, from the start", n)
		}
	})
}

// A type that is limited keeps its line while others come and go, and keeps its limits when it gets another configuration itself. Its
// lease is free at once then, although it is to stay taken for longer.
func TestLimitsStayWhenConfigurationsChange(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var c crowd
		handle := func(_ context.Context, job *queue_job.Job) error {
			c.enter(job.JobType)
			defer c.leave(job.JobType)
			time.Sleep(time.Millisecond)
			return nil
		}
		config := func(jobType int32, capacity int) queue_job.Config {
			return queue_job.Config{ServiceName: "test", Db: d.DB, JobType: jobType, WorkerPoolCapacity: capacity, MinLockSecond: 600, HandleJobFunc: handle}
		}
		verbs := open(t, d.DB)
		var log lines
		r, err := persistent_queue.New([]queue_job.Config{config(1, 10)}, log.log())
		if err == nil {
			err = r.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		taken := func() int { return strings.Count(log.String(), "lease job-1 taken") }
		awaitTaken := func(times int) {
			t.Helper()
			await(t, func() string { return "the lease is not taken:\n" + log.String() }, func() bool { return taken() == times })
		}
		awaitTaken(1)
		if _, err := verbs.SetLimits(t.Context(), d.DB, 1, queue_job.Limits{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		awaitTaken(2)
		for _, change := range []func() error{
			func() error { return r.Add(t.Context(), config(2, 10)) },
			func() error { return r.Replace(t.Context(), config(2, 20)) },
			func() error { return r.Remove(t.Context(), 2) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
		}
		addType(t, d.DB, 1, 20, 0)
		awaitNumber(t, d.DB, 20, succeeded)
		if taken() != 2 {
			t.Errorf("the limited type has taken its lease again, since another came and went:\n%s", log.String())
		}
		if err := r.Replace(t.Context(), config(1, 20)); err != nil {
			t.Fatal(err)
		}
		addType(t, d.DB, 1, 20, 0)
		awaitNumber(t, d.DB, 40, succeeded)
		if n := c.atMost(); n != 1 {
			t.Errorf("%d jobs ran at a time, of a type that is limited to 1", n)
		}
	})
}
