package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestOnPostgreSQLFinishedRowsAreNotReadWhateverTheStatisticsSay(t *testing.T) {
	const finished, added = 50_000, 200
	dbtest.PostgreSQL(t, func(t *testing.T, d dbtest.Database) { // the others take an index hint
		migrate(t, d)
		// The statistics are of a moment at which every row was pending, and no later ones come.
		execute(t, d.DB, "ALTER TABLE async_job_tab SET (autovacuum_enabled = false)")
		for status, share := range map[string]int{"0": finished / 2, "NULL": finished / 2} {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, create_time, update_time) SELECT '{}', 1, %s, 1, 1 FROM generate_series(1, %d)", status, share))
		}
		execute(t, d.DB, "ANALYZE async_job_tab")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		execute(t, d.DB, "CHECKPOINT")
		rowsRead := func() int64 {
			<-time.After(1200 * time.Millisecond) // the server's processes tell their numbers once a second
			return number(t, d.DB, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'async_job_tab'")
		}
		before := rowsRead()
		var ran runs
		r := newRunner(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range added { // so many that drivers and server have settled for a plan
			add(t, d.DB, 1, 0)
			rollBackOne(t, d) // its id is a gap, which the tail asks for again
			<-time.After(5 * time.Millisecond)
		}
		awaitRuns(t, &ran, added)     // a look at the table would count
		<-time.After(3 * time.Second) // sweeps
		stop(t, r)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE create_time > 1 AND job_status <> 1"); n != 0 {
			t.Errorf("%d jobs have not run", n)
		}
		// The count above read each row once. While there is a gap, each look of the tail reads again what came after it, two
		// seconds' worth at most; a plan that does not go by an index reads all rows at each look, a thousand times here.
		if n := rowsRead() - before - finished - added; n > 10*finished {
			t.Errorf("%d rows were read for %d jobs", n, added)
		} else {
			t.Logf("%d rows were read for %d jobs", n, added)
		}
	})
}

func rollBackOne(t *testing.T, d dbtest.Database) {
	t.Helper()
	tx, err := d.DB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := open(t, d.DB).Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1}); err != nil {
		t.Fatal(err)
	}
}
