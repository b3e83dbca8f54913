package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestOnPostgreSQLFinishedRowsAreNotReadWhateverTheStatisticsSay(t *testing.T) {
	long(t)
	t.Parallel()
	const finished, added = 50_000, 200
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) { // the others take an index hint
		// The statistics are of a moment at which every row was pending, and no later ones come.
		execute(t, d.DB, "ALTER TABLE async_job_tab SET (autovacuum_enabled = false)")
		for status, share := range map[string]int{"0": finished / 2, "NULL": finished / 2} {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, create_time, update_time) SELECT '{}', 1, %s, 1, 1 FROM generate_series(1, %d)", status, share))
		}
		execute(t, d.DB, "ANALYZE async_job_tab")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		execute(t, d.DB, "CHECKPOINT")
		before := postgresRowsRead(t, d)
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
		if n := postgresRowsRead(t, d) - before - finished - added; n > 10*finished {
			t.Errorf("%d rows were read for %d jobs", n, added)
		} else {
			t.Logf("%d rows were read for %d jobs", n, added)
		}
	})
}

// With statistics of this moment, the planner knows how few rows lie behind an id. It shall not take that for a reason to
// read all of them by their ids and sort them, for each page anew.
func TestOnPostgreSQLAPageOfABacklogReadsNoMoreThanItsRows(t *testing.T) {
	long(t)
	t.Parallel()
	const finished, waiting, page = 50_000, 25_000, 500
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "ALTER TABLE async_job_tab SET (autovacuum_enabled = false)")
		insert := func(rows int, status, start string) {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) SELECT '{}', 1, %s, %s, 1, 1 FROM generate_series(1, %d) AS n", status, start, rows))
		}
		for start, at := range map[store.Start]string{store.AtOnce: "0", store.AtATime: "1 + n / 100", store.Unset: "NULL"} {
			execute(t, d.DB, "TRUNCATE async_job_tab")
			insert(finished, "1", "0")
			insert(waiting, "0", at)
			execute(t, d.DB, "VACUUM ANALYZE async_job_tab")
			// A plan for any numbers and one for these numbers, of which the server chooses one after some calls.
			for _, plan := range []string{"force_generic_plan", "force_custom_plan"} {
				execute(t, d.DB, fmt.Sprintf("DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET plan_cache_mode = %s', current_database()); END $$", plan))
				before := postgresRowsRead(t, d)
				pages := readLane(t, d, store.Lane{Start: start}, page, waiting)
				read := int64(0)
				for tries := 0; read < waiting && tries < 10; tries++ {
					read = postgresRowsRead(t, d) - before
				}
				if read < waiting || read > waiting+10*page {
					t.Errorf("%s, start %d: %d rows were read for %d pages of %d", plan, start, read, pages, page)
				}
			}
		}
	})
}

// readLane reads a lane of so many rows page by page, in a session of its own: its end tells its statistics.
func readLane(t *testing.T, d dbtest.Database, lane store.Lane, page, waiting int) (pages int) {
	t.Helper()
	db := dbtest.Open(t, d.Driver, d.DSN)
	defer db.Close()
	st, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	place := store.Place{Lane: lane}
	for rows := 0; rows < waiting; pages++ {
		got, err := st.Page(t.Context(), 1, store.Shard{}, []store.Place{place}, 3, page)
		if err != nil || len(got[0]) == 0 {
			t.Fatalf("after %d rows: %v", rows, err)
		}
		last := got[0][len(got[0])-1]
		place.StartTime, place.ID = last.StartTime, last.ID
		rows += len(got[0])
	}
	return pages
}

// postgresRowsRead is how many rows of the table the server has read, by its statistics.
func postgresRowsRead(t *testing.T, d dbtest.Database) int64 {
	t.Helper()
	<-time.After(1200 * time.Millisecond) // the server's processes tell their numbers once a second
	return number(t, d.DB, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'async_job_tab'")
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
