package faults

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A change of a table on one node of a Galera cluster breaks off what other nodes do with the table, reading about it
// included.
func TestInstancesOnThreeGaleraNodesUpgradeTheTablesAtOnce(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	const rounds = 100
	c := newGalera(t)
	c.nodes[0].execute("CREATE DATABASE trial")
	var nodes []*sql.DB
	for i := range c.nodes {
		nodes = append(nodes, dbtest.Open(t, "mysql", c.only("root", i)))
	}
	for round := range rounds {
		for _, statement := range []string{
			"DROP TABLE IF EXISTS async_job_tab, shedlock_tab, async_job_log_tab",
			// As the original library has them.
			`CREATE TABLE async_job_tab (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, params varchar(4096) NOT NULL DEFAULT '', job_type int NOT NULL,
				job_status tinyint DEFAULT NULL, start_time int unsigned DEFAULT 0, create_time int unsigned NOT NULL, update_time int unsigned NOT NULL)`,
			`CREATE TABLE shedlock_tab (lock_name varchar(64) NOT NULL PRIMARY KEY, lock_until timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
				locked_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, locked_by varchar(255) NOT NULL)`,
		} {
			if _, err := nodes[0].Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		var upgrades sync.WaitGroup
		for i, db := range nodes {
			upgrades.Go(func() {
				if err := schema.Migrate(t.Context(), db); err != nil {
					t.Errorf("round %d, node %d: %v", round, i, err)
				}
			})
		}
		upgrades.Wait()
	}
}

func TestJobsAddedOnTwoGaleraNodesAtOnceAreRivalsOnlyByTheirKey(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	const rounds = 200
	c := newGalera(t)
	c.trial()
	jobs, err := queue_job.Open(dbtest.Open(t, "mysql", c.only("root", 0)))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*sql.DB{dbtest.Open(t, "mysql", c.only("root", 0)), dbtest.Open(t, "mysql", c.only("root", 1))}
	for _, pair := range []struct {
		are    string
		keys   [2]string
		rivals bool
	}{
		{are: "without a key"},
		{are: "of different keys", keys: [2]string{"order-1", "order-2"}},
		{are: "of one key", keys: [2]string{"order-1", "order-1"}, rivals: true},
	} {
		var refused atomic.Int64
		for range rounds {
			var open []*sql.Tx
			for node, db := range nodes {
				tx, err := db.Begin()
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				if _, err := jobs.Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1, Key: pair.keys[node]}); err != nil {
					t.Fatal(err)
				}
				open = append(open, tx)
			}
			var commits sync.WaitGroup
			for _, tx := range open {
				commits.Go(func() {
					switch err := tx.Commit(); {
					case refusal(err) == errDeadlock:
						refused.Add(1)
					case err != nil:
						t.Error(err)
					}
				})
			}
			commits.Wait()
		}
		n := refused.Load()
		t.Logf("jobs %s: %d of %d pairs refused", pair.are, n, rounds)
		if pair.rivals && n < rounds/2 || !pair.rivals && n > rounds/20 { // a busy cluster refuses one now and then
			t.Errorf("jobs %s: %d of %d pairs refused", pair.are, n, rounds)
		}
	}
}
