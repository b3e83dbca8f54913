package conn

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/DATA-DOG/go-sqlmock"
)

func mocked(t *testing.T) (*sql.DB, sqlmock.Sqlmock) {
	t.Helper()
	db, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mock.ExpectationsWereMet(); err != nil {
			t.Error(err)
		}
		mock.ExpectClose()
		db.Close()
	})
	return db, mock
}

func version(text string) *sqlmock.Rows { return sqlmock.NewRows([]string{"version"}).AddRow(text) }

func TestOpenTellsTheDatabaseByItsVersion(t *testing.T) {
	for answer, want := range map[string]string{
		"8.4.3":                                         "MySQL",
		"5.7.44-log":                                    "MySQL",
		"10.11.6-MariaDB-0+deb12u1":                     "MariaDB",
		"5.5.5-10.4.32-MariaDB-1:10.4.32":               "MariaDB",
		"8.0.11-TiDB-v8.4.0":                            "TiDB",
		"5.7.25-TiDB-v6.1.0":                            "TiDB",
		"PostgreSQL 16.3 on x86_64-pc-linux-gnu":        "PostgreSQL",
		"PostgreSQL 11.2-YB-2.20.1.3-b0 on x86_64":      "PostgreSQL",
		"CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)": "PostgreSQL",
	} {
		db, mock := mocked(t)
		mock.ExpectQuery(`SELECT VERSION\(\)`).WillReturnRows(version(answer))
		if want != "PostgreSQL" {
			mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(version("1"))
		}
		st, err := Open(t.Context(), db, "")
		if err != nil {
			t.Fatal(err)
		}
		if st.Database() != want {
			t.Errorf("%q opens as %s, want %s", answer, st.Database(), want)
		}
	}
}

func TestOpenKnowsSQLiteByTheFunctionThatItLacks(t *testing.T) {
	db, mock := mocked(t)
	mock.ExpectQuery("SELECT VERSION").WillReturnError(errors.New("no such function: VERSION"))
	mock.ExpectQuery(`SELECT sqlite_version\(\)`).WillReturnRows(version("3.46.0"))
	st, err := Open(t.Context(), db, "")
	if err != nil || st.Database() != "SQLite" {
		t.Fatalf("%v, %v", st, err)
	}
}

func TestOpenRefusesAPrefixWithADotOnSQLite(t *testing.T) {
	db, mock := mocked(t)
	mock.ExpectQuery("SELECT VERSION").WillReturnError(errors.New("no such function: VERSION"))
	mock.ExpectQuery("SELECT sqlite_version").WillReturnRows(version("3.46.0"))
	if _, err := Open(t.Context(), db, "jobs."); err == nil || !strings.Contains(err.Error(), "use a prefix without a dot") {
		t.Fatal(err)
	}
}

