package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// typeConfig is a configuration of a type, with what every test needs.
func typeConfig(d dbtest.Database, jobType int32, handler func(context.Context, *queue_job.Job) error) queue_job.Config {
	return queue_job.Config{ServiceName: "test", JobType: jobType, Db: d.DB, LockSecond: 10, HandleJobFunc: handler}
}

// What the machine takes for a start at that moment does not count.
func TestATypeThatIsAddedWhileTheRunnerRunsStartsItsJobsWithinASecond(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		var first, second, prefixed runs
		r := start(t, d.DB, typeConfig(d, 1, first.handler))
		addType(t, d.DB, 2, 3, 0) // nobody runs them yet
		addType(t, d.DB, 1, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		bestOfThree(t, func() error {
			began := time.Now()
			jobType := int32(2 + len(r.Types()) - 1)
			addType(t, d.DB, jobType, 1, 0)
			if err := r.Add(t.Context(), typeConfig(d, jobType, second.handler)); err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, 0, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_type = %d AND job_status <> 1", jobType))
			if took := time.Since(began); took > pulse.allows(time.Second, began, time.Now()) {
				return fmt.Errorf("the jobs of an added type were done after %v", took)
			}
			return nil
		})
		err := r.Add(t.Context(), typeConfig(d, 7, second.handler), typeConfig(d, 2, second.handler))
		if err == nil || !strings.Contains(err.Error(), "job type 2") || !strings.Contains(err.Error(), "call Replace") || slices.ContainsFunc(r.Types(), func(s persistent_queue.TypeState) bool { return s.JobType == 7 }) {
			t.Errorf("a type that is there was added: %v, %+v", err, r.Types())
		}

		// On other tables, which are made for it.
		cfg := typeConfig(d, 1, prefixed.handler)
		cfg.TablePrefix = "other_"
		if err := r.Add(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		jobs, err := queue_job.Open(d.DB, queue_job.WithTablePrefix("other_"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.Add(t.Context(), d.DB, theJob); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM other_async_job_tab WHERE job_status = 1")

		// And after a stop, all of them.
		stop(t, r)
		addType(t, d.DB, 2, 1, 0)
		before := number(t, d.DB, succeeded)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, before+1, succeeded)
	})
}

// throng is a handler that says how many of it run at a time.
type throng struct {
	takes     time.Duration
	now, most atomic.Int32
	runs      sync.Map // by job id: how many
}

func (c *throng) handler(ctx context.Context, job *queue_job.Job) error {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	times, _ := c.runs.LoadOrStore(job.Id, new(atomic.Int32))
	times.(*atomic.Int32).Add(1)
	time.Sleep(c.takes)
	return nil
}

// twice are the jobs that ran more than once.
func (c *throng) twice() (ids []uint64) {
	c.runs.Range(func(id, times any) bool {
		if times.(*atomic.Int32).Load() > 1 {
			ids = append(ids, id.(uint64))
		}
		return true
	})
	return ids
}

// What the machine takes for a start at that moment does not count.
func TestANewConfigurationHoldsWithinASecondAndNoJobRunsTwice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		c := throng{takes: 200 * time.Millisecond}
		with := func(workers int) queue_job.Config {
			cfg := typeConfig(d, 1, c.handler)
			cfg.WorkerPoolCapacity = workers
			return cfg
		}
		r := start(t, d.DB, with(2))
		add(t, d.DB, 400, 0)
		await(t, func() string { return "no two run" }, func() bool { return c.most.Load() == 2 })
		bestOfThree(t, func() error { // more, and then fewer
			for _, workers := range []int{8, 3} {
				if err := r.Replace(t.Context(), with(workers)); err != nil {
					t.Fatal(err)
				}
				replaced := time.Now()
				await(t, func() string { return fmt.Sprintf("%d run, want %d", c.now.Load(), workers) }, func() bool { return c.now.Load() == int32(workers) })
				if took := time.Since(replaced); took > pulse.allows(time.Second, replaced, time.Now()) {
					return fmt.Errorf("%d run at a time only after %v", workers, took)
				}
			}
			return nil
		})
		most := int32(0)
		for range 100 {
			most = max(most, c.now.Load())
			<-time.After(2 * time.Millisecond)
		}
		if most > 3 {
			t.Errorf("%d run at a time, want at most 3", most)
		}
		if err := r.Replace(t.Context(), with(100)); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 400, succeeded)
		if c.most.Load() > 100 || len(c.twice()) > 0 {
			t.Errorf("%d ran at a time; these ran twice: %v", c.most.Load(), c.twice())
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); n > 0 {
			t.Errorf("%d jobs did not run once", n)
		}
		if err := r.Replace(t.Context(), typeConfig(d, 9, c.handler)); err == nil || !strings.Contains(err.Error(), "no job type 9") || !strings.Contains(err.Error(), "call Add") {
			t.Error(err)
		}
	})
}

