package faults

import (
	"fmt"
	"time"
)

// failover is one way in which a cluster loses a node.
type failover struct {
	of         victim
	moves      bool // a worker whose node is down moves to another, as behind a balancer; else it waits for its own
	lockSecond uint32
	keeps      bool // the lease lasts longer than the cluster needs to go on, and its holder keeps it
}

type victim string

const (
	holders victim = "the holder's node"
	another victim = "another node"
)

func (f failover) String() string {
	workers := "workers wait for their nodes"
	if f.moves {
		workers = "workers move"
	}
	return fmt.Sprintf("%s, %s, LockSecond %d", f.of, workers, f.lockSecond)
}

// failover kills a node while three instances run what is added on all nodes, and brings it back.
func (c *cluster) failover(f failover) {
	c.Helper()
	jobs, perSecond := repeat(20_000, 8_000), 1000
	x := c.trial()
	pulse := c.startPulse(x)
	load := x.startLoadOn(c.ways(), jobs, perSecond, work{MS: 50})
	way := c.only
	if f.moves {
		way = c.balanced
	}
	c.startWorkers(x, workerSettings{LockSecond: f.lockSecond}, way)
	x.await(5*time.Minute, "half of the jobs are not added", func() bool { return load.total() >= jobs/2 })

	node := c.nodeOf(x.awaitHolder(time.Now()))
	if f.of == another {
		node = (node + 1) % clusterSize
	}
	began := time.Now()
	c.nodes[node].kill()
	x.await(5*time.Minute, "three quarters of the jobs are not added", func() bool { return load.total() >= jobs*3/4 })
	silence, pause := x.longestSilence(began, time.Now()), pulse.longestPause(node)
	bound := pause + time.Duration(f.lockSecond+1)*time.Second
	x.within(silence, bound, "the next start")
	x.within(pause, clusterPauses, "the cluster's next commit")
	c.rejoin(c.nodes[node])
	x.await(5*time.Minute, "the rest of the jobs is not added", func() bool { return load.total() >= jobs })
	load.stopped.Wait()
	load.heldUp = pulse.longestPause(node)

	o := x.conclude(time.Minute, load)
	if f.keeps {
		x.keptTheirTerms(1)
	}
	x.stopWorkers()
	x.noneFailed()
	c.sameEverywhere(x)
	x.tell("SIGKILL of "+f.String(), 1, o, silence, bound, "3 instances on %d nodes; the cluster committed nothing for %v; %d business transactions failed, %d jobs of unknown outcome; a transaction took at most %v",
		clusterSize, pause.Round(time.Millisecond), load.failed, len(load.uncertain), load.slowest.Round(time.Millisecond))
}
