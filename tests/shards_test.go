package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// openShards counts the shards of type 1 that somebody holds.
const openShards = "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-1/%' AND layout > 0 AND locked_by <> ''"

func TestSeveralInstancesWorkOnOneTypeWithinItsLimits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const shards, instances, capacity, jobs = 6, 3, 12, 1200
		var all ledger
		by := make([]ledger, instances)
		for i := range instances {
			start(t, dbtest.Open(t, d.Driver, d.DSN), queue_job.Config{Shards: shards, WorkerPoolCapacity: capacity, LockSecond: 60, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				defer all.begin(job)()
				defer by[i].begin(job)()
				time.Sleep(20 * time.Millisecond)
				return nil
			}})
		}
		awaitNumber(t, d.DB, int64(shards), openShards)
		await(t, func() string { return "the shards are not shared out" }, func() bool { return slices.Equal(heldBy(t, d.DB), []int{2, 2, 2}) })
		began := time.Now()
		add(t, d.DB, jobs, 0)
		awaitNumber(t, d.DB, jobs, succeeded)
		took := time.Since(began)
		if n := all.twice(); n > 0 || all.most.Load() > capacity {
			t.Errorf("%d jobs were started twice; at most %d ran at a time, the capacity is %d", n, all.most.Load(), capacity)
		}
		var parts []int
		for i := range by {
			parts = append(parts, 100*len(by[i].ids)/jobs)
		}
		if slices.Min(parts) < 25 || slices.Max(parts) > 42 {
			t.Errorf("the instances ran %v %% of the jobs", parts)
		}
		t.Logf("%v %% of the jobs, at most %d at a time, %.2f of what %d workers can do", parts, all.most.Load(), (jobs/capacity*20*time.Millisecond).Seconds()/took.Seconds(), capacity)
	})
}

// keysInOrder notes in which order the jobs of each key run to their end, and whether two of a key run at a time.
type keysInOrder struct {
	mu     sync.Mutex
	last   map[string]uint64
	runs   map[string]bool
	broken []string
}

func (o *keysInOrder) begin(job *queue_job.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs[job.Group] || o.last[job.Group] >= job.Id {
		o.broken = append(o.broken, fmt.Sprintf("job %d of key %s begins after %d; another one runs: %v", job.Id, job.Group, o.last[job.Group], o.runs[job.Group]))
	}
	o.runs[job.Group] = true
}

func (o *keysInOrder) end(job *queue_job.Job, done bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs[job.Group] = false
	if done {
		o.last[job.Group] = job.Id
	}
}

// It measures a pause, so no other test runs beside it.
func TestATypeIsDividedAnewWhileItsJobsRunInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const keys, perKey = 20, 40
		bestOfThree(t, func() error {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			execute(t, d.DB, "DELETE FROM async_job_type_tab")
			execute(t, d.DB, "DELETE FROM shedlock_tab")
			order := keysInOrder{last: map[string]uint64{}, runs: map[string]bool{}}
			var s ledger
			cfg := queue_job.Config{LockSecond: 3, OrderedByKey: true, NeedRetry: true, MaxRetries: queue_job.Unlimited, WorkerPoolCapacity: 10, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				order.begin(job)
				end := s.begin(job)
				time.Sleep(20 * time.Millisecond)
				fails := job.Id%20 == 0 && job.Attempt == 1
				order.end(job, !fails)
				end()
				if fails {
					return errors.New("once")
				}
				return nil
			}}
			var runners []*persistent_queue.Runner
			for range 3 {
				runners = append(runners, start(t, dbtest.Open(t, d.Driver, d.DSN), cfg))
			}
			jobs := open(t, d.DB)
			var list []queue_job.AddModelJob
			for n := range keys * perKey {
				job := queue_job.AddModelJob{JobType: 1, Key: fmt.Sprintf("key %d", n%keys)}
				if n/keys%2 > 0 { // half of them have a key of their own, and the other's as their group
					job.Key, job.Group = fmt.Sprintf("own %d", n), job.Key
				}
				list = append(list, job)
			}
			if _, err := jobs.AddMany(t.Context(), d.DB, list); err != nil {
				t.Fatal(err)
			}
			var pauses []time.Duration
			for _, shards := range []int{4, 2, 3} {
				s.awaitStart(t)
				began := time.Now()
				if err := jobs.SetShards(t.Context(), d.DB, 1, shards); err != nil {
					t.Fatal(err)
				}
				awaitNumber(t, d.DB, int64(shards), openShards)
				s.awaitStart(t)
				pauses = append(pauses, s.longestPause(began))
			}
			awaitNumber(t, d.DB, keys*perKey, succeeded)
			for _, r := range runners {
				stop(t, r)
			}
			t.Logf("the type's starts paused for %v", pauses)
			if len(order.broken) > 0 {
				t.Errorf("%d times out of order: %s", len(order.broken), order.broken[0])
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE lost <> 0 OR attempts <> 1 + retries"); n > 0 {
				t.Errorf("%d rows do not say one run, and one more for each retry", n)
			}
			if slices.Max(pauses) > time.Second*slack {
				return fmt.Errorf("the type's starts paused for %v", pauses)
			}
			return nil
		})
	})
}

func TestTheNumberOfShardsIsInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		cfg := queue_job.Config{LockSecond: 3, Shards: 4, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		first := start(t, d.DB, cfg)
		awaitNumber(t, d.DB, 4, openShards)
		cfg.Shards = 2
		second := start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
		await(t, func() string { return "the shards are not shared out" }, func() bool { return slices.Equal(heldBy(t, d.DB), []int{2, 2}) })
		add(t, d.DB, 300, 0)
		awaitNumber(t, d.DB, 300, succeeded)

		if err := jobs.SetShards(t.Context(), d.DB, 1, 1); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1' AND layout > 0 AND locked_by <> ''")
		stop(t, first)
		stop(t, second)

		if err := jobs.SetShards(t.Context(), d.DB, 1, 8); err != nil {
			t.Fatal(err)
		}
		known := func() int {
			types, err := jobs.Types(t.Context(), d.DB)
			if err != nil || len(types) != 1 {
				t.Fatal(types, err)
			}
			return types[0].Shards
		}
		if n := known(); n != 8 {
			t.Errorf("Types says %d shards", n)
		}
		cfg.WorkerPoolCapacity = 3 // it allows three
		start(t, d.DB, cfg)
		awaitNumber(t, d.DB, 3, openShards)
		if n := known(); n != 3 {
			t.Errorf("Types says %d shards, and three are run", n)
		}
		add(t, d.DB, 300, 0)
		awaitNumber(t, d.DB, 600, succeeded)
		for _, n := range []int{0, 65} {
			if err := jobs.SetShards(t.Context(), d.DB, 1, n); err == nil || !strings.Contains(err.Error(), "job type 1: ") || !strings.Contains(err.Error(), "use 1 to 64") {
				t.Error(n, err)
			}
		}
	})
}

func TestADividedTypeWhoseRowSomebodyDeletesIsWorkedOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		cfg := queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		first := start(t, d.DB, cfg)
		if err := open(t, d.DB).SetShards(t.Context(), d.DB, 1, 2); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 2, openShards)
		const noted = "SELECT COALESCE(MAX(layout), 0) FROM async_job_type_tab WHERE job_type = 1"
		layout := number(t, d.DB, noted)
		worksOn := func(done int64) {
			t.Helper()
			add(t, d.DB, 20, 0)
			awaitNumber(t, d.DB, done, succeeded)
			awaitNumber(t, d.DB, layout, noted)
		}
		const deleteRow = "DELETE FROM async_job_type_tab WHERE job_type = 1"
		execute(t, d.DB, deleteRow)
		worksOn(20)
		stop(t, first)
		execute(t, d.DB, deleteRow)
		start(t, d.DB, cfg) // it has not seen the layout before
		worksOn(40)
	})
}

func TestAnInstanceOfAnOlderVersionGetsNoTypeThatIsDivided(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const typeIsFree = "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1' AND lock_until < '2037-01-01 00:00:00'"
		start(t, d.DB, queue_job.Config{LockSecond: 3, Shards: 2, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		awaitNumber(t, d.DB, 2, openShards)
		if n := number(t, d.DB, typeIsFree); n != 0 {
			t.Error("an instance that knows no shards could take the lease job-1")
		}
	})
}

func TestPagesOfShardsHaveEachRowOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const shards, rows = 3, 400
		tx, err := d.DB.Begin() // one commit is enough
		if err != nil {
			t.Fatal(err)
		}
		for n := range rows {
			key := []any{nil, "", " ", "a", "a ", "Ä", "key 7"}[n%7]
			if n%7 > 2 {
				key = fmt.Sprintf("%v%d%s", key, n, strings.Repeat(" ", n%3))
			}
			group := []any{nil, nil, "", " ", "a", "Ä", fmt.Sprint("g ", n), fmt.Sprintf("g %d ", n)}[n%8]
			if _, err := tx.Exec(dbtest.Rebind(d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, create_time, update_time, job_key, job_group) VALUES ('{}', 1, 0, 1, 1, ?, ?)"), key, group); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		st, seen := storeOf(t, d.DB), map[uint64]int{}
		for shard := range shards {
			pages, err := st.Page(t.Context(), 1, store.Shard{Of: shards, Number: shard}, []store.Place{{}}, 3, 2*rows)
			if err != nil {
				t.Fatal(err)
			}
			others := 0
			for _, row := range pages[0] {
				switch {
				case share.ShardOf(row.ID, row.Group(), shards) == shard:
					seen[row.ID]++
				case row.Group() == "":
					t.Errorf("row %d without a group comes to shard %d", row.ID, shard)
				default:
					others++
				}
			}
			if d.Driver == "mysql" && others > 0 {
				t.Errorf("%d rows of other shards come to shard %d", others, shard)
			}
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("row %d belongs to %d shards", id, times)
			}
		}
		if len(seen) != rows {
			t.Errorf("%d of %d rows belong to a shard", len(seen), rows)
		}
	})
}