func TestARunThatIsLongOutlivesItsConfigurationAndCountsAgainstTheNewOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		end, old, young := make(chan struct{}), make(chan uint64, 9), make(chan uint64, 9)
		cfg := typeConfig(d, 1, func(_ context.Context, job *queue_job.Job) error {
			old <- job.Id
			<-end
			return nil
		})
		cfg.WorkerPoolCapacity, cfg.MaxPerKey = 2, 1
		r := start(t, d.DB, cfg)
		jobs := open(t, d.DB)
		long := addOne(t, jobs, d.DB, queue_job.WithKey("k")).Id
		if id := <-old; id != long {
			t.Fatal(id)
		}
		cfg.HandleJobFunc = func(_ context.Context, job *queue_job.Job) error {
			young <- job.Id
			return nil
		}
		cfg.WorkerPoolCapacity = 1
		if err := r.Replace(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		ofKey, other := addOne(t, jobs, d.DB, queue_job.WithKey("k")).Id, addOne(t, jobs, d.DB).Id
		select {
		case id := <-young:
			t.Errorf("job %d runs beside the one that takes the only worker", id)
		case <-time.After(700 * time.Millisecond):
		}
		close(end)
		got := []uint64{<-young, <-young}
		slices.Sort(got)
		if !slices.Equal(got, []uint64{ofKey, other}) {
			t.Error(got)
		}
		awaitNumber(t, d.DB, 3, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1"); n > 0 {
			t.Errorf("%d jobs did not run once", n)
		}
	})
}

func TestATypeThatIsRemovedGoesOnElsewhereOrWaits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		end, began := make(chan struct{}), make(chan struct{}, 9)
		r := start(t, d.DB, typeConfig(d, 1, (&runs{}).handler), typeConfig(d, 2, func(context.Context, *queue_job.Job) error {
			began <- struct{}{}
			<-end
			return nil
		}))
		addType(t, d.DB, 2, 1, 0)
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := r.Remove(ctx, 2); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 handler still runs") {
			t.Error(err)
		}
		if err := r.Remove(t.Context(), 1, 2); err == nil || !strings.Contains(err.Error(), "no job type 2") || len(r.Types()) == 0 {
			t.Error(err)
		}
		addType(t, d.DB, 2, 5, 0)
		<-time.After(time.Second)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2 AND attempts > 0"); n != 1 {
			t.Errorf("%d jobs of a type that was removed were started, want the one before", n)
		}
		var elsewhere runs
		start(t, d.DB, typeConfig(d, 2, elsewhere.handler))
		awaitNumber(t, d.DB, 5, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2 AND job_status = 1")
		close(end)
		awaitNumber(t, d.DB, 6, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2 AND job_status = 1 AND attempts = 1")
		addType(t, d.DB, 1, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 1 AND job_status = 1")
		if err := r.Remove(t.Context(), 1); err != nil {
			t.Error(err)
		}
		await(t, func() string { return fmt.Sprintf("%+v", r.Types()) }, func() bool { return len(r.Types()) == 0 })
		stop(t, r)
		if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "call Add") {
			t.Errorf("a Runner without types: %v", err)
		}
	})
}

