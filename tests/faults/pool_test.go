package faults

import (
	"fmt"
	"testing"
	"time"
)

func TestHandlersThatUseUpThePoolCannotStarveTheLease(t *testing.T) {
	t.Parallel()
	for limit := 1; limit <= 3; limit++ {
		t.Run(fmt.Sprintf("MaxOpenConns %d", limit), func(t *testing.T) {
			t.Parallel()
			eachServerAtOnce(t, func(x *trial) { x.useUpPool(limit) })
		})
	}
}

// useUpPool lets twenty handlers each of two instances want the few connections of their process's pool. Some hold all of
// them for twice as long as a lease lasts. Each instance has one of two job types, and would take what the other does not keep.
func (x *trial) useUpPool(limit int) {
	x.Helper()
	types := numbered(2)
	for range 2 {
		x.startWorker(workerSettings{LockSecond: renewedLock, Types: types, Capacity: 20, MaxOpenConns: limit})
	}
	x.awaitShares(len(types), 2)
	taken := x.takings(types...)

	began := time.Now()
	for _, jobType := range types {
		x.addMany(jobType, limit*repeat(3, 1), work{Do: "longpool"})
		x.addMany(jobType, limit*repeat(300, 40), work{Do: "pool"})
	}
	o := x.conclude(5 * time.Minute)
	took := time.Since(began)
	if again := x.takings(types...) - taken; again > 0 {
		x.Errorf("leases were taken %d times more, want none", again)
	}
	x.stopWorkers()
	x.noDuplicates(o)
	if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1"); n > 0 {
		x.Errorf("%d jobs did not succeed: %s", n, x.describe("job_status <> 1"))
	}
	x.tell(fmt.Sprintf("handlers use up a pool of %d", limit), 1, o, 0, 0, "all done in %v", took.Round(time.Second))
}

// keptTheirTerms holds that the leases of the types were taken once and never lost. It is for workers that run: of two that
// stop at the same time, one may take what the other has given back.
func (x *trial) keptTheirTerms(types ...int32) {
	x.Helper()
	for _, jobType := range types {
		if n := x.takings(jobType); n != 1 {
			x.Errorf("lease %s was taken %d times, want once", leaseName(jobType), n)
		}
	}
}

// takings is how often the leases of the types were taken.
func (x *trial) takings(types ...int32) (n int64) {
	x.Helper()
	for _, jobType := range types {
		n += x.number("SELECT COUNT(*) FROM audit_lease WHERE name = ?", leaseName(jobType))
	}
	return n
}
