// Package tables is the service's own SQL: its topics, its tokens, the idempotency keys that were used, and the users of its console. The
// jobs have tables of their own, which only the library writes.
package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Tables are the tables of a service in one database. They may be used by any number of goroutines.
type Tables struct {
	db      *sql.DB
	prefix  string
	dialect *dialect
}

// Executor runs statements: a *sql.DB or a *sql.Tx.
type Executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// FirstType is the first job type that a topic gets. Smaller ones are for applications that use the library themselves.
const FirstType = 1_000_000

// Open finds out which database it is, and makes the tables if they are not there. The prefix stands before their names.
func Open(ctx context.Context, db *sql.DB, prefix string) (*Tables, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("open the service's tables: %w", err)
	}
	t := &Tables{db, prefix, d}
	if t.there(ctx) { // a user who may not create tables needs none of what follows
		return t, nil
	}
	if err = t.create(ctx); err != nil { // another instance may have made the same table at this moment
		err = t.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("create the service's tables (its user needs CREATE in the database): %w", err)
	}
	return t, nil
}

func (t *Tables) there(ctx context.Context) bool {
	for _, table := range []string{"topic", "token", "used_key", "user", "session"} {
		err := t.each(ctx, t.db, func(func(...any) error) error { return nil }, `SELECT 1 FROM {p}pqueue_`+table+`_tab WHERE 1 = 0`)
		if err != nil {
			return false
		}
	}
	counters := 0
	err := t.each(ctx, t.db, func(scan func(...any) error) error { return scan(&counters) }, `SELECT COUNT(*) FROM {p}pqueue_counter_tab`)
	return err == nil && counters == len(firstCounts)
}

func (t *Tables) create(ctx context.Context) error {
	for _, statement := range t.dialect.create {
		if err := t.exec(ctx, t.db, statement); err != nil {
			return err
		}
	}
	for name, first := range firstCounts {
		if err := t.exec(ctx, t.db, `{ignore} INTO {p}pqueue_counter_tab (name, value) VALUES (?, ?){or nothing}`, name, first); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tables) exec(ctx context.Context, ex Executor, statement string, args ...any) error {
	_, err := ex.ExecContext(ctx, t.dialect.statement(t.prefix, statement), args...)
	return err
}

// changed is exec for a statement that may find nothing to change.
func (t *Tables) changed(ctx context.Context, ex Executor, statement string, args ...any) (bool, error) {
	result, err := ex.ExecContext(ctx, t.dialect.statement(t.prefix, statement), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// each calls a function for each row, which scans it.
func (t *Tables) each(ctx context.Context, ex Executor, row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := ex.QueryContext(ctx, t.dialect.statement(t.prefix, query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Now is the database's clock, which decides what is due. Another clock may differ from it.
func (t *Tables) Now(ctx context.Context) (time.Time, error) { return t.now(ctx, t.db) }

func (t *Tables) now(ctx context.Context, ex Executor) (now time.Time, err error) {
	var seconds float64
	if err = t.each(ctx, ex, func(scan func(...any) error) error { return scan(&seconds) }, `SELECT {now}`); err != nil {
		return now, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(int64(seconds * 1e6)), nil
}

// TakesWrites returns an error if the database refuses to write, as a replica does, or a database that is read-only. It changes nothing.
func (t *Tables) TakesWrites(ctx context.Context) error {
	return t.exec(ctx, t.db, `UPDATE {p}pqueue_counter_tab SET value = value WHERE name = ''`)
}

// ErrUnknown is the cause of an error of a transaction whose commit was not answered with success: it may be there all the same. After
// any other error of [Tables.In], nothing was changed.
var ErrUnknown = errors.New("the database has not said whether it has committed")

// In runs an act in a transaction, which is committed if the act returns nil.
func (t *Tables) In(ctx context.Context, act func(tx *sql.Tx) error) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := act(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// ignoreDone: a transaction whose context is over has been rolled back already.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

const (
	topicsCounter = "topics"
	tokensCounter = "tokens"
	typeCounter   = "job_type"
)

var firstCounts = map[string]int64{topicsCounter: 0, tokensCounter: 0, typeCounter: FirstType - 1}

// Versions say which changes of the topics and of the tokens can be read.
type Versions struct{ Topics, Tokens int64 }

// Versions reads three rows by their primary key, so it may be asked often.
func (t *Tables) Versions(ctx context.Context) (v Versions, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		var name string
		var value int64
		if err := scan(&name, &value); err != nil {
			return err
		}
		switch name {
		case topicsCounter:
			v.Topics = value
		case tokensCounter:
			v.Tokens = value
		}
		return nil
	}, `SELECT name, value FROM {p}pqueue_counter_tab`)
	if err != nil {
		return Versions{}, fmt.Errorf("read the versions: %w", err)
	}
	return v, nil
}

// raise raises a counter, holds its row until the end of the transaction, and returns the new number.
func (t *Tables) raise(ctx context.Context, tx *sql.Tx, counter string, by int) (value int64, err error) {
	found, err := t.changed(ctx, tx, `UPDATE {p}pqueue_counter_tab SET value = value + ? WHERE name = ?`, by, counter)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("pqueue_counter_tab has no row %q; restart the service, which adds it", counter)
	}
	err = t.each(ctx, tx, func(scan func(...any) error) error { return scan(&value) }, `SELECT value FROM {p}pqueue_counter_tab WHERE name = ?`, counter)
	return value, err
}

func unix(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

func fromUnix(second int64) time.Time {
	if second == 0 {
		return time.Time{}
	}
	return time.Unix(second, 0)
}
