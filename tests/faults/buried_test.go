package faults

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// longLock is the length of leases that outlast any takeover.
const longLock = 30

// buriedWithin is how long it takes at most until each type of a dead process starts jobs elsewhere, and usuallyBuriedWithin for half of them.
const (
	buriedWithin        = 4500 * time.Millisecond
	usuallyBuriedWithin = 3200 * time.Millisecond
	buriedAgainWithin   = buriedWithin + 2500*time.Millisecond // of one that was buried alive in the ten minutes before: its beats count twice as long
)

// death is a way in which a process ends at once.
type death struct {
	name string
	of   func(w *worker) error
}

// deaths are all the ways that this machine has, and why it has not another one.
func deaths(x *trial) (ways []death, leftOut string) {
	ways = []death{
		{"SIGKILL", func(w *worker) error { w.end(syscall.SIGKILL); return nil }},
		{"panic", func(w *worker) error { w.endItself("panic"); return nil }},
		{"os.Exit", func(w *worker) error { w.endItself("exit"); return nil }},
	}
	probe := exec.Command("sleep", "60")
	if err := probe.Start(); err != nil {
		x.Fatal(err)
	}
	end, err := limitMemoryOf(probe.Process, hoardMost)
	probe.Process.Kill()
	probe.Wait()
	if err != nil {
		return ways, fmt.Sprintf("; the OOM killer is left out, since no group of processes can be made here: %v", err)
	}
	end()
	return append(ways, death{"OOM killer", (*worker).runOutOfMemory}), ""
}

const hoardMost = 512 << 20

// endItself has the process end in a way that it knows, and waits until it is gone.
func (w *worker) endItself(way string) {
	fmt.Fprintln(w.in, way)
	<-w.done
}

// runOutOfMemory has the kernel kill the process, as when a container has no memory left.
func (w *worker) runOutOfMemory() error {
	end, err := limitMemoryOf(w.Process, hoardMost)
	if err != nil {
		return err
	}
	w.endItself("hoard")
	end()
	if exit := (*exec.ExitError)(nil); !errors.As(w.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the kernel did not kill it: %w", w.err)
	}
	return nil
}

// Two processes share ten types. Five of them have workers that are free, and jobs all the time; in the others all workers are busy for longer
// than a takeover takes, and more jobs wait than the queue holds. One of the processes dies; the other has all ten, long before the leases end.
func TestADeadProcessIsReplacedWithinSecondsHoweverLongItsLeasesAre(t *testing.T) {
	eachServerAtOnce(t, func(x *trial) {
		const capacity, takes = 4, 6 * time.Second
		types := numbered(10)
		idle, full := types[:5], types[5:]
		settings := workerSettings{Types: types, LockSecond: longLock, Capacity: capacity, QueueMaxSize: 50}
		settings.LostLimit = -1 // or what is lost twice runs alone
		ways, leftOut := deaths(x)
		kills := repeat(34, 4)
		load := x.startLoadOf(idle, 200, work{MS: 5}, 0)
		for _, jobType := range full {
			x.addMany(jobType, 20*kills, work{MS: int(takes / time.Millisecond)})
		}
		x.startWorker(settings)
		x.startWorker(settings)
		var gaps, ofFull []time.Duration
		for n := range kills {
			victim := x.awaitEvenShares(types)[n%2]
			held := x.heldBy(victim, types)
			for _, jobType := range held {
				if slices.Contains(full, jobType) {
					x.awaitBusy(victim, jobType, capacity, takes)
				}
			}
			if err := ways[n%len(ways)].of(victim); err != nil {
				x.Error(err)
			}
			died := time.Now()
			for _, jobType := range held {
				gap := x.awaitStartOf(jobType, died, victim)
				if gaps = append(gaps, gap); slices.Contains(full, jobType) {
					ofFull = append(ofFull, gap)
				}
			}
			x.startWorker(settings)
		}
		slices.Sort(gaps)
		slices.Sort(ofFull)
		worst, usual := gaps[len(gaps)-1], gaps[len(gaps)/2]
		x.within(usual, usuallyBuriedWithin, "the next start of half of the types")
		x.within(worst, buriedWithin, "the next start of a type")
		x.execute("UPDATE async_job_tab SET job_status = 5 WHERE job_status = 0 AND term = 0") // it would be minutes
		o := x.conclude(2*time.Minute, load)
		x.stopWorkers()
		var names []string
		for _, way := range ways {
			names = append(names, way.name)
		}
		half, all := ofFull[len(ofFull)/2].Round(time.Millisecond), ofFull[len(ofFull)-1].Round(time.Millisecond)
		x.tell(fmt.Sprintf("one of two processes dies, leases of %d s, ten types", longLock), kills, o, worst, buriedWithin,
			"%s; the next start of each of its types: half of %d within %v; of %d whose workers were all busy, half within %v and all within %v%s",
			strings.Join(names, ", "), len(gaps), usual.Round(time.Millisecond), len(ofFull), half, all, leftOut)
	})
}

