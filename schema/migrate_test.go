package schema

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/DATA-DOG/go-sqlmock"
)

// What a server says, as the drivers print it.
var (
	errDenied   = errors.New("Error 1142 (42000): CREATE command denied to user 'app'@'10.0.0.7' for table 'async_job_tab'")
	errReadOnly = errors.New("Error 1290 (HY000): The MySQL server is running with the --read-only option so it cannot execute this statement")
	errInUse    = errors.New("Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction")
)

func TestOutdatedErrorPrintsTheSQLAndWhyItWasNotRun(t *testing.T) {
	err := &OutdatedError{Database: "MySQL", SQL: []string{"CREATE TABLE a", "ALTER TABLE b"}, Err: errDenied}
	text := err.Error()
	for _, part := range []string{"MySQL", "\nCREATE TABLE a;\n\nALTER TABLE b;\n", errDenied.Error(), "as a user with DDL rights"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if !errors.Is(err, errDenied) {
		t.Error("the cause is hidden")
	}
	if text := (&OutdatedError{Database: "SQLite", SQL: []string{"CREATE TABLE a"}}).Error(); !strings.HasPrefix(text, "the SQLite schema") {
		t.Error(text)
	}
}

// server is a MySQL in virtual time whose first table lacks its index.
type server struct {
	sqlmock.Sqlmock
	db *sql.DB
}

func withServer(t *testing.T, test func(t *testing.T, s server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, mock, err := sqlmock.New()
		if err != nil {
			t.Fatal(err)
		}
		mock.ExpectQuery("SELECT VERSION").WillReturnRows(list("8.4.3"))
		mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(list("1"))
		test(t, server{mock, db})
		if err := mock.ExpectationsWereMet(); err != nil {
			t.Error(err)
		}
		mock.ExpectClose()
		db.Close()
	})
}

func list(values ...string) *sqlmock.Rows {
	rows := sqlmock.NewRows([]string{"name"})
	for _, value := range values {
		rows.AddRow(value)
	}
	return rows
}

// saw expects a look at tables in which all is there but the due index, if it is left out.
func (s server) saw(tables []*table, indexes ...string) {
	columns, others := sqlmock.NewRows([]string{"of_table", "name"}), sqlmock.NewRows([]string{"of_table", "name"})
	for _, t := range tables {
		for _, name := range names(t.columns) {
			columns.AddRow(t.name, name)
		}
		for _, name := range names(t.indexes) {
			if name != "async_job_due" {
				others.AddRow(t.name, name)
			}
		}
	}
	for _, name := range indexes {
		others.AddRow(tables[0].name, name)
	}
	s.ExpectQuery("information_schema.columns .*'" + tables[len(tables)-1].name + "'").WillReturnRows(columns)
	s.ExpectQuery("information_schema.statistics .*'" + tables[len(tables)-1].name + "'").WillReturnRows(others)
}

// looked expects a look at the first table.
func (s server) looked(t *testing.T, indexes ...string) {
	t.Helper()
	s.saw(tablesOf(t, "mysql.sql")[:1], indexes...)
}

// lookedAtTheOthers expects a look at each table but the first.
func (s server) lookedAtTheOthers(t *testing.T) {
	t.Helper()
	for _, other := range tablesOf(t, "mysql.sql")[1:] {
		s.saw([]*table{other})
	}
}

// lookedAtAll expects a look at all tables at once.
func (s server) lookedAtAll(t *testing.T, indexes ...string) {
	t.Helper()
	s.saw(tablesOf(t, "mysql.sql"), indexes...)
}

// altered expects the DDL, on a connection that waits a second at most, and its setting undone.
func (s server) altered(err error) {
	s.ExpectExec("SET SESSION lock_wait_timeout = 1").WillReturnResult(sqlmock.NewResult(0, 0))
	ddl := s.ExpectExec("ALTER TABLE async_job_tab ADD KEY async_job_due")
	if err != nil {
		ddl.WillReturnError(err)
	} else {
		ddl.WillReturnResult(sqlmock.NewResult(0, 0))
	}
	s.ExpectExec("SET SESSION lock_wait_timeout = @@GLOBAL.lock_wait_timeout").WillReturnResult(sqlmock.NewResult(0, 0))
}

func TestAnUpToDateSchemaIsOnlyLookedAt(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t, "async_job_due")
		if err := Migrate(t.Context(), s.db); err != nil {
			t.Error(err)
		}
	})
}

func TestAUserWithoutDDLRightsIsToldWhatToRun(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		s.looked(t)
		s.altered(errDenied)
		s.looked(t)
		s.lookedAtAll(t)
		err := Migrate(t.Context(), s.db)
		var outdated *OutdatedError
		if !errors.As(err, &outdated) || !errors.Is(err, errDenied) || len(outdated.SQL) != 1 || !strings.Contains(outdated.SQL[0], "async_job_due") {
			t.Error(err)
		}
	})
}

func TestAServerThatIsReadOnlyForNowIsNoOutdatedSchema(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		s.looked(t)
		s.altered(errReadOnly)
		s.looked(t)
		var outdated *OutdatedError
		if err := Migrate(t.Context(), s.db); !errors.Is(err, errReadOnly) || errors.As(err, &outdated) {
			t.Error(err)
		}
	})
}

func TestATableInUseIsWaitedFor(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		s.looked(t)
		s.altered(errInUse)
		s.looked(t)
		s.altered(nil)
		s.looked(t, "async_job_due")
		s.lookedAtTheOthers(t)
		began := time.Now()
		if err := Migrate(t.Context(), s.db); err != nil || time.Since(began) == 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestATableThatStaysInUseIsReportedWhenTheContextEnds(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		s.looked(t)
		s.altered(errInUse)
		s.looked(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := Migrate(ctx, s.db); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errInUse) {
			t.Error(err)
		}
	})
}

func TestWhatAnotherInstanceDidMeanwhileIsNoError(t *testing.T) {
	for _, got := range []error{errors.New("Error 1061 (42000): Duplicate key name 'async_job_due'"), errDenied, errReadOnly} {
		withServer(t, func(t *testing.T, s server) {
			s.lookedAtAll(t)
			s.looked(t)
			s.altered(got)
			s.looked(t, "async_job_due")
			s.lookedAtTheOthers(t)
			if err := Migrate(t.Context(), s.db); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckChangesNothing(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		var outdated *OutdatedError
		if err := Check(t.Context(), s.db); !errors.As(err, &outdated) || outdated.Database != "MySQL" || outdated.Err != nil {
			t.Error(err)
		}
	})
}

func TestADDLThatChangesNothingIsReportedAndNotRepeated(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		s.looked(t)
		s.altered(nil)
		for range 2 + replicaBehind/lookAgain + 1 {
			s.looked(t)
		}
		s.lookedAtAll(t)
		var outdated *OutdatedError
		if err := Migrate(t.Context(), s.db); !errors.As(err, &outdated) || !strings.Contains(err.Error(), "belongs to something else") {
			t.Error(err)
		}
	})
}

func TestASchemaThatIsReadFromAReplicaWhichLagsIsNoOutdatedSchema(t *testing.T) {
	withServer(t, func(t *testing.T, s server) {
		s.lookedAtAll(t)
		s.looked(t)
		s.altered(nil)
		for range 10 { // two seconds
			s.looked(t)
		}
		s.looked(t, "async_job_due")
		s.lookedAtTheOthers(t)
		if err := Migrate(t.Context(), s.db); err != nil {
			t.Error(err)
		}
	})
}
