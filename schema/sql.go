package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// The databases, as [SQL] and [OutdatedError] name them.
const (
	MySQL      = "MySQL"
	MariaDB    = "MariaDB"
	TiDB       = "TiDB"
	PostgreSQL = "PostgreSQL"
	SQLite     = "SQLite"
)

// SQL returns the statements that make all tables in an empty database, in order and without asking a database: to print them for
// a review, or for a migration of your own. It returns an error if it does not know the database, or if no table name can begin
// with the prefix.
func SQL(database string, options ...Option) ([]string, error) {
	if err := known(database); err != nil {
		return nil, err
	}
	var p place
	for _, set := range options {
		set(&p)
	}
	if err := conn.CheckPrefix(p.prefix); err != nil {
		return nil, fmt.Errorf("schema: table prefix %w", err)
	}
	tables, err := tablesFor(database, p.prefix)
	if err != nil {
		return nil, err
	}
	return lackingOf(database, tables, nil, nil), nil
}

func known(database string) error {
	if fileOf[database] == "" {
		return fmt.Errorf("schema: there are no tables for %q; use one of %s", database, strings.Join(slices.Sorted(maps.Keys(fileOf)), ", "))
	}
	return nil
}

//go:embed migrations
var migrations embed.FS

// folderOf is the folder of each database in migrations.
var folderOf = map[string]string{MySQL: "mysql", MariaDB: "mysql", TiDB: "mysql", PostgreSQL: "postgres", SQLite: "sqlite"}

// Migrations returns the files of the folder schema/migrations for a database: numbered, one up and one down for each release that
// changed the tables, as golang-migrate names and reads them. All files in their order make the same tables as [Migrate], which
// afterwards finds nothing to do. On MySQL and MariaDB, the first file makes the tables of the original library, so a database that
// has them already begins with it too: it leaves them as they are. The tables have no prefix.
//
// A file has several statements. With a mysql:// URL, golang-migrate sends them so; the DSN of a *sql.DB that you pass to it needs
// multiStatements=true. Beside migrations of your own, it needs a table of its own, as by x-migrations-table=queue_migrations. Atlas reads the
// files as a directory in the format of golang-migrate. goose refuses them: there, call Migrate from a migration in Go, which is one line.
func Migrations(database string) (fs.FS, error) {
	if err := known(database); err != nil {
		return nil, err
	}
	return fs.Sub(migrations, "migrations/"+folderOf[database])
}