func TestConfigurationsThatChangeUnderLoadOnTwoInstancesKeepTheOrderAndLoseNothing(t *testing.T) {
	long(t)
	t.Parallel()
	const keys, perKey = 20, 60
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var mu sync.Mutex
		last, at, wrong := map[string]uint64{}, map[string]int{}, []string{}
		cfg := typeConfig(d, 1, func(_ context.Context, job *queue_job.Job) error {
			mu.Lock()
			if at[job.Key]++; at[job.Key] > 1 || job.Id <= last[job.Key] {
				wrong = append(wrong, fmt.Sprintf("job %d of %s, behind %d", job.Id, job.Key, last[job.Key]))
			}
			last[job.Key] = job.Id
			mu.Unlock()
			<-time.After(3 * time.Millisecond)
			mu.Lock()
			at[job.Key]--
			mu.Unlock()
			return nil
		})
		cfg.OrderedByKey, cfg.WorkerPoolCapacity = true, 10
		one, other := start(t, d.DB, cfg), start(t, d.DB, cfg)
		var list []queue_job.AddModelJob
		for i := range keys * perKey {
			list = append(list, theJob.With(queue_job.WithKey(fmt.Sprint("k", i%keys))))
		}
		if _, err := open(t, d.DB).AddMany(t.Context(), d.DB, list); err != nil {
			t.Fatal(err)
		}
		for n, done := 0, int64(0); done < keys*perKey; n++ {
			r := []*persistent_queue.Runner{one, other}[n%2]
			switch cfg.WorkerPoolCapacity = 3 + n%9; n % 5 {
			case 4:
				if err := r.Remove(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if err := r.Add(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			default:
				if err := r.Replace(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			done = min(keys*perKey, done+keys*2)
			awaitAtLeast(t, d.DB, done, succeeded)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 {
			t.Errorf("%d out of order: %v", len(wrong), wrong[:min(5, len(wrong))])
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost > 0"); n > 0 {
			t.Errorf("%d jobs did not run once", n)
		}
	})
}

// hanging is a database on a host that does not answer.
type hanging struct {
	queue_job.DB
	asked   chan struct{} // holds one signal
	answers chan struct{} // closed: it does
}

func (h hanging) Query(string, ...any) (*sql.Rows, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.answers
	return nil, sql.ErrConnDone
}

func TestHandlersAndHooksThatChangeTheTypesDoNotHoldAStopUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var r *persistent_queue.Runner
		began, ended := make(chan struct{}), make(chan error, 6)
		changeWhileItStops := func(ctx context.Context) {
			await(t, func() string { return "it does not stop" }, func() bool { return r.Health() != nil })
			ended <- r.Add(ctx, typeConfig(d, 2, (&runs{}).handler))
			ended <- r.Replace(ctx, typeConfig(d, 1, (&runs{}).handler))
			ended <- r.Remove(ctx, 1)
		}
		cfg := typeConfig(d, 1, func(ctx context.Context, _ *queue_job.Job) error {
			close(began)
			changeWhileItStops(ctx)
			return nil
		})
		r = newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(func(ctx context.Context, _ []queue_job.Settled) { changeWhileItStops(ctx) })}, d.DB, cfg)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Fatalf("Stop says %v", err)
		}
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, persistent_queue.ErrStopped) {
				t.Errorf("a change while it stops: %v", err)
			}
		}
		if n := number(t, d.DB, succeeded); n != 1 {
			t.Errorf("%d jobs have succeeded", n)
		}
	})
}

func TestAStopDoesNotWaitForATypeThatIsAddedOnADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var handled runs
		r := start(t, d.DB, typeConfig(d, 1, handled.handler))
		h := hanging{asked: make(chan struct{}, 1), answers: make(chan struct{})}
		defer close(h.answers)
		cfg := typeConfig(d, 2, handled.handler)
		cfg.Db = h
		added, removed := make(chan error, 1), make(chan error, 1)
		go func() { added <- r.Add(context.Background(), cfg) }()
		<-h.asked
		go func() { removed <- r.Remove(context.Background(), 1) }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(ctx) }()
		for what, c := range map[string]chan error{"Add": added, "Remove": removed} {
			select {
			case err := <-c:
				if !errors.Is(err, persistent_queue.ErrStopped) {
					t.Errorf("%s: %v", what, err)
				}
			case <-time.After(patience):
				t.Fatalf("%s waits", what)
			}
		}
		if err := <-stopped; err != nil {
			t.Errorf("Stop says %v", err)
		}

		// The type was not added, and what was there goes on after the next start.
		add(t, d.DB, 1, 0)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, succeeded)
	})
}

