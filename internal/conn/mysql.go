package conn

import (
	"fmt"
	"slices"
	"strings"
)

// MySQL and MariaDB read one text, and each finds its own executable comment in it. They differ in how a statement can be kept
// from waiting for a locked row.
var (
	MySQL = func() Dialect {
		d := mysqlFamily("MySQL")
		d.UnlessHeld, d.PassingHeld = lockingFirst, besideLocked
		return d
	}()
	MariaDB = func() Dialect {
		d := mysqlFamily("MariaDB")
		d.UnlessHeld, d.AsksAgain = withoutWaiting, true
		// MariaDB need not join the rows that nobody has locked. On a Galera cluster with wsrep_max_ws_rows it must not: there, an UPDATE of
		// several tables is refused if one of them is derived (error 4165).
		d.UnlockedLeases, d.NamesFirst = "/*M! SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */"+
			" UPDATE shedlock_tab FORCE INDEX (PRIMARY) SET %s WHERE lock_name IN (?) AND %s", false
		return d
	}()
)

// ForStatements is the dialect if replicas are sent statements (binlog_format=STATEMENT). What a replica would find out for itself when it carries
// one out must not stand in any: which rows are locked, and what time it is by then. So a read that replicas are not sent finds which rows are
// free, and a statement is late only if it begins late. If somebody locks a row between the two, the second waits, as on older servers.
func (d Dialect) ForStatements() Dialect {
	d.AsksFirst, d.AsksAgain = true, false
	d.InTime = d.NowMicros + " <= %d000"
	d.UnlessHeld, d.PassingHeld = patiently, nil
	d.UnlockedLeases, d.NamesFirst = d.LeaseUpdate+" SET %s WHERE lock_name IN (?) AND %s", false
	return d
}

const PassingLocked = " /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */" // older servers wait

