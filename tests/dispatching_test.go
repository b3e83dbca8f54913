package tests

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// addKeyed adds n jobs of type 1 with a key.
func addKeyed(t *testing.T, db *sql.DB, n int, key string) {
	t.Helper()
	addRows(t, db, n, func(int) row { return row{key: key} })
}

// row is what an added job has beside the usual.
type row struct {
	key      string
	priority int
	at       int64 // start_time
}

// addRows adds n jobs of type 1.
func addRows(t *testing.T, db *sql.DB, n int, each func(i int) row) {
	t.Helper()
	now := time.Now().Unix()
	for i := 0; i < n; {
		var rows []string
		for ; i < n && len(rows) < 1000; i++ {
			r, key := each(i), "NULL"
			if r.key != "" {
				key = "'" + r.key + "'"
			}
			rows = append(rows, fmt.Sprintf("('{}', 1, 0, %d, %d, %d, %s, %d)", r.at, now, now, key, r.priority))
		}
		execute(t, db, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key, priority) VALUES "+strings.Join(rows, ", "))
	}
}

// inOrder returns the moments in their order.
func inOrder(all []run) []time.Time {
	var times []time.Time
	for _, run := range all {
		times = append(times, run.started)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// mostInASecond is the largest number of moments that lie within one second, wherever it begins. A start is noted after it
// was let through, however long the machine stands still in between: so each worker may bring one note too many into a second.
func mostInASecond(times []time.Time) (most int) {
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func TestNoMoreJobsStartInASecondThanTheRateAllows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const rate, burst, workers, jobs = 100, 10, 5, 350
		var ran, others runs
		add(t, d.DB, jobs, 0)
		configs := func() []queue_job.Config {
			return []queue_job.Config{
				{RatePerSecond: rate, RateBurst: burst, WorkerPoolCapacity: workers, HandleJobFunc: ran.handler},
				{JobType: 2, HandleJobFunc: others.handler},
			}
		}
		first := start(t, d.DB, configs()...)
		start(t, d.DB, configs()...)
		addType(t, d.DB, 2, 1000, 0)
		await(t, func() string { return "too few have run" }, func() bool { return len(ran.all()) > 120 })
		marked := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 1 AND (job_status <> 0 OR term <> 0)")
		if n := marked - int64(len(ran.all())); n > rate/2 { // counted after the rows: what has begun waits no more
			t.Errorf("%d rows are marked and wait", n)
		}
		stop(t, first) // the other one takes over; either may have had the lease
		awaitNumber(t, d.DB, jobs+1000, succeeded)
		times := inOrder(ran.all())
		if most := mostInASecond(times); most > rate+burst+workers {
			t.Errorf("%d jobs started within a second, want at most %d and one late note of each worker", most, rate+burst)
		}
		if n := len(inOrder(others.all())); n != 1000 {
			t.Errorf("%d runs of the other type", n)
		}
		t.Logf("%d starts in %v, at most %d in a second", len(times), times[len(times)-1].Sub(times[0]), mostInASecond(times))
	})
}

func TestARateBelowOneHoldsUpNoStop(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		r := start(t, d.DB, queue_job.Config{RatePerSecond: 0.1, HandleJobFunc: ran.handler})
		add(t, d.DB, 5, 0)
		await(t, func() string { return "none has run" }, func() bool { return len(ran.all()) > 0 })
		began := time.Now()
		stop(t, r)
		if took := time.Since(began); took > time.Second*slack { // the next job might start after ten
			t.Errorf("Stop took %v", took)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND (term <> 0 OR attempts <> 0)"); n != 0 {
			t.Errorf("%d rows stayed marked", n)
		}
	})
}

