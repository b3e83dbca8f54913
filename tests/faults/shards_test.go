package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// awaitShards waits until each of so many instances holds its part of so many shards of type 1.
func (x *trial) awaitShards(shards, instances int) {
	x.Helper()
	x.await(20*time.Second, "the shards are not shared out", func() bool {
		held := x.shares()
		all := 0
		for _, n := range held {
			all += n
		}
		return all == shards && len(held) == instances && held[instances-1]-held[0] <= 1
	})
}

// addEvenly adds jobs with ids that follow each other, so that each shard gets as many: 64 with each statement.
func (x *trial) addEvenly(statements int, w work) (jobs int) {
	x.Helper()
	now, id := time.Now().Unix(), 1+x.number("SELECT COALESCE(MAX(id), 0) FROM async_job_tab")
	for range statements {
		var rows []string
		for range 64 {
			rows = append(rows, fmt.Sprintf("(%d, '%s', 1, 0, 0, %d, %d)", id, w.params(), now, now))
			id++
		}
		x.execute("INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time) VALUES " + strings.Join(rows, ", "))
	}
	if x.dialect.idsGoOn != "" {
		x.execute(x.dialect.idsGoOn)
	}
	return 64 * statements
}

func TestThreeProcessesWorkOnOneType(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		const shards, capacity, takes = 6, 12, 50 * time.Millisecond
		settings := workerSettings{LockSecond: calmLock, Shards: shards, Capacity: capacity}
		var workers []*worker
		for range 3 {
			workers = append(workers, x.startWorker(settings))
		}
		x.awaitShards(shards, 3)
		const tries = 3 // a machine that stands still for half a second says nothing about the library
		var o outcome
		var parts []int
		of := 0.0
		for try := 0; try < tries && of < 0.95; try++ {
			before := x.startsBy(workers)
			began := time.Now()
			jobs := x.addEvenly(repeat(120, 24), work{MS: int(takes / time.Millisecond)})
			o = x.conclude(2 * time.Minute)
			x.noDuplicates(o)
			took := x.lastStart().Add(takes).Sub(began)
			took -= machine.most(window{began, time.Now()}, took)
			of = (time.Duration(jobs/capacity) * takes).Seconds() / took.Seconds()
			parts = nil
			for i, n := range x.startsBy(workers) {
				parts = append(parts, 100*(n-before[i])/jobs)
			}
			if slices.Min(parts) < 25 || slices.Max(parts) > 42 {
				x.Errorf("they run %v %% of the jobs, want 25 to 42 each", parts)
			}
		}
		if of < 0.95 {
			x.Errorf("they do %.2f of what their workers can, want 0.95", of)
		}
		if n := x.atOnce(1, func(uint64) time.Duration { return takes - time.Millisecond }); n > capacity {
			x.Errorf("%d ran at a time; the capacity is %d", n, capacity)
		}
		x.tell("one type, six shards, three processes", 1, o, 0, 0, "%v %% of the jobs each, never more than %d at a time, %.2f of what the workers can do", parts, capacity, of)

		const bound = 1500 * time.Millisecond
		load := x.startLoad(180, work{MS: 20}, 0)
		x.awaitStart(time.Now(), 20*time.Second)
		settings.LockSecond = lockSecond // it will be killed
		fourth := x.startWorker(settings)
		x.awaitPresent(4)
		joined := time.Now()
		x.await(20*time.Second, "the fourth process gets no job", func() bool { return len(fourth.started()) > 0 })
		first := max(0, fourth.started()[0].at.Sub(joined))
		x.within(first, bound, "a job of a process that joins")
		x.awaitRest()

		x.tellKillOfOne(fourth, load, first, bound)
		x.stopWorkers()
	})
}

// startsBy is how many jobs each worker has started.
func (x *trial) startsBy(workers []*worker) (counts []int) {
	for _, w := range workers {
		counts = append(counts, len(w.started()))
	}
	return counts
}

