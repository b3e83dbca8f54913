package dbtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

var (
	deedsAnywhere = []string{
		"INSERT INTO async_job_tab (params, job_type, create_time, update_time) VALUES ('{}', 1, 1, 1)",
		"INSERT INTO shedlock_tab (lock_name, locked_by, lock_until, locked_at) VALUES ('x', 'x', '2030-01-01', '2030-01-01')",
		"CREATE TABLE another (n INT NOT NULL PRIMARY KEY)",
		"CREATE TABLE another (n INT NOT NULL PRIMARY KEY);; CREATE TABLE third (n INT NOT NULL, FOREIGN KEY (n) REFERENCES another (n))",
		"CREATE INDEX another ON async_job_tab (changes)",
		"CREATE VIEW another AS SELECT id FROM async_job_tab",
		"ALTER TABLE async_job_tab ADD COLUMN another INT",
		"ALTER TABLE async_job_tab DROP COLUMN meta",
		"ALTER TABLE async_job_tab RENAME TO another",
		"DROP TABLE async_job_act_tab",
	}
	deedsOnPostgreSQL = []string{
		"CREATE SCHEMA another;; CREATE TABLE another.async_job_tab (n INT)",
		"CREATE TABLE another (n INT);; CREATE VIEW of_another AS SELECT n FROM another",
		"ALTER TABLE async_job_tab SET (fillfactor = 20)",
		"ALTER TABLE async_job_tab ALTER COLUMN id SET CACHE 20",
		"INSERT INTO async_job_tab (params, job_type, create_time, update_time) SELECT '{}', 1, 1, 1 FROM generate_series(1, 1000);; ANALYZE async_job_tab",
		"SELECT nextval(pg_get_serial_sequence('async_job_tab', 'id'))",
		"CREATE FUNCTION another() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"DROP INDEX async_job_due;; CREATE INDEX async_job_due ON async_job_tab (job_type)",
		"ALTER TABLE async_job_tab ADD CHECK (job_type > 0)",
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = 64', current_database()); END $$",
		"CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now()'",
	}
	deedsOnMySQL = []string{
		"CREATE TRIGGER another BEFORE INSERT ON async_job_tab FOR EACH ROW SET NEW.priority = 1",
		"CREATE FUNCTION another() RETURNS INT DETERMINISTIC RETURN 1",
		"CREATE TABLE another (n INT);; CREATE VIEW of_another AS SELECT n FROM another",
		"ALTER TABLE async_job_tab AUTO_INCREMENT = 1000",
		"ALTER TABLE async_job_tab STATS_AUTO_RECALC = 0",
	}
)

// Tests use databases one after the other. Here each looks at what it was given before it does its deed.
func TestADatabaseIsAsItWasMadeWhateverTheTestBeforeDidInIt(t *testing.T) {
	for _, k := range servers {
		t.Run(k.name, func(t *testing.T) {
			var made string
			deeds := slices.Concat([]string{""}, deedsAnywhere, deedsOnMySQL, []string{""})
			if k.driver == "pgx" {
				deeds = slices.Concat([]string{""}, deedsAnywhere, deedsOnPostgreSQL, []string{""})
			}
			before := "nothing"
			for i, deed := range deeds {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					onServer(t, k, tables, func(t *testing.T, d Database) {
						is := contentsOf(t, d)
						if made == "" {
							made = is
						}
						if is != made {
							t.Errorf("after %s:\n%s\nwant:\n%s", before, is, made)
						}
						for statement := range strings.SplitSeq(deed, ";; ") {
							if _, err := d.DB.Exec(statement); statement != "" && err != nil {
								t.Fatalf("%s: %v", statement, err)
							}
						}
					})
				})
				before = deed
			}
			t.Run("empty", func(t *testing.T) {
				onServer(t, k, nothing, func(t *testing.T, d Database) {
					if is := contentsOf(t, d); strings.Contains(is, "async_job_tab") {
						t.Errorf("want no tables:\n%s", is)
					}
				})
			})
		})
	}
}

// contentsOf is what a test may find in its database, as text.
func contentsOf(t *testing.T, d Database) string {
	t.Helper()
	var text strings.Builder
	if d.Driver == "mysql" {
		shape, err := shapeOfMySQL(t.Context(), d.DB)
		if err != nil {
			t.Fatal(err)
		}
		for object, is := range shape {
			if rows := -1; strings.Contains(is, "CREATE TABLE") {
				if err := d.DB.QueryRow("SELECT COUNT(*) FROM `" + object + "`").Scan(&rows); err != nil {
					t.Fatal(err)
				}
				shape[object] = fmt.Sprintf("%s (%d rows)", is, rows)
			}
		}
		fmt.Fprint(&text, shape)
		return text.String()
	}
	for _, query := range []string{
		"SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)' ORDER BY 1",
		`SELECT concat_ws(' ', table_schema, table_name, ordinal_position, column_name, data_type, column_default, is_nullable, is_identity)
			FROM information_schema.columns WHERE table_schema <> 'information_schema' AND table_schema <> 'pg_catalog' ORDER BY 1`,
		"SELECT indexdef FROM pg_indexes WHERE schemaname NOT IN ('pg_catalog') ORDER BY 1",
		`SELECT concat_ws(' ', relname, relkind, reloptions, relhastriggers, greatest(reltuples, 0)) FROM pg_class
			WHERE oid >= 16384 AND relname !~ '^pg_toast' ORDER BY 1`,
		"SELECT concat_ws(' ', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1",
		"SELECT concat_ws(' ', sequencename, increment_by, cache_size, last_value) FROM pg_sequences ORDER BY 1",
		"SELECT proname FROM pg_proc WHERE oid >= 16384 ORDER BY 1",
		"SELECT concat_ws(' ', tablename, attname) FROM pg_stats WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
		"SELECT concat(setconfig) FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
		`SELECT concat(table_name, ': ', query_to_xml(format('SELECT count(*) FROM %I.%I', table_schema, table_name), false, true, ''))
			FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`,
	} {
		names, err := listed(t.Context(), d.DB, query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		fmt.Fprintln(&text, strings.Join(names, "\n"))
	}
	return text.String()
}
