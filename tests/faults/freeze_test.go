package faults

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAFrozenHolderOverwritesNothingAndMayWinAgain(t *testing.T) {
	t.Parallel()
	eachServerInShortToo(t, func(x *trial) {
		times, frozenFor, bound := repeat(20, 2), 2*lock, lock+time.Second
		quick := x.startLoad(300, work{MS: 5}, 0)
		deaf := x.startLoad(50, work{MS: 800, Deaf: true}, 0) // it ends well after the thaw, and its outcome is written too late
		for range 2 {
			x.startWorker(workerSettings{})
		}
		worst := time.Duration(0)
		var frozen *worker
		since := time.Now()
		for range times {
			frozen = x.awaitHolder(since)
			x.addMany(1, 3000, work{MS: 5}) // the freeze shall hit rows that are marked and wait for a worker
			x.awaitStart(time.Now().Add(50*time.Millisecond), 20*time.Second)
			since = time.Now()
			x.freeze(frozen)
			gap := x.awaitStart(since, 20*time.Second, frozen)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			time.Sleep(time.Until(since.Add(frozenFor)))
			frozen.signal(syscall.SIGCONT)
		}
		for _, w := range x.living() {
			if w == frozen {
				continue
			}
			thawed := time.Now()
			w.end(syscall.SIGTERM)
			gap := x.awaitStart(thawed, 20*time.Second, w)
			x.withinDuring(window{thawed, time.Now()}, gap, bound, "the one that was frozen won again, and started a job")
		}
		o := x.conclude(time.Minute, quick, deaf)
		said := fmt.Sprintf("%d late writes changed a row of a later term", x.lateWrites())
		if x.dialect.unaudited {
			said = "nothing recorded the writes"
		}
		x.stopWorkers()
		if o.duplicates == 0 {
			x.Error("no run was cut off: the freeze hit nothing")
		}
		x.tell("SIGSTOP for 2 L, then SIGCONT", times, o, worst, bound, "%s", said)
	})
}

// lateWrites counts the statuses that were written under a term after a later one had marked the row.
func (x *trial) lateWrites() (late int) {
	x.Helper()
	latest := map[uint64]int64{}
	for _, c := range x.changes() {
		if c.newStatus != c.oldStatus && c.newTerm == c.oldTerm && c.oldTerm < latest[c.job] {
			late++
		}
		latest[c.job] = max(latest[c.job], c.newTerm)
	}
	return late
}

func TestInstancesThatWereAllFrozenWakeToOneHolder(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		times, bound := repeat(3, 1), lock+time.Second
		types := []int32{1, 2, 3, 4, 5, 6}
		load := x.startLoad(200, work{MS: 5}, 0)
		for range 4 {
			x.startWorker(workerSettings{Types: types})
		}
		worst := time.Duration(0)
		since := time.Now()
		for range times {
			x.awaitHolder(since)
			for _, w := range x.living() {
				x.freeze(w)
			}
			for _, jobType := range types {
				x.addMany(jobType, 500, work{MS: 1})
			}
			time.Sleep(5 * lock)
			since = time.Now()
			for _, w := range x.living() {
				w.signal(syscall.SIGCONT)
			}
			gap := x.awaitStart(since, 20*time.Second)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			x.awaitDoneBut(1, 20*time.Second)
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.tell("all instances frozen 5 L, woken together", times, o, worst, bound, "%d types, 4 instances", len(types))
	})
}

func TestAHolderFrozenBetweenMarkAndSettle(t *testing.T) {
	t.Parallel()
	eachServerInShortToo(t, func(x *trial) {
		times, tooLong := repeat(5, 1), work{MS: 2000, Deaf: true}
		for range times {
			p := x.proxy()
			first := x.startOnly(p)
			x.await(20*time.Second, "the first worker does not hold the lease", func() bool { return x.holder(1) == first })
			second := x.startWorker(workerSettings{})
			release, held, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			p.intercept(func(c command) fate {
				f := fate{}
				if isSettle(c) {
					once.Do(func() {
						x.freeze(first)
						close(held)
						f.holdUntil = release
						f.afterReply = func() { close(answered) }
					})
				}
				return f
			})
			x.addMany(1, 1, tooLong)
			x.await(time.Minute, "the first worker settles nothing", func() bool { return isClosed(held) })
			// The successor has marked the row and runs the job when the old settle arrives.
			x.awaitStart(time.Now(), 20*time.Second, first)
			close(release)
			x.await(time.Minute, "the server has not answered what was held back", func() bool { return isClosed(answered) })
			// Nothing has come of it. What the successor settles meanwhile is its own.
			if n := x.number("SELECT COUNT(*) FROM audit_job WHERE new_status = 1 AND worker = ?", first.name); n > 0 {
				x.Errorf("the settle of the frozen holder changed %d rows that its successor had marked", n)
			}
			first.signal(syscall.SIGCONT)
			x.awaitDone(20 * time.Second)
			second.end(syscall.SIGTERM)
			x.await(20*time.Second, "the one that was frozen does not win again", func() bool { return x.holder(1) == first })
		}
		o := x.conclude(time.Minute)
		x.noneFailed()
		x.checkOutcomesAreTheirOwn(tooLong)
		x.stopWorkers()
		x.tell("SIGSTOP exactly between mark and settle", times, o, 0, 0, "")
	})
}

// checkOutcomesAreTheirOwn sees that no job succeeded before the run that its row names had taken its time: then another
// run's outcome would have been written. A row says in which second that was.
func (x *trial) checkOutcomesAreTheirOwn(w work) {
	x.Helper()
	ended := map[oneRun]time.Time{}
	for _, s := range x.starts() {
		ended[oneRun{s.job, s.term}] = s.at.Add(time.Duration(w.MS) * time.Millisecond)
	}
	rows, err := x.db.Query(dbtest.Rebind(x.db, "SELECT id, term, update_time FROM async_job_tab WHERE job_status = 1 AND params = ?"), w.params())
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r oneRun
		var second int64
		if err := rows.Scan(&r.job, &r.term, &second); err != nil {
			x.Fatal(err)
		}
		if written := time.Unix(second+1, 0); written.Before(ended[r]) {
			x.Errorf("job %d succeeded before %v, and its run under term %d took until %v", r.job, written, r.term, ended[r])
		}
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
}
