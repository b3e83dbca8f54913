package mortal_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/create-info/persistent-queue/queuetest/internal/mortal"
	"github.com/create-info/persistent-queue/queuetest/internal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is what a Watch has heard.
type heard []string

var kinds = map[mortal.Kind]string{mortal.Other: "other", mortal.Read: "read", mortal.Write: "write", mortal.Commit: "commit"}

func (h *heard) Before(_ context.Context, act *mortal.Act) { h.note("before ", act) }
func (h *heard) After(_ context.Context, act *mortal.Act)  { h.note("after ", act) }

func (h *heard) note(when string, act *mortal.Act) {
	in := ""
	if act.Tx != nil {
		in = " in a transaction"
	}
	*h = append(*h, when+kinds[act.Kind]+in)
}

func open(t *testing.T, watch mortal.Watch) (h *mortal.Handle, base *sql.DB) {
	t.Helper()
	base = sqlite.Open(filepath.Join(t.TempDir(), "x.db"), "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(OFF)")
	t.Cleanup(func() { base.Close() })
	if _, err := base.Exec("CREATE TABLE v (v bigint); INSERT INTO v VALUES (1), (2)"); err != nil {
		t.Fatal(err)
	}
	h = mortal.Open(base, watch)
	t.Cleanup(h.Close)
	return h, base
}

func must[R any](t *testing.T) func(R, error) R {
	return func(r R, err error) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT COUNT(*) FROM v").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheWatchHearsOfAllThatIsSent(t *testing.T) {
	var h heard
	handle, _ := open(t, &h)
	ctx := t.Context()
	must[sql.Result](t)(handle.DB.Exec("INSERT INTO v VALUES (?)", 3))
	count(t, handle.DB)
	var updated int
	if err := handle.DB.QueryRow("WITH a AS (SELECT 4 AS update_time) SELECT update_time FROM a").Scan(&updated); err != nil || updated != 4 {
		t.Error(updated, err)
	}
	tx := must[*sql.Tx](t)(handle.DB.Begin())
	must[sql.Result](t)(tx.Exec("WITH a AS (SELECT 4) INSERT INTO v SELECT * FROM a"))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	conn := must[*sql.Conn](t)(handle.DB.Conn(ctx))
	for _, query := range []string{"BEGIN IMMEDIATE", "/* a */ UPDATE v SET v = v + 1", "ROLLBACK", "DELETE FROM v WHERE v = 99"} {
		must[sql.Result](t)(conn.ExecContext(ctx, query))
	}
	conn.Close()
	prepared := must[*sql.Stmt](t)(handle.DB.Prepare("INSERT INTO v VALUES (?) RETURNING v"))
	var v int
	if err := prepared.QueryRow(5).Scan(&v); err != nil || v != 5 {
		t.Error(v, err)
	}
	prepared.Close()
	want := heard{
		"before write", "after write", "before read", "after read", "before read", "after read",
		"before other", "before write in a transaction", "after write in a transaction", "before commit in a transaction", "after commit in a transaction",
		"before other", "after other", "before write in a transaction", "after write in a transaction", "before other in a transaction",
		"after other in a transaction", "before write", "after write", "before write", "after write",
	}
	if !slices.Equal(h, want) {
		t.Errorf("%q, want %q", h, want)
	}
	if n := count(t, handle.DB); n != 5 {
		t.Errorf("%d rows", n)
	}
}

func TestADeathRollsBackWhatIsOpenAndNothingComesAfterIt(t *testing.T) {
	var h heard
	handle, base := open(t, &h)
	ctx := t.Context()
	rows := must[*sql.Rows](t)(handle.DB.Query("SELECT v FROM v"))
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("there is no row")
	}
	prepared := must[*sql.Stmt](t)(handle.DB.Prepare("DELETE FROM v"))
	defer prepared.Close()
	tx := must[*sql.Tx](t)(handle.DB.Begin())
	defer tx.Rollback()
	must[sql.Result](t)(tx.Exec("DELETE FROM v"))
	handle.Kill()
	if n := count(t, base); n != 2 {
		t.Errorf("%d rows are there, want 2", n)
	}
	must[sql.Result](t)(base.Exec("INSERT INTO v VALUES (3)")) // nobody has the lock of the writer
	_, errExec := handle.DB.Exec("DELETE FROM v")
	_, errPrepared := prepared.Exec()
	_, errTx := tx.Exec("DELETE FROM v")
	errCommit, errPing := tx.Commit(), handle.DB.PingContext(ctx)
	for rows.Next() {
		t.Error("a row came after the death")
	}
	for i, err := range []error{errExec, errPrepared, errTx, errCommit, errPing, rows.Err()} {
		if !errors.Is(err, mortal.ErrDead) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n, used := count(t, base), base.Stats().InUse; n != 3 || used != 0 {
		t.Errorf("%d rows are there, and %d connections are in use", n, used)
	}
}

// The pool of base has one connection, as that of a database in memory does: a process that has died must not keep it.
func TestTheNextProcessGetsTheConnectionOfTheDead(t *testing.T) {
	var h heard
	first, base := open(t, &h)
	base.SetMaxOpenConns(1)
	tx := must[*sql.Tx](t)(first.DB.Begin())
	defer tx.Rollback()
	first.Kill()
	next := mortal.Open(base, &h)
	defer next.Close()
	if n := count(t, next.DB); n != 2 {
		t.Errorf("%d rows", n)
	}
}
