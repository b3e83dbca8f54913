package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Some rows of a type are locked when they fall due, and stay so. Those that come one by one, and those that fall due together with them, start
// as if they were not.
func TestALockedRowHoldsUpNoOtherStart(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const bound, together = 50 * time.Millisecond, 200
		times, locked := repeat(3, 1), seconds(20, 8)
		w := x.startWorker(workerSettings{LockSecond: calmLock, Capacity: together})
		x.addMany(1, 1, work{})
		x.awaitStart(x.began, 20*time.Second)
		var worst, alone, atOnce, back time.Duration
		for range times {
			without := x.startsOneByOne(w, locked/4)
			ids := x.addDelayedRows(together, 2)
			due := time.Unix(x.number("SELECT MIN(start_time) FROM async_job_tab WHERE id = ?", ids[0]), 0)
			held := []uint64{ids[0], ids[together/2]}
			free := x.lock("rows", held)
			x.await(20*time.Second, "not all others start", func() bool { return len(x.startsAmong(ids)) == together-len(held) })
			for _, s := range x.startsAmong(ids) {
				atOnce = max(atOnce, s.at.Sub(due))
			}
			beside := x.startsOneByOne(w, locked)
			freed := time.Now()
			free()
			x.await(20*time.Second, "the rows that were locked do not run", func() bool { return len(x.startsAmong(held)) == len(held) })
			back = max(back, time.Since(freed))
			// A machine that others use delays both: what is more than without the lock is the lock's.
			x.withinDuring(window{due, freed}, beside-min(without, beside), bound, "beside a locked row, and compared with the same without it, a start at the 95th percentile came")
			worst, alone = max(worst, beside), max(alone, without)
		}
		x.within(atOnce, time.Second, fmt.Sprintf("the last of %d that fell due together with two locked ones started", together-2))
		o := x.conclude(time.Minute)
		x.stopWorkers()
		x.noDuplicates(o)
		x.noneFailed()
		x.tell("a due row is locked: starts of others, from the commit on", times, o, worst, bound+alone, "95th percentile of one by one beside the lock; %v without; the last of %d that fell due together came %v after its second; the locked ones ran within %v after the lock", alone.Round(time.Millisecond), together-2, atOnce.Round(time.Millisecond), back.Round(time.Millisecond))
	})
}

// startsOneByOne adds jobs one after the other, and returns how long after its commit one of them started, at the 95th percentile.
func (x *trial) startsOneByOne(w *worker, lasts time.Duration) time.Duration {
	x.Helper()
	committed := map[uint64]time.Time{}
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(50 * time.Millisecond) {
		id := x.addOne(1, work{})
		committed[id] = time.Now()
	}
	var late []time.Duration
	x.await(20*time.Second, "not all start", func() bool {
		late = late[:0]
		for _, s := range w.started() {
			if at, ok := committed[s.job]; ok {
				late = append(late, s.at.Sub(at))
			}
		}
		return len(late) == len(committed)
	})
	slices.Sort(late)
	return late[len(late)*95/100]
}
