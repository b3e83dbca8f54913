package conn

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Tables are the names of the tables of the library in a database.
type Tables struct{ Jobs, Leases, Attempts, Types, Lines, Stats, Tenures, Acts, Steps, Timetable, Flows, Nodes string }

func named(prefix string) Tables {
	return Tables{prefix + "async_job_tab", prefix + "shedlock_tab", prefix + "async_job_log_tab", prefix + "async_job_type_tab",
		prefix + "async_job_now_tab", prefix + "async_job_stat_tab", prefix + "async_job_lease_log_tab", prefix + "async_job_act_tab",
		prefix + "async_job_step_tab", prefix + "async_job_schedule_tab", prefix + "async_job_flow_tab", prefix + "async_job_node_tab"}
}

var (
	tableName = regexp.MustCompile(`\b(shedlock_tab|async_job_(?:(?:log|type|now|stat|lease_log|act|step|schedule|flow|node)_)?tab)\b`)
	indexName = regexp.MustCompile(`\basync_job_(due|key|group|ended|act_(?:job|state|type)|type_(?:paused|layout|workers|rate)|schedule_next|` +
		`flow_(?:open|state|key|due)|node_state)\b`)
	goodName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?([A-Za-z_][A-Za-z0-9_]*)?$`)
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

// Columns reads the names of the columns of tables, which all have the same prefix. A table that is not there has none.
func (s *Sender) Columns(ctx context.Context, tables []string) (map[string][]string, error) {
	return s.partsOf(ctx, "columns", s.columnsOf, tables)
}

// Indexes reads the names of the indexes of tables, which all have the same prefix. A table that is not there has none.
func (s *Sender) Indexes(ctx context.Context, tables []string) (map[string][]string, error) {
	return s.partsOf(ctx, "indexes", s.indexesOf, tables)
}

// partsOf reads what tables consist of. The server may write their names in other letters than we do, upper or lower.
func (s *Sender) partsOf(ctx context.Context, what, query string, tables []string) (map[string][]string, error) {
	schema, bare := s.currentSchema, make([]string, len(tables))
	list := make([]string, len(tables))
	for i, table := range tables {
		before, name, dotted := strings.Cut(table, ".")
		if dotted {
			schema = "'" + before + "'"
		} else {
			name = table
		}
		bare[i], list[i] = name, fmt.Sprintf(s.tableIn, table, name)
	}
	type part struct{ table, name string }
	parts, err := Read(ctx, s, Each(func(p *part) []any { return []any{&p.table, &p.name} }),
		s.FromPrimary(fmt.Sprintf(query, strings.Join(list, ", "), schema)))
	if err != nil {
		return nil, fmt.Errorf("%s of the tables: %w", what, err)
	}
	of := make(map[string][]string, len(tables))
	for _, p := range parts {
		if i := slices.IndexFunc(bare, func(name string) bool { return strings.EqualFold(name, p.table) }); i >= 0 {
			of[tables[i]] = append(of[tables[i]], p.name)
		}
	}
	return of, nil
}

// LockWait returns two statements: short makes a session wait at most a second for the lock of a table, usual takes that
// back. If usual is empty, short holds until the end of the transaction. If both are empty, the database does not wait.
func (s *Sender) LockWait() (short, usual string) { return s.impatient, s.patient }
