package faults

import (
	"database/sql"
	"sync"
	"testing"

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
