package tests

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// How long the tables of the original library take to become this version's, and how long an insert waits meanwhile. The log says it.
// Such a table keeps a server busy, so run this test alone, with PQ_TEST_ROWS=10000000.
func TestTheOriginalsTableIsUpgradedHoweverManyRowsItHas(t *testing.T) {
	all, err := strconv.Atoi(os.Getenv("PQ_TEST_ROWS"))
	if err != nil {
		t.Skip("left out: it disturbs others; set PQ_TEST_ROWS=10000000 and run it alone")
	}
	var turn sync.Mutex
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) {
		turn.Lock()
		defer turn.Unlock()
		createOriginal(t, d)
		const row = `INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) `
		execute(t, d.DB, row+`VALUES (CONCAT('{"order":4711,"note":"', REPEAT('x', 100), '"}'), 1, 1, 1, 1, 1)`)
		for rows := 1; rows < all; rows *= 2 {
			execute(t, d.DB, fmt.Sprintf("%sSELECT params, 1 + id %% 20, IF(id %% 10 = 0, 2, 1), id, id, id FROM async_job_tab ORDER BY id LIMIT %d", row, min(rows, all-rows)))
		}
		stopInserting := insertMeanwhile(t, d, row+"VALUES ('{}', 1, 0, 0, 7, 7)")
		began := time.Now()
		if err := schema.Migrate(t.Context(), dbtest.Open(t, d.Driver, d.DSN)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		inserted, longest := stopInserting()
		shape(t, d)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != int64(all)+inserted {
			t.Errorf("%d rows of %d, and %d inserts", n, all, inserted)
		}
		t.Logf("%s: %d rows were upgraded in %v; of %d inserts meanwhile, the longest took %v", d.Name, all, took.Round(time.Millisecond), inserted, longest.Round(time.Millisecond))
		start(t, d.DB, queue_job.Config{HandleJobFunc: (&runs{}).handler})
		awaitNumber(t, d.DB, inserted, "SELECT COUNT(*) FROM async_job_tab WHERE create_time = 7 AND update_time > 7 AND job_status = 1")
	})
}
