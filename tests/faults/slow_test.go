package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A slow database answers no statement, and no packet of a login, sooner than this. A client may need two answers for a statement: one to its
// preparation.
const (
	slowAnswers = 1500 * time.Millisecond
	slowStart   = 50 * time.Second // how long a type stands still, at most: while connections are opened, and instances get used to it
)

// Every answer takes long, to all processes. What runs must run on, nothing may run twice, and jobs of each type go on to start.
func TestADatabaseThatAnswersSlowlyCostsNoRunAndJobsStart(t *testing.T) {
	t.Parallel()
	eachServerInTurn(t, func(x *trial) {
		const lasts = time.Minute
		quick, long := x.startLoadOf(busyTypes, 20, work{MS: 5}, 0), x.startLoadOf(busyTypes, 5, work{MS: 5000}, 0)
		p := x.proxy()
		settings := workerSettings{Types: busyTypes, LockSecond: longLock, DSN: x.through(p.address())}
		x.startWorker(settings)
		x.startWorker(settings)
		x.awaitEvenShares(busyTypes)
		x.awaitRest()
		taken := x.takings(busyTypes...)
		began := time.Now()
		p.delay(slowAnswers / 2) // a statement, and its answer
		time.Sleep(lasts)
		p.delay(0)
		over := time.Now()
		longest, starts := time.Duration(0), map[int32]int{}
		for _, s := range x.starts() {
			if s.at.After(began) && s.at.Before(over) {
				starts[s.jobType]++
			}
		}
		var each []int
		for _, jobType := range busyTypes {
			each = append(each, starts[jobType])
			longest = max(longest, x.longestPause(jobType, began, over))
		}
		x.withinDuring(window{began, over}, longest, slowStart, "a type's next start")
		buried := x.number("SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%' AND running < 0")
		moved := x.takings(busyTypes...) - taken
		o := x.conclude(2*time.Minute, quick, long)
		x.stopWorkers()
		x.noDuplicates(o)
		x.noneFailed()
		x.noneRetried()
		if buried > 0 {
			x.Errorf("%d processes were buried that are well", buried)
		}
		if moved > 0 || slices.Max(each) == 0 {
			x.Errorf("%d leases moved; jobs of each type that started: %v", moved, each)
		}
		x.tell(fmt.Sprintf("every answer takes %v for %v, leases of %d s, ten types", slowAnswers, lasts, longLock), 1, o, longest, slowStart,
			"%d to %d jobs of each type started meanwhile; %d leases moved; no handler was cut off", slices.Min(each), slices.Max(each), moved)
	})
}
