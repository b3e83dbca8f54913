package faults

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// olderVariable names the test binary of an older version of this package, which make upgrade builds.
const olderVariable = "PQ_FAULTS_OLDER"

// Instances of an older version make the tables. Under load, instances of this version replace them one by one, and the first of these
// upgrades the tables. Then the older version replaces them in the same way, as if the deploy was taken back.
func TestAnOlderVersionIsReplacedUnderLoadAndTakenBack(t *testing.T) {
	t.Parallel()
	older := os.Getenv(olderVariable)
	if older == "" {
		t.Skip("left out: it needs an older version; make upgrade FROM=<commit> builds one and runs it")
	}
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		const types, perSecond, bound = 8, 300, time.Second
		x := emptyTrial(t, d.Name, d.DSN)
		settings := workerSettings{Types: numbered(types), LockSecond: calmLock, binary: older}
		maker := x.startWorker(settings)
		x.await(time.Minute, "the older version does not make the tables", func() bool {
			var named int
			return x.db.QueryRow("SELECT COUNT(*) FROM async_job_type_tab").Scan(&named) == nil
		})
		if err := maker.end(syscall.SIGTERM); err != nil {
			x.Fatal(err)
		}
		x.startAudit()

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
