// Package store holds every statement that the library sends, and no meaning: it does not know what a status or a
// lease is for. What differs between databases stands in one file for each (mysql.go, postgres.go, sqlite.go); the
// verbs never ask which database they talk to.
//
// Each statement carries its contract: what it needs, what it changes, what fewer rows than asked means. Three rules
// hold for all of them:
//
//   - It can be sent again. When a connection breaks after sending, nobody knows whether the statement took effect;
//     reading back or repeating must be harmless.
//   - An UPDATE changes a value in every row that it matches, so the affected rows are counted alike whether the
//     connection counts found or changed rows (clientFoundRows).
//   - Numbers stand in the text, strings are arguments. A statement without arguments costs one round trip where one
//     with arguments costs three (prepare, execute, close). Reads of PostgreSQL are an exception (postgres.go).
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// DB is what the store needs of a database handle; every queue_job.DB has it. A handle that also has ExecContext and
// QueryContext (a *sql.DB, anything that embeds one) is called with the context.
type DB interface {
	Exec(query string, args ...any) (sql.Result, error)
	Query(query string, args ...any) (*sql.Rows, error)
}

// Store sends the library's statements to one set of tables in one database.
type Store struct {
	db DB
	dialect
	tables
	reading, writing turn
	commits          bool // sessions do not commit by themselves
}

// dialect is what differs between databases, as fragments of SQL. Times are unix seconds.
type dialect struct {
	name          string
	now           string // the database's clock, whole seconds
	nowPrecise    string // the same with its fraction
	leaseNow      string // the clock that leases go by, as fine as lock_until is
	leaseRounded  string // the same, rounded to what lock_until can hold
	leaseMillis   string // the same in milliseconds
	fromUnix      string // format: unix seconds to a timestamp
	toUnix        string // format: a timestamp to unix seconds
	greatest      string // the function that returns the larger of two values
	ceiling       string // format: the next whole number
	integer       string // format: a column of whole numbers, whatever is in it
	insertNew     string // INSERT that passes over rows whose key exists …
	unlessThere   string // … and what it says behind the rows for that
	returning     string // what an INSERT says to have its id returned as a row; empty: the driver tells it
	leaseUpdate   string // UPDATE of shedlock_tab, safe from the session's time zone
	ownSession    string // what makes a session of our own safe from its time zone
	byPrimary     string // index hint: by id
	byDue         string // index hint: by job_type, job_status, start_time, id
	atOnce        string // start_time is 0
	idIn          string // format: the id is one of a list
	columnsOf     string // format: the columns of the named table
	indexesOf     string // format: the indexes of the named table
	autocommit    string // whether this session commits by itself; empty: every session does
	impatient     string // lets this session wait a second for the lock of a table, and no longer; empty: it does not wait
	patient       string // takes that back
	lanesInFull   bool   // a lane is read in the order of all columns of the due index, whatever they are in the lane
	sweep         func(s *Store, part int, k kind, types []int32, limit int, args *arguments) string
	bind          int           // how arguments are written, as sqlx knows it
	bindsNumbers  bool          // numbers that differ from one read to the next are arguments
	replanEvery   time.Duration // how long the text of a read stays the same; 0: for ever
	oneWriter     bool          // one statement at a time can write
	reservesConns bool          // a second connection works beside a pool of one
}

// NoHandle reports whether a handle is nil, or an interface with a nil pointer inside.
func NoHandle(db DB) bool {
	v := reflect.ValueOf(db)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Open finds out which database the handle leads to. The prefix is that of the tables' names.
func Open(ctx context.Context, db DB, prefix string) (*Store, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("database version: %w", err)
	}
	if d.oneWriter && strings.Contains(prefix, ".") {
		return nil, fmt.Errorf("table prefix %q: %s has no schemas; use a prefix without a dot", prefix, d.name)
	}
	s := &Store{db: db, dialect: d.named(prefix), tables: named(prefix)}
	if d.oneWriter {
		// Waiting for its turn, the database's own code sleeps ever longer; waiting here, we are called.
		s.writing = newTurn()
	}
	if d.autocommit == "" {
		return s, nil
	}
	on, err := readText(ctx, db, d.autocommit)
	if err != nil {
		return nil, fmt.Errorf("autocommit of the session: %w", err)
	}
	if s.commits = on == "0"; s.commits && !begins(db) {
		return nil, errors.New("the sessions of this database run with autocommit off, and the handle has no BeginTx: what is written through it would never be committed; turn autocommit on, or pass the *sql.DB")
	}
	return s, nil
}

func dialectOf(ctx context.Context, db DB) (dialect, error) {
	version, err := readText(ctx, db, "SELECT VERSION()")
	if err != nil {
		// SQLite alone has no function of that name, but one of its own.
		if _, errLite := readText(ctx, db, "SELECT sqlite_version()"); errLite == nil {
			return sqlite, nil
		}
		return dialect{}, err
	}
	switch {
	case strings.Contains(version, "PostgreSQL"), strings.Contains(version, "CockroachDB"):
		return postgres, nil
	case strings.Contains(version, "MariaDB"):
		return mariadb, nil
	default:
		return mysql, nil
	}
}

func begins(db DB) bool {
	_, ok := db.(beginner)
	return ok
}

// Database is the name of the database for logs and errors.
func (s *Store) Database() string { return s.dialect.name }

func (s *Store) timestamp(unix string) string { return fmt.Sprintf(s.fromUnix, unix) }
func (s *Store) unix(timestamp string) string { return fmt.Sprintf(s.toUnix, timestamp) }

func wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}