// tellKillOfOne kills one of several processes that work on type 1.
func (x *trial) tellKillOfOne(victim *worker, load *load, joined, joinBound time.Duration) {
	x.Helper()
	const bound = lock + time.Second
	held := x.shardsOf(victim)
	others := slices.DeleteFunc(x.living(), func(w *worker) bool { return w == victim })
	victim.end(syscall.SIGKILL)
	killed := time.Now()
	x.await(20*time.Second, "the shards of a killed process are not taken", func() bool {
		owners := x.owners()
		return !slices.ContainsFunc(held, func(name string) bool {
			return owners[name] == "" || strings.Contains(owners[name], fmt.Sprintf("/%d#", victim.Process.Pid))
		})
	})
	recovery := time.Since(killed)
	x.within(recovery, bound, "the shards of a killed process are taken")
	time.Sleep(time.Second) // the load goes on for as long
	var pause time.Duration
	for _, w := range others {
		last := killed
		for _, s := range w.started() {
			if s.at.After(killed) {
				pause, last = max(pause, s.at.Sub(last)), s.at
			}
		}
		pause = max(pause, time.Since(last))
	}
	x.withinDuring(window{killed, time.Now()}, pause, 500*time.Millisecond, "a start of another process")
	o := x.conclude(time.Minute, load)
	if o.duplicates > o.inFlight {
		x.Errorf("%d duplicates, %d in flight", o.duplicates, o.inFlight)
	}
	x.tell("SIGKILL of one of four, one type", 1, o, recovery, bound, "%d shards; no other process paused for longer than %v; the first job of the process that had joined came after %v, bound %v",
		len(held), pause.Round(time.Millisecond), joined.Round(time.Millisecond), joinBound)
}

// shardsOf are the names of the leases that a worker holds.
func (x *trial) shardsOf(w *worker) (names []string) {
	x.Helper()
	for name, owner := range x.owners() {
		if strings.Contains(owner, fmt.Sprintf("/%d#", w.Process.Pid)) {
			names = append(names, name)
		}
	}
	return names
}

// lastStart is when the last job was started.
func (x *trial) lastStart() time.Time {
	starts := x.starts()
	return starts[len(starts)-1].at
}

func TestHandlersThatComputeUseTwoProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: it needs two processors for itself; make faults runs it")
	}
	eachServerInTurn(t, func(x *trial) {
		const statements, want = 20, 1.8
		takes := func(shards int) time.Duration {
			x.execute("DELETE FROM async_job_type_tab")
			x.execute("DELETE FROM shedlock_tab")
			for range 2 {
				x.startWorker(workerSettings{Shards: shards, Capacity: 4, OneCore: true})
			}
			x.awaitPresent(2)
			x.awaitShards(shards, shards)
			began := time.Now()
			x.addEvenly(statements, work{Do: "compute"})
			x.awaitDone(2 * time.Minute)
			took := x.lastStart().Sub(began)
			x.stopWorkers()
			return took
		}
		best := 0.0
		var one, two time.Duration
		for range 3 {
			o, w := takes(1), takes(2)
			if factor := o.Seconds() / w.Seconds(); factor > best {
				best, one, two = factor, o, w
			}
		}
		if best < want {
			x.Errorf("two shards are %.2f times as fast as one, want %.1f", best, want)
		}
		x.tell("handlers that compute, two processes", 1, outcome{jobs: 64 * statements}, 0, 0, "one shard %v, two shards %v: %.2f times as fast", one.Round(time.Millisecond), two.Round(time.Millisecond), best)
	})
}

func TestATypeInOrderIsDividedAnew(t *testing.T) {
	besideOthersInShort(t)
	eachServerInTurn(t, func(x *trial) {
		const keys, bound = 50, time.Second
		perKey := repeat(200, 60)
		settings := workerSettings{LockSecond: calmLock, Shards: 1, Capacity: 20, Ordered: []int32{1}}
		for range 3 {
			x.startWorker(settings)
		}
		x.awaitHeld()
		x.addInOrder(1, keys, perKey, work{MS: 100})
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		var worst time.Duration
		for _, shards := range []int{4, 2, 3} {
			x.awaitStart(time.Now(), 20*time.Second)
			began := time.Now()
			if err := jobs.SetShards(x.Context(), x.db, 1, shards); err != nil {
				x.Fatal(err)
			}
			x.await(20*time.Second, "the shards do not open", func() bool { return x.isDivided(1, shards) })
			opened := time.Now()
			x.awaitStart(opened, 20*time.Second)
			over := time.Now()
			pause := x.longestPause(1, began, over)
			x.withinDuring(window{began, over}, pause, bound, "a start")
			worst = max(worst, pause)
			x.awaitRest()
		}
		o := x.conclude(3 * time.Minute)
		x.startedOnce(o)
		broken := x.outOfOrder(1, keys)
		x.stopWorkers()
		x.tell("divided anew: 1, 4, 2, 3 shards, in order", 3, o, worst, bound, "%d keys of %d jobs, one in twenty fails once; %d out of order", keys, perKey, broken)
	})
}