func TestTheRateHoldsOverProcessesWithFailovers(t *testing.T) {
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const rate, burst = 200.0, 20 // a tenth of a second's worth, by default
		const workers = 5
		const least = 190 / slack // while somebody works
		// Promised are LockSecond and one after the kill, and one after each stop.
		const failovers = (3 + 1 + 1) * time.Second * slack
		lasts := 48 * time.Second
		if slack > 1 { // it says nothing about speed, and need not take that long
			lasts /= 2
		}
		pulse := feelPulse(t, d)
		bestOfThree(t, func() error {
			add(t, d.DB, int(rate*(lasts+5*time.Second).Seconds()), 0)
			settings := workerSettings{Types: []int32{1}, LockSecond: 2, Capacity: workers, Rate: rate}
			var all []*worker
			for range 3 {
				all = append(all, startWorker(t, d, settings))
			}
			began := time.Now()
			for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
				<-time.After(time.Until(began.Add(time.Duration(len(all)-2) * lasts / 4)))
				holderOf(all).end(signal)
				all = append(all, startWorker(t, d, settings))
			}
			<-time.After(time.Until(began.Add(lasts)))
			for _, w := range all {
				w.end(syscall.SIGTERM)
			}
			var times []time.Time
			for _, w := range all {
				for _, starts := range w.started() {
					times = append(times, starts...)
				}
			}
			slices.SortFunc(times, time.Time.Compare)
			var outage, lost time.Duration // in gaps; the burst makes up for a tenth of a second of each
			for i := 1; i < len(times); i++ {
				gap := times[i].Sub(times[i-1])
				lost += max(0, gap-100*time.Millisecond)
				if gap > 200*time.Millisecond {
					outage += gap
				}
			}
			span := times[len(times)-1].Sub(times[0])
			most, average := mostInASecond(times), float64(len(times))/(span-lost).Seconds()
			bound := failovers + 3*pulse.allows(0, began, began.Add(lasts))
			t.Logf("at most %d starts in a second; %.1f a second on average over %v without %v in gaps; %v of failovers, at most %v", most, average, span, lost, outage, bound)
			if float64(most) > rate+burst+workers {
				t.Errorf("%d starts within a second, want at most %v and one late note of each worker", most, rate+burst)
			}
			if average < least {
				return fmt.Errorf("%.1f starts a second on average while somebody worked; want %v at least", average, least)
			}
			if outage > bound {
				return fmt.Errorf("%v of failovers, want at most %v", outage, bound)
			}
			return nil
		})
	})
}

// holderOf is the worker that started a job last.
func holderOf(workers []*worker) *worker {
	return slices.MaxFunc(workers, func(a, b *worker) int { return a.latest().Compare(b.latest()) })
}

func TestNoMoreThanMaxPerKeyOfAKeyRunAtATime(t *testing.T) {
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
	return keys
}

func TestAKeyWithABacklogHoldsUpNoOther(t *testing.T) {
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
	besideOthers(t)
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

func TestBatchesAreFilledAndNoLargerThanBatchSize(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const size, capacity, jobs = 7, 3, 700
		var running, mostCalls, full, calls atomic.Int64
		add(t, d.DB, jobs, 0)
		start(t, d.DB, queue_job.Config{BatchSize: size, BatchWait: time.Minute, WorkerPoolCapacity: capacity, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			for now := running.Add(1); ; {
				if old := mostCalls.Load(); now <= old || mostCalls.CompareAndSwap(old, now) {
					break
				}
			}
			defer running.Add(-1)
			calls.Add(1)
			if len(batch) > size {
				return fmt.Errorf("%d jobs", len(batch))
			}
			if len(batch) == size {
				full.Add(1)
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		}})
		awaitNumber(t, d.DB, jobs, succeeded)
		if mostCalls.Load() != capacity {
			t.Errorf("%d calls at a time, want %d", mostCalls.Load(), capacity)
		}
		if full.Load() != calls.Load() {
			t.Errorf("%d of %d batches were full", full.Load(), calls.Load())
		}
	})
}

func TestABatchWaitsNoLongerThanBatchWait(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const wait = 6 * time.Second // long: what happens in between may come some seconds late
		type call struct {
			at   time.Time
			jobs int
		}
		calls := make(chan call, 100)
		start(t, d.DB, queue_job.Config{BatchSize: 10, BatchWait: wait, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			calls <- call{time.Now(), len(batch)}
			return nil
		}})
		add(t, d.DB, 10, 0)
		if first := <-calls; first.jobs != 10 { // the line may not have been up
			t.Fatalf("a batch of %d", first.jobs)
		}
		began := time.Now()
		add(t, d.DB, 10, 0)
		if full := <-calls; full.jobs != 10 || full.at.Sub(began) > wait {
			t.Errorf("a full batch of %d came after %v", full.jobs, full.at.Sub(began))
		}
		began = time.Now()
		add(t, d.DB, 3, 0)
		<-time.After(wait / 4)
		add(t, d.DB, 2, 0)
		if part := <-calls; part.jobs != 5 || part.at.Sub(began) < wait-wait/8 || part.at.Sub(began) > wait*3/2*slack {
			t.Errorf("a batch of %d came after %v, want 5 after %v", part.jobs, part.at.Sub(began), wait)
		}
	})
}

