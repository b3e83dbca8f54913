package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/create-info/persistent-queue/schema"
)

// emptyMySQL takes the rows out of a database of MySQL or MariaDB, if a test has left nothing else in it than the tables as
// [schema.Migrate] makes them. What a session of the test still does there would reach the next test: if sessions are left, the
// database is not for others.
func emptyMySQL(ctx context.Context, k kind, admin *sql.DB, name, dsn string) (reusable bool, err error) {
	if gone, err := sessionsLeave(ctx, k, admin, name); err != nil || !gone {
		return false, err
	}
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		return false, err
	}
	defer db.Close()
	fresh, err := freshMySQL(ctx, k, admin, dsn)
	if err != nil {
		return false, err
	}
	found, err := shapeOfMySQL(ctx, db)
	if err != nil {
		return false, err
	}
	for object, text := range found {
		if _, ours := fresh[object]; ours || !strings.Contains(text, "CREATE TABLE") {
			continue
		}
		if _, err := db.ExecContext(ctx, "DROP TABLE `"+object+"`"); err != nil {
			return false, nil // another one refers to it
		}
		delete(found, object)
	}
	if !maps.EqualFunc(found, fresh, func(a, b string) bool { return nextID.ReplaceAllString(a, "") == b }) {
		return false, nil
	}
	for object, text := range found {
		if !strings.Contains(text, "CREATE TABLE") {
			continue
		}
		if err := emptyTable(ctx, db, object, nextID.MatchString(text)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// nextID is where a table's text says with which id it goes on, once it has had a row.
var nextID = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// emptyTable deletes the rows of a table, which is cheaper than to make the table anew, as TRUNCATE does. But only TRUNCATE lets
// the ids begin with 1, and the statistics of many rows be forgotten.
func emptyTable(ctx context.Context, db *sql.DB, table string, hasIDs bool) error {
	const many = 1000
	if !hasIDs {
		deleted, err := db.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s LIMIT %d", table, many))
		if err != nil {
			return err
		}
		if n, err := deleted.RowsAffected(); err != nil || n < many {
			return err
		}
	}
	_, err := db.ExecContext(ctx, "TRUNCATE TABLE "+table)
	return err
}

// sessionsLeave waits for the end of the sessions in a database: a server notices a moment later that its client is gone.
func sessionsLeave(ctx context.Context, k kind, admin *sql.DB, name string) (gone bool, err error) {
	query := "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ?"
	if k.name == "MySQL" { // which fails there while any session runs a statement with a character of four bytes
		query = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_db = ?"
	}
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(2 * time.Millisecond) {
		var sessions int
		err := admin.QueryRowContext(ctx, query, name).Scan(&sessions)
		if err != nil || sessions == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// shapes has the shape of a fresh database, by the kind of its server.
var shapes = struct {
	sync.Mutex
	of map[kind]map[string]string
}{of: map[kind]map[string]string{}}

// freshMySQL makes a database, to see its shape. The DSN may name any database of the server.
func freshMySQL(ctx context.Context, k kind, admin *sql.DB, dsn string) (shape map[string]string, err error) {
	shapes.Lock()
	defer shapes.Unlock()
	if shape := shapes.of[k]; shape != nil {
		return shape, nil
	}
	name, _, err := create(k, admin, nothing)
	if err != nil {
		return nil, err
	}
	defer func() {
		if dropped := drop(k, admin, name); err == nil {
			err = dropped
		}
	}()
	if dsn, err = within(k.driver, dsn, name); err != nil {
		return nil, err
	}
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := schema.Migrate(ctx, db); err != nil {
		return nil, err
	}
	if shape, err = shapeOfMySQL(ctx, db); err == nil {
		shapes.of[k] = shape
	}
	return shape, err
}

// shapeOfMySQL is what a database has besides its rows: the text of each table, by its name; the names of views, triggers, routines
// and events; and the collation for new tables.
func shapeOfMySQL(ctx context.Context, db *sql.DB) (shape map[string]string, err error) {
	var collation string
	if err := db.QueryRowContext(ctx, "SELECT @@collation_database").Scan(&collation); err != nil {
		return nil, err
	}
	shape = map[string]string{"collation": collation}
	names, err := namesIn(ctx, db, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var text string
		if err := db.QueryRowContext(ctx, "SHOW CREATE TABLE `"+name+"`").Scan(&name, &text); err != nil {
			return nil, err
		}
		shape[name] = text
	}
	others, err := namesIn(ctx, db, `SELECT CONCAT('view ', table_name) FROM information_schema.views WHERE table_schema = DATABASE()
		UNION ALL SELECT CONCAT('trigger ', trigger_name) FROM information_schema.triggers WHERE trigger_schema = DATABASE()
		UNION ALL SELECT CONCAT('routine ', routine_name) FROM information_schema.routines WHERE routine_schema = DATABASE()
		UNION ALL SELECT CONCAT('event ', event_name) FROM information_schema.events WHERE event_schema = DATABASE()`)
	for _, other := range others {
		shape[other] = ""
	}
	return shape, err
}

func namesIn(ctx context.Context, db *sql.DB, query string) (names []string, err error) {
	err = sqlx.NewDb(db, "mysql").SelectContext(ctx, &names, query)
	return names, err
}
