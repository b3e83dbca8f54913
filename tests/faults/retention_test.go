package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// oldJobs is how many old jobs there are: as many as the variable says, or a number that takes minutes.
func oldJobs(t *testing.T) (n int, asked bool) {
	text, asked := os.LookupEnv("PQ_FAULTS_OLD_JOBS")
	if !asked {
		return repeat(150_000, 10_000), false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		t.Fatalf("PQ_FAULTS_OLD_JOBS=%s is no number of jobs: give at least 10", text)
	}
	return n, true
}

// oldAge is how long ago old jobs came to their end, and keptFor how long jobs are kept. No job of the load gets as old as that.
const (
	oldAge  = 48 * time.Hour
	keptFor = 24 * time.Hour
)

// addOld adds jobs that came to their end long ago, a tenth of which has failed twice. It returns a function that says how many ids lie
// between the first that is left and the last; servers leave some ids out.
func (x *trial) addOld(n int) (left func() int64) {
	x.Helper()
	const columns = "params, job_type, job_status, start_time, create_time, update_time, attempts, retries"
	const perStatement = 50_000
	at := time.Now().Add(-oldAge).Unix()
	done := fmt.Sprintf("('%s', 1, 1, 0, %d, %d, 1, 0), ", work{}.params(), at, at)
	failed := fmt.Sprintf("('%s', 1, 2, 0, %d, %d, 2, 1)", work{}.params(), at, at)
	x.execute(fmt.Sprintf("INSERT INTO async_job_tab (%s) VALUES ", columns) + strings.Repeat(done, 9) + failed)
	for there := 10; there < n; {
		more := min(there, n-there, perStatement)
		x.execute(fmt.Sprintf("INSERT INTO async_job_tab (%s) SELECT %s FROM async_job_tab ORDER BY id LIMIT %d", columns, columns, more))
		there += more
	}
	last := x.number("SELECT MAX(id) FROM async_job_tab")
	for first := int64(0); first <= last; first += perStatement {
		x.execute("INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'retry', 'no luck', 1, 2, 'test' FROM async_job_tab WHERE job_status = 2 AND id BETWEEN ? AND ?",
			first, first+perStatement-1)
	}
	return func() int64 {
		time.Sleep(500 * time.Millisecond) // to look is work for the server, which goes over the rows that are deleted and not yet purged
		return max(0, last-x.number("SELECT COALESCE(MIN(id), 0) FROM async_job_tab")+1)
	}
}

// deleter is the worker that deletes old jobs, or nil.
func (x *trial) deleter() *worker {
	x.Helper()
	var owner string
	if err := x.db.QueryRow("SELECT COALESCE(MAX(locked_by), '') FROM shedlock_tab WHERE lock_name = 'retain-1'").Scan(&owner); err != nil {
		x.Fatal(err)
	}
	living := x.living()
	if i := slices.IndexFunc(living, func(w *worker) bool { return strings.Contains(owner, fmt.Sprintf("/%d#", w.Process.Pid)) }); i >= 0 {
		return living[i]
	}
	return nil
}

// calm is a window in which nothing is deleted.
func (x *trial) calm(lasts time.Duration) window {
	from := time.Now()
	time.Sleep(lasts)
	return window{from, time.Now()}
}

// adds is how long 99 of 100 transactions took that were committed in a window.
func (l *load) adds(in window) time.Duration {
	var took []time.Duration
	for id, at := range l.committedAt {
		if in.has(at) {
			took = append(took, at.Sub(l.begunAt[id]))
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

func TestOldJobsAreDeletedWhileOthersRunAndAProcessIsKilled(t *testing.T) {
	besideOthersInShort(t)
	old, asked := oldJobs(t)
	each := eachServerInTurn // for its figures
	quiet := time.Duration(repeat(30, 5)) * time.Second
	if asked {
		quiet = 2 * time.Minute
	}
	if testing.Short() || asked {
		each = eachServerAtOnce
	}
	var filling atomic.Int32 // how many servers get their old jobs
	each(t, func(x *trial) {
		perSecond := repeat(1000, 200)
		x.auditNoJobs()
		left := func() func() int64 {
			filling.Add(1)
			defer filling.Add(-1)
			return x.addOld(old)
		}()
		x.await(time.Hour, "another server has not got its old jobs", func() bool { return filling.Load() == 0 })
		settings := workerSettings{Capacity: 50}
		for range 2 {
			x.startWorker(settings)
		}
		x.awaitHeld()
		load := x.startLoad(perSecond, work{}, 0)
		time.Sleep(time.Second)
		before := x.calm(quiet)
		x.stopWorkers()

		settings.Retention = keptFor
		for range 2 {
			x.startWorker(settings)
		}
		x.awaitHeld()
		deleting := time.Now()
		all, some := left(), int64(min(old, 150_000)/10)
		x.await(2*time.Minute, "no old job is deleted", func() bool { return left() < all-some })
		victim := x.deleter()
		if victim == nil {
			x.Fatal("nobody has the lease under which old jobs are deleted")
		}
		victim.end(syscall.SIGKILL)
		killed, then := time.Now(), left()
		x.startWorker(settings)
		x.await(3*time.Minute, "nobody goes on deleting", func() bool { return left() < max(1, then-some) })
		resumed := time.Now()
		goesOn := resumed.Sub(killed)
		told := resumed
		x.await(3*time.Hour, "old jobs are left", func() bool {
			n := left()
			if time.Since(told) > time.Minute {
				told = time.Now()
				fmt.Fprintf(os.Stderr, "%s: %d of %d ids of old jobs are left\n", x.name, n, all)
			}
			return n == 0
		})
		deletion := window{resumed, time.Now()} // while the lease of the killed process runs out, no job starts
		after := x.calm(quiet)
		load.stop()
		x.awaitDone(time.Minute)
		if n := x.number("SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'retry' AND instance = 'test'"); n > 0 {
			x.Errorf("%d attempts of deleted jobs are left", n)
		}
		o := x.check(load)
		var starts, adds [3]time.Duration
		for i, in := range []window{before, deletion, after} {
			starts[i], _ = x.waits(in, load)
			adds[i] = load.adds(in)
		}
		if !testing.Short() {
			const noise = time.Millisecond
			x.within(starts[1], max(starts[0], starts[2])*12/10+noise, "a start, while old jobs are deleted")
			x.within(adds[1], max(adds[0], adds[2])*12/10+noise, "an add, while old jobs are deleted")
		}
		ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
		x.tell("old jobs are deleted, SIGKILL in the middle", 1, o, 0, 0, "%d old jobs in %v; another process went on within %v; %d jobs/s; p99 before, while and after: commit to start %v, %v, %v; an add %v, %v, %v",
			old, deletion.to.Sub(deleting).Round(time.Second), goesOn.Round(time.Second), perSecond, ms(starts[0]), ms(starts[1]), ms(starts[2]), ms(adds[0]), ms(adds[1]), ms(adds[2]))
	})
}
