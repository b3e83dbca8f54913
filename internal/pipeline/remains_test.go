package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestARowWhoseJobRunsUnderATermThatWasGivenAwayIsLeftAlone(t *testing.T) {
	l := lineOf(9)
	row := store.Row{ID: 1, Term: 5, Lost: 2}
	l.Heed(Remains{Terms: []int64{4, 5}})
	if !l.offer(lease, &row) || l.queue.Knows(1) || l.settler.unwritten.Load() != 0 {
		t.Error("it was taken in, or counted as lost")
	}
	l.Heed(Remains{}) // its holder is gone
	if !l.offer(lease, &row) || !l.settler.owes(lease.Term) {
		t.Error("it was lost for the third time, and has not failed")
	}
}

func TestWhatRunsElsewhereTakesWorkersHere(t *testing.T) {
	l := lineOf(9)
	l.part.cfg.WorkerPoolCapacity, l.workers.most, l.part.whole = 3, 3, 3
	capacity := func() int {
		l.workers.mu.Lock()
		defer l.workers.mu.Unlock()
		return l.workers.most
	}
	for _, c := range []struct{ elsewhere, capacity, signals int }{{0, 3, 0}, {2, 1, 1}, {2, 1, 0}, {5, 0, 1}, {0, 3, 1}} {
		l.Heed(Remains{Running: c.elsewhere})
		if got := capacity(); got != c.capacity || len(l.wake) != c.signals {
			t.Errorf("%d run elsewhere: %d workers here, %d signals; want %d, %d", c.elsewhere, got, len(l.wake), c.capacity, c.signals)
		}
		select {
		case <-l.wake:
		default:
		}
	}
}

func TestALeaseBearsWhatIsMarkedUntilItsOutcomeIsWritten(t *testing.T) {
	l := lineOf(9)
	marked := &task{row: store.Row{ID: 1, Term: 7}, run: &run{lease: lease}}
	expect := func(when string, bears bool, running int) {
		t.Helper()
		if got, n := l.Bears(lease), l.workers.running(lease); got != bears || n != running {
			t.Errorf("%s: %v, %d run; want %v, %d", when, got, n, bears, running)
		}
	}
	expect("at first", false, 0)
	l.workers.ready = []*task{marked}
	expect("marked", true, 0)
	l.workers.alive, l.workers.coming = 1, 1
	if call := l.workers.next(true); len(call) != 1 {
		t.Fatal(call)
	}
	expect("running", true, 1)
	l.workers.ended(marked, time.Time{})
	expect("the worker is done with it", true, 0)
	l.settler.undo(lease, marked)
	l.workers.ending.Add(-1)
	expect("its outcome waits", true, 0)
	l.settler.taken()
	expect("its outcome is being written", true, 0)
	l.settler.keep(unwritten{})
	expect("it is written", false, 0)
}

// aTableOfRests tells what handlers have under a rest: until a moment, two jobs. At first, it cannot be read.
type aTableOfRests struct {
	*aTable
	until  time.Time
	failed bool
}

func (r *aTableOfRests) RestRuns(context.Context, []string) (map[string]store.RestRuns, error) {
	if !r.failed {
		r.failed = true
		return nil, errors.New("the connection broke")
	}
	runs := store.RestRuns{Jobs: map[uint32]int{}}
	if time.Now().Before(r.until) {
		runs.Jobs[store.HashOfJob(1)], runs.Jobs[store.HashOfJob(3)] = 1, 1
	}
	return map[string]store.RestRuns{"rest-1-6": runs, "rest-1-5": {}}, nil
}

func TestAJobThatWasRetriedWaitsForTheHandlerThatHasItUnderAnEarlierLease(t *testing.T) {
	const lasts = 5 * time.Second
	for name, remains := range map[string]func(earlier *Line) Remains{
		"elsewhere": func(*Line) Remains {
			return Remains{Terms: []int64{6}, Elsewhere: []share.Rest{{Name: "rest-1-6", Term: 6}, {Name: "rest-1-5", Term: 5}}}
		},
		"in a retired line": func(earlier *Line) Remains { return Remains{Lines: []*Line{earlier}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var mu sync.Mutex
				started := map[uint64]time.Duration{}
				cfg := queue_job.Config{ServiceName: "test", LostLimit: 3, QueueMaxSize: 100, WorkerPoolCapacity: 10}
				cfg.HandleJobFunc = func(_ context.Context, job *queue_job.Job) error {
					mu.Lock()
					defer mu.Unlock()
					started[job.Id] = time.Since(began)
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				var loops sync.WaitGroup
				table := &aTableOfRests{newTable(1, 0), began.Add(lasts), false}
				l, earlier := lineOn(t, ctx, &loops, table, nil, cfg), lineOf(9)
				has := []*task{{row: store.Row{ID: 1}}, {row: store.Row{ID: 3}}}
				for _, t := range has {
					earlier.queue.register(t)
				}
				time.AfterFunc(lasts, func() { earlier.queue.forget(has...) })
				l.Heed(remains(earlier))
				for id, row := range map[uint64]store.Row{1: {Attempts: 1, Changes: 1}, 2: {Attempts: 1, Changes: 1}, 3: {Attempts: 1, Status: 4}, 4: {}} {
					row.ID, row.CreateTime = id, 1
					table.add(&row, 0)
					l.offer(l.held.Load(), &row)
				}
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				for id, want := range map[uint64][2]time.Duration{1: {lasts, lasts + 1100*time.Millisecond}, 2: {1, 100 * time.Millisecond},
					3: {1, 100 * time.Millisecond}, 4: {1, 100 * time.Millisecond}} {
					if at := started[id]; at < want[0] || at > want[1] {
						t.Errorf("job %d started after %v, want %v", id, at, want)
					}
				}
				cancel()
				loops.Wait()
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestALineTellsWhichJobsAndKeysItsHandlersHave(t *testing.T) {
	l := lineOf(9)
	let := &task{row: store.Row{ID: 3, Key: "b"}, run: &run{lease: lease}, hasSlot: true} // it does not heed its context
	l.queue.known[3] = 0
	l.workers.atWork = []*task{{row: store.Row{ID: 1}, run: &run{lease: lease}}, let,
		{row: store.Row{ID: 2, Key: "a"}, run: &run{lease: lease}, hasSlot: true}, {row: store.Row{ID: 4}, run: &run{lease: &keeper.Lease{Term: 8}}}}
	l.queue.release(let)
	if got := l.RunsUnder(lease); !slices.Equal(got.Jobs, []uint64{1, 2}) || !slices.Equal(got.Keys, []string{"b", "a"}) {
		t.Errorf("%+v; want the jobs 1 and 2, and the keys a and b", got)
	}
}
