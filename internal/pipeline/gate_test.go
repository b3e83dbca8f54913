package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

var noon = time.Unix(1_700_000_000, 0)

func readyTasks(n int, since time.Time) []*task {
	tasks := make([]*task, n)
	for i := range tasks {
		tasks[i] = &task{run: &run{since: since}}
	}
	return tasks
}

func rated(perSecond float64, burst int) *gate {
	return newGate(&queue_job.Config{RatePerSecond: perSecond, RateBurst: burst}, noon)
}

func TestWithoutLimitsThereIsNoGate(t *testing.T) {
	if g := newGate(&queue_job.Config{}, noon); g != nil {
		t.Fatal("there is one")
	}
	l := lineOf(1)
	l.workers.most = 2000
	if rows, _ := l.workers.room(0, inFlightMax); rows != batchRowsMax || l.workers.admitsIn() < time.Minute {
		t.Fatalf("room for %d marks, and the next look is in %v", rows, l.workers.admitsIn())
	}
	l.workers.ready = readyTasks(3, noon)
	if wanted := l.workers.wanted(); wanted != 3 {
		t.Fatalf("%d workers for three tasks", wanted)
	}
	if call := l.workers.next(false); len(call) != 1 {
		t.Fatalf("a call of %d tasks", len(call))
	}
}

func TestANewHolderBeginsWithoutTokens(t *testing.T) {
	g := rated(10, 5)
	if n, again := g.admits(noon, readyTasks(3, noon)); n != 0 || again != 100*time.Millisecond {
		t.Fatalf("it admits %d, again in %v", n, again)
	}
	if n, _ := g.admits(noon.Add(100*time.Millisecond), readyTasks(3, noon)); n != 1 {
		t.Fatalf("it admits %d", n)
	}
}

func TestInNoSecondMorePassThanRateAndBurst(t *testing.T) {
	const rate, burst = 200, 20
	g := rated(rate, burst)
	var starts []time.Time
	for now := noon; now.Before(noon.Add(10 * time.Second)); now = now.Add(time.Duration(1+len(starts)%7) * 700 * time.Microsecond) {
		if len(starts) > 900 && now.Before(noon.Add(6*time.Second)) {
			continue // nobody comes for a while
		}
		for n, _ := g.admits(now, readyTasks(9, now)); n > 0; n, _ = g.admits(now, readyTasks(9, now)) {
			g.enter(now, n)
			starts = append(starts, now)
		}
	}
	if most := mostInASecond(starts); most > rate+burst || most < rate {
		t.Fatalf("%d in a second", most)
	}
}

