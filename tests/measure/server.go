package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/create-info/persistent-queue/schema"
)

// server is a kind of database that figures are measured on.
type server struct {
	variable string // names the environment variable with its DSN
	driver   string
	// within is the DSN of a database of the server.
	within func(dsn, database string) (string, error)
	// questions is how many statements clients have sent to the server.
	questions func(db *sql.DB) (int64, error)
	// byDue and byPrimary are how the bare loop names its indexes.
	byDue, byPrimary string
	// idIn is how it says that the id is one of these, which follow each other.
	idIn func(ids []uint64) string
}

var servers = []server{
	{"PQ_TEST_MARIADB_DSN", "mysql", withinMySQL, questionsOfMySQL, "FORCE INDEX (async_job_due)", "FORCE INDEX (PRIMARY)", asRange},
	{"PQ_TEST_MYSQL_DSN", "mysql", withinMySQL, questionsOfMySQL, "FORCE INDEX (async_job_due)", "FORCE INDEX (PRIMARY)", asRange},
	{"PQ_TEST_POSTGRES_DSN", "pgx", withinPostgreSQL, transactionsOfPostgreSQL, "", "", asArray},
}

// asRange and asArray are the fastest that the library has found, so that the bare loop is a ceiling.
func asRange(ids []uint64) string {
	last := len(ids) - 1
	return fmt.Sprintf("(id IN (%d) OR id BETWEEN %d AND %d)", ids[last], ids[0], ids[max(0, last-1)])
}

func asArray(ids []uint64) string {
	return "id = ANY(CAST((SELECT '{" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]") + "}') AS bigint[]))"
}

func withinMySQL(dsn, database string) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	config.DBName = database
	return config.FormatDSN(), nil
}

func withinPostgreSQL(dsn, database string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Path = "/" + database
	return u.String(), nil
}

func questionsOfMySQL(db *sql.DB) (n int64, err error) {
	var name string
	err = db.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	return n, err
}

// transactionsOfPostgreSQL goes by the transactions, which are as many as the statements: none is begun here. The server's
// processes tell their numbers a second late.
func transactionsOfPostgreSQL(db *sql.DB) (n int64, err error) {
	time.Sleep(1500 * time.Millisecond)
	err = db.QueryRow("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	return n, err
}

// bench is a database of its own on a server.
type bench struct {
	server
	*sql.DB
	dsn   string
	admin *sql.DB
	name  string
}

func newBench(s server) (*bench, error) {
	dsn := os.Getenv(s.variable)
	if dsn == "" {
		return nil, fmt.Errorf("%s is not set; go run ./testenv -- go run ./tests/measure", s.variable)
	}
	b := &bench{server: s, name: fmt.Sprintf("pq_measure_%d", os.Getpid())}
	var err error
	if b.dsn, err = s.within(dsn, b.name); err != nil {
		return nil, err
	}
	if b.admin, err = sql.Open(s.driver, dsn); err != nil {
		return nil, err
	}
	if _, err := b.admin.Exec("CREATE DATABASE " + b.name); err != nil {
		return nil, err
	}
	if b.DB, err = sql.Open(s.driver, b.dsn); err != nil {
		return nil, err
	}
	return b, schema.Migrate(context.Background(), b.DB)
}

func (b *bench) close() error {
	b.DB.Close()
	defer b.admin.Close()
	_, err := b.admin.Exec("DROP DATABASE " + b.name)
	return err
}
