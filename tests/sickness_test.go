package tests

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// sickWords are what only the statement has that asks what keeps the database from cleaning up.
var sickWords = map[string]string{"MariaDB": "innodb_trx", "MySQL": "innodb_trx", "TiDB": "innodb_trx", "PostgreSQL": "pg_stat_activity", "SQLite": "innodb_trx"}

// asked counts how often that statement passes.
type asked struct {
	*sql.DB
	words string
	times atomic.Int32
}

func (a *asked) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, a.words) {
		a.times.Add(1)
	}
	return a.DB.QueryContext(ctx, query, args...)
}

// It is not parallel: what one session keeps, InnoDB keeps for all databases of the server, and other tests expect that all is well.
func TestWhoeverHoldsASnapshotWhileJobsChangeIsNamed(t *testing.T) {
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB has no undo logs, and says nothing")
		}
		session, end := holdSnapshot(t, d)
		began := time.Now()
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		sick := st.Sickness(t.Context())
		if sick.Err != nil || sick.Lacks != "" || !slices.ContainsFunc(sick.Signs, func(g record.Sign) bool { return g.Kind == record.SignSession && g.ID == session }) {
			t.Fatalf("session %s is not among %+v", session, sick)
		}
		if h := checked(t, open(t, d.DB), d.DB); len(h.Findings) > 0 {
			t.Errorf("a snapshot that harms nobody: %+v", h.Findings)
		}
		if testing.Short() {
			t.Skip("left out: who has kept a snapshot for half a minute is named; this waits for as long")
		}
		changeRows(t, d, 50_000)
		time.Sleep(time.Until(began.Add(31 * time.Second))) // transactions of less than half a minute are none of its business
		var h *operate.Health
		await(t, func() string { return fmt.Sprintf("session %s is named in %+v", session, h.Findings) }, func() bool {
			h = checked(t, open(t, d.DB), d.DB)
			return slices.ContainsFunc(h.Findings, func(f operate.Finding) bool {
				return f.Kind == "old snapshot" && f.Severity == operate.Warning && strings.HasPrefix(f.Text, "Session "+session+" (") &&
					(strings.HasSuffix(f.Remedy, ": KILL "+session+".") || strings.HasSuffix(f.Remedy, ": SELECT pg_terminate_backend("+session+")."))
			})
		})
		t.Log(h.Findings[0].Text)
		end()
		if f := foundOf(checked(t, open(t, d.DB), d.DB), "old snapshot"); f != nil {
			t.Errorf("the session has ended its transaction: %+v", f)
		}
	})
}

// holdSnapshot has a session keep a snapshot open, and returns the server's id of it.
func holdSnapshot(t *testing.T, d dbtest.Database) (id string, end func()) {
	t.Helper()
	c, err := d.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	who, begin := "SELECT CONNECTION_ID()", []string{"SET time_zone = '+05:00'", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"}
	if d.Name == "PostgreSQL" {
		who, begin = "SELECT pg_backend_pid()", []string{"BEGIN ISOLATION LEVEL REPEATABLE READ"}
	}
	for _, statement := range append(begin, "SELECT COUNT(*) FROM async_job_tab") {
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.QueryRowContext(t.Context(), who).Scan(&id); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if _, err := c.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	t.Cleanup(end)
	return id, end
}

// changeRows adds rows and changes each, in transactions of a few rows.
func changeRows(t *testing.T, d dbtest.Database, rows int) {
	t.Helper()
	const each, writers = 4, 4
	add(t, d.DB, rows, 0)
	ids := idsOf(t, d.DB, rows)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w * each; i < rows; i += writers * each {
				statement := fmt.Sprintf("UPDATE async_job_tab SET progress = 'x' WHERE id BETWEEN %d AND %d", ids[i], ids[i]+each-1)
				if _, err := d.DB.Exec(statement); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestTheDatabaseIsAskedForItsSicknessOnceAMinuteAndByWhoAsks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		through := &asked{DB: d.DB, words: sickWords[d.Name]}
		var done runs
		r := start(t, through, queue_job.Config{JobType: 7, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error { done.note(job); return nil }})
		addType(t, d.DB, 7, 20, 0)
		awaitRuns(t, &done, 20)
		jobs := open(t, through)
		fleet, err := jobs.Fleet(t.Context(), through)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Health(); err != nil {
			t.Error(err)
		}
		operate.HealthOf(fleet, nil)
		if n := through.times.Load(); n != 0 {
			t.Errorf("nobody has asked, and it was sent %d times", n)
		}
		want := int32(1)
		if d.Name == "SQLite" || d.Name == "TiDB" {
			want = 0
		}
		for range 3 {
			if f := foundOf(checked(t, jobs, through), "not seen"); f != nil {
				t.Errorf("%+v", f)
			}
		}
		if n := through.times.Load(); n != want {
			t.Errorf("within a minute, it was sent %d times, want %d", n, want)
		}
	})
}

func TestWhatTheUserMayNotSeeIsSaidAndNoError(t *testing.T) {
	t.Parallel()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB says nothing")
		}
		few := withoutDDL(t, d)
		if err := schema.Migrate(t.Context(), d.DB); err != nil {
			t.Fatal(err)
		}
		if d.Name == "PostgreSQL" {
			_, end := holdSnapshot(t, d) // somebody else's, into which the user may not look
			defer end()
		}
		right := map[string]string{"PostgreSQL": "pg_read_all_stats"}[d.Name]
		if right == "" {
			right = "PROCESS"
		}
		tx, err := few.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for what, ex := range map[string]queue_job.Executor{"alone": few, "in a transaction": tx} {
			h := checked(t, open(t, few), ex)
			if len(h.Findings) != 1 || h.Findings[0].Severity != operate.Note || !strings.Contains(h.Findings[0].Text, "needs "+right) {
				t.Errorf("%s: %+v, want a note that it needs %s", what, h.Findings, right)
			}
			if h.ToLookAt() != 0 {
				t.Errorf("%s: %s", what, h.Verdict())
			}
		}
	})
}