func mostInASecond(starts []time.Time) (most int) {
	first := 0
	for i, at := range starts {
		for at.Sub(starts[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Long parameters are read between the gate and the handler. On a slow table, the reads of a second end together.
func TestStartsThatWereLateWaitForEachOther(t *testing.T) {
	const rate, burst, calls = 10, 2, 100
	g := rated(rate, burst)
	var starts []time.Time
	for i := range calls {
		admitted := noon.Add(time.Duration(i+1) * time.Second / rate)
		g.enter(admitted, 1)
		ready := admitted
		if slowest := noon.Add(5 * time.Second); i >= 20 && ready.Before(slowest) {
			ready = slowest
		}
		delay := g.delay(ready, 1)
		if i < 20 && delay > 0 {
			t.Fatalf("call %d waits for %v, though none was late", i, delay)
		}
		starts = append(starts, ready.Add(delay))
	}
	if most := mostInASecond(starts); most > rate+burst {
		t.Fatalf("%d in a second", most)
	}
	if last := starts[calls-1].Sub(noon); last > (calls/rate+3)*time.Second {
		t.Fatalf("the last starts after %v", last)
	}
}

func TestRowsAreMarkedAheadAsTokensComeAndSeveralAtATime(t *testing.T) {
	g := rated(200, 20)
	if n := g.marks(noon, 0); n != 40 {
		t.Fatalf("%d marks, want what comes in 200 ms", n)
	}
	if n := g.marks(noon, 25); n != 0 {
		t.Fatalf("%d marks while more than half of them wait", n)
	}
	if n := g.marks(noon, 20); n != 20 {
		t.Fatalf("%d marks, want to have 40 again", n)
	}
	if again := g.marksAgain(noon); again < time.Minute {
		t.Fatalf("asks again in %v for nothing", again)
	}
	slow := rated(0.1, 1)
	if n, again := slow.marks(noon, 0), slow.marksAgain(noon); n != 0 || again < 9*time.Second || again > 10*time.Second {
		t.Fatalf("%d marks, again in %v", n, again)
	}
	if n := slow.marks(noon.Add(slow.marksAgain(noon)), 0); n != 1 {
		t.Fatalf("%d marks in time", n)
	}
}

// What is marked cannot be changed, and counts as lost if the process dies.
func TestOfABacklogOnlyWhatTheRateLetsStartSoonIsMarked(t *testing.T) {
	const rate, burst = 10, 1
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		l, stop := dispatching(t, &slow{}, func(uint64) { ran.Add(1) }, func(c *queue_job.Config) { c.RatePerSecond, c.RateBurst = rate, burst })
		defer stop()
		for id := range uint64(100) {
			l.offer(lease, &store.Row{ID: id + 1, CreateTime: 1})
		}
		most, soon := 0, burst+int(rate*ahead.Seconds())
		for range 200 {
			time.Sleep(7 * time.Millisecond)
			synctest.Wait()
			most = max(most, len(l.workers.marked(func(*task) bool { return true })))
		}
		if ran.Load() < rate || most > soon {
			t.Errorf("up to %d are marked and have not run, want %d at most; %d have run", most, soon, ran.Load())
		}
	})
}

// A full call waits unmarked until the rate lets it start. Until then, the other rows stay in the queue, where their order can still change.
func TestAFullCallIsMarkedWhenTheRateLetsItStartSoon(t *testing.T) {
	const rate, size, backlog = 10, 20, 100
	for _, wait := range []time.Duration{20 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var ran, full atomic.Int64
			l, stop := dispatching(t, &slow{takes: time.Millisecond}, nil, func(c *queue_job.Config) {
				c.RatePerSecond, c.RateBurst, c.BatchSize, c.BatchWait = rate, size, size, wait
				c.HandleBatchFunc = func(_ context.Context, jobs []*queue_job.Job) error {
					if ran.Add(int64(len(jobs))); len(jobs) == size {
						full.Add(1)
					}
					return nil
				}
			})
			defer stop()
			for id := range uint64(backlog) {
				l.offer(lease, &store.Row{ID: id + 1, CreateTime: 1})
			}
			var marked, out int
			var marks, longest time.Duration
			const every = 7 * time.Millisecond
			for range (backlog/rate + 1) * time.Second / every {
				time.Sleep(every)
				synctest.Wait()
				_, marked = l.workers.numbers()
				if marks += every; marked == 0 {
					marks = 0
				}
				longest = max(longest, marks)
				waiting, _, _, _ := l.queue.numbers(0)
				out = max(out, backlog-int(ran.Load())-waiting)
			}
			if longest > ahead+2*every || out > size {
				t.Errorf("BatchWait %v: rows are marked for %v before they start, and up to %d are out of the queue", wait, longest, out)
			}
			if ran.Load() != backlog || full.Load() != backlog/size {
				t.Errorf("BatchWait %v: %d of %d jobs have run, and %d calls were full", wait, ran.Load(), backlog, full.Load())
			}
		})
	}
}

// If its first job has waited, a call goes that is not full, but not before the rate lets it.
func TestACallThatIsNotFullWaitsForTheRateToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		l, stop := dispatching(t, &slow{takes: time.Millisecond}, nil, func(c *queue_job.Config) {
			c.RatePerSecond, c.RateBurst, c.BatchSize, c.BatchWait = 10, 20, 20, 20*time.Millisecond
			c.HandleBatchFunc = func(_ context.Context, jobs []*queue_job.Job) error { ran.Add(int64(len(jobs))); return nil }
		})
		defer stop()
		for id := range uint64(15) {
			l.offer(lease, &store.Row{ID: id + 1, CreateTime: 1})
		}
		var early int
		for range 120 {
			time.Sleep(10 * time.Millisecond)
			_, marked := l.workers.numbers()
			early = max(early, marked)
		}
		if early > 0 || ran.Load() > 0 {
			t.Errorf("%d are marked, and %d have run, and there are tokens for 12", early, ran.Load())
		}
		time.Sleep(400 * time.Millisecond)
		if ran.Load() != 15 {
			t.Errorf("%d have run", ran.Load())
		}
	})
}

func TestABatchIsMarkedWhenItIsFullOrItsFirstJobHasWaited(t *testing.T) {
	f := newFilling(&queue_job.Config{BatchSize: 5, BatchWait: time.Second}, nil, func(int) time.Duration { return 0 })
	if calls, again := f.add(noon, readyTasks(4, noon), true), f.goesIn(noon, true); len(calls) != 0 || again != time.Second {
		t.Fatalf("%d go on, the rest in %v", len(calls), again)
	}
	later := noon.Add(time.Second / 2)
	if calls, again := f.add(later, readyTasks(8, later), true), f.goesIn(later, true); len(calls) != 10 || again != time.Second {
		t.Fatalf("%d of 12 go on, the rest in %v", len(calls), again)
	}
	if calls, again := f.add(later.Add(time.Second), nil, false), f.goesIn(later, false); len(calls) != 0 || again < time.Minute {
		t.Fatalf("%d go on without room, the rest in %v", len(calls), again)
	}
	if calls, again := f.add(later.Add(time.Second), nil, true), f.goesIn(later, true); len(calls) != 2 || again < time.Minute {
		t.Fatalf("%d go on that have waited, the rest in %v", len(calls), again)
	}
	f.add(noon, readyTasks(3, noon), true)
	if left := f.take(); len(left) != 3 || len(f.take()) != 0 {
		t.Fatalf("%d are left", len(left))
	}
}

