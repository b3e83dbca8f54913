package faults

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A node that cannot keep up stops all nodes (flow control), and a transaction that changes too many rows is refused. To delete old
// jobs causes neither. The limit of rows is what a page of the pruner may have, of jobs or of their attempts.
func TestOldJobsAreDeletedOnGaleraNodesWithoutAStop(t *testing.T) {
	skipClusterInShort(t)
	const (
		old, perSecond, rowsMost = 100_000, 300, 1000
		quiet                    = 20 * time.Second
	)
	c := newGalera(t)
	x := c.trial()
	x.auditNoJobs()
	left := x.addOld(old)
	for i := range c.nodes {
		dbtest.Open(x.T, "mysql", c.only("root", i)).Exec(fmt.Sprintf("SET GLOBAL wsrep_max_ws_rows = %d", rowsMost))
	}
	load := x.startLoadOn(c.ways(), math.MaxInt, perSecond, work{})
	settings := workerSettings{Capacity: 50}
	c.startWorkers(x, settings, c.only)
	without := c.stops(quiet)
	x.stopWorkers()

	settings.Retention = keptFor
	c.startWorkers(x, settings, c.only)
	began := time.Now()
	with := c.stops(quiet)
	x.await(10*time.Minute, "old jobs are left", func() bool { return left() == 0 })
	took := time.Since(began)

	o := x.conclude(time.Minute, load)
	x.stopWorkers()
	x.noneFailed()
	c.sameEverywhere(x)
	if n := x.number("SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'retry' AND instance = 'test'"); n > 0 {
		x.Errorf("%d attempts of deleted jobs are left", n)
	}
	if with.asked > without.asked {
		x.Errorf("nodes asked %d times that the others wait, and %d times while nothing was deleted", with.asked, without.asked)
	}
	x.tell("old jobs are deleted, instances on three nodes", 1, o, 0, 0,
		"%d old jobs in %v, at most %d rows in a transaction; %d jobs/s; in %v, nodes asked %d times that the others wait, and all waited for %v; without deleting %d times and %v",
		old, took.Round(time.Second), rowsMost, perSecond, quiet, with.asked, with.waited, without.asked, without.waited)
}

// stopped is how often the nodes asked that all wait, and how long they waited.
type stopped struct {
	asked  int
	waited time.Duration
}

// stops is what flow control came to in a span of time.
func (c *cluster) stops(span time.Duration) stopped {
	c.Helper()
	before := c.stopsSoFar()
	time.Sleep(span)
	now := c.stopsSoFar()
	return stopped{now.asked - before.asked, (now.waited - before.waited).Round(time.Millisecond)}
}

func (c *cluster) stopsSoFar() (s stopped) {
	c.Helper()
	for _, node := range c.nodes {
		asked, err := strconv.Atoi(node.status("wsrep_flow_control_sent"))
		if err != nil {
			c.Fatal(err)
		}
		waited, err := strconv.Atoi(node.status("wsrep_flow_control_paused_ns"))
		if err != nil {
			c.Fatal(err)
		}
		s.asked += asked
		s.waited = max(s.waited, time.Duration(waited))
	}
	return s
}
