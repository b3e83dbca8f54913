package faults

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Rows bear a term, and no lease's name. While a type is divided anew again and again, holders are frozen and killed: no two of its leases may have
// one term, what the frozen write late is refused, and what the dead ran is run again, whatever handlers of other shards still run.
func TestNoTwoShardsEverHaveOneTermAndNoneWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const instances, bound = 4, lock + 2*time.Second // and it may be divided anew at the same time
		times := repeat(24, 2)
		dice := x.dice()
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		settings := workerSettings{Shards: 1, Capacity: 160, LostLimit: -1} // or what is lost twice runs alone, and all others wait
		for range instances {
			x.startWorker(settings)
		}
		x.awaitPresent(instances)
		load := x.startLoad(100, work{MS: 30}, 0)
		long := x.startLoad(5, work{MS: 5000, Deaf: true}, 0) // some run in most shards, whenever one dies
		x.awaitStart(time.Now().Add(time.Second), 20*time.Second)
		worst, kills, freezes := time.Duration(0), 0, 0
		for n := range times {
			shards := []int{8, 2, 16, 1, 5, 12, 3}[n%7]
			divide := func() {
				if err := jobs.SetShards(x.Context(), x.db, 1, shards); err != nil {
					x.Error(err)
				}
			}
			holding := slices.DeleteFunc(x.living(), func(w *worker) bool { return len(x.shardsOf(w)) == 0 })
			victim := holding[dice.IntN(len(holding))]
			switch n % 2 {
			case 0:
				divide()
				time.Sleep(time.Duration(dice.IntN(200)) * time.Millisecond) // amid
				killed := time.Now()
				victim.end(syscall.SIGKILL)
				kills++
				x.startWorker(settings)
				recovery := x.runAgain(victim, killed)
				x.withinDuring(window{killed, time.Now()}, recovery, bound, "what had died ran again")
				worst = max(worst, recovery)
			case 1:
				x.freeze(victim)
				freezes++
				divide()
				time.Sleep(2 * lock)
				victim.signal(syscall.SIGCONT)
			}
			x.await(30*time.Second, "the shards do not open", func() bool { return x.isDivided(1, shards) })
		}
		o := x.conclude(time.Minute, load, long)
		terms := x.uniqueTerms()
		late := x.lateWrites()
		if late > 0 {
			x.Errorf("%d late writes changed a row of a later term", late)
		}
		x.stopWorkers()
		x.tell("divided anew, SIGKILL and SIGSTOP of holders", times, o, worst, bound, "%d kills, %d freezes of %v; %d terms of shards, all different; %d late writes changed a row of a later term", kills, freezes, 2*lock, terms, late)
	})
}

// runAgain waits until the jobs that a worker ran when it was killed run again, and returns how long that took.
func (x *trial) runAgain(dead *worker, killed time.Time) (took time.Duration) {
	x.Helper()
	started := dead.started()
	var ids []uint64
	for _, s := range started[max(0, len(started)-500):] {
		ids = append(ids, s.job)
	}
	if len(ids) == 0 {
		return 0
	}
	waits := fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE id IN (%s) AND job_status IN (0, 3, 4)", list(ids))
	x.await(time.Minute, "what had died does not run again", func() bool {
		again := map[uint64]bool{}
		for _, s := range x.starts() {
			if s.worker != dead && s.at.After(killed) {
				again[s.job] = true
				if slices.Contains(ids, s.job) {
					took = max(took, s.at.Sub(killed))
				}
			}
		}
		ids = slices.DeleteFunc(ids, func(id uint64) bool { return again[id] })
		return len(ids) == 0 || x.number(fmt.Sprintf("%s AND id IN (%s)", waits, list(ids))) == 0
	})
	return took
}

// uniqueTerms holds that no two leases of a type ever had one term, and returns how many terms there were.
func (x *trial) uniqueTerms() (n int) {
	x.Helper()
	leases := map[typeTerm][]string{}
	for this := range x.tenures() {
		key := typeTerm{term: this.term}
		if _, err := fmt.Sscanf(this.lease, "job-%d", &key.jobType); err == nil {
			leases[key] = append(leases[key], this.lease)
		}
	}
	wrong := 0
	for key, names := range leases {
		if len(names) > 1 {
			if wrong++; wrong <= auditErrorsMax {
				x.Errorf("%v had the term %d", names, key.term)
			}
		}
	}
	return len(leases)
}