func TestARemoveThatWaitsForARunEndsWithAStop(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var r *persistent_queue.Runner
		removed := make(chan error, 1)
		r = newRunner(t, d.DB, typeConfig(d, 1, func(ctx context.Context, _ *queue_job.Job) error {
			removed <- r.Remove(ctx, 1) // it waits for this run
			return nil
		}))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		await(t, func() string { return fmt.Sprintf("%+v", r.Types()) }, func() bool {
			types := r.Types()
			return types[0].Held == 0 && types[0].Running == 1
		})
		stop(t, r)
		if err := <-removed; !errors.Is(err, persistent_queue.ErrStopped) || !strings.Contains(err.Error(), "1 handler still runs") {
			t.Error(err)
		}
		if n := number(t, d.DB, succeeded); n != 1 {
			t.Errorf("%d jobs have succeeded", n)
		}
	})
}

func TestCallsOfARunnerThatMeetAreTakenOrEndWithAReason(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var handled runs
		r := newRunner(t, d.DB, typeConfig(d, 1, handled.handler))
		var calls sync.WaitGroup
		for _, call := range []func() error{
			func() error { return r.Start(t.Context()) },
			func() error { return r.Add(t.Context(), typeConfig(d, 2, handled.handler)) },
			func() error { return r.Replace(t.Context(), typeConfig(d, 1, handled.handler)) },
			func() error { return r.Remove(t.Context(), 2) },
			func() error { stop(t, r); return nil },
			func() error { stop(t, r); return nil },
		} {
			calls.Go(func() {
				for range 20 {
					err := call()
					reason := func(text string) bool { return strings.Contains(err.Error(), text) }
					if err != nil && !errors.Is(err, persistent_queue.ErrStopped) && !errors.Is(err, persistent_queue.ErrRunning) && !reason("call Replace") && !reason("no job type 2") {
						t.Error(err)
					}
				}
			})
		}
		calls.Wait()
		stop(t, r)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		stop(t, r)
	})
}

func TestAMiddlewareThatMakesNoHandlerIsRefusedAtOnceAndChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var handled runs
		barren := func(jobType int32) queue_job.Config {
			cfg := typeConfig(d, jobType, handled.handler)
			cfg.Middleware = []queue_job.Middleware{func(queue_job.Handler) queue_job.Handler { return nil }}
			return cfg
		}
		refused := func(err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "number 0 made no handler") || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		refused(newRunner(t, d.DB, barren(1)).Start(ctx))

		r := start(t, d.DB, typeConfig(d, 1, handled.handler))
		refused(r.Add(ctx, typeConfig(d, 2, handled.handler), barren(3)))
		refused(r.Replace(ctx, barren(1)))
		if types := r.Types(); len(types) != 1 || types[0].JobType != 1 {
			t.Errorf("it has %+v", types)
		}
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		if err := r.Add(ctx, typeConfig(d, 2, handled.handler), typeConfig(d, 3, handled.handler)); err != nil { // as they are to be
			t.Error(err)
		}
	})
}

func TestARemoveWaitsForRunsUnderAnEarlierConfigurationToo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		began, end := make(chan struct{}), make(chan struct{})
		cfg := typeConfig(d, 1, func(context.Context, *queue_job.Job) error {
			close(began)
			<-end
			return nil
		})
		r := start(t, d.DB, cfg)
		add(t, d.DB, 1, 0)
		<-began
		if err := r.Replace(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := r.Remove(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 handler still runs") {
			t.Error(err)
		}
		close(end)
		awaitNumber(t, d.DB, 1, succeeded)
	})
}
