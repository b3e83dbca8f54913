package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// tables are the names of the tables of the library in a database.
type tables struct{ jobs, leases, attempts, types, lines, stats, tenures, acts string }

func named(prefix string) tables {
	return tables{prefix + "async_job_tab", prefix + "shedlock_tab", prefix + "async_job_log_tab", prefix + "async_job_type_tab", prefix + "async_job_now_tab", prefix + "async_job_stat_tab", prefix + "async_job_lease_log_tab", prefix + "async_job_act_tab"}
}

var (
	tableName = regexp.MustCompile(`\b(async_job_tab|shedlock_tab|async_job_log_tab|async_job_type_tab|async_job_now_tab|async_job_stat_tab|async_job_lease_log_tab|async_job_act_tab)\b`)
	indexName = regexp.MustCompile(`\basync_job_(due|key|group|ended|act_job|act_state)\b`)
	goodName  = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?([A-Za-z_][A-Za-z0-9_]*)?$`)
)

// WithPrefix puts the prefix before the names of tables and indexes in a text of SQL that has them without one. An index
// lies where its table does, so its name gets only the part behind the dot.
func WithPrefix(text, prefix string) string {
	text = tableName.ReplaceAllString(text, prefix+"$1")
	return indexName.ReplaceAllString(text, prefix[strings.Index(prefix, ".")+1:]+"$0")
}

// prefixMax leaves room for the names in the 63 characters that PostgreSQL allows.
const prefixMax = 40

// CheckPrefix returns an error that says why a prefix cannot stand before the names of tables, as the end of a sentence
// about the prefix.
func CheckPrefix(prefix string) error {
	switch {
	case !goodName.MatchString(prefix):
		return fmt.Errorf("is %q; use letters, digits and underscores, as in \"shop_\", or a schema and a dot, as in \"jobs.\"", prefix)
	case len(prefix) > prefixMax:
		return fmt.Errorf("has %d characters; use at most %d", len(prefix), prefixMax)
	}
	return nil
}

// Columns reads the names of the columns of a table; none: there is no such table.
func (s *Store) Columns(ctx context.Context, table string) ([]string, error) {
	names, err := read(ctx, s, column[string], s.fromPrimary(fmt.Sprintf(s.columnsOf, table)))
	return names, wrap("columns of "+table, err)
}

// Indexes reads the names of the indexes of a table; none: there is no such table, or it has no index.
func (s *Store) Indexes(ctx context.Context, table string) ([]string, error) {
	names, err := read(ctx, s, column[string], s.fromPrimary(fmt.Sprintf(s.indexesOf, table)))
	return names, wrap("indexes of "+table, err)
}

// LockWait returns two statements: short makes a session wait at most a second for the lock of a table, usual takes that
// back. If usual is empty, short holds until the end of the transaction. If both are empty, the database does not wait.
func (s *Store) LockWait() (short, usual string) { return s.impatient, s.patient }