func TestACallTakesAsManyReadyTasksAsItMay(t *testing.T) {
	g := &gate{batch: 5}
	if n, _ := g.admits(noon, readyTasks(7, noon)); n != 5 {
		t.Fatalf("it admits %d of 7", n)
	}
	if n, _ := g.admits(noon, readyTasks(2, noon)); n != 2 {
		t.Fatalf("it admits %d of 2", n)
	}
	if n := g.calls(noon, readyTasks(11, noon)); n != 3 {
		t.Fatalf("11 are %d calls", n)
	}
}

func TestASuspectIsABatchOfItsOwnAndWaitsForNoOther(t *testing.T) {
	g := &gate{batch: 5}
	ready := readyTasks(3, noon)
	ready[0].alone = true
	if n, _ := g.admits(noon, ready); n != 1 {
		t.Fatalf("it admits %d", n)
	}
	ready[0].alone, ready[2].alone = false, true
	if n, _ := g.admits(noon.Add(time.Second), ready); n != 2 {
		t.Fatalf("it admits %d", n)
	}
}

func TestABatchNeedsATokenForEachOfItsJobs(t *testing.T) {
	cfg := queue_job.Config{RatePerSecond: 10, RateBurst: 10, BatchSize: 5}
	g := newGate(&cfg, noon)
	if n, again := g.admits(noon, readyTasks(9, noon)); n != 0 || again != 500*time.Millisecond {
		t.Fatalf("it admits %d, again in %v", n, again)
	}
	waits := newGate(&queue_job.Config{RatePerSecond: 10, RateBurst: 10, BatchSize: 5, BatchWait: time.Minute}, noon)
	if n := waits.marks(noon.Add(500*time.Millisecond), 2); n < 3 {
		t.Fatalf("%d marks beside two that wait: a batch would never be full", n)
	}
	now := noon.Add(500 * time.Millisecond)
	n, _ := g.admits(now, readyTasks(9, noon))
	if g.enter(now, n); n != 5 || g.tokens(now) > 0.001 {
		t.Fatalf("it admits %d, tokens left %v", n, g.tokens(now))
	}
}

func TestTheGateOpensInTimeWhateverFallsDueLater(t *testing.T) {
	for what, configure := range map[string]func(*queue_job.Config){
		"rate": func(c *queue_job.Config) { c.RatePerSecond, c.RateBurst = 20, 1 },
		"batch": func(c *queue_job.Config) {
			c.BatchSize, c.BatchWait = 10, 50*time.Millisecond
			c.HandleBatchFunc = func(ctx context.Context, jobs []*queue_job.Job) error { return nil }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, stop := dispatching(t, &slow{takes: time.Millisecond}, func(uint64) {}, configure)
			defer stop()
			l.offer(lease, &store.Row{ID: 2, CreateTime: 1, StartTime: 5003})
			l.offer(lease, &store.Row{ID: 1, CreateTime: 1})
			time.Sleep(100 * time.Millisecond)
			l.workers.mu.Lock()
			defer l.workers.mu.Unlock()
			if l.workers.runs.ended.IsZero() {
				t.Errorf("%s: nothing has run after 100 ms", what)
			}
		})
	}
}

func TestSlowCallsGetFullBatchesFromABacklog(t *testing.T) {
	const size, backlog = 100, 5000
	for _, workers := range []int{1, 2, 10} {
		for _, takes := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
			for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
				synctest.Test(t, func(t *testing.T) {
					var calls, ran atomic.Int64
					l, stop := dispatching(t, &slow{takes: time.Millisecond}, nil, func(cfg *queue_job.Config) {
						cfg.WorkerPoolCapacity, cfg.BatchSize, cfg.BatchWait = workers, size, wait
						cfg.HandleBatchFunc = func(_ context.Context, jobs []*queue_job.Job) error {
							calls.Add(1)
							time.Sleep(takes)
							ran.Add(int64(len(jobs)))
							return nil
						}
					})
					defer stop()
					for id := range uint64(backlog) {
						l.offer(lease, &store.Row{ID: id + 1, CreateTime: 1})
					}
					time.Sleep(backlog / size * 2 * takes)
					if ran.Load() != backlog || calls.Load() > backlog/size+3 {
						t.Errorf("%d workers, calls of %v, BatchWait %v: %d calls for %d jobs", workers, takes, wait, calls.Load(), ran.Load())
					}
				})
			}
		}
	}
}
