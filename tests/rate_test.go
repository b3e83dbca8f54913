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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		pulse := feelPulse(t, d)
		r := start(t, d.DB, queue_job.Config{RatePerSecond: 0.1, HandleJobFunc: ran.handler})
		add(t, d.DB, 5, 0)
		await(t, func() string { return "none has run" }, func() bool { return len(ran.all()) > 0 })
		began := time.Now()
		stop(t, r)
		if took, most := time.Since(began), pulse.allows(time.Second*slack, began, time.Now()); took > most { // the next job might start after ten
			t.Errorf("Stop took %v, want %v at most", took, most)
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
		lasts := 24 * time.Second
		if slack > 1 {
			lasts = 16 * time.Second // the race detector sees no more in a longer time
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
