package conn

import (
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
)

// Moments in PostgreSQL are the same in every session time zone. A lease goes by the clock at the moment at which the
// server looks at its row. Jobs go by the moment at which the statement arrived, which is constant during the statement,
// so an index can be searched for it.
//
// There are no index hints, and a plan is as good as what the planner believes:
//
//   - Planning takes 12 ms for a list of a thousand ids, or for an array that the planner can see into. So the array
//     stands in a subquery, and the planner assumes ten ids.
//   - If the statistics are of a moment at which the table was full of pending rows, the planner takes rows by their ids
//     or one after the other: 600 ms to find nothing in 1,300,000 finished rows, where the due index takes 0.1 ms.
//   - If the planner knows how few rows lie behind an id, it sorts all of them by way of the primary key, anew for each
//     page of a backlog.
//
// So the statements leave the planner no other way. They ask for an order that only the due index has, in which no
// Column is known to be constant (AtOnce is a range). They compare with an id that is known only when the statement
// runs (Unforeseen). And they look at each type, status and priority by itself.
//
// The drivers prepare the text of a read and keep it. So in the reads that recur, values that differ from one read to
// the next are arguments.
var PostgreSQL = Dialect{
	Name: "PostgreSQL",

	NowSecond: "CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)",
	NowMicros: "CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint)",
	Once:      "(SELECT %s)",
	Seconds:   "(%s) / 1000000",
	// clock_timestamp() is asked for each row, and the moment is computed once. PostgreSQL does not ask it again after waiting for a row
	// whose owner has changed nothing. So a mark does not wait: see UnlessHeld.
	InTime: "clock_timestamp() <= (SELECT TIMESTAMPTZ 'epoch' + %d * INTERVAL '1 millisecond')",

	LeaseNow:     "EXTRACT(EPOCH FROM clock_timestamp())",
	LeaseRounded: "EXTRACT(EPOCH FROM clock_timestamp())",
	LeaseMillis:  "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint)",
	fromUnix:     "to_timestamp(%s)",
	toUnix:       "EXTRACT(EPOCH FROM %s)",
	exact:        "CAST(%s AS numeric)",
	Greatest:     "GREATEST",
	Least:        "LEAST",
	Quotient:     "/",
	LeaseUpdate:  "UPDATE shedlock_tab",
	// The rows are locked before one is looked at.
	UnlockedLeases: "UPDATE shedlock_tab " +
		"SET %s " +
		"WHERE lock_name = ANY(ARRAY(SELECT lock_name FROM shedlock_tab WHERE lock_name IN (?) FOR UPDATE SKIP LOCKED)) AND %s",
	OrLater: onConflictLater,
	IfMore:  onConflictMore,
	IfKnown: onConflictKnown,

	InsertNew:   "INSERT INTO",
	UnlessRow:   func(string) string { return " ON CONFLICT DO NOTHING" },
	UnlessThere: " ON CONFLICT DO NOTHING",
	Returning:   " RETURNING id",
	Chains:      true,
	Arrays:      true,
	IDsBehind: "SELECT setval(source, last) AS last " +
		"FROM (SELECT CAST(pg_get_serial_sequence('%[1]s', 'id') AS regclass) AS source, (SELECT MAX(id) FROM %[1]s) AS last) AS ids" +
		" WHERE last > COALESCE(pg_sequence_last_value(source), 0)",

	DeleteFrom: "DELETE FROM %s",
	Deletes:    "DELETE",
	Updates:    "UPDATE",
	// An UPDATE locks rows where it meets them, and each change moves a row: two statements with snapshots of their own meet the same rows
	// in different orders.
	ofTypes:     "job_type = ANY(ARRAY(SELECT job_type FROM async_job_type_tab WHERE job_type IN (%s) ORDER BY job_type FOR UPDATE))",
	ForUpdate:   " FOR UPDATE",
	HoldingRead: " FOR SHARE",
	SkipLocked:  " SKIP LOCKED",
	UnlessHeld:  hardlyWaiting,
	PassingHeld: fromUnlocked,
	Steered:     steeredOr,
	latest:      "WITH latest AS (%s) SELECT * FROM latest FOR UPDATE", // around a derived table, FOR UPDATE would lock its rows
	unionPart:   "(%s)",
	IDIn:        func(ids []uint64) string { return "id = ANY(CAST((SELECT '{" + Numbers(ids) + "}') AS bigint[]))" },
	BigInt:      "bigint",
	Integer:     "%s",
	Commas: func(numbers []string, text string) string {
		return "CAST(" + strings.Join(numbers, " AS text) || ',' || CAST(") + " AS text) || COALESCE(',' || " + text + ", '')"
	},
	AtOnce:      "start_time BETWEEN 0 AND 0",
	Unforeseen:  "(SELECT CAST(%s AS bigint))",
	LanesInFull: true,
	PendingOnly: true,
	AnyType:     " AND (job_status IN (" + PendingStatuses + ") OR job_status IS NULL) ORDER BY job_type, job_status, priority, start_time, id",
	SweepsEach:  true,
	Later:       laterPair,

	tableIn: "to_regclass('%[1]s')",
	columnsOf: "SELECT relname AS of_table, attname AS name " +
		"FROM pg_attribute " +
		"JOIN pg_class ON pg_class.oid = attrelid " +
		"WHERE attrelid IN (%[1]s) AND attnum > 0 AND NOT attisdropped",
	indexesOf: "SELECT owner.relname AS of_table, own.relname AS name " +
		"FROM pg_index " +
		"JOIN pg_class AS own ON own.oid = indexrelid " +
		"JOIN pg_class AS owner ON owner.oid = indrelid " +
		"WHERE indrelid IN (%[1]s)",
	Sickness:  sicknessOfPostgres,
	impatient: "SET LOCAL lock_timeout = '1s'", // LOCAL, since a pooler may give the session to another client next

	bind:          sqlx.DOLLAR,
	bindsNumbers:  true,
	begin:         "BEGIN",
	ReadsAnew:     "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
	reservesConns: true,

	failureEndsAll: true,
}