func TestAFailedLookAtTheSicknessLeavesTheTransactionAsItWas(t *testing.T) {
	t.Parallel()
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "REVOKE SELECT ON pg_catalog.pg_replication_slots FROM PUBLIC") // in this database
		t.Cleanup(func() { execute(t, d.DB, "GRANT SELECT ON pg_catalog.pg_replication_slots TO PUBLIC") })
		few := withoutDDL(t, d)
		tx, err := few.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if h := checked(t, open(t, few), tx); len(h.Findings) != 1 || !strings.Contains(h.Findings[0].Text, "permission denied") {
			t.Errorf("%+v", h.Findings)
		}
		if _, err := tx.Exec("SELECT 1"); err != nil {
			t.Error("the transaction does not go on:", err)
		}
	})
}

// MySQL's lists of sessions and transactions are in utf8mb3, and cannot be read while a statement with another character runs. Its
// performance_schema can, and if the user may not read that, it is said why nothing is known. It is not parallel, since nobody else could read the
// lists meanwhile.
func TestOnMySQLASessionIsNamedAlsoWhileAStatementHasAnEmojiIfTheUserMayLook(t *testing.T) {
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		if d.Name != "MySQL" {
			t.Skip("left out: the other databases list such sessions")
		}
		few := withoutDDL(t, d)
		execute(t, d.DB, "GRANT PROCESS ON *.* TO '"+column[string](t, d.DB, "SELECT DATABASE()")[0]+"'@'%'")
		few.SetMaxIdleConns(-1) // a session that is there already does not get the right
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer end()
		tx, err := d.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		var id string
		if err := tx.QueryRow("SELECT CONNECTION_ID() FROM async_job_tab UNION SELECT CONNECTION_ID()").Scan(&id); err != nil { // it has a snapshot, so it is listed
			t.Fatal(err)
		}
		running.Go(func() { _, _ = tx.ExecContext(ctx, "SELECT SLEEP(60), '𝔘'") })
		look := func(db *sql.DB) *record.Sickness {
			st, err := record.Open(t.Context(), db, "")
			if err != nil {
				t.Fatal(err)
			}
			return st.Sickness(t.Context())
		}
		var sick *record.Sickness
		await(t, func() string { return fmt.Sprintf("%+v", sick) }, func() bool {
			sick = look(few)
			return sick.Err != nil && strings.Contains(sick.Err.Error(), "character of four bytes")
		})
		sick = look(d.DB)
		if sick.Err != nil || !slices.ContainsFunc(sick.Signs, func(g record.Sign) bool {
			return g.Kind == record.SignSession && g.ID == id && g.State == "active" && strings.Contains(g.Statement, "𝔘")
		}) || sick.Signs[len(sick.Signs)-1].Kind != record.SignHistory {
			t.Errorf("session %s is not among %+v, or there is no history", id, sick)
		}
	})
}
