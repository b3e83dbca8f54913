package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/create-info/persistent-queue/schema"
)

// onServers runs the test on MariaDB and MySQL, in a database that the files in migrations have made, as a user who may work with
// rows and no more.
func onServers(t *testing.T, test func(t *testing.T, dsn string)) {
	for name, variable := range map[string]string{"MariaDB": "PQ_TEST_MARIADB_DSN", "MySQL": "PQ_TEST_MYSQL_DSN"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := os.Getenv(variable)
			if server == "" {
				t.Skipf("left out: %s is not set; \"make test\" provides the servers", variable)
			}
			test(t, migrated(t, server, fmt.Sprintf("pq_shop_%d", os.Getpid())))
		})
	}
}

func migrated(t *testing.T, server, name string) (dsn string) {
	t.Helper()
	config, err := mysql.ParseDSN(server)
	must(t, err)
	config.MultiStatements = true // for the files
	admin := openMySQL(t, config)
	config.DBName = name
	execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, admin, "DROP DATABASE "+name) })
	dba := openMySQL(t, config)
	for _, folder := range []string{"queue", "shop"} {
		files, err := filepath.Glob("migrations/" + folder + "/*.up.sql")
		must(t, err)
		for _, file := range files {
			ddl, err := os.ReadFile(file)
			must(t, err)
			execute(t, dba, string(ddl))
		}
	}

	config.User, config.Passwd, config.MultiStatements = name, "rows only", false
	user := fmt.Sprintf("'%s'@'%%'", name)
	execute(t, admin, "CREATE USER "+user+" IDENTIFIED BY 'rows only'")
	t.Cleanup(func() { execute(t, admin, "DROP USER "+user) })
	execute(t, admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO "+user)
	return config.FormatDSN()
}

func openMySQL(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", config.FormatDSN())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statements string) {
	t.Helper()
	_, err := db.Exec(statements)
	must(t, err)
}

func TestTheMigrationFilesMakeTheTablesThatTheShopNeeds(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string) {
		db, sqlDB, err := openDB(t.Context(), dsn, "")
		must(t, err)
		t.Cleanup(func() { sqlDB.Close() })
		must(t, schema.Check(t.Context(), sqlDB))
		// GORM reads the tables and finds nothing to change, or it would be refused.
		must(t, makeTables(db))
	})
}

func TestTheQueuesMigrationFilesAreTheLibrarys(t *testing.T) {
	library, err := schema.Migrations(schema.MySQL)
	must(t, err)
	names, err := fs.Glob(library, "*.sql")
	must(t, err)
	copies, err := filepath.Glob("migrations/queue/*")
	must(t, err)
	if len(copies) != len(names) {
		t.Errorf("%d files, and the library has %d", len(copies), len(names))
	}
	for _, name := range names {
		want, err := fs.ReadFile(library, name)
		must(t, err)
		if got, err := os.ReadFile("migrations/queue/" + name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v); copy the files anew: cp schema/migrations/mysql/* examples/shop/migrations/queue/", name, err)
		}
	}
}
