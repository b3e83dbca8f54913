package faults

import (
	"testing"
	"time"
)

func TestADeployLosesNothingAndRunsNothingTwice(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		const betweenDeploys = 700 * time.Millisecond
		times, bound := repeat(30, 3), time.Second
		load := x.startLoad(500, work{MS: 5}, 0)
		x.startWorker(workerSettings{LockSecond: calmLock})
		x.startWorker(workerSettings{LockSecond: calmLock})
		worst := time.Duration(0)
		since := time.Now()
		for range times {
			holder := x.awaitHolder(since)
			x.awaitStart(since.Add(betweenDeploys), 20*time.Second) // work goes on for a while
			x.startWorker(workerSettings{LockSecond: calmLock})
			since = time.Now()
			x.endCleanly(holder)
			last := since // of the one that leaves: the handover begins there
			if starts := holder.started(); len(starts) > 0 && starts[len(starts)-1].at.After(last) {
				last = starts[len(starts)-1].at
			}
			gap := x.awaitStart(last, 20*time.Second, holder)
			x.withinDuring(window{last, time.Now()}, gap, bound, "the handover")
			worst = max(worst, gap)
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		x.tell("SIGTERM (deploy)", times, o, worst, bound, "")
	})
}
