package faults

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// The other process goes on with all types at once. What runs in the frozen one is left alone until its leases would have ended: if it wakes before
// that, nothing runs twice, and nothing is cut off.
func TestAProcessThatIsFrozenForLessThanItsLeasesFinishesWhatItRuns(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		o, worst, bound, times := x.freezeAlive(longLock, 10*time.Second, repeat(6, 1))
		x.noDuplicates(o)
		x.noneRetried()
		x.tell(fmt.Sprintf("SIGSTOP for 10 s, then SIGCONT, leases of %d s, ten types", longLock), times, o, worst, bound,
			"keys and their order are exact, and the capacity is, but for what the frozen process had begun")
	})
}

// If it wakes later than that, what it ran has run again, and nothing else.
func TestAProcessThatIsFrozenForLongerThanItsLeasesRunsNothingAgainButWhatItHadBegun(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		length := repeat(longLock, 8)
		o, worst, bound, times := x.freezeAlive(length, time.Duration(2*length)*time.Second, repeat(3, 1))
		if o.duplicates == 0 {
			x.Error("nothing was in flight: the freeze hit nothing")
		}
		x.tell(fmt.Sprintf("SIGSTOP for 2 L, then SIGCONT, leases of %d s, ten types", longLock), times, o, worst, bound,
			"nothing ran again before the long end; keys and their order are exact, and the capacity is, but for what the frozen process had begun")
	})
}

// freezeAlive freezes one of two processes, again and again. Some of their types are ordered by keys, some are full, and some have free workers.
func (x *trial) freezeAlive(length int, long time.Duration, times int) (o outcome, worst, bound time.Duration, freezes int) {
	x.Helper()
	const capacity, keys = 6, 40
	types := numbered(10)
	ordered, full, idle := types[:2], types[2:6], types[6:]
	settings := workerSettings{Types: types, LockSecond: uint32(length), Ordered: ordered, Capacity: capacity, LostLimit: -1}
	load := x.startLoadOf(idle, 200, work{MS: 5, Says: true}, 0)
	seconds := times*int(long/time.Second+20) + 20
	for _, jobType := range ordered {
		for range seconds {
			x.addKeyed(jobType, keys, work{MS: 500, Says: true})
		}
	}
	for _, jobType := range full {
		x.addMany(jobType, 2*capacity*seconds/3, work{MS: 3000, Says: true})
	}
	x.startWorker(settings)
	x.startWorker(settings)
	bound = buriedAgainWithin
	var frozen []frozenFor
	for n := range times {
		victim := x.awaitEvenShares(types)[n%2]
		held := x.heldBy(victim, types)
		for _, jobType := range held {
			if slices.Contains(full, jobType) {
				x.awaitBusy(victim, jobType, capacity, 3*time.Second)
			}
		}
		most := buriedWithin
		if victim.freezes > 0 {
			most = buriedAgainWithin
		}
		x.freeze(victim)
		since := time.Now()
		for _, jobType := range held {
			gap := x.awaitStartOf(jobType, since, victim)
			x.withinDuring(window{since, time.Now()}, gap, most, "the next start of a type")
			worst = max(worst, gap)
		}
		time.Sleep(time.Until(since.Add(long)))
		frozen = append(frozen, frozenFor{victim, window{since, time.Now()}})
		victim.signal(syscall.SIGCONT)
	}
	x.execute("UPDATE async_job_tab SET job_status = 5 WHERE job_status = 0 AND term = 0") // it would be minutes
	o = x.conclude(2*time.Minute, load)
	x.stopWorkers()
	for _, jobType := range ordered {
		x.outOfOrder(jobType, keys-2*capacity) // of the others, the frozen process may have marked the first job, and not started it
	}
	longEnd := time.Duration(length)*time.Second*2/3 - time.Second // after a freeze, at least: the last renewal may be so old
	x.keysAreExact(ordered, frozen, longEnd)
	for _, jobType := range full {
		if n := x.atOnceBut(jobType, frozen); n > capacity {
			x.Errorf("%d jobs of type %d ran at a time, beside what a frozen process had begun; the capacity is %d", n, jobType, capacity)
		}
	}
	x.noneAgainBefore(longEnd, frozen)
	return o, worst, bound, times
}

// noneAgainBefore holds that no job started again until so long after its process was frozen. What had ended by then may be among those jobs: if its
// outcome was not written, nobody knows.
func (x *trial) noneAgainBefore(longEnd time.Duration, frozen []frozenFor) {
	x.Helper()
	first := map[uint64]start{}
	for _, s := range x.starts() {
		before, again := first[s.job]
		if !again {
			first[s.job] = s
		} else if !slices.ContainsFunc(frozen, func(f frozenFor) bool {
			return f.worker == before.worker && before.at.Before(f.from) && !s.at.Before(f.from.Add(longEnd))
		}) {
			x.Errorf("job %d of type %d started again %v after its first start, before the lease of that run had ended", s.job, s.jobType, s.at.Sub(before.at))
		}
	}
}

// frozenFor is for how long a process was frozen.
type frozenFor struct {
	*worker
	window
}

// frozenIn is the freeze in which a run was frozen, if there is one.
func frozenIn(frozen []frozenFor, s start) (in frozenFor, is bool) {
	for _, f := range frozen {
		if end, _ := s.worker.endOf(s); f.worker == s.worker && s.at.Before(f.from) && end.After(f.to) {
			return f, true
		}
	}
	return in, false
}

// keysAreExact holds that no two handlers of a key ran at a time, but for those that a frozen process had begun, when its lease had ended.
func (x *trial) keysAreExact(types []int32, frozen []frozenFor, longEnd time.Duration) {
	x.Helper()
	type typeKey struct {
		jobType int32
		key     string
	}
	keyOf := x.keys()
	runs := map[typeKey][]start{}
	for _, s := range x.starts() {
		if slices.Contains(types, s.jobType) {
			key := typeKey{s.jobType, keyOf[s.job]}
			for _, before := range runs[key] {
				end, said := before.worker.endOf(before)
				if f, is := frozenIn(frozen, before); said && end.After(s.at) && (!is || s.at.Before(f.from.Add(longEnd))) {
					x.Errorf("type %d, %s: job %d started in %s while job %d ran in %s", s.jobType, key.key, s.job, s.worker.name, before.job, before.worker.name)
				}
			}
			runs[key] = append(runs[key], s)
		}
	}
	if len(runs) == 0 {
		x.Error("no handler of a key ran")
	}
}

// atOnceBut is how many runs of a type went on at a time, at most, not counting those that were frozen.
func (x *trial) atOnceBut(jobType int32, frozen []frozenFor) (most int) {
	var ends []time.Time
	for _, s := range x.starts() {
		if _, is := frozenIn(frozen, s); s.jobType != jobType || is {
			continue
		}
		end, _ := s.worker.endOf(s)
		ends = slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(s.at) })
		ends = append(ends, end)
		most = max(most, len(ends))
	}
	return most
}
