package tables

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// dialect is what differs between the databases. The verbs never ask which database it is.
type dialect struct {
	name string
	// words stand in the statements as {word}.
	words map[string]string
	// create are the statements that make the tables, if they are not there.
	create []string
	// numbered: arguments are $1, $2 and so on.
	numbered bool
}

// {ignore} and {or nothing} make an INSERT of a row that is there already change nothing. {delete} works in sessions with sql_safe_updates,
// too, which refuse a DELETE that goes by no index; the first comment is MariaDB's way, the second is MySQL's.
var (
	mysql = dialect{name: "MySQL", create: tablesDDL, words: map[string]string{
		"delete": "/*M! SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */",
		"marked": "CONCAT(name, '" + deletedMark + "', job_type)", "now": "UNIX_TIMESTAMP() + MICROSECOND(NOW(6)) / 1000000",
		"second": "UNIX_TIMESTAMP()",
		"ignore": "INSERT IGNORE", "or nothing": "", "name": "VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin",
		"text": "TEXT CHARACTER SET utf8mb4", "long": "MEDIUMTEXT CHARACTER SET utf8mb4",
		"key":        "VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin",
		"time index": ", INDEX idx_time (create_time)", "end": " ENGINE=InnoDB",
	}}
	postgres = dialect{name: "PostgreSQL", numbered: true, create: append(slices.Clone(tablesDDL), usedKeyIndex), words: map[string]string{
		"now":    "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
		"second": "FLOOR(EXTRACT(EPOCH FROM clock_timestamp()))", "delete": "DELETE", "marked": "name || '" + deletedMark + "' || job_type",
		"ignore": "INSERT", "or nothing": " ON CONFLICT DO NOTHING", "name": `VARCHAR(200) COLLATE "C"`,
		"text": "TEXT", "long": "TEXT", "key": `VARCHAR(200) COLLATE "C"`, "time index": "", "end": "",
	}}
	sqlite = dialect{name: "SQLite", create: append(slices.Clone(tablesDDL), usedKeyIndex), words: map[string]string{
		"now": "unixepoch('subsec')", "second": "unixepoch()", "delete": "DELETE", "marked": "name || '" + deletedMark + "' || job_type",
		"ignore": "INSERT", "or nothing": " ON CONFLICT DO NOTHING", "name": "TEXT", "text": "TEXT", "long": "TEXT", "key": "TEXT",
		"time index": "", "end": "",
	}}
)

var tablesDDL = []string{counterDDL, topicDDL, tokenDDL, usedKeyDDL, userDDL, sessionDDL}

// A counter only grows. Whoever raises it holds its row until the end of the transaction, so a number that can be read stands for all
// changes up to it. "topics" and "tokens" are the versions of those tables, "job_type" is the last job type that a topic got.
const counterDDL = `CREATE TABLE IF NOT EXISTS {p}pqueue_counter_tab (name {name} NOT NULL PRIMARY KEY, value BIGINT NOT NULL){end}`

const topicDDL = `CREATE TABLE IF NOT EXISTS {p}pqueue_topic_tab (
	job_type INT NOT NULL PRIMARY KEY, name {name} NOT NULL UNIQUE, config {text} NOT NULL, version BIGINT NOT NULL, create_time BIGINT NOT NULL){end}`

const tokenDDL = `CREATE TABLE IF NOT EXISTS {p}pqueue_token_tab (
	id {name} NOT NULL PRIMARY KEY, hash {name} NOT NULL, note {text} NOT NULL, scopes {text} NOT NULL, topics {text} NOT NULL,
	expire_time BIGINT NOT NULL, create_time BIGINT NOT NULL){end}`

const userDDL = `CREATE TABLE IF NOT EXISTS {p}pqueue_user_tab (
	name {name} NOT NULL PRIMARY KEY, hash {name} NOT NULL, role {name} NOT NULL, create_time BIGINT NOT NULL){end}`

// A session's secret is not in the table, but its SHA-256.
const sessionDDL = `CREATE TABLE IF NOT EXISTS {p}pqueue_session_tab (
	hash {name} NOT NULL PRIMARY KEY, name {name} NOT NULL, expire_time BIGINT NOT NULL){end}`

const usedKeyDDL = `CREATE TABLE IF NOT EXISTS {p}pqueue_used_key_tab (
	token {name} NOT NULL, used_key {key} NOT NULL, hash {name} NOT NULL, status INT NOT NULL, answer {long} NOT NULL,
	create_time BIGINT NOT NULL, PRIMARY KEY (token, used_key){time index}){end}`

const usedKeyIndex = `CREATE INDEX IF NOT EXISTS {i}pqueue_used_key_time ON {p}pqueue_used_key_tab (create_time)`

// dialectOf asks a database what it is.
func dialectOf(ctx context.Context, db *sql.DB) (*dialect, error) {
	var version string
	asked := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	switch {
	case asked == nil && strings.HasPrefix(version, "PostgreSQL"):
		return &postgres, nil
	case asked == nil:
		return &mysql, nil
	}
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err == nil {
		return &sqlite, nil
	}
	return nil, fmt.Errorf("which database it is: %w", asked)
}

var word = regexp.MustCompile(`\{[a-z ]+\}`)

// statement fills in the words of a statement, and numbers its arguments.
func (d *dialect) statement(prefix, text string) string {
	text = word.ReplaceAllStringFunc(text, func(w string) string {
		switch w {
		case "{p}":
			return prefix
		case "{i}": // an index lives in its table's schema, and its name may not say so
			return prefix[strings.LastIndexByte(prefix, '.')+1:]
		}
		return d.words[strings.Trim(w, "{}")]
	})
	if !d.numbered {
		return text
	}
	var numbered strings.Builder
	n := 0
	for part := range strings.SplitSeq(text, "?") {
		if n > 0 {
			numbered.WriteString("$" + strconv.Itoa(n))
		}
		numbered.WriteString(part)
		n++
	}
	return numbered.String()
}