// mysqlLike is what MySQL, MariaDB and TiDB have in common.
var mysqlLike = Dialect{
	// UNIX_TIMESTAMP() without an argument and the microseconds of NOW(6) are the same in every session time zone.
	// UNIX_TIMESTAMP(NOW(6)) is an hour off for an hour each autumn.
	NowSecond: "UNIX_TIMESTAMP()",
	NowMicros: "(UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6)))",
	Once:      "%s",
	Seconds:   "(%s) DIV 1000000",
	// NOW() is the moment at which the statement began, and SYSDATE() is now. Both are local times, so only their difference
	// says something in every session time zone; while the clocks change, it is an hour off. If it is more than a day, somebody
	// has set the session's timestamp, which SYSDATE() does not heed. If the server runs with --sysdate-is-now, only statements
	// that arrive late find that they are.
	//
	// If a row is looked at too late, the sum is out of range. This error undoes what the statement has done to other rows
	// before, while it was in time: otherwise they would be committed now.
	InTime: "IF(SYSDATE(6) BETWEEN NOW(6) + INTERVAL (%d000 - UNIX_TIMESTAMP() * 1000000 - MICROSECOND(NOW(6))) MICROSECOND " +
		"AND NOW(6) + INTERVAL 1 DAY, id + 18446744073709551615 = 0, 1)",

	LeaseNow:     "UNIX_TIMESTAMP()",
	LeaseRounded: "(UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000))",
	LeaseMillis:  "(UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000)",
	fromUnix:     "FROM_UNIXTIME(%s)",
	toUnix:       "UNIX_TIMESTAMP(%s)",
	exact:        "%s",
	Greatest:     "GREATEST",
	Least:        "LEAST",
	Quotient:     "DIV",
	// FROM_UNIXTIME gives a local time, and storing it turns it back into UTC. In the hour that repeats when summer
	// time ends, a lease then lies 3590 s in the past (measured on MariaDB 10.11 and MySQL 9.7). So the statement
	// runs in UTC, whatever the session's zone: the first comment is MariaDB's way, the second is MySQL's (8.0.17 and
	// later).
	LeaseUpdate: "/*M! SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)",
	// An UPDATE passes over locked rows if it joins the rows that are not. The limit keeps MySQL from merging the derived table into the
	// join, where nothing would be left out. Safe updates would refuse the join, since it reads all of the derived table.
	UnlockedLeases: "/*M! SET STATEMENT time_zone='+00:00', sql_safe_updates=0 FOR */ " +
		"UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(sql_safe_updates=0) */ " +
		"(SELECT lock_name AS unlocked FROM shedlock_tab FORCE INDEX (PRIMARY) WHERE lock_name IN (?) LIMIT 1000000 FOR UPDATE" + PassingLocked + ") " +
		"AS unlocked_leases " +
		"STRAIGHT_JOIN shedlock_tab FORCE INDEX (PRIMARY) ON lock_name = unlocked SET %s WHERE %s",
	NamesFirst: true,
	// The columns are set in this order, and each sees what was set before it.
	OrLater: " ON DUPLICATE KEY UPDATE told_at = IF(term <= VALUES(term), VALUES(told_at), told_at), " +
		"state = IF(term <= VALUES(term), VALUES(state), state), term = GREATEST(term, VALUES(term))",
	IfMore: " ON DUPLICATE KEY UPDATE state = IF(counted < VALUES(counted), VALUES(state), state), counted = GREATEST(counted, VALUES(counted))",
	IfKnown: " ON DUPLICATE KEY UPDATE ended_at = IF(VALUES(how) IS NOT NULL AND (how IS NULL OR how = 'expired'), VALUES(ended_at), ended_at)," +
		" how = IF(VALUES(how) IS NOT NULL AND (how IS NULL OR how = 'expired'), VALUES(how), how)",
	// MySQL before 8.0.17 knows neither comment. There, the connection that leases have of their own is set to UTC, and to
	// take a join for safe.
	ownSession: "SET time_zone = '+00:00', sql_safe_updates = 0",

	InsertNew: "INSERT IGNORE INTO",
	// INSERT IGNORE reads a deleted row with a shared lock, and then needs an exclusive one: two sessions that do so
	// deadlock (measured on MariaDB 10.11 and MySQL 9.7).
	UnlessRow:   func(key string) string { return " ON DUPLICATE KEY UPDATE " + key + " = " + key },
	LooksBefore: true,
	IDStep:      "SELECT @@auto_increment_increment",

	// Without a hint, the optimizer may scan all of a small or freshly filled table, which locks every row and gap.
	ByPrimary:   "FORCE INDEX (PRIMARY)",
	ByDue:       "FORCE INDEX (async_job_due)",
	ByKey:       "FORCE INDEX (async_job_key)",
	KeysInRow:   true,
	ByGroup:     "FORCE INDEX (async_job_group)",
	DeleteFrom:  despiteSafeUpdates("DELETE") + " doomed FROM %s AS doomed FORCE INDEX (PRIMARY)",
	Deletes:     despiteSafeUpdates("DELETE"),
	Updates:     despiteSafeUpdates("UPDATE"),
	ofTypes:     "job_type IN (%s)", // by the primary key
	LockingRead: " LOCK IN SHARE MODE",
	HoldingRead: " LOCK IN SHARE MODE",
	ForUpdate:   " FOR UPDATE",
	SkipLocked:  PassingLocked,
	Steered:     steeredOr,
	latest:      "SELECT * FROM (%s) AS latest FOR UPDATE",
	unionPart:   "(%s)", // a derived table would be filled, in MariaDB with rows of the greatest length
	IDIn:        inRanges,
	BigInt:      "SIGNED",
	Integer:     "%s",
	Commas: func(numbers []string, text string) string {
		return "CONCAT_WS(',', " + strings.Join(numbers, ", ") + ", " + text + ")"
	},
	AtOnce:     "start_time = 0",
	KeyHash:    "CRC32(TRIM(TRAILING ' ' FROM " + GroupOf + "))",
	Unforeseen: "%s",
	AnyType:    " ORDER BY job_type",
	Later:      laterOr,

	tableIn: "'%[2]s'",
	columnsOf: "SELECT table_name AS of_table, column_name AS name " +
		"FROM information_schema.columns " +
		"WHERE table_schema = %[2]s AND table_name IN (%[1]s)",
	indexesOf: "SELECT DISTINCT table_name AS of_table, index_name AS name " +
		"FROM information_schema.statistics " +
		"WHERE table_schema = %[2]s AND table_name IN (%[1]s)",
	currentSchema: "DATABASE()",
	impatient:     "SET SESSION lock_wait_timeout = 1",
	patient:       "SET SESSION lock_wait_timeout = @@GLOBAL.lock_wait_timeout",

	// trx_started is in the system's time zone, whatever the session's is. With READ COMMITTED, a snapshot lasts as long as its statement.
	// A transaction that was prepared (XA) and has lost its session has 0 as its session's id.
	Sickness: "(SELECT CASE trx_mysql_thread_id WHEN 0 THEN 'prepared' ELSE 'session' END AS kind, CAST(trx_mysql_thread_id AS CHAR) AS id, " +
		"COALESCE(user, '') AS who, COALESCE(host, '') AS place, " +
		"CASE trx_isolation_level WHEN 'READ COMMITTED' THEN COALESCE(time, 0) " +
		"ELSE TIMESTAMPDIFF(SECOND, CONVERT_TZ(trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) END AS seconds, " +
		"CASE WHEN trx_query IS NULL THEN 'idle' ELSE 'active' END AS state, COALESCE(LEFT(trx_query, 300), '') AS statement, 0 AS amount, 0 AS more " +
		"FROM information_schema.innodb_trx " +
		"LEFT JOIN information_schema.processlist AS sessions ON sessions.id = trx_mysql_thread_id " +
		"WHERE trx_mysql_thread_id <> CONNECTION_ID() AND trx_isolation_level <> 'READ UNCOMMITTED' " +
		"AND (trx_isolation_level <> 'READ COMMITTED' OR trx_query IS NOT NULL) " +
		"ORDER BY seconds DESC LIMIT 3) " + historyOfInnoDB,
	// The lists above are in utf8mb3 on MySQL, and nobody can read them while a session runs a statement with another character. These are in utf8mb4,
	// and not every user may read them; they do not say which transaction has a snapshot, and nothing of prepared ones without a session.
	SicknessElsewhere: "(SELECT 'session' AS kind, CAST(processlist_id AS CHAR) AS id, " +
		"COALESCE(processlist_user, '') AS who, COALESCE(processlist_host, '') AS place, " +
		"CASE isolation_level WHEN 'READ COMMITTED' THEN COALESCE(processlist_time, 0) ELSE timer_wait DIV 1000000000000 END AS seconds, " +
		"CASE processlist_command WHEN 'Sleep' THEN 'idle' ELSE 'active' END AS state, COALESCE(LEFT(processlist_info, 300), '') AS statement, " +
		"0 AS amount, 0 AS more " +
		"FROM performance_schema.events_transactions_current AS transactions " +
		"JOIN performance_schema.threads AS sessions ON sessions.thread_id = transactions.thread_id " +
		"WHERE transactions.state = 'ACTIVE' AND processlist_id <> CONNECTION_ID() AND isolation_level <> 'READ UNCOMMITTED' " +
		"AND (isolation_level <> 'READ COMMITTED' OR processlist_command <> 'Sleep') " +
		"ORDER BY seconds DESC LIMIT 3) " + historyOfInnoDB +
		" UNION ALL (SELECT 'listed', '', '', '', 0, '', '', COUNT(*), 4 FROM (" +
		"SELECT name FROM performance_schema.setup_consumers WHERE enabled = 'YES' " +
		"AND name IN ('global_instrumentation', 'thread_instrumentation', 'events_transactions_current') " +
		"UNION ALL SELECT name FROM performance_schema.setup_instruments WHERE name = 'transaction' AND enabled = 'YES' AND timed = 'YES') AS needed)",

	session:       "SELECT @@autocommit + 2 * (@@log_bin AND @@binlog_format = 'STATEMENT')" + plusUnusable,
	begin:         "START TRANSACTION", // with sql_mode ORACLE, BEGIN begins a block
	reservesConns: true,
}