// sicknessOfPostgres is Dialect.Sickness. The sessions of this database count, and senders of WAL, which hand on what standbys ask for. A
// VACUUM holds nothing. If the user may not look into a session, PostgreSQL says so in the place of the statement.
const sicknessOfPostgres = "(SELECT CASE backend_type WHEN 'walsender' THEN 'standby' ELSE 'session' END AS kind, CAST(pid AS text) AS id, " +
	"COALESCE(CAST(usename AS text), '') AS who, COALESCE(host(client_addr), 'local') AS place, " +
	"CAST(COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - xact_start), 0) AS bigint) AS seconds, " +
	"COALESCE(state, '') AS state, " +
	"LEFT(query, 300) AS statement, CAST(COALESCE(GREATEST(age(backend_xid), age(backend_xmin)), 0) AS bigint) AS amount, " +
	"CAST(0 AS bigint) AS more " +
	"FROM pg_stat_activity " +
	"WHERE pid <> pg_backend_pid() AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) " +
	"AND (datname = current_database() AND backend_type = 'client backend' AND query !~* '^\\s*vacuum' OR backend_type = 'walsender') " +
	"ORDER BY amount DESC, seconds DESC LIMIT 3) " +
	"UNION ALL (SELECT 'prepared', gid, CAST(owner AS text), '', CAST(EXTRACT(EPOCH FROM clock_timestamp() - prepared) AS bigint), '', '', " +
	"CAST(age(transaction) AS bigint), 0 " +
	"FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 3) " +
	"UNION ALL SELECT 'slot', CAST(slot_name AS text), '', '', 0, CASE WHEN active THEN 'active' ELSE '' END, '', " +
	"CAST(COALESCE(age(xmin), 0) AS bigint), COALESCE(CAST(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() " +
	"THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn) AS bigint), 0) " +
	"FROM pg_replication_slots " +
	"UNION ALL SELECT 'dead', '', '', '', " +
	"CAST(COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - GREATEST(last_vacuum, last_autovacuum)), -1) AS bigint), " +
	"CASE WHEN current_setting('autovacuum') = 'off' OR array_to_string(reloptions, ' ') ~* 'autovacuum_enabled=(f|of|n|0)' " +
	"THEN 'off' ELSE '' END, '', " +
	"n_dead_tup, n_live_tup " +
	"FROM pg_class JOIN pg_stat_all_tables ON relid = oid WHERE oid = to_regclass('async_job_tab') " +
	"UNION ALL SELECT 'hidden', '', '', '', 0, '', '', COUNT(*), 0 " +
	"FROM pg_stat_activity WHERE datname = current_database() AND query = '<insufficient privilege>' HAVING COUNT(*) > 0"

// hardlyWaiting has a statement fail (55P03) if it waits for a lock for five milliseconds. The setting ends with the statement's
// transaction. The condition is asked once, before a row is looked at.
func hardlyWaiting(s *Sender, u Updating) string {
	return u.text(s, "", " AND (SELECT set_config('lock_timeout', '5', true)) IS NOT NULL")
}

// fromUnlocked locks the rows first, but for those that are locked, and then changes them at the places where they lie. The conditions
// are asked when a row is locked, of its newest version.
func fromUnlocked(s *Sender, u Updating) string {
	return fmt.Sprintf("UPDATE %[1]s "+
		"SET %[2]s "+
		"WHERE ctid = ANY(ARRAY(SELECT ctid FROM %[1]s WHERE %[3]s AND %[4]s FOR UPDATE%[5]s))",
		s.Tables.Jobs, u.Set, u.IDs, u.InTime+" AND "+u.Where, s.SkipLocked)
}

func laterPair(startTime, id string) []string {
	return []string{fmt.Sprintf("(start_time, id) > (%s, %s)", startTime, id)}
}