func TestEachJobOfABatchHasItsOwnOutcome(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 40, 0)
		r := start(t, d.DB, queue_job.Config{BatchSize: 10, WorkerPoolCapacity: 1, NeedRetry: true, MaxRetries: 1, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			errs := make(queue_job.BatchErrors, len(batch))
			for i, job := range batch {
				switch job.Id % 5 {
				case 1:
					errs[i] = fmt.Errorf("no luck with %d", job.Id)
				case 2:
					job.Status = queue_job.JobStatusCancelled
				case 3:
					if job.Retries == 0 {
						errs[i] = errors.New("once more")
					}
				}
			}
			slices.Reverse(batch) // the list is the handler's own
			return fmt.Errorf("batch: %w", errs)
		}})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 4)")
		for rest, want := range []string{"job_status = 1 AND attempts = 1", "job_status = 2 AND retries = 1", "job_status = 5 AND attempts = 1", "job_status = 1 AND retries = 1", "job_status = 1 AND attempts = 1"} {
			if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE id %% 5 = %d AND %s", rest, want)); n != 8 {
				t.Errorf("%d of 8 jobs have %s", n, want)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE error LIKE 'no luck with%'"); n != 16 {
			t.Errorf("%d of 16 attempts are in the log with their own error", n)
		}
		stop(t, r)
	})
}

func TestAPanicOrGoexitEndsAWholeBatchAndCostsNoSlot(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 80, 0)
		var calls atomic.Int64
		start(t, d.DB, queue_job.Config{BatchSize: 10, WorkerPoolCapacity: 2, BatchWait: time.Minute, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			switch calls.Add(1) {
			case 1:
				panic("boom")
			case 2:
				runtime.Goexit()
			case 3:
				return errors.New("all of them")
			case 4:
				return queue_job.BatchErrors{nil} // not one for each
			}
			return nil
		}})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0")
		for _, reason := range []string{"panic: boom%", "%(runtime.Goexit)", "all of them", "%1 errors for%"} {
			n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'failed' AND error LIKE '"+reason+"'")
			if n != 10 {
				t.Errorf("%d jobs of a batch of 10 ended with %s", n, reason)
			}
		}
	})
}

func TestOfABatchEachJobIsCancelledByItself(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		add(t, d.DB, 3, 0)
		type call struct {
			ctx context.Context
			end chan error
		}
		calls := make(chan call)
		start(t, d.DB, queue_job.Config{BatchSize: 3, BatchWait: time.Minute, HandleBatchFunc: func(ctx context.Context, batch []*queue_job.Job) error {
			c := call{ctx, make(chan error)}
			calls <- c
			return <-c.end
		}})
		one := <-calls
		cancelJobs(t, d.DB, 2)
		<-time.After(1200 * time.Millisecond)
		if one.ctx.Err() != nil {
			t.Error("the context ended for one of three")
		}
		one.end <- nil
		awaitNumber(t, d.DB, 2, succeeded)
		add(t, d.DB, 3, 0)
		two := <-calls
		cancelJobs(t, d.DB, 4, 5, 6)
		select {
		case <-two.ctx.Done():
			if cause := context.Cause(two.ctx); !errors.Is(cause, queue_job.ErrCancelled) {
				t.Errorf("the context ended with %v", cause)
			}
		case <-time.After(patience):
			t.Error("all three are cancelled, and the context lives on")
		}
		two.end <- errors.New("too late")
		awaitNumber(t, d.DB, 4, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5 AND id IN (2, 4, 5, 6)")
	})
}