// isDivided reports whether each of a type's shards has a holder. While a type is divided anew, as many leases of the earlier layout
// may still be held as there will be of the next.
func (x *trial) isDivided(jobType int32, shards int) bool {
	x.Helper()
	return x.number("SELECT COUNT(*) FROM shedlock_tab WHERE (lock_name = ? OR lock_name LIKE ?) AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP() AND layout = (SELECT layout FROM async_job_type_tab WHERE job_type = ?)",
		leaseName(jobType), leaseName(jobType)+"/%", jobType) == int64(shards)
}

// startedOnce is noDuplicates where jobs fail, and are retried: a row that waits for its retry, is marked and then unmarked, looks to
// the audit like a run that was cut short.
func (x *trial) startedOnce(o outcome) {
	x.Helper()
	if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE lost <> 0 OR attempts <> 1 + retries"); n+int64(o.duplicates) > 0 {
		x.Errorf("%d duplicates; %d rows do not say one run, and one more for each retry", o.duplicates, n)
	}
}

// awaitHeld waits until somebody holds a lease.
func (x *trial) awaitHeld() {
	x.Helper()
	x.await(20*time.Second, "nobody takes the type", func() bool { return len(x.owners()) > 0 })
}

// addInOrder adds jobs of a type with keys; one in twenty fails at its first attempt.
func (x *trial) addInOrder(jobType int32, keys, perKey int, w work) {
	x.Helper()
	now := time.Now().Unix()
	for n := range perKey {
		var rows []string
		for key := range keys {
			w := w
			if (n*keys+key)%20 == 0 {
				w.Do = "once"
			}
			rows = append(rows, fmt.Sprintf("('%s', %d, 0, 0, %d, %d, 'key %d')", w.params(), jobType, now, now, key))
		}
		x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key) VALUES " + strings.Join(rows, ", "))
	}
}

// outOfOrder counts the starts of a type's jobs that come after the first start of a later job of the same key. It wants jobs of some keys at
// least.
func (x *trial) outOfOrder(jobType int32, least int) (n int) {
	x.Helper()
	keyOf := x.keys()
	last := map[string]uint64{}
	for _, s := range x.starts() {
		if s.jobType != jobType {
			continue
		}
		if key := keyOf[s.job]; s.job < last[key] {
			n++
			x.Errorf("job %d of %s started after job %d", s.job, key, last[key])
		} else {
			last[key] = s.job
		}
	}
	if len(last) < least {
		x.Errorf("%d keys, want %d", len(last), least)
	}
	return n
}

func TestARateHoldsOverShardsAndFailovers(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		const rate, burst, shards, workers = 200, 20, 4, 8
		const least, bound = 0.95 * rate, rate + burst + workers // of which each may note a start late
		settings := workerSettings{LockSecond: calmLock, Shards: shards, Capacity: workers, Rate: rate, RateBurst: burst}
		for range 3 {
			x.startWorker(settings)
		}
		x.awaitShards(shards, 3)
		lasts := time.Duration(repeat(40, 12)) * time.Second
		x.addMany(1, int(lasts.Seconds()+float64(repeat(10, 3)))*rate, work{}) // some for the time before they are counted
		x.awaitStart(time.Now(), 20*time.Second)
		began := time.Now()
		for n := range 2 {
			time.Sleep(lasts / 3)
			x.living()[n].end(syscall.SIGTERM)
			x.startWorker(settings)
		}
		time.Sleep(time.Until(began.Add(lasts)))
		over := time.Now()
		most, all := 0, 0
		starts := x.starts()
		for i, from := 0, 0; i < len(starts); i++ {
			for starts[i].at.Sub(starts[from].at) >= time.Second {
				from++
			}
			most = max(most, i-from+1)
			if starts[i].at.After(began) && starts[i].at.Before(over) {
				all++
			}
		}
		stood := machine.most(window{began, over}, lasts)
		mean := float64(all) / (over.Sub(began) - stood).Seconds()
		if most > bound {
			x.Errorf("%d starts in a second, want at most %d", most, bound)
		}
		if mean < least {
			x.late("%.1f starts in a second on average, want at least %.0f; the machine stood still for %v, which do not count", mean, least, stood)
		}
		o := x.conclude(3 * time.Minute)
		x.stopWorkers()
		x.noDuplicates(o)
		x.tell("a rate over four shards, two failovers", 2, o, 0, 0, "at most %d starts in a second, bound %d; %.1f on average", most, bound, mean)
	})
}
