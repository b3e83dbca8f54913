package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// DB is what a [Sender] needs of a database handle; every queue_job.DB has it. If a handle also has ExecContext or
// QueryContext (a *sql.DB, or a type that embeds one), it calls these, with its context.
type DB interface {
	Exec(query string, args ...any) (sql.Result, error)
	Query(query string, args ...any) (*sql.Rows, error)
}

// Sender sends the library's statements to one set of tables in one database.
type Sender struct {
	db DB
	*Dialect
	Tables           Tables
	reading, writing turn
	beyond           *Sender // the same on a connection of its own, for when the pool is full; nil: there is none
	commits          bool    // sessions run with autocommit off, so each statement is followed by COMMIT
	seesAll          bool    // sessions read what others have not committed, and may take back
	advice           *advice
}

// Primary returns the handle to use. A handle with several databases behind it, as bxcodec/dbresolver has, may read from
// any of them, so Primary returns its first primary. Other handles are returned as they are.
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

// ErrUnusable is the cause of an error about a handle, or a prefix, that cannot be used. Trying again does not help.
var ErrUnusable = errors.New("the handle or the table prefix cannot be used")

// unusable is an error with the cause [ErrUnusable].
type unusable string

func (u unusable) Error() string      { return string(u) }
func (unusable) Is(target error) bool { return target == ErrUnusable }

// Open finds out which database the handle leads to, and returns the sender of the tables whose names begin with the
// prefix. It sends reads only, to a database that has ten seconds to answer. After any error but [ErrUnusable], another try may
// succeed.
func Open(ctx context.Context, db DB, prefix string) (*Sender, error) {
	const patience = 10 * time.Second
	if NoHandle(db) {
		return nil, unusable("the handle is nil; pass your *sql.DB")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	db = Primary(db)
	d, err := dialectOf(ctx, db)
	if err != nil {
		err, _ = explained(err)
		return nil, fmt.Errorf("database version: %w", err)
	}
	if d.oneWriter && strings.Contains(prefix, ".") {
		return nil, unusable(fmt.Sprintf("table prefix %q: %s has no schemas; use a prefix without a dot", prefix, d.Name))
	}
	s := On(db, d, prefix)
	if d.oneWriter {
		// SQLite's own waiting sleeps longer after each try; a statement that waits here goes as soon as the one before
		// it is done.
		s.writing = newTurn()
	}
	if d.session == "" {
		return s, nil
	}
	session, err := d.sessionOf(ctx, db)
	if errors.Is(err, ErrUnusable) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("autocommit of the session: %w", err)
	}
	if session.statements {
		toStatements := s.Dialect.ForStatements()
		s.Dialect = &toStatements
	}
	s.seesAll = session.seesAll
	if !session.commits {
		conns, ok := db.(connPool)
		if !ok {
			return nil, unusable(
				"the sessions of this database run with autocommit off, and the handle is no *sql.DB: what is written through it would never be committed; " +
					"turn autocommit on, or pass the *sql.DB")
		}
		s.db, s.commits = pool{db, conns}, true
	}
	return s, nil
}

// On returns the sender of the tables in a database of this dialect.
func On(db DB, d Dialect, prefix string) *Sender {
	return &Sender{db: db, Dialect: d.named(prefix), Tables: named(prefix), advice: &advice{}}
}

// MayRun returns an error, with the cause [ErrUnusable], if jobs cannot be run through this handle, though they can be added.
func (s *Sender) MayRun() error {
	if s.seesAll {
		return unusable(
			"the sessions of this database read what others have not committed (READ UNCOMMITTED): a cancellation, a pause or a broken lease that is rolled " +
				"back would have happened; give the Runner a handle with READ COMMITTED at least")
	}
	return nil
}

// Handle returns the handle that the sender was opened on.
func (s *Sender) Handle() any {
	if p, ok := s.db.(pool); ok {
		return p.DB
	}
	return s.db
}

// HasTablesOf reports whether the tables of both have the same names.
func (s *Sender) HasTablesOf(other Via) bool { return s.Tables == other.sender().Tables }

// Look returns an error with the cause [ErrNoTables] if the table of jobs is missing. It reads no row.
func (s *Sender) Look(ctx context.Context) error {
	_, err := Read(ctx, s, Column[uint64], s.FromPrimary(fmt.Sprintf("SELECT id FROM %s WHERE id = 0", s.Tables.Jobs)))
	return Wrap("look for the tables", err)
}

// Database returns the name of the database, as it stands in logs and errors.
func (s *Sender) Database() string { return s.Dialect.Name }

func (s *Sender) Timestamp(unix string) string { return fmt.Sprintf(s.fromUnix, unix) }
func (s *Sender) Unix(timestamp string) string { return fmt.Sprintf(s.toUnix, timestamp) }

func (d *Dialect) Exactly(number string) string { return fmt.Sprintf(d.exact, number) }

func Wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}
