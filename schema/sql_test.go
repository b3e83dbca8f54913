package schema

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the newest file of each folder in migrations anew: only before its release")

// originalTables are the tables that the first file of MySQL makes.
var originalTables = map[string][]string{
	"async_job_tab": {"id", "params", "job_type", "job_status", "start_time", "create_time", "update_time"},
	"shedlock_tab":  {"lock_name", "lock_until", "locked_at", "locked_by"},
}

// The newest file of each folder is made of the schema file, so that it cannot be forgotten; once it is released, it stays as it is,
// and the next one adds what has come since.
func TestTheNewestMigrationFileMakesWhatTheSchemaFileHas(t *testing.T) {
	for database, file := range map[string]string{MySQL: "0002_queue", PostgreSQL: "0001_queue", SQLite: "0001_queue"} {
		var columns map[string][]string
		if database == MySQL {
			columns = originalTables
		}
		ddl := lackingOf(database, tablesOf(t, fileOf[database]), columns, nil)
		for name, want := range map[string]string{
			file + ".up.sql":   strings.Join(ddl, ";\n\n") + ";\n",
			file + ".down.sql": down(t, database, columns),
		} {
			path := filepath.Join("migrations", folderOf[database], name)
			if *update {
				if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s is not what the schema file asks for (%v); before its release, write it anew: go test ./schema -run Migration -update", path, err)
			}
		}
	}
}

// down takes away what the tables have beyond what was there.
func down(t *testing.T, database string, columnsOf map[string][]string) string {
	t.Helper()
	var ddl []string
	for _, table := range slices.Backward(tablesOf(t, fileOf[database])) {
		columns := columnsOf[table.name]
		if len(columns) == 0 {
			ddl = append(ddl, "DROP TABLE "+table.name)
			continue
		}
		var drops [2][]string // TiDB drops no column that an index of the same statement has
		for _, index := range table.indexes {
			drops[0] = append(drops[0], "DROP INDEX "+index.name)
		}
		for _, column := range absent(table.columns, columns) {
			drops[1] = append(drops[1], "DROP COLUMN "+column.name)
		}
		for _, parts := range drops {
			if len(parts) > 0 {
				ddl = append(ddl, fmt.Sprintf("ALTER TABLE %s\n  %s", table.name, strings.Join(parts, ",\n  ")))
			}
		}
	}
	return wayBackWarning[database] + strings.Join(ddl, ";\n\n") + ";\n"
}

// wayBackWarning says what the way back loses of tables that stay.
var wayBackWarning = map[string]string{MySQL: `-- Parameters of more than 4,096 characters go with the column long_params. In their place, params says: see long_params.
-- So first let such jobs run, or cancel them. This query finds those that wait, and must return nothing:
--   SELECT id FROM async_job_tab WHERE long_params IS NOT NULL AND (job_status IS NULL OR job_status IN (0, 3, 4))

`}

func TestMigrationFilesAreNumberedAndEachHasAWayBack(t *testing.T) {
	for _, database := range []string{MySQL, MariaDB, TiDB, PostgreSQL, SQLite} {
		list, err := Migrations(database)
		if err != nil {
			t.Fatal(err)
		}
		ups, err := fs.Glob(list, "*.up.sql")
		if err != nil || len(ups) == 0 {
			t.Fatal(ups, err)
		}
		for i, up := range ups {
			if !strings.HasPrefix(up, fmt.Sprintf("%04d_", i+1)) {
				t.Errorf("%s: file %d is called %s", database, i+1, up)
			}
			if text, err := fs.ReadFile(list, strings.Replace(up, ".up.", ".down.", 1)); err != nil || len(text) == 0 {
				t.Errorf("%s: no way back from %s: %v", database, up, err)
			}
		}
	}
}

func TestTheSQLOfAnEmptyDatabaseIsSaidWithoutOne(t *testing.T) {
	for database, want := range map[string][2]string{
		MySQL: {"CREATE TABLE IF NOT EXISTS shop_async_job_tab (", "UNIQUE KEY shop_async_job_key"}, TiDB: {"CREATE TABLE IF NOT EXISTS shop_async_job_tab (", "AUTO_ID_CACHE"},
		PostgreSQL: {"CREATE TABLE IF NOT EXISTS shop_async_job_tab (", "CREATE UNIQUE INDEX"}, SQLite: {"CREATE TABLE IF NOT EXISTS shop_async_job_tab (", "AUTOINCREMENT"},
	} {
		ddl, err := SQL(database, WithTablePrefix("shop_"))
		if err != nil || len(ddl) < 4 || !strings.HasPrefix(ddl[0], want[0]) || !strings.Contains(strings.Join(ddl, "\n"), want[1]) || strings.Contains(strings.Join(ddl, "\n"), " async_job_tab") {
			t.Errorf("%s: %v, %v", database, ddl, err)
		}
	}
	for _, database := range []string{"", "mysql", "Oracle"} {
		if _, err := SQL(database); err == nil || !strings.Contains(err.Error(), "use one of MariaDB, MySQL, PostgreSQL, SQLite, TiDB") {
			t.Errorf("%q: %v", database, err)
		}
		if _, err := Migrations(database); err == nil {
			t.Errorf("%q has files", database)
		}
	}
	if _, err := SQL(MySQL, WithTablePrefix("a b")); err == nil {
		t.Error("a prefix that no name begins with")
	}
}
