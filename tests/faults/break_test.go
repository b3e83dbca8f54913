package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// The next renewal is ten seconds away when the lease is broken, and jobs come all the time.
func TestAHolderStopsSoonAfterItsLeaseWasBroken(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const bound = time.Second // two looks
		times := repeat(10, 2)
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		for range 2 {
			x.startWorker(workerSettings{LockSecond: 30})
		}
		x.awaitPresent(2)
		load := x.startLoad(100, work{MS: 20}, 0)
		worst, after := time.Duration(0), 0
		since := time.Now()
		for range times {
			holder := x.awaitHolder(since)
			x.awaitStart(time.Now().Add(500*time.Millisecond), 20*time.Second)
			term := x.lastTerm()
			if err := jobs.Break(x.Context(), x.db, leaseName(1)); err != nil {
				x.Fatal(err)
			}
			broken := time.Now()
			x.seized = append(x.seized, broken) // until its look, it does not know
			x.await(20*time.Second, "nobody takes the lease", func() bool { return x.lastTerm() > term })
			x.awaitStart(broken.Add(4*time.Second), 20*time.Second)
			last := broken
			for _, s := range holder.started() {
				if s.term == term && s.at.After(broken) {
					last = s.at
					after++
				}
			}
			x.withinDuring(window{broken, time.Now()}, last.Sub(broken), bound, "the last start under a broken lease")
			worst = max(worst, last.Sub(broken))
			since = broken
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		if o.duplicates > o.inFlight {
			x.Errorf("%d duplicates, %d in flight", o.duplicates, o.inFlight)
		}
		x.tell("Break under load, LockSecond 30", times, o, worst, bound, "%d starts under broken leases", after)
	})
}

// Somebody breaks one lease in a transaction, and leaves that open for longer than a lease lasts.
func TestABreakInAnOpenTransactionCostsNoOtherLease(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const bound = lock // a few times what there is between two jobs of a type
		const types, open = 6, (renewedLock + 4) * time.Second
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		settings := workerSettings{LockSecond: renewedLock, Types: numbered(types)}
		for range 2 {
			x.startWorker(settings)
		}
		x.awaitPresent(2)
		others := settings.Types[1:]
		load := x.startLoadOf(others, 300, work{MS: 20}, 0)
		x.awaitStart(time.Now(), 20*time.Second)
		var worst time.Duration
		endings := []string{"COMMIT", "ROLLBACK"}[:repeat(2, 1)]
		for _, ending := range endings {
			owners := x.awaitRest()
			before := x.takings(others...)
			tx, err := x.db.BeginTx(x.Context(), nil)
			if err != nil {
				x.Fatal(err)
			}
			if err := jobs.Break(x.Context(), tx, leaseName(1)); err != nil {
				x.Fatal(err)
			}
			began := time.Now()
			time.Sleep(open)
			for _, jobType := range others {
				pause := x.longestPause(jobType, began, time.Now())
				x.withinDuring(window{began, time.Now()}, pause, bound, fmt.Sprintf("a job of type %d started", jobType))
				worst = max(worst, pause)
			}
			if ending == "COMMIT" {
				err = tx.Commit()
			} else {
				err = tx.Rollback()
			}
			if err != nil {
				x.Error(err)
			}
			if n := x.takings(others...) - before; n > 0 {
				x.Errorf("%d other leases were taken anew", n)
			}
			ended := time.Now()
			for name, owner := range x.owners() {
				if was := owners[name]; was != owner && name != leaseName(1) {
					x.Errorf("%s went from %s to %s", name, was, owner)
				}
			}
			x.addMany(1, 10, work{})
			x.await(20*time.Second, "the type whose lease was broken does not go on", func() bool { return x.hasStarted(1, ended) })
			x.within(time.Since(ended), lock, "the type whose lease was broken went on")
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		x.noneRetried()
		x.tell("Break in a transaction that stays open for longer than a lease", len(endings), o, worst, bound, "%d other types, of two processes, with 300 jobs/s: no lease was lost, no job ran twice", len(others))
	})
}
