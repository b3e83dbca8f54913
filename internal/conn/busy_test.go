package conn

import (
	"context"
	"errors"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
)

var errLocked = errors.New("database is locked (5) (SQLITE_BUSY)")

// onSQLite is a sender whose connection waits that many milliseconds for other writers.
func onSQLite(t *testing.T, wait int) (*Sender, sqlmock.Sqlmock) {
	db, mock := mocked(t)
	mock.ExpectQuery("^PRAGMA busy_timeout$").WillReturnRows(sqlmock.NewRows([]string{"timeout"}).AddRow(wait))
	mock.ExpectExec("^PRAGMA busy_timeout = 0$").WillReturnResult(sqlmock.NewResult(0, 0))
	return On(db, SQLite, ""), mock
}

func TestAWriteComesAgainUntilNobodyElseWrites(t *testing.T) {
	st, mock := onSQLite(t, 5000)
	for range 3 {
		mock.ExpectExec("^UPDATE").WillReturnError(errLocked)
	}
	mock.ExpectExec("^UPDATE").WillReturnResult(sqlmock.NewResult(0, 7))
	mock.ExpectExec("^PRAGMA busy_timeout = 5000$").WillReturnResult(sqlmock.NewResult(0, 0))
	if n, err := Exec(t.Context(), st, "UPDATE"); n != 7 || err != nil {
		t.Error(n, err)
	}
}

func TestAWriteWaitsNoLongerThanItsConnectionAndItsContext(t *testing.T) {
	st, mock := onSQLite(t, 0)
	mock.ExpectExec("^UPDATE").WillReturnError(errLocked)
	mock.ExpectExec("^PRAGMA busy_timeout = 0$").WillReturnResult(sqlmock.NewResult(0, 0))
	if _, err := Exec(t.Context(), st, "UPDATE"); !errors.Is(err, errLocked) {
		t.Error(err)
	}

	st, mock = onSQLite(t, 60_000)
	mock.ExpectExec("^PRAGMA busy_timeout = 60000$").WillReturnResult(sqlmock.NewResult(0, 0))
	conn, err := st.db.(connPool).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = st.awaitWriter(ctx, conn, func() error { cancel(); return errLocked })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errLocked) {
		t.Error(err)
	}
}
