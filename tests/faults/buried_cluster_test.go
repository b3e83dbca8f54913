package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// killOneOfTwo starts two workers, and kills one of them so many times, for which another one comes. It returns how long it took until each type of
// the dead started a job elsewhere.
func (x *trial) killOneOfTwo(kills int, start func() *worker) (gaps []time.Duration) {
	x.Helper()
	start()
	start()
	for n := range kills {
		victim := x.awaitEvenShares(busyTypes)[n%2]
		held := x.heldBy(victim, busyTypes)
		victim.end(syscall.SIGKILL)
		killed := time.Now()
		gaps = append(gaps, x.awaitElsewhere(held, killed, victim)...)
		start()
	}
	return gaps
}

// tellKills says how long that took.
func (x *trial) tellKills(fault string, kills int, o outcome, gaps []time.Duration, more string) {
	x.Helper()
	usual, worst := x.usualAndWorst(gaps, usuallyBuriedWithin, buriedWithin)
	x.tell(fmt.Sprintf("%s, leases of %d s, ten types", fault, longLock), kills, o, worst, buriedWithin,
		"the next start of each type of the dead process: half of them within %v, of %d%s", usual.Round(time.Millisecond), len(gaps), more)
}

// busyTrial makes a trial on the cluster, with business code on each node, and says how to start a worker on one. If that node is down, the worker
// moves to another.
func (c *cluster) busyTrial() (x *trial, l *load, p *pulse, start func(node int) *worker) {
	c.Helper()
	const workersMost = 50
	x = c.trial()
	for i := clusterSize; i < workersMost; i++ {
		x.execute(fmt.Sprintf("CREATE USER '%s'", guest(i)))
		x.execute(fmt.Sprintf("GRANT ALL ON *.* TO '%s'", guest(i)))
	}
	p = c.startPulse(x)
	l = x.startLoadOfOn(busyTypes, c.ways(), 1<<30, 300, work{MS: 5})
	return x, l, p, func(node int) *worker {
		return x.startWorker(workerSettings{DSN: c.balanced(guest(len(x.workers)), node), Types: busyTypes, LockSecond: longLock})
	}
}

// concludeOn is conclude for business code that the cluster has kept waiting for so long.
func (c *cluster) concludeOn(x *trial, l *load, paused time.Duration) (o outcome) {
	c.Helper()
	l.stop()
	l.heldUp = paused
	o = x.conclude(2*time.Minute, l)
	x.stopWorkers()
	x.noneFailed()
	c.sameEverywhere(x)
	return o
}

// The cluster has lost a node, and goes on. Now processes die.
func TestADeadProcessIsReplacedWithinSecondsOnAGaleraClusterThatHasLostANode(t *testing.T) {
	skipClusterInShort(t)
	c := newGalera(t)
	x, l, p, start := c.busyTrial()
	c.nodes[0].kill()
	x.await(2*clusterPauses, "the cluster does not go on", func() bool {
		return c.nodes[1].status("wsrep_cluster_size") == "2" && c.nodes[1].status("wsrep_ready") == "ON" && c.nodes[2].status("wsrep_ready") == "ON"
	})
	const kills = 20
	started := 0
	gaps := x.killOneOfTwo(kills, func() *worker {
		started++
		return start(1 + started%2)
	})
	c.rejoin(c.nodes[0])
	o := c.concludeOn(x, l, p.longestPause(0))
	x.tellKills("SIGKILL of one of two, one node of three is down", kills, o, gaps, "")
}