func cancelJobs(t *testing.T, db *sql.DB, ids ...uint64) {
	t.Helper()
	jobs := open(t, db)
	for _, id := range ids {
		if _, err := jobs.Cancel(t.Context(), db, queue_job.ID(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobsThatWaitForABatchToFillAreNotMarkedAndAStopDoesNotWaitForThem(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		called := make(chan int, 1)
		r := start(t, d.DB, queue_job.Config{BatchSize: 10, BatchWait: time.Minute, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
			called <- len(batch)
			return nil
		}})
		add(t, d.DB, 12, 0)
		if n := <-called; n != 10 {
			t.Fatalf("a call of %d", n)
		}
		awaitNumber(t, d.DB, 10, succeeded)
		began := time.Now()
		jobs := open(t, d.DB)
		if n, err := jobs.Reschedule(t.Context(), d.DB, queue_job.ID(11, 12), began.Add(time.Hour)); n != 2 || err != nil {
			t.Errorf("%d of 2 jobs rescheduled, %v", n, err)
		}
		stop(t, r)
		if took := time.Since(began); took > time.Second*slack {
			t.Errorf("Stop took %v", took)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term = 0 AND attempts = 0"); n != 2 {
			t.Errorf("%d of 2 jobs are as they were", n)
		}
	})
}

func TestAHighJobOvertakesABacklogThatDoesNotFitTheMemory(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		overtake(t, d, 20_000, func(r *queue_job.Config) { r.QueueMaxSize, r.LoadLimit = 200, 100 })
	})
}

// A million rows keep the servers busy for minutes: PQ_TEST_BACKLOG=1000000 is for runs of this test alone.
func TestAHighJobOvertakesAMillion(t *testing.T) {
	backlog, err := strconv.Atoi(os.Getenv("PQ_TEST_BACKLOG"))
	if err != nil {
		t.Skip("left out: it disturbs others; set PQ_TEST_BACKLOG=1000000 and run it alone")
	}
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		overtake(t, d, backlog, func(*queue_job.Config) {})
	})
}

// An UPDATE along the due index would lock rows whose priority is as it should be, and deadlock with whoever settles them.
func TestLookingForPrioritiesThatAreNoneWaitsForNobody(t *testing.T) {
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		addRows(t, d.DB, 3, func(i int) row { return row{priority: 9 * (i % 2)} })
		st, err := store.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE async_job_tab SET job_status = 1 WHERE id IN (1, 3)"); err != nil {
			t.Fatal(err)
		}
		// The transaction stays open: who waits for it waits for InnoDB's 50 s, or for ever.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := st.TamePriorities(ctx, []int32{1}); err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT priority FROM async_job_tab WHERE id = 2"); n != 2 {
			t.Errorf("priority %d", n)
		}
	})
}

// overtake adds a backlog, and then high jobs: at once, in a moment, and by hand with a priority that is none.
func overtake(t *testing.T, d dbtest.Database, backlog int, change func(*queue_job.Config)) {
	migrate(t, d)
	addRows(t, d.DB, 10_000, func(i int) row { return row{priority: -(i % 2)} }) // low ones and normal ones
	for n := 10_000; n < backlog; n *= 2 {
		execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority) SELECT params, job_type, job_status, start_time, create_time, update_time, priority FROM async_job_tab ORDER BY id LIMIT %d", min(n, backlog-n)))
	}
	started := make(chan run, 100)
	cfg := queue_job.Config{WorkerPoolCapacity: 5, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		if job.Id > uint64(backlog) {
			started <- run{id: job.Id, started: time.Now()}
		}
		time.Sleep(10 * time.Millisecond)
		return nil
	}}
	change(&cfg)
	start(t, d.DB, cfg)
	await(t, func() string { return "nothing runs" }, func() bool {
		return number(t, d.DB, "SELECT COUNT(*) FROM (SELECT 1 FROM async_job_tab WHERE job_status = 1 LIMIT 60) AS few") == 60
	})
	for _, high := range []struct {
		priority int
		in       int64 // seconds; 0: at once
	}{{1, 0}, {2, 0}, {100, 0}, {1, 2}, {1, 4}} {
		bestOfThree(t, func() error {
			added := row{priority: high.priority}
			due := time.Now() // it may start before the INSERT has returned
			if high.in > 0 {
				added.at = due.Unix() + high.in
				due = time.Unix(added.at, 0)
			}
			addRows(t, d.DB, 1, func(int) row { return added })
			select {
			case r := <-started:
				late := r.started.Sub(due)
				t.Logf("a job of priority %d started %v after it was due", high.priority, late)
				if late < -20*time.Millisecond {
					t.Errorf("a job of priority %d started %v before it was due", high.priority, -late)
				}
				if late > time.Second*slack {
					return fmt.Errorf("a job of priority %d started %v after it was due", high.priority, late)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("a job of priority %d did not start", high.priority)
			}
			return nil
		})
	}
	if left := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0"); left < int64(backlog)/2 {
		t.Errorf("only %d of the backlog are left: this proves nothing", left)
	}
}

