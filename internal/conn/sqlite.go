package conn

import (
	"fmt"
	"slices"
	"strings"
)

// No connection is reserved here. A second connection to SQLite would wait for the transaction of the first one, and a
// second one to ":memory:" would be another database.
var SQLite = Dialect{
	Name: "SQLite",

	NowSecond: "unixepoch()",
	NowMicros: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
	Once:      "%s",
	Seconds:   "(%s) / 1000000",
	InTime:    "CAST(unixepoch('subsec') * 1000 AS INTEGER) <= %d", // it first looks at its clock when it has the file's lock

	LeaseNow:       "unixepoch()",
	LeaseRounded:   "CAST(unixepoch('subsec') + 0.5 AS INTEGER)",
	LeaseMillis:    "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	fromUnix:       "datetime(%s, 'unixepoch')",
	toUnix:         "unixepoch(%s)",
	exact:          "%s",
	Greatest:       "MAX",
	Least:          "MIN",
	Quotient:       "/",
	LeaseUpdate:    "UPDATE shedlock_tab",
	UnlockedLeases: "UPDATE shedlock_tab SET %s WHERE lock_name IN (?) AND %s",
	OrLater:        onConflictLater,
	IfMore:         onConflictMore,
	IfKnown:        onConflictKnown,

	InsertNew: "INSERT OR IGNORE INTO",
	UnlessRow: func(string) string { return " ON CONFLICT DO NOTHING" },

	ByPrimary:  "NOT INDEXED",
	ByDue:      "INDEXED BY async_job_due",
	ByKey:      "INDEXED BY async_job_key",
	KeysInRow:  true,
	ByGroup:    "INDEXED BY async_job_group",
	DeleteFrom: "DELETE FROM %s",
	Deletes:    "DELETE",
	Updates:    "UPDATE",
	ofTypes:    "job_type IN (%s)",
	ByPaused:   "INDEXED BY async_job_type_paused",
	Steered: "job_type IN (SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_paused WHERE paused_at IS NOT NULL" +
		" UNION ALL SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_layout WHERE layout IS NOT NULL" +
		" UNION ALL SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_workers WHERE workers IS NOT NULL" +
		" UNION ALL SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_rate WHERE rate IS NOT NULL)",
	UnlessHeld: patiently,
	latest:     "%s",
	unionPart:  "SELECT * FROM (%s)", // it knows no SELECT in brackets
	IDIn:       inSpan,
	BigInt:     "INTEGER",
	Integer:    "CAST(%s AS INTEGER)",
	Commas: func(numbers []string, text string) string {
		return strings.Join(numbers, " || ',' || ") + " || COALESCE(',' || " + text + ", '')"
	},
	AtOnce:     "start_time = 0",
	Unforeseen: "%s",
	AnyType:    " ORDER BY job_type",
	Later:      laterStretches,

	tableIn: "'%[2]s'",
	columnsOf: "SELECT t.name AS of_table, c.name AS name " +
		"FROM sqlite_master AS t " +
		"JOIN pragma_table_info(t.name) AS c " +
		"WHERE t.type = 'table' AND t.name COLLATE NOCASE IN (%[1]s)",
	indexesOf: "SELECT tbl_name AS of_table, name FROM sqlite_master WHERE type = 'index' AND tbl_name COLLATE NOCASE IN (%[1]s)",

	begin:     "BEGIN IMMEDIATE",
	oneWriter: true,
}

// inSpan writes the condition that the id is one of these. For a list, SQLite first fills a table of its own. The ids of
// a backlog lie close together, so they are written as a span, without the ids between them.
func inSpan(ids []uint64) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	from, to := ids[0], ids[len(ids)-1]
	if to-from >= 2*uint64(len(ids)) {
		return "id IN (" + Numbers(ids) + ")"
	}
	var others []uint64
	for i := 1; i < len(ids); i++ {
		for other := ids[i-1] + 1; other < ids[i]; other++ {
			others = append(others, other)
		}
	}
	condition := fmt.Sprintf("id BETWEEN %d AND %d", from, to)
	if len(others) > 0 {
		condition += " AND id NOT IN (" + Numbers(others) + ")"
	}
	return condition
}

// laterStretches writes two conditions, because SQLite enters its index in the middle of the rows of one second only if
// it is asked for these rows alone.
func laterStretches(startTime, id string) []string {
	return []string{fmt.Sprintf("start_time = %s AND id > %s", startTime, id), "start_time > " + startTime}
}
