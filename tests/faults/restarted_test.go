package faults

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	restartedWithin = 2 * time.Second // until all runs again that a killed process ran, from its restart on
	buryWithin      = 5 * time.Second // the same, from the call of Bury on, which watches for 2.5 s
)

// fill gives a process long jobs of each of its types, and waits until all of them run. If a type moves meanwhile, the other one runs them.
func (x *trial) fill(w *worker, types []int32, jobs int) {
	x.Helper()
	for _, jobType := range x.heldBy(w, types) {
		x.addMany(jobType, jobs, work{MS: 20_000})
	}
	x.await(time.Minute, "long jobs wait", func() bool {
		return x.number("SELECT COUNT(*) FROM async_job_tab WHERE params LIKE '%20000%' AND job_status = 0 AND term = 0") == 0
	})
}

// A unit is killed, and whoever watches it starts it again at once, beside another process with load.
func TestWhatAKilledProcessRanRunsAgainWithinTwoSecondsOfItsRestart(t *testing.T) {
	eachServerAtOnce(t, func(x *trial) {
		const long = 3
		types := numbered(4)
		settings := workerSettings{Types: types, LockSecond: longLock, Capacity: 10, LostLimit: -1}
		load := x.startLoadOf(types, 100, work{MS: 5}, 0)
		x.startWorker(settings)
		settings.Identity = "machine/unit"
		victim := x.startWorker(settings)
		times, inFlight := repeat(15, 3), 0
		var all []time.Duration
		for range times {
			x.awaitEvenShares(types)
			x.fill(victim, types, long)
			victim.end(syscall.SIGKILL)
			restarted := time.Now()
			next := x.startWorker(settings)
			inFlight += len(x.pendingOf(victim))
			took := x.runAgain(victim, restarted)
			x.withinDuring(window{restarted, time.Now()}, took, restartedWithin, "what had died ran again")
			all, victim = append(all, took), next
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		if o.duplicates == 0 || inFlight < times*long {
			x.Errorf("%d jobs were in flight, and %d have run again", inFlight, o.duplicates)
		}
		slices.Sort(all)
		x.tell(fmt.Sprintf("SIGKILL, and a restart at once with the same identity, leases of %d s", longLock), times, o, all[len(all)-1], restartedWithin,
			"half within %v", all[len(all)/2].Round(time.Millisecond))
	})
}

// The frozen one is not dead, as the operator says: what it ran runs twice, and its outcomes do not count when it wakes.
func TestWhatABuriedProcessRanRunsAgainSoonAndWhoeverWakesChangesNothing(t *testing.T) {
	eachServerAtOnce(t, func(x *trial) {
		const long = 3
		types := numbered(4)
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		settings := workerSettings{Types: types, LockSecond: longLock, Capacity: 10, LostLimit: -1}
		load := x.startLoadOf(types, 100, work{MS: 5}, 0)
		x.startWorker(settings)
		victim := x.startWorker(settings)
		times := repeat(10, 2)
		var worst time.Duration
		for n := range times {
			x.awaitEvenShares(types)
			x.fill(victim, types, long)
			id := x.instanceOf(jobs, victim)
			if n%2 == 0 {
				victim.end(syscall.SIGKILL)
			} else {
				victim.signal(syscall.SIGSTOP)
			}
			called := time.Now()
			if err := jobs.Bury(x.Context(), x.db, id); err != nil {
				x.Error(err)
			}
			took := x.runAgain(victim, called)
			x.withinDuring(window{called, time.Now()}, took, buryWithin, "what was said to be dead ran again")
			worst = max(worst, took)
			if n%2 == 1 {
				victim.signal(syscall.SIGCONT)
				time.Sleep(3 * time.Second)
				victim.end(syscall.SIGKILL)
			}
			victim = x.startWorker(settings)
		}
		o := x.conclude(time.Minute, load)
		late := 0
		if !x.dialect.unaudited {
			late = x.lateWrites()
		}
		x.stopWorkers()
		if late > 0 {
			x.Errorf("%d late writes changed a row of a later term", late)
		}
		x.tell(fmt.Sprintf("killed or SIGSTOPped, and buried by hand, leases of %d s", longLock), times, o, worst, buryWithin, "")
	})
}

// instanceOf is the id of a process.
func (x *trial) instanceOf(jobs *queue_job.Jobs, w *worker) (id string) {
	x.Helper()
	instances, err := jobs.Instances(x.Context(), x.db)
	if err != nil {
		x.Fatal(err)
	}
	for _, i := range instances {
		if i.Process == w.Process.Pid {
			return i.Id
		}
	}
	x.Fatalf("%s is no instance", w.name)
	return ""
}
