package tests

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
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

// heldBy counts the leases of job types that each instance holds.
func heldBy(t *testing.T, db *sql.DB) (counts []int) {
	t.Helper()
	rows, err := db.Query("SELECT locked_by FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND locked_by <> ''")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	held := map[string]int{}
	for rows.Next() {
		var owner string
		if err := rows.Scan(&owner); err != nil {
			t.Fatal(err)
		}
		_, instance, _ := strings.Cut(owner, "#")
		instance, _, _ = strings.Cut(instance, ".")
		held[instance]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Values(held))
}

func typesOf(n int, cfg queue_job.Config) (configs []queue_job.Config) {
	for jobType := range int32(n) {
		cfg.JobType = jobType + 1
		configs = append(configs, cfg)
	}
	return configs
}

func TestEveryInstanceHasItsPartOfTheJobTypes(t *testing.T) {
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const types, instances = 40, 4
		cfg := queue_job.Config{LockSecond: 3, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		bestOfThree(t, func() error {
			execute(t, d.DB, "DELETE FROM shedlock_tab")
			var runners []*persistent_queue.Runner
			for n := range instances {
				runners = append(runners, start(t, dbtest.Open(t, d.Driver, d.DSN), typesOf(types, cfg)...))
				if n == 0 {
					awaitNumber(t, d.DB, types, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND term > 0")
				}
			}
			last := time.Now()
			balanced := func() bool {
				held := heldBy(t, d.DB)
				return len(held) == instances && held[0] >= types/instances-1 && held[instances-1] <= types/instances+1
			}
			for !balanced() && time.Since(last) < 10*time.Second {
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(last)
			t.Logf("%v after %v", heldBy(t, d.DB), took)
			for _, r := range runners {
				stop(t, r)
			}
			if took > 2*time.Second*slack {
				return fmt.Errorf("%d types were shared out among %d instances after %v", types, instances, took)
			}
			return nil
		})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'at-%' OR lock_name LIKE 'rest-%'")
	})
}

// ledger notes when jobs start, whoever runs them, and how many run at a time.
type ledger struct {
	mu      sync.Mutex
	at      []time.Time
	ids     map[uint64]int
	running atomic.Int64
	most    atomic.Int64
}

func (s *ledger) begin(job *queue_job.Job) (end func()) {
	n := s.running.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[uint64]int{}
	}
	s.ids[job.Id]++
	s.at = append(s.at, time.Now())
	return func() { s.running.Add(-1) }
}

// longestPause is the longest time between two starts after a moment.
func (s *ledger) longestPause(since time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := since
	for _, at := range s.at {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// awaitStart waits for another start.
func (s *ledger) awaitStart(t *testing.T) {
	t.Helper()
	began := time.Now()
	await(t, func() string { return "no job starts" }, func() bool { return s.longestPause(began) > 0 })
}

func (s *ledger) twice() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.ids {
		if times > 1 {
			n++
		}
	}
	return n
}

// flow adds a job of a type every few milliseconds until the test or the returned function ends it.
func flow(t *testing.T, db *sql.DB, jobType int32, every time.Duration) (end func()) {
	t.Helper()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(every):
				addType(t, db, jobType, 1, 0)
			}
		}
	}()
	end = sync.OnceFunc(func() { close(over); <-done })
	t.Cleanup(end)
	return end
}