// uncommitted is a sender on a server whose sessions do not commit by themselves.
func uncommitted(t *testing.T) (*Sender, sqlmock.Sqlmock) {
	t.Helper()
	db, mock := mocked(t)
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(version("9.7.4"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(version("0"))
	st, err := Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	return st, mock
}

func TestInSessionsThatDoNotCommitEveryStatementIsCommitted(t *testing.T) {
	st, mock := uncommitted(t)
	mock.ExpectExec("UPDATE").WillReturnResult(sqlmock.NewResult(0, 2))
	mock.ExpectExec("COMMIT").WillReturnResult(sqlmock.NewResult(0, 0))
	mock.ExpectQuery("SELECT id").WillReturnRows(sqlmock.NewRows([]string{"id"}))
	mock.ExpectExec("COMMIT").WillReturnResult(sqlmock.NewResult(0, 0))
	if n, err := Exec(t.Context(), st, "UPDATE async_job_tab"); n != 2 || err != nil {
		t.Error(n, err)
	}
	if _, err := Read(t.Context(), st, Column[uint64], "SELECT id"); err != nil {
		t.Error(err)
	}
}

func TestAConnectionThatDidNotCommitIsClosedSoThatTheServerRollsBack(t *testing.T) {
	broken := errors.New("deadlock")
	for what, expect := range map[string]func(sqlmock.Sqlmock){
		"the statement failed": func(mock sqlmock.Sqlmock) { mock.ExpectExec("UPDATE").WillReturnError(broken) },
		"the commit failed": func(mock sqlmock.Sqlmock) {
			mock.ExpectExec("UPDATE").WillReturnResult(sqlmock.NewResult(0, 2))
			mock.ExpectExec("COMMIT").WillReturnError(broken)
		},
	} {
		for _, reserve := range []bool{false, true} {
			st, mock := uncommitted(t)
			if reserve {
				reserved, release := st.Reserve()
				defer release()
				st = reserved
				mock.ExpectExec("SET time_zone").WillReturnResult(sqlmock.NewResult(0, 0))
			}
			expect(mock)
			mock.ExpectClose()
			if _, err := Exec(t.Context(), st, "UPDATE async_job_tab"); !errors.Is(err, broken) {
				t.Errorf("%s, reserved %v: %v", what, reserve, err)
			}
			if err := mock.ExpectationsWereMet(); err != nil {
				t.Errorf("%s, reserved %v: %v", what, reserve, err)
			}
		}
	}
}

func TestAddingThroughAPoolCommitsAndThroughATransactionIsTheCallers(t *testing.T) {
	db, mock := mocked(t)
	st := On(nil, MySQL, "")
	st.commits = true
	mock.ExpectExec("INSERT").WillReturnResult(sqlmock.NewResult(7, 1))
	mock.ExpectExec("COMMIT").WillReturnResult(sqlmock.NewResult(0, 0))
	if result, err := Execute(t.Context(), st.Through(db), "INSERT"); err != nil || idOf(result) != 7 {
		t.Error(result, err)
	}
	mock.ExpectBegin()
	mock.ExpectExec("INSERT").WillReturnResult(sqlmock.NewResult(8, 1))
	mock.ExpectRollback()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if result, err := Execute(t.Context(), st.Through(tx), "INSERT"); err != nil || idOf(result) != 8 {
		t.Error(result, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

func idOf(result sql.Result) int64 {
	id, _ := result.LastInsertId()
	return id
}

func TestAHandleThatCannotBeginIsRefusedWhereSessionsDoNotCommit(t *testing.T) {
	db, mock := mocked(t)
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(version("9.7.4"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(version("0"))
	if _, err := Open(t.Context(), fourMethods{db}, ""); err == nil || !strings.Contains(err.Error(), "turn autocommit on, or pass the *sql.DB") {
		t.Fatal(err)
	}
}

func TestOpenReportsWhyADatabaseThatIsAwayDidNotAnswer(t *testing.T) {
	db, mock := mocked(t)
	refused := errors.New("connection refused")
	mock.ExpectQuery("SELECT VERSION").WillReturnError(refused)
	mock.ExpectQuery("SELECT sqlite_version").WillReturnError(errors.New("another"))
	if _, err := Open(t.Context(), db, ""); !errors.Is(err, refused) {
		t.Fatal(err)
	}
}

func TestAResultThatBreaksOffIsAnError(t *testing.T) {
	db, mock := mocked(t)
	broken := errors.New("invalid connection")
	mock.ExpectQuery("column_name").WillReturnRows(sqlmock.NewRows([]string{"of_table", "name"}).
		AddRow("async_job_tab", "a").AddRow("async_job_tab", "b").RowError(1, broken))
	mock.ExpectExec("UPDATE").WillReturnResult(sqlmock.NewErrorResult(broken))
	if read, err := senderOn(db).Columns(t.Context(), []string{"async_job_tab"}); !errors.Is(err, broken) {
		t.Errorf("read %v, %v", read, err)
	}
	if n, err := Exec(t.Context(), senderOn(db), "UPDATE async_job_tab"); !errors.Is(err, broken) {
		t.Errorf("changed %d, %v", n, err)
	}
}

// fourMethods is a handle that knows no context.
type fourMethods struct{ db *sql.DB }

func (h fourMethods) Exec(query string, args ...any) (sql.Result, error) {
	return h.db.Exec(query, args...)
}
func (h fourMethods) Query(query string, args ...any) (*sql.Rows, error) {
	return h.db.Query(query, args...)
}
func (h fourMethods) Ping() error  { return h.db.Ping() }
func (h fourMethods) Close() error { return h.db.Close() }

func TestAHandleWithFourMethodsIsEnough(t *testing.T) {
	db, mock := mocked(t)
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(version("8.4.3"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(version("1"))
	mock.ExpectExec("UPDATE async_job_tab").WillReturnResult(sqlmock.NewResult(0, 2))
	st, err := Open(t.Context(), fourMethods{db}, "")
	if err != nil {
		t.Fatal(err)
	}
	reserved, release := st.Reserve()
	defer release()
	if reserved != st {
		t.Error("a connection was reserved on a handle that is no pool")
	}
	if n, err := Exec(t.Context(), reserved, "UPDATE async_job_tab"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
}

// hanging is a handle whose calls return when it is told to.
type hanging struct{ until chan struct{} }

func (h hanging) Exec(string, ...any) (sql.Result, error) {
	<-h.until
	return nil, errors.New("too late")
}
func (h hanging) Query(string, ...any) (*sql.Rows, error) {
	<-h.until
	return nil, errors.New("too late")
}

func TestACallEndsWithItsContextThoughTheHandleKnowsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := hanging{make(chan struct{})}
		defer close(db.until)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := Exec(ctx, senderOn(db), "UPDATE async_job_tab"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := Read(ctx, senderOn(db), Column[uint64], "SELECT id"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestNoHandleSeesThroughAnInterface(t *testing.T) {
	var none *sql.DB
	if !NoHandle(nil) || !NoHandle(none) {
		t.Error("nil passes for a handle")
	}
	if NoHandle(&sql.DB{}) || NoHandle(fourMethods{}) {
		t.Error("a handle does not pass")
	}
}

func TestCutMakesTextFitItsColumn(t *testing.T) {
	long := strings.Repeat("é", 11)
	for text, want := range map[string]string{
		"":                               "",
		"short":                          "short",
		long[:20]:                        long[:20], // ten characters: exactly as many as fit
		long:                             strings.Repeat("é", 9) + "…",
		"a\x00b":                         "a\uFFFDb",
		"a\xff\xfeb":                     "a\uFFFDb",
		strings.Repeat("\xff", 3) + long: "\uFFFD" + strings.Repeat("é", 8) + "…",
	} {
		got := Cut(text, 10)
		if got != want || !utf8.ValidString(got) || utf8.RuneCountInString(got) > 10 {
			t.Errorf("cut(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestIdsAreWrittenInFullAndJobTypesMayBeNegative(t *testing.T) {
	if got := Numbers([]uint64{0, 1, 1<<64 - 1}); got != "0,1,18446744073709551615" {
		t.Error(got)
	}
	if got := Numbers([]int32{-1 << 31, 0, 1<<31 - 1}); got != "-2147483648,0,2147483647" {
		t.Error(got)
	}
}

type noting struct{ n *atomic.Int32 }

func (h noting) Exec(string, ...any) (sql.Result, error) { h.n.Add(1); return nil, errors.New("x") }
func (h noting) Query(string, ...any) (*sql.Rows, error) { h.n.Add(1); return nil, errors.New("x") }

func TestNothingIsSentUnderAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h := noting{&atomic.Int32{}}
		_, _ = Exec(ctx, senderOn(h), "UPDATE async_job_tab")
		synctest.Wait()
		if n := h.n.Load(); n > 0 {
			t.Errorf("%d sent", n)
		}
	})
}
