package faults

import (
	"syscall"
	"testing"
	"time"
)

func TestAFrozenHolderOverwritesNothingAndMayWinAgain(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
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
			since = time.Now()
			frozen.signal(syscall.SIGSTOP)
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
			x.within(x.awaitStart(thawed, 20*time.Second, w), bound, "the one that was frozen won again, and started a job")
		}
		o := x.conclude(time.Minute, quick, deaf)
		late := x.number("SELECT COUNT(*) FROM audit_job a JOIN audit_job b ON a.job = b.job WHERE a.old_term > 0 AND a.old_term = a.new_term AND a.old_status <> a.new_status AND b.new_term > a.old_term AND b.seq < a.seq")
		x.stopWorkers()
		if o.duplicates == 0 {
			x.Error("no run was cut off: the freeze hit nothing")
		}
		x.tell("SIGSTOP for 2 L, then SIGCONT", times, o, worst, bound, "%d late writes changed a row of a later term", late)
	})
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
				w.signal(syscall.SIGSTOP)
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