// What the machine takes for a start at that moment does not count.
func TestATypeWhoseHolderStopsGoesOnElsewhereWhileLongHandlersEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		const long, capacity = 15, 20
		afterStop := unlessShort(3*time.Second, time.Second)
		bestOfThree(t, func() error {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			var s ledger
			goOn := make(chan struct{})
			letGo := sync.OnceFunc(func() { close(goOn) })
			defer letGo()
			cfg := queue_job.Config{LockSecond: 3, WorkerPoolCapacity: capacity, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				defer s.begin(job)()
				if job.Priority > 0 {
					<-goOn
				}
				return nil
			}}
			holder := start(t, d.DB, cfg)
			now := time.Now().Unix()
			for range long {
				execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, create_time, update_time, priority) VALUES ('{}', 1, ?, ?, 1)", now, now)
			}
			await(t, func() string { return fmt.Sprintf("%d of %d run", s.running.Load(), long) }, func() bool { return s.running.Load() == long })
			heir := start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
			awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'at-%'")
			end := flow(t, d.DB, 1, 10*time.Millisecond)
			s.awaitStart(t)
			stopped := time.Now()
			time.AfterFunc(afterStop, letGo)
			stop(t, holder)
			took := time.Since(stopped)
			if took < afterStop {
				t.Errorf("Stop took %v, and did not wait for the handlers", took)
			}
			pause := s.longestPause(stopped)
			end()
			awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
			stop(t, heir)
			t.Logf("Stop took %v, the longest pause meanwhile was %v; at most %d ran at a time", took, pause, s.most.Load())
			if n := s.twice(); n > 0 {
				t.Errorf("%d jobs were started twice", n)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); n > 0 {
				t.Errorf("%d rows do not say one attempt, none lost", n)
			}
			if s.most.Load() > capacity {
				t.Errorf("%d ran at a time, both together; the capacity is %d", s.most.Load(), capacity)
			}
			if pause > pulse.allows(300*time.Millisecond*slack, stopped, stopped.Add(took)) {
				return fmt.Errorf("no job started for %v", pause)
			}
			return nil
		})
	})
}

// What the machine takes for a write at that moment does not count.
func TestABusyTypeIsHandedOverInAMoment(t *testing.T) {
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		bestOfThree(t, func() error {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			var s ledger
			cfg := queue_job.Config{LockSecond: 3, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				defer s.begin(job)()
				time.Sleep(2 * time.Millisecond)
				return nil
			}}
			runner := start(t, d.DB, cfg)
			end := flow(t, d.DB, 1, 3*time.Millisecond)
			var pauses []time.Duration
			for range unlessShort(6, 3) {
				next := start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
				awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'at-%'")
				s.awaitStart(t)
				began := time.Now()
				stop(t, runner)
				s.awaitStart(t)
				pauses = append(pauses, s.longestPause(began)-pulse.allows(0, began, time.Now()))
				runner = next
			}
			end()
			awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
			stop(t, runner)
			p50, worst := percentile(pauses, 50), slices.Max(pauses)
			t.Logf("the type's starts paused for %v in the middle, %v at worst", p50, worst)
			if n := s.twice(); n > 0 {
				t.Errorf("%d jobs were started twice", n)
			}
			if p50 > 120*time.Millisecond*slack || worst > 300*time.Millisecond*slack {
				return fmt.Errorf("the type's starts paused for %v in the middle, %v at worst", p50, worst)
			}
			return nil
		})
	})
}

func TestTheSlotsOfAKeyHoldAcrossAHandOver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var of [2]ledger // by key
		cfg := queue_job.Config{LockSecond: 3, MaxPerKey: 2, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			defer of[job.Key[0]-'a'].begin(job)()
			if job.Priority > 0 {
				time.Sleep(2 * time.Second)
			}
			time.Sleep(20 * time.Millisecond)
			return nil
		}}
		insert := func(key string, priority int) {
			now := time.Now().Unix()
			execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, create_time, update_time, priority, job_key) VALUES ('{}', 1, ?, ?, ?, ?)", now, now, priority, key)
		}
		holder := start(t, d.DB, cfg)
		insert("a", 1)
		await(t, func() string { return "it does not start" }, func() bool { return of[0].running.Load() == 1 })
		heir := start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'at-%'")
		for range 10 {
			insert("a", 0)
			insert("b", 0)
		}
		stop(t, holder)
		awaitNumber(t, d.DB, 21, succeeded)
		stop(t, heir)
		for key := range of {
			if n := of[key].most.Load(); n > 2 {
				t.Errorf("%d jobs of key %c ran at a time; it has two slots", n, 'a'+key)
			}
		}
	})
}
