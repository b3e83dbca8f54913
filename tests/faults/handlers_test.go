package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The types of TestHandlersThatMisbehave….
const (
	mixed    = int32(1) // every kind of misbehaviour
	hung     = int32(2) // nothing but jobs that hang, as many as may run and more
	innocent = int32(3)
)

func TestHandlersThatMisbehaveCostNoSlotAndHoldNoOtherTypeUp(t *testing.T) {
	besideOthersInShort(t)
	eachServer(t, func(x *trial) {
		const capacity, hangingAmongMixed, bound = 20, 5, time.Second
		jobs := repeat(100_000, 4000)
		w := x.startWorker(workerSettings{LockSecond: calmLock, Types: []int32{mixed, hung, innocent}, Capacity: capacity, Quiet: true, Patience: time.Second})
		x.addMany(hung, capacity+5, work{Do: "hang"})
		x.addMany(mixed, hangingAmongMixed, work{Do: "hang"})
		x.addMany(mixed, 5*capacity, work{MS: 50}) // so that every slot has been used
		x.await(time.Minute, "not all started, or too many", func() bool { return len(w.started()) == capacity+6*capacity-capacity+hangingAmongMixed })
		before := w.askMemory()

		misbehaviour := mixOf(jobs)
		x.addShuffled(mixed, misbehaviour)
		began := time.Now()
		worst := x.innocentsWait(w, time.Duration(repeat(5, 1))*time.Minute)
		x.withinDuring(window{began, time.Now()}, worst, bound, "a job of another type started")

		x.runsAtATime(w, mixed, capacity-hangingAmongMixed)
		after := w.askMemory()
		x.backNear(before, after)

		// What hangs would run again elsewhere.
		x.execute("UPDATE async_job_tab SET job_status = 5 WHERE job_status = 0 AND params LIKE '%hang%'")
		o := x.conclude(time.Minute)
		x.stopWorkers()
		x.noDuplicates(o)
		x.cameTo(misbehaviour)
		x.tell("panic, Goexit, error, hang, deaf and hungry handlers", 1, o, worst, bound, "heap %.1f MB before, %.1f MB after; %d and %d goroutines",
			mb(before.heap), mb(after.heap), before.goroutines, after.goroutines)
	})
}

// mixOf is how so many jobs behave.
func mixOf(jobs int) map[work]int {
	mix := map[work]int{
		{Do: "panic"}:         jobs / 10,
		{Do: "goexit"}:        jobs / 10,
		{Do: "error"}:         jobs / 20,
		{Do: "hungry"}:        jobs / 1000,
		{MS: 500, Deaf: true}: jobs / 1000,
	}
	for _, n := range mix {
		jobs -= n
	}
	mix[work{}] = jobs
	return mix
}

// addShuffled adds jobs of all kinds in no order.
func (x *trial) addShuffled(jobType int32, mix map[work]int) {
	x.Helper()
	now := time.Now().Unix()
	var rows []string
	for w, n := range mix {
		for range n {
			rows = append(rows, fmt.Sprintf("('%s', %d, 0, 0, %d, %d)", w.params(), jobType, now, now))
		}
	}
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	for len(rows) > 0 {
		some := min(len(rows), 2000)
		x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES " + strings.Join(rows[:some], ", "))
		rows = rows[some:]
	}
}

// innocentsWait adds jobs of another type, one after the other, until the mix is done, and returns how long one of them
// waited for its start at worst.
func (x *trial) innocentsWait(w *worker, within time.Duration) (worst time.Duration) {
	x.Helper()
	const pending = "SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status IN (0, 3, 4) AND params NOT LIKE '%hang%'"
	added := map[uint64]time.Time{}
	for deadline := time.Now().Add(within); x.number(pending, mixed) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.Fatalf("after %v, rows wait: %s", within, x.describe("job_type = 1 AND job_status IN (0, 3, 4)"))
		}
		added[x.addOne(innocent, work{})] = time.Now()
	}
	x.await(time.Minute, "jobs of another type wait", func() bool { return x.number(pending, innocent) == 0 })
	for _, s := range w.started() {
		if at, ok := added[s.job]; ok {
			worst = max(worst, s.at.Sub(at))
		}
	}
	return worst
}

// runsAtATime shows that exactly so many jobs run at a time: of one more than that, all but one start at once, and the
// last one when the first have ended.
func (x *trial) runsAtATime(w *worker, jobType int32, slots int) {
	x.Helper()
	const takes = 6 * time.Second // half of it is much longer than a machine stands still
	before := len(w.started())
	x.addMany(jobType, slots+1, work{MS: int(takes.Milliseconds())})
	x.await(3*takes, fmt.Sprintf("not all of %d slots and one job more", slots), func() bool { return len(w.started()) >= before+slots+1 })
	starts := w.started()[before:]
	first, last := starts[0].at, starts[slots-1].at
	x.withinDuring(window{first, last}, last.Sub(first), takes/2, fmt.Sprintf("the last of %d jobs, which start at once, started", slots))
	if over := starts[slots].at.Sub(first); over < takes {
		x.Errorf("one job more than %d started %v after the first, want it to wait %v for a slot", slots, over, takes)
	}
}

