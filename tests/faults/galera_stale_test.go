package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A Galera node shows what another one has committed as soon as it has applied it, and all that came before. So a process
// that reads on one node what it wrote on another may miss its own marks and outcomes, and run a finished job again. With
// wsrep_sync_wait=3, reads and updates wait for what is not applied yet.
func TestNoFinishedJobRunsAgainWhereGaleraNodesLagBehind(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	for _, pool := range []struct {
		is, network string
		killed      bool // the node that it leads to
	}{
		{is: "connections spread over nodes", network: "spread"},
		{is: "SIGKILL of the holder's node, workers move to nodes", network: "cluster", killed: true},
	} {
		for _, syncWait := range []int{3, 0} {
			t.Run(fmt.Sprintf("%s, wsrep_sync_wait=%d", pool.is, syncWait), func(t *testing.T) {
				const jobs = 12_000
				c := newGalera(t)
				x := c.trial()
				load := x.startLoadOn(c.ways(), jobs, 1000, work{MS: 5})
				pulse := c.startPulse(x)
				c.startWorkers(x, workerSettings{LockSecond: 20}, func(user string, node int) string {
					return fmt.Sprintf("%s@%s(%s)/trial?wsrep_sync_wait=%d", user, pool.network, c.addresses(node), syncWait)
				})
				if pool.killed {
					c.lagUntil(x, func() bool { return load.total() > jobs/2 })
					time.Sleep(50 * time.Millisecond) // some jobs are finished meanwhile
					c.nodes[0].kill()
				} else {
					c.lagUntil(x, func() bool { return load.total() >= jobs })
				}
				load.stopped.Wait()
				load.heldUp = pulse.longestPause(0)
				conclude := x.conclude
				if syncWait == 0 {
					conclude = x.concludeWithDuplicates
				}
				o := conclude(time.Minute, load)
				if ranAgain := o.duplicates > 0; !pool.killed && ranAgain != (syncWait == 0) {
					x.Errorf("%d runs for no reason; want none with wsrep_sync_wait=3, and some without, which shows that nodes lag behind", o.duplicates)
				}
				x.stopWorkers()
				x.noneFailed()
				x.tell(fmt.Sprintf("%s that lag behind, wsrep_sync_wait=%d", pool.is, syncWait), 1, o, 0, 0, "")
			})
		}
	}
}

// lagUntil has business code write much on the first node, until the condition holds. The others have to apply it before
// they apply what comes after.
func (c *cluster) lagUntil(x *trial, condition func() bool) {
	x.Helper()
	db := dbtest.Open(x.T, "mysql", c.only("root", 0))
	if _, err := db.Exec("CREATE TABLE much (id bigint AUTO_INCREMENT PRIMARY KEY, text varchar(200))"); err != nil {
		x.Fatal(err)
	}
	for {
		if _, err := db.Exec("INSERT INTO much (text) SELECT REPEAT('x', 200) FROM seq_1_to_40000"); err != nil {
			x.Fatal(err)
		}
		if condition() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// concludeWithDuplicates is conclude where jobs may run again for no reason: still none may be lost or overwritten.
func (x *trial) concludeWithDuplicates(within time.Duration, loads ...*load) (o outcome) {
	x.Helper()
	for _, l := range loads {
		l.stop()
	}
	x.awaitDone(within)
	x.checkAudit()
	rows, ran := x.rows(), startsOf(x.starts())
	for _, l := range loads {
		for _, id := range l.committed {
			if row, ok := rows[id]; !ok || !isFinal(row.status) {
				o.lost++
				x.Errorf("job %d was committed and is not in a final state: %+v", id, row)
			}
		}
	}
	for id, row := range rows {
		o.jobs++
		o.duplicates += max(0, ran[id]-1-row.retries)
		o.inFlight += row.lost
	}
	return o
}
