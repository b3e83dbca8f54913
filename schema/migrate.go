// Package schema holds the tables of every supported database, as the very files that are run (mysql.sql, sqlite.sql),
// and brings a database up to them.
package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Migrate creates the tables, or adds to existing ones what they lack; rows stay as they are. It only looks if there is
// nothing to do, so a user without DDL rights can call it on an up-to-date schema. Many instances may call it at once.
//
// On MySQL and MariaDB, a table definition changes only when no transaction uses the table, and whoever comes while the
// change waits, waits behind it. So Migrate waits at most a second at a time, lets the others through and tries again,
// until the context ends.
//
// The error is an *OutdatedError when something is missing and the database refuses to have it added. Any other error,
// a database that is away or read-only, or a table that stayed in use, may pass.
func Migrate(ctx context.Context, db queue_job.DB) error {
	st, missing, err := look(ctx, db)
	if err != nil || len(missing) == 0 {
		return err
	}
	for len(missing) > 0 {
		if err := runDDL(ctx, st, db, missing[0]); err != nil {
			// Whatever went wrong, another instance may have done it meanwhile: the schema decides, not the error.
			still, errLook := lacking(ctx, st)
			switch same := len(still) > 0 && still[0] == missing[0]; {
			case errLook == nil && same && refused.MatchString(err.Error()):
				return &OutdatedError{Database: st.Database(), SQL: still, Err: err}
			case errLook != nil || same && !waited.MatchString(err.Error()):
				return fmt.Errorf("bring the schema up to date: %w", errors.Join(err, errLook))
			}
			if !pause(ctx, 200*time.Millisecond) {
				return fmt.Errorf("bring the schema up to date: %w", errors.Join(ctx.Err(), err))
			}
		}
		if missing, err = lacking(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// Check reports, as an *OutdatedError, what the tables lack. It changes nothing: for shops whose DBAs run the DDL.
func Check(ctx context.Context, db queue_job.DB) error {
	st, missing, err := look(ctx, db)
	if err != nil || len(missing) == 0 {
		return err
	}
	return &OutdatedError{Database: st.Database(), SQL: missing}
}

func look(ctx context.Context, db queue_job.DB) (st *store.Store, missing []string, err error) {
	if st, err = store.Open(ctx, db); err == nil {
		missing, err = lacking(ctx, st)
	}
	return st, missing, err
}

// OutdatedError says that the tables lack something, and how to mend it.
type OutdatedError struct {
	Database string
	SQL      []string // statements that bring the schema up to date, in order
	Err      error    // why Migrate could not run the first of them; nil if it was not asked to
}

func (e *OutdatedError) Error() string {
	text := fmt.Sprintf("the %s schema of persistent-queue is not up to date; run this as a user with DDL rights:\n\n%s;\n", e.Database, strings.Join(e.SQL, ";\n\n"))
	if e.Err != nil {
		text = e.Err.Error() + "\n" + text
	}
	return text
}

func (e *OutdatedError) Unwrap() error { return e.Err }

// lacking returns the statements that bring the database up to the schema file.
func lacking(ctx context.Context, st *store.Store) (ddl []string, err error) {
	file := "mysql.sql"
	if st.Database() == "SQLite" {
		file = "sqlite.sql"
	}
	text, err := files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, t := range tables(string(text)) {
		columns, err := st.Columns(ctx, t.name)
		if err != nil {
			return nil, err
		}
		indexes, err := st.Indexes(ctx, t.name)
		if err != nil {
			return nil, err
		}
		if len(columns) == 0 {
			ddl = append(ddl, t.create)
			columns = names(t.columns)
			if strings.Contains(t.create, "\n  KEY ") {
				indexes = names(t.indexes)
			}
		}
		// Columns and indexes apart: new columns alone cost MySQL and MariaDB no copy of the table, and an index alone is
		// built while rows come and go.
		if missing := absent(t.columns, columns); len(missing) > 0 {
			ddl = append(ddl, joinAlters(st, t, missing)...)
		}
		for _, index := range absent(t.indexes, indexes) {
			ddl = append(ddl, index.add)
		}
	}
	return ddl, nil
}

// joinAlters puts all columns of a table into one statement where the database knows how.
func joinAlters(st *store.Store, t *table, missing []part) (ddl []string) {
	for _, column := range missing {
		ddl = append(ddl, column.add)
	}
	if st.Database() == "SQLite" {
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
		if !has[p.name] {
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

// runDDL runs one statement that waits at most a second for a table's lock. That takes a session setting, so it takes a
// connection of its own; through a handle that has none to give, the server's own limit holds.
func runDDL(ctx context.Context, st *store.Store, db queue_job.DB, ddl string) error {
	pool, ok := db.(interface {
		Conn(context.Context) (*sql.Conn, error)
	})
	if !ok || st.Database() == "SQLite" {
		_, err := db.Exec(ddl)
		return err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connection for the schema: %w", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "SET SESSION lock_wait_timeout = @@GLOBAL.lock_wait_timeout")
	_, err = conn.ExecContext(ctx, ddl)
	return err
}

// The error types are the drivers'; this goes by what they print: go-sql-driver's "Error 1142 (42000): …", SQLite's text.
var (
	// The statement waited too long for a lock (1205), met a deadlock (1213) or a change of the table (1412); on SQLite
	// the database was busy. It is worth another try.
	waited = regexp.MustCompile(`\bError (1205|1213|1412)\b|SQLITE_BUSY|database is locked|database table is locked`)
	// The server will never do it for this user: access denied (1044, 1142, 1227, 1370), or it does not understand or
	// cannot have such a table (1064, 1071, 1118).
	refused = regexp.MustCompile(`\bError (1044|1142|1227|1370|1064|1071|1118)\b|readonly database|not authorized|syntax error`)
)

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
