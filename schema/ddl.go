package schema

import (
	"embed"
	"regexp"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

//go:embed mysql.sql postgres.sql sqlite.sql
var files embed.FS

// fileOf is the schema file of each database that package conn knows.
var fileOf = map[string]string{MySQL: "mysql.sql", MariaDB: "mysql.sql", TiDB: "mysql.sql", PostgreSQL: "postgres.sql", SQLite: "sqlite.sql"}

// table is one CREATE TABLE of a schema file, with the indexes that belong to it.
type table struct {
	name    string
	create  string
	columns []part
	indexes []part
}

// part is a column or an index: its name, and the SQL that adds it to a table that lacks it.
type part struct{ name, add string }

var (
	createTable = regexp.MustCompile(`(?s)^CREATE TABLE IF NOT EXISTS ([\w.]+) \(\n(.*)\n\)`)
	createIndex = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX IF NOT EXISTS (\w+) ON ([\w.]+)`)
	keyLine     = regexp.MustCompile(`^(?:UNIQUE )?KEY (\w+)`)
	columnLine  = regexp.MustCompile(`^([a-z_]+) `)
)

// tablesFor reads the schema file of a database, with the prefix before the names of tables and indexes.
func tablesFor(database, prefix string) ([]*table, error) {
	text, err := files.ReadFile(fileOf[database])
	if err != nil {
		return nil, err
	}
	return tables(conn.WithPrefix(string(text), prefix)), nil
}

// tables reads a schema file. The file alone defines the tables; the statements for older tables are made from its
// lines.
func tables(ddl string) (list []*table) {
	byName := map[string]*table{}
	for statement := range statements(ddl) {
		if m := createTable.FindStringSubmatch(statement); m != nil {
			t := &table{name: m[1], create: statement}
			for line := range strings.Lines(m[2]) {
				line = strings.TrimSuffix(strings.TrimSpace(line), ",")
				alter := "ALTER TABLE " + t.name + " ADD "
				if key := keyLine.FindStringSubmatch(line); key != nil {
					t.indexes = append(t.indexes, part{key[1], alter + line})
				} else if column := columnLine.FindStringSubmatch(line); column != nil {
					t.columns = append(t.columns, part{column[1], alter + "COLUMN " + line})
				}
			}
			list = append(list, t)
			byName[t.name] = t
		} else if m := createIndex.FindStringSubmatch(statement); m != nil {
			byName[m[2]].indexes = append(byName[m[2]].indexes, part{m[1], statement})
		}
	}
	return list
}

// statements yields the statements of a file, without their semicolons and the comments between them.
func statements(ddl string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var lines []string
		for line := range strings.Lines(ddl) {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		for statement := range strings.SplitSeq(strings.Join(lines, ""), ";\n") {
			if statement = strings.TrimSpace(statement); statement != "" && !yield(statement) {
				return
			}
		}
	}
}
