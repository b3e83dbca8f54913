package faults

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// olderVariable names the test binary of an older version of this package, which make upgrade builds.
const olderVariable = "PQ_FAULTS_OLDER"

// eachOlder is for tests that need an older version.
func eachOlder(t *testing.T, test func(x *trial, older string)) {
	t.Helper()
	older := os.Getenv(olderVariable)
	if older == "" {
		t.Skip("left out: it needs an older version; make upgrade FROM=<commit> builds one and runs it")
	}
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) { test(emptyTrial(t, d.Name, d.DSN), older) })
}

// madeBy has an instance with these settings make the tables.
func (x *trial) madeBy(settings workerSettings) {
	x.Helper()
	maker := x.startWorker(settings)
	x.await(time.Minute, "the older version does not make the tables", func() bool {
		var named int
		return x.db.QueryRow("SELECT COUNT(*) FROM async_job_type_tab").Scan(&named) == nil
	})
	if err := maker.end(syscall.SIGTERM); err != nil {
		x.Fatal(err)
	}
	x.startAudit()
}

// Instances of an older version make the tables. Under load, instances of this version replace them one by one, and the first of these
// upgrades the tables. Then the older version replaces them in the same way, as if the deploy was taken back.
func TestAnOlderVersionIsReplacedUnderLoadAndTakenBack(t *testing.T) {
	t.Parallel()
	eachOlder(t, func(x *trial, older string) {
		const types, perSecond, bound = 8, 300, time.Second
		settings := workerSettings{Types: numbered(types), LockSecond: calmLock, binary: older}
		x.madeBy(settings)
		generation := []*worker{x.startWorker(settings), x.startWorker(settings), x.startWorker(settings)}
		x.awaitShares(types, len(generation))
		load := x.startLoadOf(settings.Types, perSecond, work{MS: 20}, 0)
		worst := time.Duration(0)
		for _, settings.binary = range []string{"", older} {
			for i, leaving := range generation {
				generation[i] = x.startWorker(settings)
				x.awaitShares(types, len(generation)+1)
				x.awaitStart(time.Now().Add(time.Second), 20*time.Second) // work goes on for a while
				since := time.Now()
				x.endCleanly(leaving)
				gap := x.awaitStart(since, 20*time.Second, leaving)
				x.withinDuring(window{since, time.Now()}, gap, bound, "the next start elsewhere")
				worst = max(worst, gap)
			}
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		x.tell("an older version is replaced, and taken back", 6, o, worst, bound, "three instances, %d types, %d jobs/s", types, perSecond)
	})
}

// After each replacement, one instance is killed, of this version or the older one, and started anew. Only instances of this version say that they
// live, bury others and are buried: when an older one dies, others start its jobs when its leases have ended.
func TestAnOlderVersionIsReplacedAndTakenBackWhileInstancesAreKilled(t *testing.T) {
	t.Parallel()
	eachOlder(t, func(x *trial, older string) {
		settings := workerSettings{Types: busyTypes, LockSecond: longLock, binary: older}
		x.madeBy(settings)
		versions := []string{older, older, older}
		var generation []*worker
		for range versions {
			generation = append(generation, x.startWorker(settings))
		}
		x.awaitShares(len(busyTypes), len(generation))
		loads := []*load{x.startLoadOf(busyTypes, 300, work{MS: 20}, 0), x.startLoadOf(busyTypes, 30, work{MS: 3000}, 0)}

		var ofThis, ofOlder []time.Duration
		for pass, version := range []string{"", older} {
			dies := [][]int{{0, 2, 1}, {1, 1, 0}}[pass] // the only one of this version, an older one, one of three of this; then the same the other way round
			for i, leaving := range generation {
				settings.binary, versions[i] = version, version
				generation[i] = x.startWorker(settings)
				x.awaitShares(len(busyTypes), len(generation)+1)
				x.endCleanly(leaving)
				x.awaitShares(len(busyTypes), len(generation))

				victim := generation[dies[i]]
				held := x.heldBy(victim, busyTypes)
				victim.end(syscall.SIGKILL)
				killed := time.Now()
				settings.binary = versions[dies[i]]
				generation[dies[i]] = x.startWorker(settings)
				gaps, others := x.awaitElsewhere(held, killed, victim), &ofThis
				if settings.binary == older {
					others = &ofOlder
				}
				*others = append(*others, gaps...)
				x.awaitShares(len(busyTypes), len(generation))
			}
		}
		_, quick := x.usualAndWorst(ofThis, buriedAgainWithin, buriedAgainWithin)
		_, slow := x.usualAndWorst(ofOlder, (longLock+1)*time.Second, (longLock+1)*time.Second)
		o := x.conclude(2*time.Minute, loads...)
		x.stopWorkers()
		x.noneFailed()
		x.tell(fmt.Sprintf("an older version is replaced, and taken back, under kills, leases of %d s", longLock), 6, o, slow, (longLock+1)*time.Second,
			"three instances, ten types; the next start after one of this version was killed within %v, and of the older one within %v", quick.Round(time.Millisecond), slow.Round(time.Millisecond))
	})
}
