package faults

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What the proxy does with packets is in proxy_selftest_test.go; this is about where they end, and what they say.
func TestProxyUnderstandsPostgreSQL(t *testing.T) {
	dbtest.PostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		address, err := postgresDialect.address(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		p := newProxy(t, postgresWire, address)
		dsn, err := postgresDialect.through(d.DSN, p.address())
		if err != nil {
			t.Fatal(err)
		}
		db := dbtest.Open(t, "pgx", dsn)
		db.SetMaxOpenConns(1)
		var mu sync.Mutex
		var texts []string
		p.intercept(func(c command) fate {
			mu.Lock()
			defer mu.Unlock()
			if c.text != "-- ping" { // of the driver, when it has waited for the machine
				texts = append(texts, c.text)
			}
			for word, f := range map[string]fate{"refused": refuse("40001", "not today"), "answered in vain": cutReply(0), "cut": cutRequest(20)} {
				if strings.Contains(c.text, word) {
					return f
				}
			}
			return fate{}
		})
		execute := func(statement string, args ...any) error {
			_, err := db.Exec(statement, args...)
			return err
		}

		const create, insert = "CREATE TABLE proxied (id int PRIMARY KEY, text text NOT NULL)", "INSERT INTO proxied VALUES ($1, $2)"
		if err := errors.Join(execute(create), execute(insert, 1, strings.Repeat("x", 1<<20)), execute(insert, 2, "")); err != nil {
			t.Fatal(err)
		}
		if want := []string{create, insert, insert, insert}; !slices.Equal(texts, want) { // prepared once, executed twice
			t.Errorf("commands %q, want %q", texts, want)
		}
		for _, err := range []error{execute("DELETE FROM proxied -- refused"), execute("DELETE FROM proxied WHERE id > $1 -- refused", 0)} {
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "40001" {
				t.Errorf("%v, want what the proxy answered", err)
			}
		}
		var rows int
		if err := db.QueryRow("SELECT COUNT(*) FROM proxied").Scan(&rows); err != nil || rows != 2 {
			t.Errorf("%d rows, %v; want both", rows, err)
		}
		if execute("INSERT INTO proxied VALUES (3, 'answered in vain')") == nil || execute("INSERT INTO proxied VALUES (4, 'cut')") == nil {
			t.Error("a statement whose connection was cut succeeded")
		}
		if err := d.DB.QueryRow("SELECT SUM(id) FROM proxied").Scan(&rows); err != nil || rows != 1+2+3 {
			t.Errorf("sum of the ids %d, %v; want 6: the reply was cut after the fact, the request before it", rows, err)
		}
	})
}
