// Package dbtest gives a test each supported database, fresh and empty, and tells which ones it had to leave out.
package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/create-info/persistent-queue/schema"
)

// Database is one database that a test runs on.
type Database struct {
	Name   string
	Driver string
	DSN    string
	DB     *sql.DB
}

// The environment variables that name servers; the README's "make test" sets them.
var servers = []struct{ name, variable string }{
	{"MariaDB", "PQ_TEST_MARIADB_DSN"},
	{"MySQL", "PQ_TEST_MYSQL_DSN"},
}

// Each runs the test on every database that is at hand, with the tables in place: SQLite always, a server when its
// variable names one. A server that is left out shows as a skip; with PQ_TEST_ALL=1, as a failure.
func Each(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	EachEmpty(t, func(t *testing.T, d Database) {
		if err := schema.Migrate(t.Context(), d.DB); err != nil {
			t.Fatal(err)
		}
		test(t, d)
	})
}

// EachInTurn is Each, one database after the other: for tests that measure what the whole process shares.
func EachInTurn(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	inTurn = true
	defer func() { inTurn = false }()
	Each(t, test)
}

// inTurn is read and written by tests that are not parallel themselves.
var inTurn bool

// parallel lets the databases of one test run side by side; most of a test's time is waiting.
func parallel(t *testing.T) {
	if !inTurn {
		t.Parallel()
	}
}

// EachEmpty is Each without the tables.
func EachEmpty(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		parallel(t)
		test(t, sqlite(t))
	})
	Servers(t, test)
}

// Servers is EachEmpty without SQLite: for what only a server does.
func Servers(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			parallel(t)
			dsn := os.Getenv(s.variable)
			switch {
			case dsn != "":
				test(t, server(t, s.name, dsn))
			case os.Getenv("PQ_TEST_ALL") != "":
				t.Fatalf("%s is not set: \"make test\" runs on every database", s.variable)
			default:
				t.Skipf("left out: %s is not set; \"make test\" provides the servers", s.variable)
			}
		})
	}
}

func sqlite(t *testing.T) Database {
	dsn := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate"
	return Database{"SQLite", "sqlite", dsn, Open(t, "sqlite", dsn)}
}

var databases atomic.Int64

// server makes a database of its own on the server, and drops it after the test.
func server(t *testing.T, name, dsn string) Database {
	admin := Open(t, "mysql", dsn)
	var version string
	if err := admin.QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if strings.Contains(version, "MariaDB") != (name == "MariaDB") {
		t.Fatalf("the server that is named for %s says it is %s", name, version)
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DBName = fmt.Sprintf("pq_test_%d_%d", os.Getpid(), databases.Add(1))
	if _, err := admin.Exec("CREATE DATABASE " + config.DBName); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The server waits for the last connection; the test's own are closed by then.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+config.DBName); err != nil {
			t.Error(err)
		}
	})
	return Database{name, "mysql", config.FormatDSN(), Open(t, "mysql", config.FormatDSN())}
}

// Open opens a pool and closes it after the test.
func Open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