// historyOfInnoDB is the end of Dialect.Sickness: how many transactions were not purged.
const historyOfInnoDB = "UNION ALL (SELECT 'history', '', '', '', 0, '', '', count, 0 " +
	"FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len')"

func mysqlFamily(name string) Dialect {
	d := mysqlLike
	d.Name = name
	return d
}

// despiteSafeUpdates begins a statement that may run in a session with sql_safe_updates. Such a session refuses what has no LIMIT and does
// not go by an index, in the optimizer's opinion of the moment. And it refuses a DELETE with an index hint in any case: MariaDB all, MySQL
// where the key has several columns. The first comment is MariaDB's way, the second is MySQL's (8.0.3 and later).
func despiteSafeUpdates(verb string) string {
	return "/*M! SET STATEMENT sql_safe_updates=0 FOR */ " + verb + " /*+ SET_VAR(sql_safe_updates=0) */"
}

// withoutWaiting has MariaDB refuse to wait for a locked row (error 1205). That costs nothing, and is known since 10.3; before
// 10.6, the locked rows could not be left out, so those versions wait as ever.
func withoutWaiting(s *Sender, u Updating) string {
	return u.text(s, "/*M!100600 SET STATEMENT innodb_lock_wait_timeout=0 FOR */ ", "")
}