// awaitBusy waits until a worker runs so many jobs of a type that each take so long.
func (x *trial) awaitBusy(w *worker, jobType int32, jobs int, takes time.Duration) {
	x.Helper()
	x.await(2*takes+10*time.Second, fmt.Sprintf("the workers of type %d are not all busy", jobType), func() bool {
		n, now, starts := 0, time.Now(), w.started()
		for i := len(starts) - 1; i >= 0 && now.Sub(starts[i].at) < takes; i-- {
			if starts[i].jobType == jobType {
				n++
			}
		}
		return n >= jobs
	})
}

// awaitEvenShares waits until two workers live, and each has some of the types.
func (x *trial) awaitEvenShares(types []int32) (both []*worker) {
	x.Helper()
	x.await(40*time.Second, "two workers do not share the types", func() bool {
		of := map[*worker]int{}
		for _, jobType := range types {
			if w := x.holder(jobType); w != nil {
				of[w]++
			}
		}
		both = nil
		for _, w := range x.living() {
			if of[w] >= len(types)/2-1 {
				both = append(both, w)
			}
		}
		return len(both) == 2
	})
	return both
}

// awaitStartOf waits for the first start of a type after a moment, on any worker but one, and returns how long after.
func (x *trial) awaitStartOf(jobType int32, after time.Time, but *worker) (gap time.Duration) {
	x.Helper()
	x.await((longLock+5)*time.Second, fmt.Sprintf("no job of type %d started again", jobType), func() bool {
		gap = x.firstStart(after, func(s start) bool { return s.jobType == jobType && s.worker != but })
		return gap > 0
	})
	return gap
}

// What ran in a process that has died is left alone until its leases would have ended. Then it runs again at once, although by then its rows have
// been passed over, and more jobs wait than the queue holds.
func TestWhatADeadProcessRanRunsAgainWhenItsLeasesWouldHaveEndedAlsoBehindABacklog(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const capacity, long, queue, takes, bound = 10, 5, 100, 500 * time.Millisecond, (longLock + 1) * time.Second
		types := numbered(repeat(10, 4))
		settings := workerSettings{Types: types, LockSecond: longLock, Capacity: capacity, QueueMaxSize: queue}
		x.startWorker(settings)
		x.startWorker(settings)
		times := repeat(4, 1)
		var worst time.Duration
		inFlight := 0
		for n := range times {
			x.awaitEvenShares(types)
			x.awaitRest()
			victim := x.awaitEvenShares(types)[n%2]
			held := x.heldBy(victim, types)
			for _, jobType := range held {
				x.addMany(jobType, long, work{Do: "first"})
				x.awaitBusy(victim, jobType, long, time.Minute)
			}
			for _, jobType := range held {
				x.addMany(jobType, 1000, work{MS: int(takes / time.Millisecond)}) // of which the other one does some 600 meanwhile
				x.awaitBusy(victim, jobType, capacity-long, takes)
			}
			victim.end(syscall.SIGKILL)
			died := time.Now()
			time.Sleep(time.Until(died.Add((longLock - 10) * time.Second))) // the last renewal may have been so long ago
			for _, jobType := range held {
				if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status = 0 AND term = 0", jobType); n <= queue {
					x.Errorf("%d jobs of type %d wait, which a queue of %d holds", n, jobType, queue)
				}
			}
			ids := x.pendingOf(victim)
			inFlight += len(ids)
			took := x.runAgain(victim, died)
			x.withinDuring(window{died, time.Now()}, took, bound, "what had died ran again")
			worst = max(worst, took)
			x.execute("UPDATE async_job_tab SET job_status = 5 WHERE job_status = 0 AND term = 0")
			x.startWorker(settings)
		}
		o := x.conclude(time.Minute)
		x.stopWorkers()
		if o.duplicates < inFlight || inFlight < times*long {
			x.Errorf("%d jobs were in flight, and %d have run again", inFlight, o.duplicates)
		}
		x.tell(fmt.Sprintf("jobs in flight of a dead process, leases of %d s, ten types", longLock), times, o, worst, bound,
			"%d of them run again, behind a backlog larger than the queue of %d", inFlight, queue)
	})
}

// pendingOf are the jobs that a worker has started, and that are not final.
func (x *trial) pendingOf(w *worker) (ids []uint64) {
	x.Helper()
	rows := x.rows()
	for _, s := range w.started() {
		if !isFinal(rows[s.job].status) {
			ids = append(ids, s.job)
		}
	}
	return ids
}
