package faults

import (
	"syscall"
	"testing"
	"time"
)

func TestAKilledHolderLosesNothing(t *testing.T) {
	t.Parallel()
	eachServerInShortToo(t, func(x *trial) {
		times, bound := repeat(20, 2), lock+time.Second
		load := x.startLoad(500, work{MS: 5}, 0)
		for range 3 {
			x.startWorker(workerSettings{})
		}
		worst := time.Duration(0)
		since := time.Now()
		for range times {
			holder := x.awaitHolder(since)
			since = time.Now()
			holder.end(syscall.SIGKILL)
			gap := x.awaitStart(since, 20*time.Second, holder)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			x.startWorker(workerSettings{})
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.tell("SIGKILL of the holder", times, o, worst, bound, "business transaction at most %v", load.slowest.Round(time.Millisecond))
	})
}