// A machine goes down that had a process and a node. The rest of the cluster commits nothing until it knows that the node is gone.
func TestADeadProcessIsReplacedWhenItsGaleraNodeDiesWithIt(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	c := newGalera(t)
	x, l, p, start := c.busyTrial()
	const kills = 3
	start(1)
	start(2)
	worst, paused, said := time.Duration(0), time.Duration(0), ""
	for n := range kills {
		victim := x.awaitEvenShares(busyTypes)[n%2]
		node, held := c.nodeOf(victim), x.heldBy(victim, busyTypes)
		p.afresh()
		c.nodes[node].kill()
		victim.end(syscall.SIGKILL)
		killed := time.Now()
		gaps := x.awaitElsewhere(held, killed, victim)
		pause := p.longestPause(node)
		_, last := x.usualAndWorst(gaps, pause+buriedWithin, pause+buriedWithin)
		worst, paused = max(worst, last), max(paused, pause)
		said += fmt.Sprintf("%v after a pause of %v; ", last.Round(time.Millisecond), pause.Round(time.Millisecond))
		c.rejoin(c.nodes[node])
		start(node)
	}
	o := c.concludeOn(x, l, paused)
	x.tell(fmt.Sprintf("SIGKILL of one of two, and of its node, leases of %d s, ten types", longLock), kills, o, worst, paused+buriedWithin,
		"the next start of each type of the dead process: %sthe pauses are those in which the cluster committed nothing", said)
}

// A process is well, and its node is gone. It moves to another. Nobody can write meanwhile, so that nobody is missed.
func TestAProcessWhoseGaleraNodeIsKilledKeepsWhatItRuns(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	c := newGalera(t)
	x, l, p, start := c.busyTrial()
	const kills = 3
	start(1)
	start(2)
	worst, paused, said, moved := time.Duration(0), time.Duration(0), "", 0
	for n := range kills {
		moves := x.awaitEvenShares(busyTypes)[n%2]
		node, before := c.nodeOf(moves), x.owners()
		p.afresh()
		since := time.Now()
		c.nodes[node].kill()
		x.await(2*clusterPauses, "the cluster does not go on", func() bool { return p.goesOn(node) })
		time.Sleep(tellsOn)
		until, pause, last := time.Now(), p.longestPause(node), time.Duration(0)
		for _, jobType := range busyTypes {
			last = max(last, x.longestPause(jobType, since, until))
		}
		x.withinDuring(window{since, until}, last, pause+buriedWithin, "the next start of a type")
		for name, owner := range x.owners() {
			if was := before[name]; was != "" && was != owner {
				moved++
			}
		}
		worst, paused = max(worst, last), max(paused, pause)
		said += fmt.Sprintf("%v after a pause of %v; ", last.Round(time.Millisecond), pause.Round(time.Millisecond))
		c.rejoin(c.nodes[node])
	}
	o := c.concludeOn(x, l, paused)
	x.nothingTwice(o)
	x.tell(fmt.Sprintf("SIGKILL of the node of one of two, leases of %d s, ten types", longLock), kills, o, worst, paused+buriedWithin,
		"the next start of each type: %sthe pauses are those in which the cluster committed nothing; %d of %d leases moved", said, moved, kills*len(busyTypes))
}

// Two processes live, each on a node that has much to apply. Each sees late what the other has written, and knows that it is late.
func TestNobodyIsBuriedAliveWhereGaleraNodesLagBehind(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	c := newGalera(t)
	x, l, p, start := c.busyTrial()
	start(1)
	start(2)
	x.awaitEvenShares(busyTypes)
	before, began := x.owners(), time.Now()
	c.lagUntil(x, func() bool { return time.Since(began) > 20*time.Second })
	moved := 0
	for name, owner := range x.owners() {
		if was := before[name]; was != "" && was != owner {
			moved++
		}
	}
	longest := time.Duration(0)
	until := time.Now()
	for _, jobType := range busyTypes {
		longest = max(longest, x.longestPause(jobType, began, until))
	}
	o := c.concludeOn(x, l, p.longestPause())
	x.noDuplicates(o)
	if most := len(busyTypes) / 10; moved > most {
		x.Errorf("%d leases have moved, and at most %d may", moved, most)
	}
	x.tell(fmt.Sprintf("nodes that lag behind for 20 s, leases of %d s, ten types", longLock), 1, o, 0, 0, "a type started nothing for %v at most; %d of %d leases moved",
		longest.Round(time.Millisecond), moved, len(busyTypes))
}
