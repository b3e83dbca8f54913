package store

import (
	"fmt"
	"slices"
	"strings"
)

// No connection is reserved here. A second connection to SQLite would wait for the transaction of the first one, and a
// second one to ":memory:" would be another database.
var sqlite = dialect{
	name: "SQLite",

	now:       "unixepoch()",
	nowMicros: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
	once:      "%s",
	seconds:   "(%s) / 1000000",
	inTime:    "CAST(unixepoch('subsec') * 1000 AS INTEGER) <= %d", // it first looks at its clock when it has the file's lock

	leaseNow:       "unixepoch()",
	leaseRounded:   "CAST(unixepoch('subsec') + 0.5 AS INTEGER)",
	leaseMillis:    "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	fromUnix:       "datetime(%s, 'unixepoch')",
	toUnix:         "unixepoch(%s)",
	exact:          "%s",
	greatest:       "MAX",
	least:          "MIN",
	quotient:       "/",
	leaseUpdate:    "UPDATE shedlock_tab",
	unlockedLeases: "UPDATE shedlock_tab SET %s WHERE lock_name IN (?) AND %s",
	orLater: " ON CONFLICT (lock_name) " +
		"DO UPDATE SET term = excluded.term, told_at = excluded.told_at, state = excluded.state " +
		"WHERE async_job_now_tab.term <= excluded.term",
	ifMore: " ON CONFLICT (job_type, begins_at, lock_name, term) " +
		"DO UPDATE SET counted = excluded.counted, state = excluded.state " +
		"WHERE async_job_stat_tab.counted < excluded.counted",
	ifKnown: " ON CONFLICT (lock_name, term) DO UPDATE SET ended_at = excluded.ended_at, how = excluded.how" +
		" WHERE excluded.how IS NOT NULL AND (async_job_lease_log_tab.how IS NULL OR async_job_lease_log_tab.how = 'expired')",

	insertNew:    "INSERT OR IGNORE INTO",
	unlessRow:    func(string) string { return " ON CONFLICT DO NOTHING" },
	addMany:      addByValues,
	addManyNew:   addNewByValues,
	addScheduled: addScheduledAtOnce,

	byPrimary:  "NOT INDEXED",
	byDue:      "INDEXED BY async_job_due",
	byKey:      "INDEXED BY async_job_key",
	byGroup:    "INDEXED BY async_job_group",
	deleteFrom: "DELETE FROM %s",
	deletes:    "DELETE",
	updates:    "UPDATE",
	ofTypes:    "job_type IN (%s)",
	byPaused:   "INDEXED BY async_job_type_paused",
	steered: "job_type IN (SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_paused WHERE paused_at IS NOT NULL" +
		" UNION ALL SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_layout WHERE layout IS NOT NULL" +
		" UNION ALL SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_workers WHERE workers IS NOT NULL" +
		" UNION ALL SELECT job_type FROM async_job_type_tab INDEXED BY async_job_type_rate WHERE rate IS NOT NULL)",
	unlessHeld: patiently,
	latest:     "%s",
	unionPart:  "SELECT * FROM (%s)", // it knows no SELECT in brackets
	idIn:       inSpan,
	bigint:     "INTEGER",
	integer:    "CAST(%s AS INTEGER)",
	commas: func(numbers []string, text string) string {
		return strings.Join(numbers, " || ',' || ") + " || COALESCE(',' || " + text + ", '')"
	},
	atOnce:     "start_time = 0",
	unforeseen: "%s",
	anyType:    " ORDER BY job_type",
	sweep:      sweepRanges,
	later:      laterStretches,

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
		return "id IN (" + numbers(ids) + ")"
	}
	var others []uint64
	for i := 1; i < len(ids); i++ {
		for other := ids[i-1] + 1; other < ids[i]; other++ {
			others = append(others, other)
		}
	}
	condition := fmt.Sprintf("id BETWEEN %d AND %d", from, to)
	if len(others) > 0 {
		condition += " AND id NOT IN (" + numbers(others) + ")"
	}
	return condition
}

// laterStretches writes two conditions, because SQLite enters its index in the middle of the rows of one second only if
// it is asked for these rows alone.
func laterStretches(startTime, id string) []string {
	return []string{fmt.Sprintf("start_time = %s AND id > %s", startTime, id), "start_time > " + startTime}
}
