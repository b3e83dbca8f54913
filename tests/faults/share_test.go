package faults

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func numbered(types int) (list []int32) {
	for jobType := range types {
		list = append(list, int32(jobType+1))
	}
	return list
}

// shares counts the leases of job types that each instance holds.
func (x *trial) shares() (counts []int) {
	x.Helper()
	held := map[string]int{}
	for _, owner := range x.owners() {
		instance, _, _ := strings.Cut(owner, ".")
		held[instance]++
	}
	return slices.Sorted(maps.Values(held))
}

// owners are who holds the lease of each job type.
func (x *trial) owners() map[string]string {
	x.Helper()
	rows, err := x.db.Query("SELECT lock_name, locked_by FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND layout > 0 AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	owners := map[string]string{}
	for rows.Next() {
		var name, owner string
		if err := rows.Scan(&name, &owner); err != nil {
			x.Fatal(err)
		}
		owners[name] = owner
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return owners
}

// awaitPresent waits until so many instances say that they are there.
func (x *trial) awaitPresent(instances int) {
	x.Helper()
	x.await(20*time.Second, "an instance does not say that it is there", func() bool {
		return x.number("SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'at-%' AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()") == int64(instances)
	})
}

// awaitShares waits until all types are held, and no instance has more than one lease more or less than its part.
func (x *trial) awaitShares(types, instances int) (took time.Duration) {
	x.Helper()
	began := time.Now()
	x.await(20*time.Second, "the types are not shared out", func() bool {
		held, all := x.shares(), 0
		for _, n := range held {
			all += n
		}
		return all == types && len(held) == instances && held[0] >= types/instances-1 && held[instances-1] <= (types+instances-1)/instances+1
	})
	return time.Since(began)
}

// awaitRest waits until no lease has changed hands for as long as an ask and two looks take, and returns who has them.
func (x *trial) awaitRest() (owners map[string]string) {
	x.Helper()
	const quiet = 2 * time.Second
	owners = x.owners()
	since := time.Now()
	x.await(20*time.Second, "the leases do not come to rest", func() bool {
		if now := x.owners(); !maps.Equal(now, owners) {
			owners, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	})
	return owners
}

func TestJobTypesAreSharedOutAmongProcessesThatCome(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		const bound = 2 * time.Second
		var worst time.Duration
		for n := range 4 {
			x.startWorker(workerSettings{LockSecond: calmLock, Types: numbered(40)})
			x.awaitPresent(n + 1)
		}
		worst = x.awaitShares(40, 4)
		four := x.shares()
		x.within(worst, bound, "forty types among four processes")
		x.stopWorkers()

		for n := range 4 {
			x.startWorker(workerSettings{LockSecond: calmLock, Types: numbered(200)})
			x.awaitPresent(n + 1)
		}
		x.awaitShares(200, 4)
		before := x.awaitRest()
		x.startWorker(workerSettings{LockSecond: calmLock, Types: numbered(200)})
		x.awaitPresent(5)
		took := x.awaitShares(200, 5)
		x.within(took, bound, "a fifth process has its part")
		moves := 0
		for name, owner := range x.awaitRest() {
			if owner != before[name] {
				moves++
			}
		}
		if moves > 42 {
			x.Errorf("%d leases have moved, want at most 42", moves)
		}
		five := x.shares()
		x.stopWorkers()
		x.tell("processes join, types are shared out", 2, outcome{}, max(worst, took), bound,
			"40 types, four processes: %v after %v; 200 types, a fifth process joins: %v after %v, %d leases have moved", four, worst.Round(time.Millisecond), five, took.Round(time.Millisecond), moves)
	})
}

// longestPause is the longest time between two starts of a type within a span of time.
func (x *trial) longestPause(jobType int32, from, to time.Time) (longest time.Duration) {
	last := from
	for _, s := range x.starts() {
		if s.jobType == jobType && s.at.After(from) && s.at.Before(to) {
			longest, last = max(longest, s.at.Sub(last)), s.at
		}
	}
	return max(longest, to.Sub(last))
}

// atOnce is how many runs of a type went on at a time, at least: each takes so long from its start, by its id.
func (x *trial) atOnce(jobType int32, takes func(job uint64) time.Duration) (most int) {
	var ends []time.Time
	for _, s := range x.starts() {
		if s.jobType != jobType {
			continue
		}
		ends = slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(s.at) })
		ends = append(ends, s.at.Add(takes(s.job)))
		most = max(most, len(ends))
	}
	return most
}

func TestATypeWithLongHandlersGoesOnElsewhereWhenItsProcessIsStopped(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		const long, capacity, bound = 15, 20, 300 * time.Millisecond
		lasts := time.Duration(repeat(9000, 3000)) * time.Millisecond
		var worst time.Duration
		times := repeat(3, 1)
		for range times {
			holder := x.startWorker(workerSettings{LockSecond: calmLock, Capacity: capacity})
			first := uint64(x.number("SELECT COALESCE(MAX(id), 0) FROM async_job_tab")) + 1
			x.addMany(1, long, work{MS: int(lasts / time.Millisecond)})
			last := uint64(x.number("SELECT MAX(id) FROM async_job_tab"))
			x.await(20*time.Second, "they do not start", func() bool { return len(holder.started()) >= long })
			x.startWorker(workerSettings{LockSecond: calmLock, Capacity: capacity})
			x.awaitPresent(2)
			load := x.startLoad(100, work{MS: 5}, 0)
			x.awaitStart(time.Now(), 20*time.Second)
			stopped := time.Now()
			x.endCleanly(holder)
			over := time.Now()
			pause := x.longestPause(1, stopped, over)
			x.withinDuring(window{stopped, over}, pause, bound, "a start")
			worst = max(worst, pause)
			o := x.conclude(time.Minute, load)
			x.noDuplicates(o)
			takes := func(job uint64) time.Duration {
				if job >= first && job <= last {
					return lasts
				}
				return 0
			}
			if n := x.atOnce(1, takes); n > capacity {
				x.Errorf("%d ran at a time, in both processes; the capacity is %d", n, capacity)
			}
			x.stopWorkers()
		}
		o := x.check()
		x.tell("SIGTERM while long handlers run", times, o, worst, bound, "%d handlers of %v run on in the old process, within one capacity of %d", long, lasts, capacity)
	})
}

