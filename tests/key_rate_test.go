package tests

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// expectKeyRate expects that no more jobs of a key were noted within a second than its rate allows and, of each worker, one late note.
func expectKeyRate(t *testing.T, starts map[string][]time.Time, most int) {
	t.Helper()
	for key, times := range starts {
		slices.SortFunc(times, time.Time.Compare)
		n := mostInASecond(times)
		if n > most {
			t.Errorf("%d jobs of %s started within a second, want %d at most", n, key, most)
		}
		t.Logf("%d starts of %s in %v, at most %d in a second", len(times), key, times[len(times)-1].Sub(times[0]), n)
	}
}

func TestNoMoreJobsOfAKeyStartInASecondThanItsRateAllowsAndNoneWaitForThem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const rate, burst, workers, keys, jobs, keyless = 40, 4, 3, 3, 80, 50
		addRows(t, d.DB, keys*jobs+keyless, func(i int) row { // those without a key are behind all others
			if i >= keys*jobs {
				return row{}
			}
			return row{key: fmt.Sprint("account ", i%keys)}
		})
		var ran runs
		cfg := queue_job.Config{RatePerKey: rate, BurstPerKey: burst, WorkerPoolCapacity: workers, HandleJobFunc: ran.handler}
		first := start(t, d.DB, cfg)
		start(t, d.DB, cfg)
		await(t, func() string { return "too few have run" }, func() bool { return len(ran.all()) > keyless+keys*jobs/3 })
		stop(t, first) // the other one takes over; either may have had the lease
		awaitNumber(t, d.DB, keys*jobs+keyless, succeeded)
		starts, before, without := map[string][]time.Time{}, 0, 0
		for _, r := range ran.all() {
			if r.job.Key != "" {
				starts[r.job.Key] = append(starts[r.job.Key], r.started)
			} else if without++; without == keyless {
				for _, times := range starts {
					before += len(times)
				}
			}
		}
		if without != keyless || before >= keys*jobs {
			t.Errorf("%d jobs without a key have run, the last of them after %d of %d jobs of the keys", without, before, keys*jobs)
		}
		expectKeyRate(t, starts, rate+burst+workers)
	})
}

func TestTheRateOfAKeyHoldsOverProcessesThatAreKilled(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const rate, burst, workers, keys, jobs = 20, 2, 5, 10, 160
		addRows(t, d.DB, keys*jobs, func(i int) row { return row{key: fmt.Sprint("account ", i%keys)} })
		keyOf := keysOf(t, d.DB)
		settings := workerSettings{Types: []int32{1}, LockSecond: 2, Capacity: workers, KeyRate: rate}
		all := []*worker{startWorker(t, d, settings), startWorker(t, d, settings)}
		done := func() int64 { return number(t, d.DB, succeeded) }
		for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
			await(t, func() string { return "too few have run" }, func() bool { return done() > int64(keys*jobs*(i+1)/4) })
			holderOf(all).end(signal)
			all = append(all, startWorker(t, d, settings))
		}
		awaitNumber(t, d.DB, keys*jobs, succeeded)
		starts := map[string][]time.Time{}
		for _, w := range all {
			w.end(syscall.SIGTERM)
			for id, times := range w.started() {
				starts[keyOf[id]] = append(starts[keyOf[id]], times...)
			}
		}
		expectKeyRate(t, starts, rate+burst+workers)
	})
}
