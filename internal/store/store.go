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
	advice           *advice
}

// Primary is the handle to use of one that has several databases behind it, as bxcodec/dbresolver has, and may read from
// any of them: its first primary. Other handles are returned as they are.
func Primary(db DB) DB {
	if many, ok := db.(interface{ PrimaryDBs() []*sql.DB }); ok && !NoHandle(db) {
		if primaries := many.PrimaryDBs(); len(primaries) > 0 {
			return primaries[0]
		}
	}
	return db
}

// NoHandle reports whether a handle is nil, or an interface with a nil pointer inside.
func NoHandle(handle any) bool {
	v := reflect.ValueOf(handle)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Open finds out which database the handle leads to. The prefix is that of the tables' names.
func Open(ctx context.Context, db DB, prefix string) (*Store, error) {
	if NoHandle(db) {
		return nil, errors.New("the handle is nil; pass your *sql.DB")
	}
	db = Primary(db)
	d, err := dialectOf(ctx, db)
	if err != nil {
		err, _ = explained(err)
		return nil, fmt.Errorf("database version: %w", err)
	}
	if d.oneWriter && strings.Contains(prefix, ".") {
		return nil, fmt.Errorf("table prefix %q: %s has no schemas; use a prefix without a dot", prefix, d.name)
	}
	s := &Store{db: db, dialect: d.named(prefix), tables: named(prefix), advice: &advice{}}
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
	if on == "0" {
		conns, ok := db.(connPool)
		if !ok {
			return nil, errors.New("the sessions of this database run with autocommit off, and the handle is no *sql.DB: what is written through it would never be committed; turn autocommit on, or pass the *sql.DB")
		}
		s.db, s.commits = pool{db, conns}, true
	}
	return s, nil
}

// Look reports whether the table of jobs is there, as ErrNoTables if it is not. It reads no row.
func (s *Store) Look(ctx context.Context) error {
	_, err := read(ctx, s, column[uint64], s.fromPrimary(fmt.Sprintf("SELECT id FROM %s WHERE id = 0", s.jobs)))
	return wrap("look for the tables", err)
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
