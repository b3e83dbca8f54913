package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// longText returns JSON of the given length in bytes. Texts with different numbers differ.
func longText(n, bytes int) queue_job.JSON {
	text := fmt.Sprintf(`"%d é漢🐘 `, n)
	return queue_job.JSON(text + strings.Repeat("x", bytes-len(text)-1) + `"`)
}

func isLong(params string) bool { return utf8.RuneCountInString(params) > 4096 }

func TestLongParametersArriveWholeInEachRunHoweverTheyWereAdded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		want := map[uint64]string{}
		bytesOf := []int{20, 4102, 4103, 70_000, queue_job.ParamsMax} // the third is the first that is long: of 4,097 characters
		next := func(jobType int32, options ...queue_job.AddOption) queue_job.AddModelJob {
			n := len(want)
			return queue_job.AddModelJob{JobType: jobType, JobParams: longText(n, bytesOf[n%len(bytesOf)])}.With(options...)
		}
		note := func(id uint64, job queue_job.AddModelJob) { want[id] = string(job.JobParams.(queue_job.JSON)) }
		for range bytesOf {
			one := next(1)
			id, err := jobs.Add(t.Context(), d.DB, one)
			if err != nil {
				t.Fatal(err)
			}
			note(id, one)
			unique := next(1, queue_job.UniqueKey(fmt.Sprint("u", id), queue_job.UniqueForever))
			added, err := jobs.AddUnique(t.Context(), d.DB, unique)
			if err != nil {
				t.Fatal(err)
			}
			note(added.Id, unique)
		}
		for _, options := range [][]queue_job.AddOption{nil, {queue_job.WithPriority(queue_job.PriorityHigh)}, {queue_job.ReplaceWaiting()}} {
			var many []queue_job.AddModelJob
			for i := range 12 {
				n := len(want) + i
				job := queue_job.AddModelJob{JobType: 2, JobParams: longText(n, bytesOf[n%len(bytesOf)])}.With(queue_job.UniqueKey(fmt.Sprint("m", i), queue_job.UniqueWhilePending))
				if options == nil {
					job.Key, job.Unique = "", queue_job.NotUnique
				}
				many = append(many, job.With(options...))
			}
			added, err := jobs.AddMany(t.Context(), d.DB, many)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range added {
				if a.Replaced != many[i].ReplaceWaiting {
					t.Errorf("%+v", a)
				}
				note(a.Id, many[i])
			}
		}
		changed := next(1)
		short, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, JobParams: 1})
		if err == nil {
			_, err = jobs.SetParams(t.Context(), d.DB, queue_job.ID(short), changed.JobParams)
		}
		if err != nil {
			t.Fatal(err)
		}
		note(short, changed)
		long, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, JobParams: longText(0, 5000)})
		if err == nil {
			_, err = jobs.SetParams(t.Context(), d.DB, queue_job.ID(long), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		want[long] = "1"

		for info, err := range jobs.All(t.Context(), d.DB, queue_job.Filter{}) {
			if err != nil || info.JobParams != want[info.Id] || info.LongParams != isLong(info.JobParams) {
				t.Errorf("All: job %d has %d bytes of %d (%t), %v", info.Id, len(info.JobParams), len(want[info.Id]), info.LongParams, err)
			}
		}
		for _, omit := range []bool{true, false} {
			list, err := jobs.List(t.Context(), d.DB, queue_job.Filter{OmitLongParams: omit})
			if err != nil || len(list) != len(want) {
				t.Fatal(len(list), len(want), err)
			}
			for _, info := range list {
				whole := want[info.Id]
				if info.LongParams != isLong(whole) || info.LongParams && omit && info.JobParams != "" || !(info.LongParams && omit) && info.JobParams != whole {
					t.Errorf("List, omit %t: job %d has %d bytes of %d (%t)", omit, info.Id, len(info.JobParams), len(whole), info.LongParams)
				}
			}
		}

		var mu sync.Mutex
		ran := map[uint64]int{}
		handle := func(job *queue_job.Job) error {
			mu.Lock()
			defer mu.Unlock()
			if ran[job.Id]++; job.JobParams != want[job.Id] {
				t.Errorf("run %d of job %d has %d bytes of %d", job.Attempt, job.Id, len(job.JobParams), len(want[job.Id]))
			}
			if ran[job.Id] == 1 {
				return errors.New("once more")
			}
			return nil
		}
		// A run whose process died.
		execute(t, d.DB, "UPDATE async_job_tab SET term = 1, attempts = 1 WHERE id % 3 = 0")
		start(t, d.DB,
			queue_job.Config{NeedRetry: true, MaxRetries: 3, WaitTime: time.Millisecond, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error { return handle(job) }},
			queue_job.Config{JobType: 2, NeedRetry: true, MaxRetries: 3, WaitTime: time.Millisecond, BatchSize: 5, BatchWait: 50 * time.Millisecond, HandleBatchFunc: func(_ context.Context, batch []*queue_job.Job) error {
				errs := make(queue_job.BatchErrors, len(batch))
				for i, job := range batch {
					errs[i] = handle(job)
				}
				return errs
			}})
		awaitNumber(t, d.DB, int64(len(want)), succeeded)
		for id := range want {
			if ran[id] != 2 {
				t.Errorf("job %d ran %d times", id, ran[id])
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE lost > 0 AND id % 3 <> 0"); n > 0 {
			t.Errorf("%d jobs were lost that nobody lost", n)
		}
	})
}