func TestABusyTypePausesForAMomentWhenItIsHandedOver(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		const median, bound = 120 * time.Millisecond, 300 * time.Millisecond
		times := repeat(100, 5)
		load := x.startLoad(1000, work{MS: 2}, 0)
		holder := x.startWorker(workerSettings{LockSecond: calmLock})
		x.awaitHolder(time.Time{})
		var pauses []time.Duration
		for range times {
			next := x.startWorker(workerSettings{LockSecond: calmLock})
			x.awaitPresent(2)
			x.awaitStart(time.Now(), 20*time.Second)
			began := time.Now()
			x.endCleanly(holder)
			x.awaitStart(time.Now(), 20*time.Second)
			over := time.Now()
			pause := x.longestPause(1, began, over)
			x.withinDuring(window{began, over}, pause, bound, "at worst, a start")
			pauses = append(pauses, pause)
			holder = next
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		slices.Sort(pauses)
		p50, worst := pauses[len(pauses)/2], pauses[len(pauses)-1]
		x.within(p50, median, "in the middle, a start") // which one standstill does not move
		x.tell("a busy type is handed over", times, o, worst, bound, "in the middle %v, bound %v", p50.Round(time.Millisecond), median)
	})
}

func TestADeployOfSixProcessesHoldsNoTypeUp(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		const instances, bound = 6, 500 * time.Millisecond
		types := numbered(20)
		short, long := x.startLoadOf(types, 290, work{MS: 5}, 0), x.startLoadOf(types, 10, work{MS: 8000}, 0)
		var old []*worker
		for n := range instances {
			old = append(old, x.startWorker(workerSettings{LockSecond: calmLock, Types: types}))
			x.awaitPresent(n + 1)
		}
		x.awaitShares(len(types), instances)
		x.awaitRest()
		began := time.Now()
		ended := make(chan error, instances)
		pace := time.Duration(repeat(1500, 800)) * time.Millisecond // a platform waits until the new process is ready, too
		for _, w := range old {
			x.startWorker(workerSettings{LockSecond: calmLock, Types: types})
			time.Sleep(pace)
			go func() { ended <- w.end(syscall.SIGTERM) }()
			time.Sleep(pace)
		}
		for range old {
			if err := <-ended; err != nil {
				x.Errorf("a process did not end cleanly: %v", err)
			}
		}
		over := time.Now()
		o := x.conclude(time.Minute, short, long)
		x.stopWorkers()
		x.noDuplicates(o)
		p99, longest := x.waits(window{began, over}, short, long)
		x.withinDuring(window{began, time.Now()}, longest, bound, "a start")
		x.tell("deploy of six processes", instances, o, longest, bound, "20 types, 300 jobs/s, handlers of 5 ms to 8 s; commit to start p99 %v", p99.Round(time.Millisecond))
	})
}

// waits is how long the jobs that were committed in a window waited for their start: 99 of 100, and at most.
func (x *trial) waits(in window, loads ...*load) (p99, longest time.Duration) {
	x.Helper()
	started := map[uint64]time.Time{}
	for _, s := range x.starts() {
		if _, again := started[s.job]; !again {
			started[s.job] = s.at
		}
	}
	var waits []time.Duration
	for _, l := range loads {
		for id, at := range l.committedAt {
			if in.has(at) {
				waits = append(waits, started[id].Sub(at))
			}
		}
	}
	if len(waits) == 0 {
		x.Fatal("no job was committed in that time")
	}
	slices.Sort(waits)
	return waits[len(waits)*99/100], waits[len(waits)-1]
}

// It takes ten minutes and little of the machine, so it runs beside other tests.
func TestNothingMovesWhileNobodyComesOrGoes(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		lasts := time.Duration(repeat(600, 8)) * time.Second
		types := numbered(20)
		for n := range 4 {
			x.startWorker(workerSettings{LockSecond: calmLock, Types: types})
			x.awaitPresent(n + 1)
		}
		x.awaitShares(len(types), 4)
		before := x.awaitRest()
		moves := func() int64 { return x.takings(types...) } // one that came back counts, too
		movesBefore := moves()
		for began := time.Now(); time.Since(began) < lasts; {
			load := x.startLoadOf(types, 200, work{MS: 20}, 0.05)
			time.Sleep(min(lasts/4, 30*time.Second))
			load.stop()
			time.Sleep(min(lasts/8, 10*time.Second))
		}
		moved := moves() - movesBefore
		if after := x.owners(); moved > 0 || !maps.Equal(before, after) {
			x.Errorf("%d leases have moved:\n%v\n%v", moved, before, after)
		}
		o := x.conclude(time.Minute)
		x.stopWorkers()
		x.noDuplicates(o)
		x.tell("a load that comes and goes", 1, o, 0, 0, "%v, four processes, 20 types: %d leases have moved", lasts, moved)
	})
}
