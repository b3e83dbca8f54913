package tests

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestNoMoreThanMaxPerKeyOfAKeyRunAtATime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const most, keys, jobs = 2, 5, 200
		var mu sync.Mutex
		running, peak := map[string]int{}, map[string]int{}
		addRows(t, d.DB, jobs, func(i int) row {
			if i%(keys+1) == keys {
				return row{}
			}
			return row{key: fmt.Sprint("customer ", i%(keys+1))}
		})
		keyOf := keysOf(t, d.DB)
		giveUp := time.Now().Add(time.Minute)
		start(t, d.DB, queue_job.Config{MaxPerKey: most, WorkerPoolCapacity: 40, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			key, beside := keyOf[job.Id], most
			if key == "" {
				beside++ // more than a key may have
			}
			mu.Lock()
			running[key]++
			peak[key] = max(peak[key], running[key])
			mu.Unlock()
			for met := false; !met; { // the first ones wait for each other: that they meet is no luck
				time.Sleep(3 * time.Millisecond)
				mu.Lock()
				met = peak[key] >= beside || time.Now().After(giveUp)
				mu.Unlock()
			}
			mu.Lock()
			running[key]--
			mu.Unlock()
			return nil
		}})
		awaitNumber(t, d.DB, jobs, succeeded)
		for key, n := range peak {
			if key != "" && n != most {
				t.Errorf("%s: %d at a time, want %d", key, n, most)
			}
		}
		if peak[""] <= most {
			t.Errorf("%d jobs without a key at a time: they are limited too", peak[""])
		}
	})
}

// keysOf reads the keys of all jobs, by their ids.
func keysOf(t *testing.T, db *sql.DB) map[uint64]string {
	t.Helper()
	rows, err := db.Query("SELECT id, COALESCE(job_key, '') FROM async_job_tab")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	keys := map[uint64]string{}
	for rows.Next() {
		var id uint64
		var key string
		if err := rows.Scan(&id, &key); err != nil {
			t.Fatal(err)
		}
		keys[id] = key
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestAKeyWithABacklogHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for name, cfg := range map[string]queue_job.Config{"limited": {MaxPerKey: 1}, "ordered": {OrderedByKey: true}} {
			t.Run(name, func(t *testing.T) {
				execute(t, d.DB, "DELETE FROM async_job_tab")
				addKeyed(t, d.DB, 3000, "hot")
				addRows(t, d.DB, 100, func(i int) row { return row{key: fmt.Sprint("cold ", i)} })
				keyOf := keysOf(t, d.DB)
				var hot, cold atomic.Int64
				cfg.QueueMaxSize, cfg.LoadLimit, cfg.WorkerPoolCapacity = 200, 200, 10
				cfg.HandleJobFunc = func(_ context.Context, job *queue_job.Job) error {
					if keyOf[job.Id] == "hot" {
						hot.Add(1)
						time.Sleep(10 * time.Millisecond)
					} else {
						cold.Add(1)
					}
					return nil
				}
				began := time.Now()
				r := start(t, d.DB, cfg)
				await(t, func() string { return fmt.Sprintf("%d of 100 have run", cold.Load()) }, func() bool { return cold.Load() == 100 })
				before := hot.Load()
				t.Logf("the others ran within %v, beside %d of the key with the backlog", time.Since(began), before)
				if before > 1500 { // half of them, for which they need at least 15 s
					t.Errorf("%d jobs of the key with the backlog ran before the others had", before)
				}
				await(t, func() string { return "the key with the backlog stands still" }, func() bool { return hot.Load() > before+20 })
				stop(t, r)
			})
		}
	})
}