func TestLowJobsAreNotStarvedBehindManyHighOnes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const lows, highs = 50, 2000
		addRows(t, d.DB, lows, func(int) row { return row{priority: -1} })
		addRows(t, d.DB, highs, func(int) row { return row{priority: 1} })
		var low, high atomic.Int64
		// Neither level fits in memory beside all of the other, and what fits is work for three seconds: the high ones are
		// still there when a page comes late.
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 2, QueueMaxSize: 600, LoadLimit: 100, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Id <= lows {
				low.Add(1)
			} else {
				high.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}})
		var beside int64
		await(t, func() string {
			return fmt.Sprintf("%d of %d low jobs ran beside %d high ones", low.Load(), lows, high.Load())
		}, func() bool {
			beside = high.Load()
			return low.Load() == lows
		})
		t.Logf("%d high jobs beside %d low ones", beside, lows)
		switch {
		case beside < 5*lows:
			t.Errorf("%d high jobs beside %d low ones: priorities do not count", beside, lows)
		case beside == highs:
			t.Errorf("all %d high jobs ran first: low ones starve while more of them come", highs)
		}
	})
}

func TestRowsWithAPriorityThatIsNoneRun(t *testing.T) {
	besideOthers(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		odd := func(int) row { return row{priority: -100} }
		addRows(t, d.DB, 5, odd)
		start(t, d.DB, queue_job.Config{HandleJobFunc: new(runs).handler})
		awaitNumber(t, d.DB, 5, succeeded)
		addRows(t, d.DB, 5, odd)
		addRows(t, d.DB, 5, func(int) row { return row{priority: 99, at: time.Now().Unix() + 5} }) // beyond the tail's horizon
		awaitNumber(t, d.DB, 15, succeeded)
	})
}

// Rows are marked before their time, as many as the workers seem to start at once. These turn out to be slow.
func TestWhatWaitsBehindSlowRunsCanBeChangedAndIsNotLostWithTheProcess(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const workers, n = 5, 300
		const inFlight = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term <> 0"
		jobs := open(t, d.DB)
		var ran runs
		release := make(chan struct{})
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: workers, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			<-release
			return ran.handler(ctx, job)
		}})
		due := time.Now().Add(3 * time.Second).Truncate(time.Second)
		add(t, d.DB, n, uint32(due.Unix()))
		var waiting int64
		awaitWithin(t, 10*time.Second*slack, func() string { return "most stay marked" }, func() bool {
			if time.Now().Before(due.Add(2*time.Second)) || number(t, d.DB, inFlight) >= workers+20 { // a few are ahead of the workers
				return false
			}
			waiting = number(t, d.DB, "SELECT MAX(id) FROM async_job_tab WHERE term = 0")
			set, err := jobs.SetParams(t.Context(), d.DB, queue_job.ID(uint64(waiting)), "changed")
			if err != nil && !errors.Is(err, queue_job.ErrInFlight) { // marked just now: another one will do
				t.Fatal(err)
			}
			return set == 1
		})
		close(release)
		awaitNumber(t, d.DB, n, succeeded)
		if list := ran.all(); len(list) != n {
			t.Errorf("%d runs of %d jobs", len(list), n)
		}
		if params := ran.of(uint64(waiting))[0].job.JobParams; params != `"changed"` {
			t.Errorf("job %d ran with %s", waiting, params)
		}
		if extra := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); extra != 0 {
			t.Errorf("%d jobs seem to have run more than once", extra)
		}
	})
}
