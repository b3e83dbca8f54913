package dbtest

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/create-info/persistent-queue/schema"
)

// endSessions ends the sessions in a database of PostgreSQL. A session may take a moment to end.
const endSessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"

// strip takes everything out of a database that a test may have put there: schemas and settings.
const strip = `DO $$ DECLARE s record; BEGIN
		FOR s IN SELECT nspname AS name FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
			EXECUTE format('DROP SCHEMA %I CASCADE', s.name);
		END LOOP;
		CREATE SCHEMA public;
		GRANT ALL ON SCHEMA public TO public;
		EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
	END $$`

// othersThan names the tables of a database that are not among those of the schema public with such names.
const othersThan = `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
	WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND NOT (schemaname = 'public' AND tablename = ANY($1))`

// used names the tables that have had rows.
const used = `SELECT format('%I', t.relname) FROM pg_class t WHERE t.relnamespace = 'public'::regnamespace AND t.relkind = 'r' AND
	(pg_relation_size(t.oid) > 0 OR EXISTS (SELECT 1 FROM pg_depend d JOIN pg_sequence s ON s.seqrelid = d.objid
		WHERE d.refobjid = t.oid AND pg_sequence_last_value(s.seqrelid) IS NOT NULL))`

// catalog comes to something else if anything is defined, changed or removed: each row of the catalog has the number of the transaction
// that wrote it. What somebody has counted in the tables, and settings of the database, count as well.
const catalog = `SELECT concat_ws(' ',
	(SELECT sum(xmin::text::bigint) FROM pg_class), (SELECT sum(xmin::text::bigint) FROM pg_attribute),
	(SELECT sum(xmin::text::bigint) FROM pg_attrdef), (SELECT sum(xmin::text::bigint) FROM pg_index),
	(SELECT sum(xmin::text::bigint) FROM pg_constraint), (SELECT sum(xmin::text::bigint) FROM pg_trigger),
	(SELECT sum(xmin::text::bigint) FROM pg_proc), (SELECT sum(xmin::text::bigint) FROM pg_type),
	(SELECT sum(xmin::text::bigint) FROM pg_namespace), (SELECT sum(xmin::text::bigint) FROM pg_sequence),
	(SELECT sum(xmin::text::bigint) FROM pg_rewrite), (SELECT sum(xmin::text::bigint) FROM pg_collation),
	(SELECT sum(xmin::text::bigint) FROM pg_extension), (SELECT count(*) FROM pg_statistic_ext), (SELECT count(*) FROM pg_publication),
	(SELECT count(*) FROM pg_default_acl),
	(SELECT count(*) FROM pg_stats WHERE schemaname NOT IN ('pg_catalog', 'information_schema')),
	(SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())))`

// asMade is a database that has nothing but the tables as [schema.Migrate] makes them, and no rows.
type asMade struct {
	tables  []string
	catalog string
}

// made has these, by the name of the database.
var made sync.Map

// noteMade notes that a database is as made.
func noteMade(ctx context.Context, db *sql.DB, name string) error {
	var is asMade
	err := sqlx.NewDb(db, "pgx").SelectContext(ctx, &is.tables, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err == nil {
		err = db.QueryRowContext(ctx, catalog).Scan(&is.catalog)
	}
	made.Store(name, is)
	return err
}

// emptyPostgres takes the rows out of a database, and the tables that a test has made. If a test has changed more than that, it takes
// everything out, and makes the tables anew.
func emptyPostgres(ctx context.Context, k kind, admin *sql.DB, name, dsn string) (reusable bool, err error) {
	if err := sessionsEnd(ctx, admin, name); err != nil {
		return false, err
	}
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		return false, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	rowsOnly, err := dropOthers(ctx, db, name)
	if err != nil {
		return false, err
	}
	if !rowsOnly {
		if _, err := db.ExecContext(ctx, strip); err != nil {
			return false, err
		}
		statements, err := schema.SQL(schema.PostgreSQL)
		if err == nil {
			_, err = db.ExecContext(ctx, strings.Join(statements, ";\n"))
		}
		if err != nil {
			return false, err
		}
		return true, noteMade(ctx, db, name)
	}
	names, err := listed(ctx, db, used)
	if err != nil || len(names) == 0 {
		return err == nil, err
	}
	if _, err := db.ExecContext(ctx, "TRUNCATE TABLE "+strings.Join(names, ", ")+" RESTART IDENTITY"); err != nil {
		return false, err
	}
	return true, noteMade(ctx, db, name)
}

// dropOthers drops the tables that a test has made, and says whether nothing but rows is different then.
func dropOthers(ctx context.Context, db *sql.DB, name string) (rowsOnly bool, err error) {
	known, ok := made.Load(name)
	if !ok {
		return false, nil
	}
	others, err := listed(ctx, db, othersThan, known.(asMade).tables)
	if err != nil {
		return false, err
	}
	if len(others) > 0 {
		if _, err := db.ExecContext(ctx, "DROP TABLE "+strings.Join(others, ", ")); err != nil {
			return false, nil // something else depends on them
		}
	}
	var now string
	err = db.QueryRowContext(ctx, catalog).Scan(&now)
	return now == known.(asMade).catalog, err
}

func listed(ctx context.Context, db *sql.DB, query string, args ...any) (names []string, err error) {
	err = sqlx.NewDb(db, "pgx").SelectContext(ctx, &names, query, args...)
	return names, err
}

// sessionsEnd ends the sessions in a database, and waits for that.
func sessionsEnd(ctx context.Context, admin *sql.DB, name string) error {
	for {
		ended, err := admin.ExecContext(ctx, endSessions, name)
		if err != nil {
			return err
		}
		if n, err := ended.RowsAffected(); err != nil || n == 0 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stripPostgres is for a test that wants a database without tables.
func stripPostgres(k kind, name string) error {
	dsn, err := within(k.driver, os.Getenv(k.variable), name)
	if err != nil {
		return err
	}
	made.Delete(name)
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(strip)
	return err
}