func TestTheJobsOfAKeyRunInTheOrderOfTheirIds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const keys, jobs = 10, 200
		addRows(t, d.DB, jobs, func(i int) row {
			r := row{key: fmt.Sprint("account ", i%keys), priority: i*7%4 - 1} // priorities do not count within a key
			if i%11 == 0 {
				r.at = time.Now().Unix() + 1 // nor do times
			}
			return r
		})
		keyOf := keysOf(t, d.DB)
		var ran runs
		start(t, d.DB, queue_job.Config{OrderedByKey: true, NeedRetry: true, MaxRetries: 2, QueueMaxSize: 50, LoadLimit: 20, WaitTime: 20 * time.Millisecond, WorkerPoolCapacity: 20,
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				ran.note(job)
				switch {
				case job.Id%10 == 3:
					return errors.New("never")
				case job.Id%4 == 0 && job.Retries == 0:
					return errors.New("once more")
				case job.Id%9 == 0 && job.Attempt < 3:
					job.Status = queue_job.JobStatusContinue
				}
				return nil
			}})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status NOT IN (1, 2)")
		last := map[string]uint64{}
		for _, run := range ran.all() {
			if key := keyOf[run.id]; run.id < last[key] {
				t.Errorf("%s: %d ran after %d", key, run.id, last[key])
			}
			last[keyOf[run.id]] = run.id
		}
		if len(last) != keys {
			t.Errorf("%d keys", len(last))
		}
	})
}

func TestAWaitingJobHoldsBackItsKeysLaterOnesUntilItIsNoMore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		fail := func(_ context.Context, job *queue_job.Job) error {
			ran.note(job)
			if job.Id == 1 {
				return errors.New("later")
			}
			return nil
		}
		r := start(t, d.DB, queue_job.Config{OrderedByKey: true, NeedRetry: true, MaxRetries: 5, WaitTime: time.Hour, HandleJobFunc: fail})
		addKeyed(t, d.DB, 3, "a")
		addKeyed(t, d.DB, 1, "b")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 1 AND job_status = 4")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 4 AND job_status = 1")
		stop(t, r) // the next holder keeps to it
		start(t, d.DB, queue_job.Config{OrderedByKey: true, HandleJobFunc: fail})
		addKeyed(t, d.DB, 1, "b")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE id = 5 AND job_status = 1")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id IN (2, 3) AND attempts > 0"); n != 0 {
			t.Fatalf("%d jobs passed the one before them", n)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 5 WHERE id = 1")
		awaitNumber(t, d.DB, 4, succeeded)
		if all := ran.all(); all[len(all)-2].id != 2 || all[len(all)-1].id != 3 {
			t.Errorf("%d ran before %d", all[len(all)-2].id, all[len(all)-1].id)
		}
	})
}

func TestTheOrderOfAKeySurvivesFailovers(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const keys, jobs = 50, 200 / slack
		addRows(t, d.DB, keys*jobs, func(i int) row { return row{key: fmt.Sprint("account ", i%keys)} })
		keyOf := keysOf(t, d.DB)
		settings := workerSettings{Types: []int32{1}, LockSecond: 2, Capacity: 100, Ordered: true, FailPercent: 20, HandlerMS: 1}
		all := []*worker{startWorker(t, d, settings), startWorker(t, d, settings)}
		final := func() int64 { return number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (1, 2)") }
		for i := range 2 {
			await(t, func() string { return "too few have run" }, func() bool { return final() > int64(keys*jobs*(i+1)/3) })
			holderOf(all).end(syscall.SIGKILL)
			all = append(all, startWorker(t, d, settings))
		}
		await(t, func() string { return fmt.Sprintf("%d of %d are done", final(), keys*jobs) }, func() bool { return final() == keys*jobs })
		type start struct {
			id uint64
			at time.Time
		}
		var starts []start
		for _, w := range all {
			w.end(syscall.SIGTERM)
			for id, times := range w.started() {
				for _, at := range times {
					starts = append(starts, start{id, at})
				}
			}
		}
		slices.SortFunc(starts, func(a, b start) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
		last, again := map[string]uint64{}, 0
		for _, s := range starts {
			key := keyOf[s.id]
			switch {
			case s.id < last[key]:
				t.Errorf("%s: %d started after %d", key, s.id, last[key])
			case s.id == last[key]:
				again++
			}
			last[key] = s.id
		}
		lost := number(t, d.DB, "SELECT SUM(lost) FROM async_job_tab")
		if again == 0 {
			t.Error("no start was repeated: this proves nothing")
		}
		t.Logf("%d starts, %d of them repeated, %d lost with their processes; %d jobs failed", len(starts), again, lost, number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2"))
	})
}
