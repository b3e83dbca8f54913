// Package store holds every statement that the library sends, and no meaning: it does not know what a status or a
// lease is for. What differs between databases stands in one file for each (mysql.go, sqlite.go); the verbs never ask
// which database they talk to.
//
// Each statement carries its contract: what it needs, what it changes, what fewer rows than asked means. Three rules
// hold for all of them:
//
//   - It can be sent again. When a connection breaks after sending, nobody knows whether the statement took effect;
//     reading back or repeating must be harmless.
//   - An UPDATE changes a value in every row that it matches, so the affected rows are counted alike whether the
//     connection counts found or changed rows (clientFoundRows).
//   - Numbers stand in the text, strings are arguments. A statement without arguments costs one round trip where one
//     with arguments costs three (prepare, execute, close).
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"
)

// DB is what the store needs of a database handle; every queue_job.DB has it. A handle that also has ExecContext and
// QueryContext (a *sql.DB, anything that embeds one) is called with the context.
type DB interface {
	Exec(query string, args ...any) (sql.Result, error)
	Query(query string, args ...any) (*sql.Rows, error)
}

// Store sends the library's statements to one database.
type Store struct {
	db DB
	dialect
	reading, writing turn
}

// turn lets statements in one at a time, if it is not nil: those who wait do so no longer than their context lives.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) enter(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialect is what differs between databases, as fragments of SQL. Times are unix seconds.
type dialect struct {
	name          string
	now           string // the database's clock, whole seconds
	nowPrecise    string // the same with its fraction
	nowRounded    string // the same, rounded to the nearest second
	nowMillis     string // the same in milliseconds
	fromUnix      string // format: unix seconds to a timestamp
	toUnix        string // format: a timestamp to unix seconds
	greatest      string // the function that returns the larger of two values
	ceiling       string // format: the next whole number
	integer       string // format: a column of whole numbers, whatever is in it
	insertNew     string // INSERT that passes over rows whose key exists
	leaseUpdate   string // UPDATE of shedlock_tab, safe from the session's time zone
	byPrimary     string // index hint: by id
	byDue         string // index hint: by job_type, job_status, start_time, id
	columnsOf     string // the columns of the table named by the argument
	indexesOf     string // the indexes of the table named by the argument
	reservesConns bool   // a second connection works beside a pool of one
}

// NoHandle reports whether a handle is nil, or an interface with a nil pointer inside.
func NoHandle(db DB) bool {
	v := reflect.ValueOf(db)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Open finds out which database the handle leads to.
func Open(ctx context.Context, db DB) (*Store, error) {
	version, err := readText(ctx, db, "SELECT VERSION()")
	if err != nil {
		// SQLite alone has no function of that name, but one of its own.
		if _, errLite := readText(ctx, db, "SELECT sqlite_version()"); errLite == nil {
			// It has one writer at a time. Waiting for it, it sleeps ever longer; waiting here, we are called.
			return &Store{db: db, dialect: sqlite, writing: newTurn()}, nil
		}
		return nil, fmt.Errorf("database version: %w", err)
	}
	switch {
	case strings.Contains(version, "PostgreSQL"):
		return nil, fmt.Errorf("database version %q: PostgreSQL is not supported yet; use MySQL, MariaDB or SQLite", version)
	case strings.Contains(version, "MariaDB"):
		return &Store{db: db, dialect: mariadb}, nil
	default:
		return &Store{db: db, dialect: mysql}, nil
	}
}

// Database is the name of the database for logs and errors.
func (s *Store) Database() string { return s.dialect.name }

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, query string, args ...any) (int, error) {
	leave, err := s.writing.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	result, err := exec(ctx, s.db, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func exec(ctx context.Context, db DB, query string, args ...any) (sql.Result, error) {
	if with, ok := db.(interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}); ok {
		return with.ExecContext(ctx, query, args...)
	}
	return within(ctx, func() (sql.Result, error) { return db.Exec(query, args...) })
}

// read runs a query and hands all its rows to collect.
func read[T any](ctx context.Context, s *Store, collect func(*sql.Rows) (T, error), query string, args ...any) (got T, err error) {
	leave, err := s.reading.enter(ctx)
	if err != nil {
		return got, err
	}
	defer leave()
	collectAll := func(rows *sql.Rows, err error) (T, error) {
		if err != nil {
			var none T
			return none, err
		}
		defer rows.Close()
		got, err := collect(rows)
		if err == nil {
			err = rows.Err()
		}
		return got, err
	}
	if with, ok := s.db.(interface {
		QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	}); ok {
		return collectAll(with.QueryContext(ctx, query, args...))
	}
	return within(ctx, func() (T, error) { return collectAll(s.db.Query(query, args...)) })
}

// within waits for an act that knows no context, but no longer than the context lives. The act itself runs on: only its
// own time-outs end it.
func within[T any](ctx context.Context, act func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := act()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func readText(ctx context.Context, db DB, query string) (string, error) {
	return read(ctx, &Store{db: db}, func(rows *sql.Rows) (text string, err error) {
		if !rows.Next() {
			return "", errors.Join(errors.New("no row"), rows.Err())
		}
		return text, rows.Scan(&text)
	}, query)
}

// structs collects rows by their column names, column the values of a single column.
func structs[T any](rows *sql.Rows) (list []T, err error) {
	err = sqlx.StructScan(rows, &list)
	return list, err
}

func column[T any](rows *sql.Rows) (list []T, err error) {
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func (s *Store) timestamp(unix string) string { return fmt.Sprintf(s.fromUnix, unix) }
func (s *Store) unix(timestamp string) string { return fmt.Sprintf(s.toUnix, timestamp) }

func wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}

// numbers writes ids as a list for IN (…).
func numbers[N int32 | uint64](list []N) string {
	text := make([]byte, 0, 12*len(list))
	for i, n := range list {
		if i > 0 {
			text = append(text, ',')
		}
		if n < 0 {
			text = strconv.AppendInt(text, int64(n), 10)
		} else {
			text = strconv.AppendUint(text, uint64(n), 10)
		}
	}
	return string(text)
}
