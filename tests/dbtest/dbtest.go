// Package dbtest gives a test each supported database, fresh and empty, and tells which ones it had to leave out.
package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
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

// kind is a kind of server. The environment variable names one; the make command sets it.
type kind struct{ name, variable, driver, command string }

var (
	tidb   = []kind{{"TiDB", "PQ_TEST_TIDB_DSN", "mysql", "make tidb"}}
	mysqls = append([]kind{
		{"MariaDB", "PQ_TEST_MARIADB_DSN", "mysql", "make test"},
		{"MySQL", "PQ_TEST_MYSQL_DSN", "mysql", "make test"},
	}, tidb...)
	postgres = []kind{{"PostgreSQL", "PQ_TEST_POSTGRES_DSN", "pgx", "make test"}}
	servers  = append(slices.Clone(mysqls), postgres...)
)

// Each runs the test on every database that is at hand, with the tables in place: SQLite always, a server when its
// variable names one. A server that is left out shows as a skip; with PQ_TEST_ALL=1, as a failure, unless it is TiDB, which has
// a command of its own.
func Each(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	onSQLite(t, tables, test)
	EachServer(t, test)
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
	onSQLite(t, nothing, test)
	Servers(t, test)
}

// SQLite is Each without the servers.
func SQLite(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	onSQLite(t, tables, test)
}

func onSQLite(t *testing.T, want contents, test func(t *testing.T, d Database)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		parallel(t)
		test(t, sqlite(t, want))
	})
}

// EachServer is Each without SQLite: for what only a server does.
func EachServer(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, servers, tables, test)
}

// Servers is EachEmpty without SQLite.
func Servers(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, servers, nothing, test)
}

// ServersAtOnce is EachServer for a test that is parallel itself: the databases run side by side, and in its place. So all of them
// together count as one test of -parallel.
func ServersAtOnce(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	var all sync.WaitGroup
	for _, k := range servers {
		all.Go(func() { t.Run(k.name, func(t *testing.T) { onServer(t, k, tables, test) }) })
	}
	all.Wait()
}

// EachMySQL is EachServer without PostgreSQL: for what MySQL and MariaDB alone have, and TiDB, which is like them.
func EachMySQL(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, mysqls, tables, test)
}

// MySQLs is EachMySQL without the tables.
func MySQLs(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, mysqls, nothing, test)
}

// EachPostgreSQL is EachServer without MySQL and those like it.
func EachPostgreSQL(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, postgres, tables, test)
}

// PostgreSQL is EachPostgreSQL without the tables.
func PostgreSQL(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, postgres, nothing, test)
}

// TiDB is Servers without the others.
func TiDB(t *testing.T, test func(t *testing.T, d Database)) {
	t.Helper()
	on(t, tidb, nothing, test)
}

func on(t *testing.T, kinds []kind, want contents, test func(t *testing.T, d Database)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			parallel(t)
			onServer(t, k, want, test)
		})
	}
}

func onServer(t *testing.T, k kind, want contents, test func(t *testing.T, d Database)) {
	switch {
	case os.Getenv(k.variable) != "":
		test(t, server(t, k, want))
	case os.Getenv("PQ_TEST_ALL") != "" && k.command == "make test":
		t.Fatalf("%s is not set: \"make test\" runs on every database", k.variable)
	default:
		t.Skipf("left out: %s is not set; %q provides the server", k.variable, k.command)
	}
}

func sqlite(t *testing.T, want contents) Database {
	file := filepath.Join(t.TempDir(), "test.db")
	if want == tables {
		withTables, err := sqliteFile()
		if err == nil {
			err = os.WriteFile(file, withTables, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Database{"SQLite", "sqlite", sqliteDSN(file), Open(t, "sqlite", sqliteDSN(file))}
}

func sqliteDSN(file string) string {
	return "file:" + file + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate"
}

// sqliteFile is a database that has the tables. It is made once, and each test gets a copy.
var sqliteFile = sync.OnceValues(func() (withTables []byte, err error) {
	dir, err := os.MkdirTemp("", "persistent-queue-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "tables.db")
	db, err := sql.Open("sqlite", sqliteDSN(file))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(schema.Migrate(context.Background(), db), db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(file) // whoever closes it last brings the log into it
})

// server makes a database of its own on the server, and takes it away after the test.
func server(t *testing.T, k kind, want contents) Database {
	admin, err := admins.of(k)
	if err != nil {
		t.Fatal(err)
	}
	name, has, err := create(k, admin, want)
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := within(k.driver, os.Getenv(k.variable), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := takeAway(k, admin, name, dsn); err != nil {
			t.Error(err)
		}
	})
	db := Open(t, k.driver, dsn)
	if want == tables && has == nothing {
		if err := schema.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if k.driver == "pgx" {
			if err := noteMade(t.Context(), db, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return Database{k.name, k.driver, dsn, db}
}

func nameOf(version string) string {
	for _, name := range []string{"MariaDB", "TiDB", "PostgreSQL"} {
		if strings.Contains(version, name) {
			return name
		}
	}
	return "MySQL"
}

// within is the DSN of a database of the server.
func within(driver, dsn, database string) (string, error) {
	if driver == "pgx" {
		u, err := url.Parse(dsn)
		if err != nil {
			return "", err
		}
		u.Path = "/" + database
		return u.String(), nil
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	config.DBName = database
	return config.FormatDSN(), nil
}

// Open opens a pool and closes it after the test.
func Open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(idleMax)
	t.Cleanup(func() { db.Close() })
	return db
}

// idleMax is more than what database/sql keeps by default. With two, a pool that is used by more goroutines at once closes and
// opens connections all the time, and a PostgreSQL server makes a process for each.
const idleMax = 16

// Rebind writes a query's question marks as the pool's driver wants them.
func Rebind(db *sql.DB, query string) string {
	switch db.Driver().(type) {
	case *stdlib.Driver, *pq.Driver:
		return sqlx.Rebind(sqlx.DOLLAR, query)
	default:
		return query
	}
}

// ContinueIDs lets the ids that the database gives go on behind the largest one, which was inserted by hand: on PostgreSQL
// alone they do not do so by themselves.
func ContinueIDs(t *testing.T, d Database) {
	t.Helper()
	if d.Name != "PostgreSQL" {
		return
	}
	if _, err := d.DB.Exec("SELECT setval(pg_get_serial_sequence('async_job_tab', 'id'), MAX(id)) FROM async_job_tab"); err != nil {
		t.Fatal(err)
	}
}

// Pace is how long somebody who asks a database again and again waits for the next time: a twentieth of the wait so far, for that
// is how exact it needs to be. What takes seconds is not asked for hundreds of times in each.
func Pace(waited time.Duration) time.Duration {
	return min(max(waited/20, 2*time.Millisecond), 20*time.Millisecond)
}
