package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Somebody asks for one hand-over after the other, while all types are busy.
func TestHandOversInAFleetLoseNothing(t *testing.T) {
	besideOthersInShort(t)
	eachServerInTurn(t, func(x *trial) {
		instances, moves := repeat(20, 6), int64(repeat(10_000, 150))
		types := numbered(2 * instances)
		for n := range instances {
			x.startWorker(workerSettings{LockSecond: calmLock, Types: types, Quiet: true})
			x.awaitPresent(n + 1)
		}
		x.awaitRest()
		short, long := x.startLoadOf(types, 150, work{MS: 5}, 0.02), x.startLoadOf(types, 20, work{MS: 2000}, 0)
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		before, began := x.takings(types...), time.Now()
		done := func() int64 { return x.takings(types...) - before }
		for done() < moves {
			if time.Since(began) > 20*time.Minute {
				x.Fatalf("%d hand-overs in %v", done(), time.Since(began))
			}
			for range 10 {
				lease := leaseName(types[rand.IntN(len(types))])
				jobs.HandOver(x.Context(), x.db, lease) // an error, if it changes hands just then
				time.Sleep(10 * time.Millisecond)       // as fast as somebody could
			}
		}
		took := time.Since(began)
		o := x.conclude(2*time.Minute, short, long)
		n := done()
		x.stopWorkers()
		x.noDuplicates(o)
		x.tell("hand-overs in a busy fleet", int(n), o, 0, 0, "%d instances, %d types, %.0f hand-overs a second", instances, len(types), float64(n)/took.Seconds())
	})
}