func TestAScheduleAddsJobsWithLongParameters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		params := longText(1, 100_000)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler, Schedule: eachSecond{}, ScheduleParams: params})
		awaitRuns(t, &ran, 2)
		for _, run := range ran.all() {
			if run.job.JobParams != string(params) {
				t.Errorf("%d bytes of %d", len(run.job.JobParams), len(params))
			}
		}
	})
}

type eachSecond struct{}

func (eachSecond) Next(after time.Time) time.Time {
	return after.Truncate(time.Second).Add(time.Second)
}
func (eachSecond) String() string { return "each second" }

func TestLongParametersByHandAreThoseThatTheRowSays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		const into = "INSERT INTO async_job_tab (params, long_params, job_type, create_time, update_time) VALUES ('see long_params', ?, 1, ?, ?)"
		now := time.Now().Unix()
		execute(t, d.DB, into, nil, now, now)
		execute(t, d.DB, into, "by hand", now, now)
		execute(t, d.DB, into, "before", now, now)
		execute(t, d.DB, "UPDATE async_job_tab SET params = '{}' WHERE id = 3")
		if job := get(t, open(t, d.DB), d.DB, 3); job.JobParams != "{}" || job.LongParams {
			t.Errorf("%+v", job)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitRuns(t, &ran, 3)
		for id, want := range map[uint64]string{1: "see long_params", 2: "by hand", 3: "{}"} {
			if got := ran.of(id)[0].job.JobParams; got != want {
				t.Errorf("job %d: %q", id, got)
			}
		}
	})
}

// What waits takes no memory for its long parameters, and neither does what has run: there are more of them than may be in memory.
func TestTwoThousandJobsOfAMegabyteTakeLittleMemory(t *testing.T) {
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const workers, most = 10, 100 << 20
		jobs := 120
		if slack == 1 && (d.Name == "PostgreSQL" || d.Name == "TiDB") { // the memory is the process's; on a disk, they take two gigabytes
			jobs = unlessShort(2000, jobs)
		}
		if _, err := open(t, d.DB).Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, JobParams: longText(1, queue_job.ParamsMax)}); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < jobs; n++ {
			execute(t, d.DB, "INSERT INTO async_job_tab (params, long_params, job_type, job_status, start_time, create_time, update_time) SELECT params, long_params, job_type, job_status, start_time, create_time, update_time FROM async_job_tab WHERE id = 1")
		}
		before := liveHeap()
		var mu sync.Mutex
		var calls int
		var highest int64
		goOn := make(chan struct{})
		r := start(t, d.DB, queue_job.Config{WorkerPoolCapacity: workers, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			<-goOn
			if len(job.JobParams) != queue_job.ParamsMax {
				t.Errorf("%d bytes", len(job.JobParams))
			}
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%50 == 0 {
				highest = max(highest, liveHeap()-before)
			}
			return nil
		}})
		await(t, func() string { return fmt.Sprintf("%+v", r.Types()) }, func() bool {
			state := r.Types()[0]
			return state.Running == workers && state.Waiting+state.Running >= jobs
		})
		waiting := liveHeap() - before
		close(goOn)
		awaitNumber(t, d.DB, int64(jobs), succeeded)
		if waiting > most || highest > most {
			t.Errorf("%d MB of memory while %d jobs wait, and %d MB while they run", waiting>>20, jobs, highest>>20)
		}
		t.Logf("%d MB of memory while %d jobs wait, and %d MB while they run", waiting>>20, jobs, highest>>20)
	})
}

// liveHeap is how much the heap holds, without its garbage.
func liveHeap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
