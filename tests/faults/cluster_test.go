package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// cluster is a database of several servers, each of which has all rows.
type cluster struct {
	*testing.T
	name      string // in the report
	nodes     []*server
	rejoin    func(*server) // brings back a node that was killed
	oneWriter bool          // only one node takes writes
	settings  string        // of sessions that may move to another node
	causal    string        // of sessions to which a node shows whatever any node has committed
}

const clusterSize = 3

// oneCluster is locked while a test has a cluster: the servers of a second one would keep those of the first waiting.
var oneCluster sync.Mutex

// beginCluster waits until this test may have a cluster. It returns where the nodes talk to each other.
func beginCluster(t *testing.T) (addresses []string) {
	t.Helper()
	oneCluster.Lock()
	t.Cleanup(oneCluster.Unlock)
	for range clusterSize {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", dbtest.FreePort(t)))
	}
	return addresses
}

func skipClusterInShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out: the short run has one cluster only; run make faults")
	}
}

// trial makes a trial on the cluster. Its own way leads to the last node; a test that hurts nodes begins with the first.
func (c *cluster) trial() *trial {
	c.Helper()
	admin := dbtest.Open(c.T, "mysql", c.nodes[0].dsn(""))
	statements := []string{"CREATE DATABASE trial"}
	for i := range c.nodes {
		statements = append(statements, fmt.Sprintf("CREATE USER '%s'", guest(i)), fmt.Sprintf("GRANT ALL ON *.* TO '%s'", guest(i)))
	}
	for _, statement := range statements {
		if _, err := admin.Exec(statement); err != nil {
			c.Fatal(err)
		}
	}
	return newTrial(c.T, c.name, fmt.Sprintf("root@cluster(%s)/trial?%s", c.addresses(clusterSize-1), c.causal))
}

// guest is as whom the worker of a node logs in: by its own name, and the first one belongs to the first node.
func guest(node int) string { return fmt.Sprintf("worker-%d", node+1) }

// only leads to one node, as it comes.
func (c *cluster) only(user string, node int) string {
	return fmt.Sprintf("%s@tcp(%s)/trial", user, c.nodes[node].address())
}

// balanced leads to one node, and when that is not fit for use, to another, with the settings that this needs.
func (c *cluster) balanced(user string, first int) string {
	return fmt.Sprintf("%s@cluster(%s)/trial?%s", user, c.addresses(first), c.settings)
}

// addresses are those of all nodes, from one of them on.
func (c *cluster) addresses(first int) string {
	var list []string
	for i := range c.nodes {
		list = append(list, c.nodes[(first+i)%len(c.nodes)].address())
	}
	return strings.Join(list, ",")
}

// startWorkers starts a worker for each node. The first one gets the lease.
func (c *cluster) startWorkers(x *trial, s workerSettings, dsn func(user string, node int) string) (workers []*worker) {
	x.Helper()
	for i := range c.nodes {
		s.DSN = dsn(guest(i), i)
		w := x.startWorker(s)
		if i == 0 {
			x.await(20*time.Second, "the first worker has not taken the lease", func() bool { return x.holder(1) == w })
		}
		workers = append(workers, w)
	}
	return workers
}

// nodeOf is where a worker's connections are.
func (c *cluster) nodeOf(w *worker) int {
	c.Helper()
	for i, node := range c.nodes {
		db, err := openNode(node.address())
		if err != nil {
			c.Fatal(err)
		}
		defer db.Close()
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?", w.name).Scan(&n); err == nil && n > 0 {
			return i
		}
	}
	c.Fatalf("%s has no connection", w.name)
	return 0
}

// sameEverywhere holds that all nodes have the same rows.
func (c *cluster) sameEverywhere(x *trial) {
	x.Helper()
	for _, table := range []string{"async_job_tab", "shedlock_tab", "async_job_log_tab", "audit_job"} {
		sums := map[string]bool{}
		for i := range c.nodes {
			var name, sum string
			db := dbtest.Open(x.T, "mysql", c.only("root", i)+"?"+c.causal)
			err := db.QueryRow("CHECKSUM TABLE "+table).Scan(&name, &sum)
			for tries := 1; refusal(err) == errDeadlock && tries < 10; tries++ { // it met what came from another node
				err = db.QueryRow("CHECKSUM TABLE "+table).Scan(&name, &sum)
			}
			if err != nil {
				x.Fatal(err)
			}
			sums[sum] = true
		}
		if len(sums) > 1 {
			x.Errorf("the nodes have different rows in %s", table)
		}
	}
}
