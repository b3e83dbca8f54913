package faults

import (
	"database/sql"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// errDeadlock is how a server says that a transaction lost against another. On a Galera cluster, that one may be on
// another node, and the loser may hear of it at its COMMIT.
const errDeadlock = 1213

func TestConflictsWithAnotherGaleraNodeCostNoOutcome(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	for _, retries := range []int{0, 1} {
		t.Run(fmt.Sprintf("wsrep_retry_autocommit=%d", retries), func(t *testing.T) {
			c := newGalera(t, fmt.Sprintf("--wsrep-retry-autocommit=%d", retries))
			x := c.trial()
			c.startWorkers(x, workerSettings{}, c.only)
			before := c.conflicts(0)
			r := &rival{x: x, db: dbtest.Open(x.T, "mysql", c.only("root", 1)), added: &load{x: x, types: []int32{1}, cancel: func() {}, uncertain: map[uint64]bool{}}, ended: map[uint64]int{}}
			r.goOnFor(20 * time.Second)
			for id := range r.ended {
				x.touch(id)
			}
			o := x.conclude(time.Minute, r.added)
			r.checkEnded()
			x.stopWorkers()
			x.noDuplicates(o)
			x.noneRetried()
			c.sameEverywhere(x)
			conflicts := c.conflicts(0) - before
			if conflicts == 0 || r.lost == 0 {
				x.Errorf("the library lost %d conflicts, business code %d; want some of both", conflicts, r.lost)
			}
			x.tell(fmt.Sprintf("business code changes the same rows on another node, wsrep_retry_autocommit=%d", retries), 1, o, 0, 0,
				"the library lost %d conflicts, business code heard of %d; it changed %d jobs and ended or deleted %d", conflicts, r.lost, r.changed, len(r.ended))
		})
	}
}

// conflicts is how many transactions of a node have lost against one of another node.
func (c *cluster) conflicts(node int) (n int) {
	c.Helper()
	for _, counter := range []string{"wsrep_local_cert_failures", "wsrep_local_bf_aborts"} {
		value, err := strconv.Atoi(c.nodes[node].status(counter))
		if err != nil {
			c.Fatal(err)
		}
		n += value
	}
	return n
}

// rival is business code that changes jobs as soon as it has added them, which is when they are marked, run and settled.
type rival struct {
	x     *trial
	db    *sql.DB
	added *load

	mu      sync.Mutex
	ended   map[uint64]int // what status it gave to jobs; deleted: it deleted them
	changed int
	lost    int // statements that lost a conflict, and were sent again
}

const deleted = -1

func (r *rival) goOnFor(span time.Duration) {
	const atATime = 4
	end := time.Now().Add(span)
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for time.Now().Before(end) {
				for i, id := range r.added.addOneByOne(r.db, work{MS: 5}) {
					r.change(i, id)
				}
			}
		})
	}
	all.Wait()
}

// change does one of three things to a job.
func (r *rival) change(which int, id uint64) {
	switch which % 5 {
	case 0:
		if r.insist("UPDATE async_job_tab SET job_status = 5 WHERE id = ? AND job_status IN (0, 3, 4)", id) {
			r.note(func() { r.ended[id] = 5 })
		}
	case 1:
		if r.insist("DELETE FROM async_job_tab WHERE id = ? AND job_status = 0", id) {
			r.note(func() { r.ended[id] = deleted })
		}
	default:
		if r.insist("UPDATE async_job_tab SET params = '{\"ms\":6}' WHERE id = ?", id) {
			r.note(func() { r.changed++ })
		}
	}
}

// insist sends a statement until it does not lose, and reports whether it changed something.
func (r *rival) insist(query string, id uint64) bool {
	for {
		result, err := r.db.Exec(query, id)
		if refusal(err) == errDeadlock {
			r.note(func() { r.lost++ })
			continue
		}
		if err != nil {
			r.x.Error(err)
			return false
		}
		n, err := result.RowsAffected()
		return err == nil && n > 0
	}
}

func (r *rival) note(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

// checkEnded holds that what business code has committed stands.
func (r *rival) checkEnded() {
	r.x.Helper()
	rows := r.x.rows()
	for _, id := range sortedKeys(r.ended) {
		row, there := rows[id]
		if want := r.ended[id]; there == (want == deleted) || there && row.status != want {
			r.x.Errorf("business code gave job %d the status %d (%d: deleted it); now it is there: %t, %+v", id, want, deleted, there, row)
		}
	}
}
