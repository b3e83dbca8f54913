// Package schema holds the tables of every supported database, as the files that are run (mysql.sql, postgres.sql,
// sqlite.sql). [Migrate] brings a database up to date with them, [Check] tells what a database lacks.
package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/queue_job"
)

// Migrate creates the tables, or adds to existing tables what they lack; rows stay as they are. If there is nothing to
// do, it only looks, so a user without DDL rights can call it on an up-to-date schema. Many instances may call it at
// once.
//
// A server changes a table's definition only when no transaction uses the table, and while the change waits, every new
// transaction has to wait behind it. So Migrate waits at most a second at a time, lets the transactions through and
// tries again, until the context ends.
//
// The error is an [*OutdatedError] if something is missing and the database refuses to add it. Any other error may go
// away by itself: the database does not answer or is read-only, or a table stayed in use.
func Migrate(ctx context.Context, db queue_job.DB, options ...Option) error {
	p, err := find(ctx, db, options)
	if err != nil {
		return err
	}
	if missing, err := p.lacking(ctx, p.tables...); err != nil || len(missing) == 0 {
		return err
	}
	for _, t := range p.tables {
		if err := p.complete(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// complete creates one table, or adds what it lacks.
func (p place) complete(ctx context.Context, t *table) error {
	missing, err := p.lacking(ctx, t)
	if err != nil {
		return err
	}
	for len(missing) > 0 {
		first := missing[0]
		errRun := p.run(ctx, first)
		// Even after an error, another instance may have made the change by now, so the schema decides.
		if missing, err = p.lacking(ctx, t); err != nil {
			return fmt.Errorf("bring the schema up to date: %w", errors.Join(errRun, err))
		}
		if len(missing) == 0 || missing[0] != first {
			continue
		}
		switch {
		case errRun == nil:
			if missing, err = p.awaitChange(ctx, t, first); err != nil {
				return fmt.Errorf("bring the schema up to date: %w", err)
			}
			if len(missing) == 0 || missing[0] != first {
				continue
			}
			return p.outdated(ctx, errNameTaken)
		case isRefusal(errRun):
			return p.outdated(ctx, errRun)
		case !isWait(errRun):
			return fmt.Errorf("bring the schema up to date: %w", errRun)
		case !pause(ctx, lookAgain):
			return fmt.Errorf("bring the schema up to date: %w", errors.Join(ctx.Err(), errRun))
		}
	}
	return nil
}

const lookAgain = 200 * time.Millisecond

// awaitChange looks again, for a while, until a statement that ran without an error is no longer missing. The schema
// may be read from a replica, which gets the change later.
func (p place) awaitChange(ctx context.Context, t *table, first string) (missing []string, err error) {
	for until := time.Now().Add(replicaBehind); ; {
		missing, err = p.lacking(ctx, t)
		if err != nil || len(missing) == 0 || missing[0] != first || time.Now().After(until) || !pause(ctx, lookAgain) {
			return missing, err
		}
	}
}

const replicaBehind = 5 * time.Second

// errNameTaken: "IF NOT EXISTS" was satisfied by something else.
var errNameTaken = fmt.Errorf("the first statement below runs without an error, and %v later the schema is as before. "+
	"Either its table's or index's name belongs to something else in the schema, a table that was renamed for example: rename or drop that. "+
	"Or this handle reads from a replica that lags behind: have its reads go to the primary, where its writes go (docs/operate/databases.md, "+
	"\"Between the application and the database\")",
	replicaBehind)

// Check reports what the tables lack, as an [*OutdatedError]. It changes nothing: use it if others run the DDL.
func Check(ctx context.Context, db queue_job.DB, options ...Option) error {
	p, err := find(ctx, db, options)
	if err != nil {
		return err
	}
	return p.outdated(ctx, nil)
}

// Option changes which tables [Migrate] and [Check] look at, and [SQL] makes.
type Option func(*place)

// WithTablePrefix selects the tables whose names begin with the prefix, like [queue_job.Config.TablePrefix].
func WithTablePrefix(prefix string) Option {
	return func(p *place) { p.prefix = prefix }
}

// place is where the tables are, or will be.
type place struct {
	db     conn.DB
	sender *conn.Sender
	prefix string
	tables []*table
}

func find(ctx context.Context, db queue_job.DB, options []Option) (p place, err error) {
	p.db = conn.Primary(db)
	for _, set := range options {
		set(&p)
	}
	if err := conn.CheckPrefix(p.prefix); err != nil {
		return p, fmt.Errorf("schema: table prefix %w", err)
	}
	if p.sender, err = conn.Open(ctx, db, p.prefix); err == nil {
		p.tables, err = tablesFor(p.sender.Database(), p.prefix)
	}
	return p, err
}

// OutdatedError says that the tables lack something, and has the SQL that adds it.
type OutdatedError struct {
	Database string
	SQL      []string // statements that bring the schema up to date, in order
	Err      error    // why Migrate did not succeed with the first of them; nil for Check
}

func (e *OutdatedError) Error() string {
	text := fmt.Sprintf("the %s schema of persistent-queue is not up to date; run this as a user with DDL rights:\n\n%s;\n",
		e.Database, strings.Join(e.SQL, ";\n\n"))
	if e.Err != nil {
		text = e.Err.Error() + "\n" + text
	}
	return text
}

func (e *OutdatedError) Unwrap() error { return e.Err }

// outdated returns an [*OutdatedError] with all that the tables lack, or nil if they lack nothing.
func (p place) outdated(ctx context.Context, cause error) error {
	missing, err := p.lacking(ctx, p.tables...)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case len(missing) == 0:
		return nil
	}
	return &OutdatedError{Database: p.sender.Database(), SQL: missing, Err: cause}
}

// lacking returns the statements that bring tables up to the schema file. If others change the tables at that time, reading
// the schema may fail, mostly on Galera; then lacking reads it again.
func (p place) lacking(ctx context.Context, tables ...*table) (ddl []string, err error) {
	for {
		ddl, err = p.compare(ctx, tables)
		if err == nil || !isWait(err) || !pause(ctx, lookAgain) {
			return ddl, err
		}
	}
}

// compare is lacking in one try.
func (p place) compare(ctx context.Context, tables []*table) (ddl []string, err error) {
	var names []string
	for _, t := range tables {
		names = append(names, t.name)
	}
	columns, err := p.sender.Columns(ctx, names)
	if err != nil {
		return nil, err
	}
	indexes, err := p.sender.Indexes(ctx, names)
	if err != nil {
		return nil, err
	}
	return lackingOf(p.sender.Database(), tables, columns, indexes), nil
}

// lackingOf returns the statements that bring tables, which have these columns and indexes, up to the schema file. A table
// without columns is not there.
func lackingOf(database string, tables []*table, columnsOf, indexesOf map[string][]string) (ddl []string) {
	for _, t := range tables {
		columns, indexes := columnsOf[t.name], indexesOf[t.name]
		if len(columns) == 0 {
			ddl = append(ddl, t.create)
			columns = names(t.columns)
			if strings.Contains(t.create, "\n  KEY ") {
				indexes = names(t.indexes)
			}
		}
		// Columns and indexes are separate statements: new columns alone cost MySQL and MariaDB no copy of the table, and rows
		// may come and go while these servers build an index alone.
		if missing := absent(t.columns, columns); len(missing) > 0 {
			ddl = append(ddl, joinAlters(database, t, missing)...)
		}
		for _, index := range absent(t.indexes, indexes) {
			ddl = append(ddl, index.add)
		}
	}
	return ddl
}

// joinAlters puts all columns of a table into one statement, if the database can do that.
func joinAlters(database string, t *table, missing []part) (ddl []string) {
	for _, column := range missing {
		ddl = append(ddl, column.add)
	}
	if database == SQLite {
		return ddl
	}
	prefix := "ALTER TABLE " + t.name + " "
	for i := range ddl {
		ddl[i] = strings.TrimPrefix(ddl[i], prefix)
	}
	return []string{prefix + strings.Join(ddl, ",\n  ")}
}

func absent(wanted []part, have []string) (missing []part) {
	has := map[string]bool{}
	for _, name := range have {
		has[strings.ToLower(name)] = true
	}
	for _, p := range wanted {
		if !has[strings.ToLower(p.name)] {
			missing = append(missing, p)
		}
	}
	return missing
}

func names(parts []part) (list []string) {
	for _, p := range parts {
		list = append(list, p.name)
	}
	return list
}

// run runs one statement that waits at most a second for a table's lock. That limit is a setting of a transaction or a
// session, so run needs a connection of its own. If the handle cannot give one, the server's own limit holds.
func (p place) run(ctx context.Context, ddl string) error {
	pool, ok := p.db.(interface {
		Conn(context.Context) (*sql.Conn, error)
		BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
	})
	short, usual := p.sender.LockWait()
	switch {
	case !ok || short == "":
		_, err := p.db.Exec(ddl)
		return err
	case usual == "":
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("transaction for the schema: %w", err)
		}
		defer tx.Rollback()
		if _, err = tx.ExecContext(ctx, short); err == nil {
			_, err = tx.ExecContext(ctx, ddl)
		}
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connection for the schema: %w", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, short); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), usual)
	_, err = conn.ExecContext(ctx, ddl)
	return err
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
