// Package dbtest gives a test each database that the programs run on, fresh and empty.
package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
)

// The environment variables that name servers whose users may create databases; "make test" sets them.
var servers = []server{
	{"MariaDB", "PQ_TEST_MARIADB_DSN", "mysql", mysqlNamed},
	{"MySQL", "PQ_TEST_MYSQL_DSN", "mysql", mysqlNamed},
	{"PostgreSQL", "PQ_TEST_POSTGRES_DSN", "pgx", postgresNamed},
}

type server struct {
	name, variable, driver string
	named                  func(dsn, database string) (string, error)
}

// Each runs the test on SQLite always, and on each server whose variable names one. One that is left out shows as a
// skip; with PQ_TEST_ALL=1, as a failure. SQLite's driver is the caller's to import: there are two of that name.
func Each(t *testing.T, test func(t *testing.T, driver, dsn string)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite", shop.SQLite(filepath.Join(t.TempDir(), "shop.db")))
	})
	for _, s := range servers {
		on(t, s, test)
	}
}

// PostgreSQL is Each for a program that runs on nothing else.
func PostgreSQL(t *testing.T, test func(t *testing.T, driver, dsn string)) {
	on(t, servers[len(servers)-1], test)
}

func on(t *testing.T, s server, test func(t *testing.T, driver, dsn string)) {
	t.Run(s.name, func(t *testing.T) {
		t.Parallel()
		dsn := os.Getenv(s.variable)
		switch {
		case dsn != "":
			test(t, s.driver, database(t, s.driver, dsn, s.named))
		case os.Getenv("PQ_TEST_ALL") != "":
			t.Fatalf("%s is not set: \"make test\" runs on every database", s.variable)
		default:
			t.Skipf("left out: %s is not set; \"make test\" provides the servers", s.variable)
		}
	})
}

var databases atomic.Int64

// database makes a database of its own on the server, and drops it after the test.
func database(t *testing.T, driver, server string, named func(dsn, database string) (string, error)) (dsn string) {
	name := fmt.Sprintf("pq_orm_%d_%d", os.Getpid(), databases.Add(1))
	dsn, err := named(server, name)
	if err != nil {
		t.Fatal(err)
	}
	admin := Open(t, driver, server)
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if driver == "pgx" { // it refuses while a connection of the program that has just ended is there
			if _, err := admin.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name); err != nil {
				t.Error(err)
			}
		}
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

func mysqlNamed(dsn, database string) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	config.DBName = database
	return config.FormatDSN(), nil
}

func postgresNamed(dsn, database string) (string, error) {
	named, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	named.Path = "/" + database
	return named.String(), nil
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