// lockingFirst locks the rows in a subquery that does not wait (error 3572), since MySQL cannot say that of an UPDATE. The subquery
// is evaluated once, before a row is looked at, and asks for the time when it has the locks: nothing is waited for after that. For a
// thousand rows it takes less than a millisecond, half of what it takes if the time is asked for each row. MySQL 5.7 reads over it, and
// asks for each row.
func lockingFirst(s *Sender, u Updating) string {
	locked := " /*!80001 AND (SELECT " + u.InTime + " FROM (SELECT COUNT(*) AS id FROM " +
		s.Tables.Jobs + " " + s.ByPrimary + " WHERE " + u.IDs + " FOR UPDATE NOWAIT) AS free) */"
	u.InTime = "(/*!80001 TRUE OR */ " + u.InTime + ")"
	return u.text(s, "", locked)
}

// besideLocked joins the rows that are not locked. The limit keeps MySQL from merging the derived table into the join, where
// nothing would be left out. It takes half as long again as a plain UPDATE.
func besideLocked(s *Sender, u Updating) string {
	return fmt.Sprintf("%[7]s (SELECT id AS free FROM %[1]s %[2]s WHERE %[3]s LIMIT 1000000 FOR UPDATE%[4]s) AS free "+
		"STRAIGHT_JOIN %[1]s %[2]s ON id = free "+
		"SET %[5]s "+
		"WHERE %[6]s",
		s.Tables.Jobs, s.ByPrimary, u.IDs, s.SkipLocked, u.Set, u.InTime+" AND "+u.Where, s.Updates)
}

// laterOr writes the comparison of pairs in full. The server understands a comparison of pairs, but looks at every entry
// of the index for it.
func laterOr(startTime, id string) []string {
	return []string{fmt.Sprintf("(start_time = %[1]s AND id > %[2]s OR start_time > %[1]s)", startTime, id)}
}

// inRanges writes the condition that the id is one of these. Ids that follow each other, as in a backlog, become a
// range: with ranges, MariaDB marks 200,000 rows by the thousand in 0.6 s instead of 1.0 s. A range ends before its
// last id, which is named by itself: the server also locks the row behind a range, and so that row is one of ours.
func inRanges(ids []uint64) string {
	const worthIt = 8
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var ranges strings.Builder
	single := make([]uint64, 0, len(ids))
	for from := 0; from < len(ids); {
		to := from
		for to+1 < len(ids) && ids[to+1] == ids[to]+1 {
			to++
		}
		if to-from >= worthIt {
			fmt.Fprintf(&ranges, " OR id BETWEEN %d AND %d", ids[from], ids[to-1])
			from = to
		}
		single = append(single, ids[from:to+1]...)
		from = to + 1
	}
	condition := "id IN (" + Numbers(single) + ")"
	if ranges.Len() > 0 {
		condition = "(" + condition + ranges.String() + ")"
	}
	return condition
}
