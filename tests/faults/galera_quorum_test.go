package faults

import (
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// errNotReady is how a Galera node answers that is not, or not yet, among the majority of its cluster.
const errNotReady = 1047

func TestAGaleraNodeWithoutAMajorityFailsNoJob(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	const last, alone, bound = clusterSize - 1, 15 * time.Second, lock + time.Second
	c := newGalera(t)
	x := c.trial()
	pulse := c.startPulse(x)
	load := x.startLoadOn([]string{c.only("root", last)}, math.MaxInt, 200, work{MS: 5})
	workers := c.startWorkers(x, workerSettings{}, c.only)
	x.awaitHolder(time.Now())

	for _, node := range c.nodes[:last] {
		node.kill()
	}
	c.awaitNotReady(last)
	time.Sleep(alone)
	if starts := x.starts(); starts[len(starts)-1].at.After(time.Now().Add(-alone + lock)) {
		x.Error("a job started while no node was ready")
	}
	c.nodes[last].execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
	c.nodes[last].awaitSynced()
	gap := x.awaitStart(time.Now(), 20*time.Second)
	x.within(gap, bound, "the next start")

	for _, node := range c.nodes[:last] {
		c.rejoin(node)
	}
	since := time.Now()
	if err := workers[last].end(syscall.SIGTERM); err != nil {
		x.Error(err)
	}
	x.within(x.awaitStart(since, 20*time.Second, workers[last]), bound, "the next start by a worker whose node had been down")
	load.heldUp = pulse.longestPause(0, 1)
	o := x.conclude(time.Minute, load)
	x.stopWorkers()
	x.noneFailed()
	c.sameEverywhere(x)
	x.tell("two of three nodes killed, the last one made a cluster of its own", 1, o, gap, bound,
		"%v of error 1047; %d business transactions failed", alone, load.failed)
}

func TestAHolderOnAGaleraNodeThatIsCutOffIsReplaced(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	const first = 0
	c := newGalera(t)
	x := c.trial()
	pulse := c.startPulse(x)
	load := x.startLoadOn([]string{c.only("root", 1), c.only("root", 2)}, math.MaxInt, 200, work{MS: 5})
	workers := c.startWorkers(x, workerSettings{}, c.only)
	x.awaitHolder(time.Now())

	since := time.Now()
	c.nodes[first].execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
	gap := x.awaitStart(since, 2*clusterPauses, workers[first])
	pause := pulse.longestPause(first)
	bound := pause + lock + time.Second
	x.within(gap, bound, "the next start")
	x.within(pause, clusterPauses, "the cluster's next commit")
	c.awaitNotReady(first)
	time.Sleep(lock) // cut off for as long as its leases had lasted
	c.nodes[first].execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
	c.nodes[first].awaitSynced()
	since = time.Now()
	for _, w := range workers[1:] {
		if err := w.end(syscall.SIGTERM); err != nil {
			x.Error(err)
		}
	}
	x.within(x.awaitStart(since, 20*time.Second, workers[1:]...), lock+time.Second, "the next start by the worker whose node had been cut off")
	load.heldUp = pulse.longestPause(first)
	o := x.conclude(time.Minute, load)
	x.stopWorkers()
	x.noneFailed()
	c.sameEverywhere(x)
	x.tell("the holder's node is cut off from the other two", 1, o, gap, bound, "")
}

// awaitNotReady waits until a node refuses statements.
func (c *cluster) awaitNotReady(node int) {
	c.Helper()
	db := dbtest.Open(c.T, "mysql", c.only("root", node))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := db.Exec("DELETE FROM async_job_tab WHERE id = 0")
		if refusal(err) == errNotReady {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s answers %v, want error %d", c.nodes[node].address(), err, errNotReady)
		}
	}
}
