package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // beside it, and to compare with
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *sql.DB {
	t.Helper()
	db := Open(filepath.Join(t.TempDir(), "100% odd?name#.db"), "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(OFF)")
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execute(t *testing.T, db *sql.DB, query string, args ...any) sql.Result {
	t.Helper()
	result, err := db.Exec(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestValuesAreWhatTheUsualDriverMakesOfThem(t *testing.T) {
	theirs, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "theirs.db")+"?_pragma=synchronous(OFF)")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	at := time.Date(2026, 11, 22, 22, 8, 9, 123456789, time.FixedZone("", 3600))
	values := []any{nil, int64(-1) << 63, 1.5, "", "zero \x00 and ключ 世", []byte{}, []byte(nil), []byte{0, 1, 255}, true, false, at, "2026-11-22 22:08:09", "2026-11-22T22:08:09Z", "no time"}
	for _, column := range []string{"", "text", "integer", "datetime", "timestamp", "date", "boolean", "varchar(10)"} {
		for _, value := range values {
			var got [2]any
			var read [2]sql.NullString
			for i, db := range []*sql.DB{open(t), theirs} {
				execute(t, db, "DROP TABLE IF EXISTS v")
				execute(t, db, "CREATE TABLE v (v "+column+")")
				execute(t, db, "INSERT INTO v VALUES (?)", value)
				if err := db.QueryRow("SELECT v FROM v").Scan(&got[i]); err != nil {
					t.Fatal(err)
				}
				if err := db.QueryRow("SELECT typeof(v) || length(v) FROM v").Scan(&read[i]); err != nil {
					t.Fatal(err)
				}
			}
			a, aTime := got[0].(time.Time)
			b, bTime := got[1].(time.Time)
			_, isTime := value.(time.Time)
			switch {
			case aTime && bTime && a.Equal(b):
			case isTime && aTime && a.Equal(at): // theirs gets none of a zone without a name
			case isTime && !aTime && !bTime: // written as a text that SQLite knows; theirs is Go's
			case fmt.Sprint(got[0]) == fmt.Sprint(got[1]) && reflect.TypeOf(got[0]) == reflect.TypeOf(got[1]) && read[0] == read[1]:
			default:
				t.Errorf("%v (%T) in a column %q: %v (%T, %v), theirs %v (%T, %v)", value, value, column, got[0], got[0], read[0], got[1], got[1], read[1])
			}
		}
	}
}

func TestATimeComesBackAndSQLiteKnowsIt(t *testing.T) {
	db := open(t)
	at := time.Date(2026, 11, 22, 22, 8, 9, 123456789, time.FixedZone("", 3600))
	execute(t, db, "CREATE TABLE v (at datetime)")
	execute(t, db, "INSERT INTO v VALUES (?)", at)
	var back time.Time
	var unix int64
	if err := db.QueryRow("SELECT at, unixepoch(at) FROM v").Scan(&back, &unix); err != nil || !back.Equal(at) || unix != at.Unix() {
		t.Errorf("%v, %d, %v", back, unix, err)
	}
}

func TestATextMayHaveSeveralStatements(t *testing.T) {
	db := open(t)
	execute(t, db, "CREATE TABLE v (id integer PRIMARY KEY, v); -- a comment; no statement\n INSERT INTO v (v) VALUES (1), (2); ;\n")
	result := execute(t, db, "INSERT INTO v (v) VALUES (:b), (@a), ($a)", sql.Named("a", 4), sql.Named("b", 3))
	id, _ := result.LastInsertId()
	if n, _ := result.RowsAffected(); n != 3 || id != 5 {
		t.Errorf("%d rows, the last has id %d", n, id)
	}
	var sum, returned int
	if err := db.QueryRow("UPDATE v SET v = v + 1; SELECT sum(v) FROM v; -- the end").Scan(&sum); err != nil || sum != 19 {
		t.Error(sum, err)
	}
	if err := db.QueryRow("INSERT INTO v (v) VALUES (7) RETURNING id").Scan(&returned); err != nil || returned != 6 {
		t.Error(returned, err)
	}
	rows, err := db.Query("DELETE FROM v WHERE v = 7") // and nobody asks for rows
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	if err := db.QueryRow("SELECT count(*) FROM v").Scan(&sum); err != nil || sum != 5 {
		t.Error(sum, err)
	}
	execute(t, db, "")
	execute(t, db, " -- nothing\n")
}

func TestWhatIsWrongIsAnError(t *testing.T) {
	db := open(t)
	execute(t, db, "CREATE TABLE v (v UNIQUE)")
	execute(t, db, "INSERT INTO v VALUES (1)")
	for query, want := range map[string]string{
		"SELECT * FROM nowhere":         "no such table: nowhere",
		"SELEKT":                        "syntax error",
		"INSERT INTO v VALUES (1)":      "UNIQUE constraint failed: v.v (2067)",
		"INSERT INTO v VALUES (?), (?)": "parameter 2",
		"SELECT 3; NOISE":               "syntax error",
	} {
		if _, err := db.Exec(query, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Exec %s: %v", query, err)
		}
		if rows, err := db.Query(query, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Query %s: %v, %v", query, rows, err)
		}
	}
	if _, err := db.Prepare("SELEKT"); err == nil {
		t.Error("Prepare takes everything")
	}
	folder := Open(t.TempDir())
	defer folder.Close()
	if err := folder.Ping(); err == nil || !strings.Contains(err.Error(), "unable to open") {
		t.Errorf("a folder: %v", err)
	}
}

func TestAPreparedStatementRunsAgain(t *testing.T) {
	db := open(t)
	execute(t, db, "CREATE TABLE v (v)")
	insert, err := db.Prepare("INSERT INTO v VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	for i := range 100 {
		if _, err := insert.Exec(i); err != nil {
			t.Fatal(err)
		}
	}
	var sum int
	if err := db.QueryRow("SELECT sum(v) FROM v WHERE v >= ?", 50).Scan(&sum); err != nil || sum != 3725 {
		t.Error(sum, err)
	}
}

func TestWritersWaitForEachOther(t *testing.T) {
	db := open(t)
	execute(t, db, "CREATE TABLE v (n)")
	execute(t, db, "INSERT INTO v VALUES (0)")
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range 20 {
				tx, err := db.Begin()
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				if err := tx.QueryRow("SELECT n FROM v").Scan(&n); err != nil {
					t.Error(err)
				}
				if _, err := tx.Exec("UPDATE v SET n = ?", n+1); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					err = tx.Commit()
				} else {
					err = tx.Rollback()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	var n int
	if err := db.QueryRow("SELECT n FROM v").Scan(&n); err != nil || n != 80 {
		t.Errorf("%d, %v; want 80", n, err)
	}
}

func TestTheEndOfAContextEndsAStatement(t *testing.T) {
	db := open(t)
	db.SetMaxOpenConns(1)
	const forEver = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, forEver); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.QueryContext(ctx, forEver); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Query: %v", err)
	}
	var one int
	if err := db.QueryRow("SELECT 1").Scan(&one); err != nil || one != 1 {
		t.Errorf("the connection works no more: %v", err)
	}
}
