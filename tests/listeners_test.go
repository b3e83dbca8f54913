package tests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// heard notes what OnSettled or OnDead was told, by the jobs' keys.
type heard struct {
	mu  sync.Mutex
	all map[string][]queue_job.Settled
}

func (h *heard) note(s queue_job.Settled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string][]queue_job.Settled{}
	}
	h.all[s.Job.Key] = append(h.all[s.Job.Key], s)
}

func (h *heard) of(key string) []queue_job.Settled {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all[key])
}

func startWith(t *testing.T, options []persistent_queue.Option, db queue_job.DB, configs ...queue_job.Config) *persistent_queue.Runner {
	t.Helper()
	r := newRunnerWith(t, options, db, configs...)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, r) })
	return r
}

func TestHooksAreToldOfEachOutcomeOnceTheTableHasItAndOfDeadLettersApart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		effects(t, d)
		var settled, dead heard
		no, running := errors.New("no luck"), make(chan struct{})
		options := []persistent_queue.Option{
			persistent_queue.WithOnSettled(func(ctx context.Context, list []queue_job.Settled) {
				for _, s := range list {
					settled.note(s)
					var status queue_job.JobStatus
					if err := d.DB.QueryRowContext(ctx, fmt.Sprintf("SELECT job_status FROM async_job_tab WHERE id = %d", s.Job.Id)).Scan(&status); err != nil || !s.RunsAgain() && status != s.Status {
						t.Errorf("it was told that %s came to %v; the table has %v, %v", s.Job.Key, s.Status, status, err)
					}
				}
				panic("the hook is no good")
			}),
			persistent_queue.WithOnDead(func(_ context.Context, list []queue_job.Settled) {
				for _, s := range list {
					dead.note(s)
				}
			}),
		}
		jobs := open(t, d.DB)
		var all []queue_job.AddModelJob
		for _, key := range []string{"fine", "in a transaction", "twice in vain", "given up", "later", "cancelled by its handler", "cancelled by others", "lost"} {
			all = append(all, queue_job.AddModelJob{JobType: 1, Key: key})
		}
		if _, err := jobs.AddMany(t.Context(), d.DB, all); err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET term = 1, attempts = 3, lost = 2 WHERE job_key = 'lost'") // the third process that died
		r := startWith(t, options, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			switch job.Key {
			case "in a transaction":
				return completeWithEffect(ctx, d.DB, job)
			case "twice in vain":
				return no
			case "given up":
				return queue_job.Fail(no)
			case "later":
				if job.Attempt == 1 {
					return queue_job.Snooze(0)
				}
			case "cancelled by its handler":
				return queue_job.Cancel(nil)
			case "cancelled by others":
				running <- struct{}{}
				<-ctx.Done()
			}
			return nil
		}})
		<-running
		if n, err := jobs.Cancel(t.Context(), d.DB, queue_job.Key(1, "cancelled by others")); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		awaitNumber(t, d.DB, 8, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (1, 2, 5)")
		stop(t, r)

		for key, want := range map[string][]queue_job.JobStatus{
			"fine":                     {queue_job.JobStatusSuccess},
			"in a transaction":         {queue_job.JobStatusSuccess},
			"twice in vain":            {queue_job.JobStatusRetry, queue_job.JobStatusFailed},
			"given up":                 {queue_job.JobStatusFailed},
			"later":                    {queue_job.JobStatusContinue, queue_job.JobStatusSuccess},
			"cancelled by its handler": {queue_job.JobStatusCancelled},
			"cancelled by others":      nil,
			"lost":                     {queue_job.JobStatusFailed},
		} {
			var got []queue_job.JobStatus
			for _, s := range settled.of(key) {
				got = append(got, s.Status)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: it was told %v, want %v", key, got, want)
			}
			isDead := slices.Contains(want, queue_job.JobStatusFailed)
			if n := len(dead.of(key)); n > 1 || n == 1 != isDead {
				t.Errorf("%s: OnDead was told %d times", key, n)
			}
		}
		if s := dead.of("twice in vain"); len(s) == 1 && (!errors.Is(s[0].Err, no) || s[0].Job.Attempt != 2 || s[0].Job.Key != "twice in vain" || s[0].RunsAgain()) {
			t.Errorf("of the dead letter: %+v", s)
		}
		if s := dead.of("lost"); len(s) == 1 && (s[0].Job.Lost != 3 || s[0].Job.Attempt != 3 || s[0].Err == nil || !strings.Contains(s[0].Err.Error(), "process died")) {
			t.Errorf("of the lost job: %+v, %v", s[0].Job, s[0].Err)
		}
	})
}

// The answer to a statement is lost, or it was never sent, and it is sent again.
func TestADeadLetterIsToldOnceThoughItsOutcomeIsWrittenAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var dead heard
		line := newWire(t, d)
		r := startWith(t, []persistent_queue.Option{persistent_queue.WithOnDead(func(_ context.Context, list []queue_job.Settled) {
			for _, s := range list {
				dead.note(s)
			}
		})}, line, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return errors.New("no luck") }})
		late := line.lose(aFailure)
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		late.deliver(t)
		stop(t, r)
		if n := len(dead.of("")); n != 1 {
			t.Errorf("it was told %d times", n)
		}
	})
}