// backNear holds that memory and goroutines are back near the beginning.
func (x *trial) backNear(before, after memory) {
	x.Helper()
	const heapMore, goroutinesMore = 8 << 20, 10
	if after.heap > before.heap+heapMore {
		x.Errorf("the heap grew from %.1f MB to %.1f MB", mb(before.heap), mb(after.heap))
	}
	if after.goroutines > before.goroutines+goroutinesMore {
		x.Errorf("%d goroutines became %d", before.goroutines, after.goroutines)
	}
}

// cameTo holds that the jobs ended as they behaved, and that the log says why.
func (x *trial) cameTo(mix map[work]int) {
	x.Helper()
	reasons := map[string]string{"panic": "panic: a handler's panic", "goexit": "runtime.Goexit", "error": "not today"}
	for w, n := range mix {
		const ended = "job_type = ? AND params = ? AND job_status = ? AND attempts = ?"
		reason, fails := reasons[w.Do]
		status, attempts := 1, 1
		if fails {
			status, attempts = 2, 4 // the first run and three retries
			const logged = "SELECT COUNT(*) FROM async_job_log_tab JOIN async_job_tab ON id = job_id WHERE params = ? AND error LIKE ?"
			if got := x.number(logged, w.params(), "%"+reason+"%"); got != int64(attempts*n) {
				x.Errorf("%d runs of jobs %s are in the log for the reason %q, want %d", got, w.params(), reason, attempts*n)
			}
		}
		got := x.number("SELECT COUNT(*) FROM async_job_tab WHERE "+ended, mixed, w.params(), status, attempts)
		if got != int64(n) {
			x.Errorf("%d of %d jobs %s ended with status %d after %d attempts", got, n, w.params(), status, attempts)
		}
	}
}

func TestAHandlerMuchLongerThanTheLeaseKeepsIt(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		takes := time.Duration(repeat(10, 3)) * renewedLock * time.Second
		for range 2 {
			x.startWorker(workerSettings{LockSecond: renewedLock})
		}
		x.addMany(1, 100, work{MS: int(takes.Milliseconds())})
		o := x.conclude(2 * takes)
		x.keptTheirTerms(1)
		x.stopWorkers()
		x.noDuplicates(o)
		if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND attempts = 1"); n != 100 {
			x.Errorf("%d of 100 jobs succeeded at the first attempt", n)
		}
		x.tell("handlers far longer than the lease", 1, o, 0, 0, "100 at a time, each %v long", takes)
	})
}

func TestAHandlerThatIgnoresStopIsLeftToTheNextInstance(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		const other, deaf, patience = int32(1), int32(2), time.Second
		const heedful = 2 * time.Second // Stop's wait for handlers that heed the end of their contexts
		settings := workerSettings{LockSecond: renewedLock, Types: []int32{other, deaf}, Patience: patience}
		load := x.startLoad(100, work{}, 0)
		leaving := x.startWorker(settings)
		job := x.addOne(deaf, work{Do: "deaf"}) // for much longer than the process lives
		x.await(20*time.Second, "the job did not start", func() bool { return !leaving.startOf(job).IsZero() })
		next := x.startWorker(settings)

		left := time.Now()
		leaving.signal(syscall.SIGTERM)
		handover := x.awaitStart(left, 20*time.Second, leaving)
		x.within(handover, time.Second, "the lease of the other type was handed over")
		<-leaving.done
		x.within(time.Since(left), patience+heedful+time.Second, "the process ended")
		var exit *exec.ExitError
		if !errors.As(leaving.err, &exit) || exit.ExitCode() != 1 {
			x.Errorf("the process ended with %v, want it to say that a handler still runs", leaving.err)
		}
		x.await(20*time.Second, "the job did not run again", func() bool { return !next.startOf(job).IsZero() })
		again, bound := next.startOf(job).Sub(left), patience+heedful+renewedLock*time.Second+time.Second
		x.within(again, bound, "the job ran again")
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		if o.duplicates != 1 || o.inFlight != 1 {
			x.Errorf("%v; want no second run but that of the job that was left", o)
		}
		x.tell("a handler that ignores Stop", 1, o, again, bound, "the other type was handed over after %v", handover.Round(time.Millisecond))
	})
}

// startOf is when the worker started a job first; zero: it has not.
func (w *worker) startOf(job uint64) (at time.Time) {
	for _, s := range w.started() {
		if s.job == job {
			return s.at
		}
	}
	return at
}