func TestAHookThatTakesLongHoldsUpNoJobAndStopWaitsForIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const jobs = 1200
		goOn, told := make(chan struct{}), 0
		r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(func(_ context.Context, list []queue_job.Settled) {
			<-goOn
			if told += len(list); len(list) > 1000 {
				t.Errorf("%d outcomes at a time", len(list))
			}
		})}, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, jobs, 0)
		awaitNumber(t, d.DB, jobs, succeeded)
		time.AfterFunc(100*time.Millisecond, func() { close(goOn) }) // while Stop waits, mostly
		if stop(t, r); told != jobs {
			t.Errorf("it was told of %d outcomes of %d when Stop had returned", told, jobs)
		}
	})
}

// The jobs that it is told of are of several types: the name of one of them would be wrong for the others.
func TestWhatAHookLogsBearsTheNameOfNoType(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var log lines
		to := slog.New(logger.Handler(slog.NewTextHandler(&log, nil)))
		say := func(what string) func(context.Context, []queue_job.Settled) {
			return func(ctx context.Context, list []queue_job.Settled) {
				for _, s := range list {
					to.InfoContext(ctx, what, "type", s.Job.TypeName)
				}
			}
		}
		fail := func(context.Context, *queue_job.Job) error { return errors.New("no luck") }
		r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "first", JobType: 1, HandleJobFunc: fail}, {ServiceName: "second", JobType: 2, HandleJobFunc: fail}},
			logOf(t), persistent_queue.WithDB(d.DB), persistent_queue.WithOnSettled(say("settled")), persistent_queue.WithOnDead(say("dead")))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		addType(t, d.DB, 2, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		stop(t, r)
		if text := log.String(); strings.Count(text, "type=second") != 2 || strings.Contains(text, "service=") {
			t.Errorf("the hooks logged\n%s", text)
		}
	})
}

func TestStopSaysThatAHookRunsOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		ended, goOn := make(chan error, 1), make(chan struct{})
		r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(func(ctx context.Context, _ []queue_job.Settled) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			<-goOn
		})}, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Stop(ctx); err == nil || !strings.Contains(err.Error(), "OnSettled") {
			t.Errorf("Stop: %v", err)
		}
		if cause := <-ended; !errors.Is(cause, persistent_queue.ErrStopped) {
			t.Errorf("its context ended with %v", cause)
		}
		close(goOn)
	})
}

func TestTheObserverIsToldOfRunsTheirWaitsAndTheLeasesThatAreHeld(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		var mu sync.Mutex
		held, running, waits := map[string]bool{}, 0, map[string]time.Duration{}
		observer := queue_job.Observer{
			Started: func(ctx context.Context, job *queue_job.Job, waited time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				running++
				if waits[job.Key] = waited; ctx.Err() != nil {
					t.Error("the handler's context has ended")
				}
				panic("the observer is no good")
			},
			Finished: func(_ context.Context, job *queue_job.Job, f queue_job.Finished) {
				mu.Lock()
				defer mu.Unlock()
				if running--; f.Status != queue_job.JobStatusSuccess || waits[job.Key] == 0 {
					t.Errorf("%s came to %v, after a wait of %v", job.Key, f.Status, waits[job.Key])
				}
			},
			Lease: func(jobType int32, shard int, is bool) {
				mu.Lock()
				defer mu.Unlock()
				name := fmt.Sprintf("%d/%d", jobType, shard)
				if held[name] == is {
					t.Errorf("the lease %s is told to be held: %v, twice", name, is)
				}
				held[name] = is
			},
		}
		names := func(of bool) (names []string) {
			mu.Lock()
			defer mu.Unlock()
			for name, is := range held {
				if is == of {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names
		}
		jobs := open(t, d.DB)
		addOne := func(key string, after time.Duration) {
			if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 2, Key: key, Delay: after}); err != nil {
				t.Fatal(err)
			}
		}
		addOne("backlog", 0)
		execute(t, d.DB, "UPDATE async_job_tab SET create_time = create_time - 100")
		var others atomic.Int32
		another := queue_job.Observer{Started: func(context.Context, *queue_job.Job, time.Duration) { others.Add(1) }}
		r := startWith(t, []persistent_queue.Option{persistent_queue.WithObserver(observer), persistent_queue.WithObserver(another)}, d.DB,
			queue_job.Config{JobType: 1, Shards: 2, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }},
			queue_job.Config{JobType: 2, HandleBatchFunc: func(context.Context, []*queue_job.Job) error { return nil }})
		all := []string{"1/0", "1/1", "2/0"}
		await(t, func() string { return fmt.Sprintf("told of the leases %v, want %v", names(true), all) }, func() bool { return slices.Equal(names(true), all) })
		awaitNumber(t, d.DB, 1, succeeded)
		addOne("at once", 0)
		addOne("at a time", time.Second)
		awaitNumber(t, d.DB, 3, succeeded)
		stop(t, r)
		if got := names(false); !slices.Equal(got, all) {
			t.Errorf("told that the leases %v are gone, want %v", got, all)
		}
		if n := others.Load(); n != 3 {
			t.Errorf("the observer after one that panics was told of %d runs of 3", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if waited := waits["backlog"]; running != 0 || len(waits) != 3 || waited < 99*time.Second || waited > 101*time.Second+patience {
			t.Errorf("%d runs have not ended; the waits: %v", running, waits)
		}
		for key, waited := range waits {
			if key != "backlog" && waited > time.Second*slack {
				t.Errorf("%s has waited for %v", key, waited)
			}
		}
	})
}
