package tests

import (
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// session is one of the ways in which an application may have set up its connections, its pool and its tables.
type session struct {
	name      string
	only      string            // the one database that knows it; empty: all that the list is for
	not       string            // the one that does not know it
	driver    string            // empty: the usual one
	params    map[string]string // of the DSN; what the driver does not know becomes a session variable
	maxConns  int               // of the pool; 0: no limit
	prefix    string            // of the tables' names
	elsewhere bool              // the tables lie in another schema
	bare      bool              // the library gets a handle of four methods
	clocks    clocks            // that change while the session lasts; empty: none do
	main      bool              // a short run has it too
}

var sessions = []session{
	{name: "one connection, tables with a prefix", maxConns: 1, prefix: "shop_", main: true},
	{name: "two connections, tables with an upper case prefix", maxConns: 2, prefix: "Shop_"},
	{name: "three connections", maxConns: 3},
	{name: "a handle of four methods", bare: true},
}

var sessionsOfMySQLs = []session{
	{name: "tables of another database", elsewhere: true, prefix: "shop_"},
	{name: "zone -08:00, found rows counted, times parsed", params: map[string]string{"time_zone": "'-08:00'", "clientFoundRows": "true", "parseTime": "true", "loc": "America/New_York"}},
	{name: "arguments interpolated, NO_BACKSLASH_ESCAPES", params: map[string]string{"interpolateParams": "true", "sql_mode": "'NO_BACKSLASH_ESCAPES'", "clientFoundRows": "true"}},
	{name: "columns with alias", params: map[string]string{"columnsWithAlias": "true"}},
	{name: "lax", params: map[string]string{"sql_mode": "''"}},
	{name: "TRADITIONAL, ANSI_QUOTES, PIPES_AS_CONCAT", params: map[string]string{"sql_mode": "'TRADITIONAL,ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,ONLY_FULL_GROUP_BY'"}},
	{name: "ORACLE", only: "MariaDB", params: map[string]string{"sql_mode": "'ORACLE'"}},
	{name: "autocommit off, arguments interpolated", params: map[string]string{"autocommit": "0", "interpolateParams": "true"}, main: true},
	{name: "autocommit off, SERIALIZABLE, two connections", maxConns: 2, not: "TiDB", params: map[string]string{"autocommit": "0", isolation: "'SERIALIZABLE'"}},
	{name: "safe updates", not: "TiDB", params: map[string]string{"sql_safe_updates": "1"}, main: true},
	{name: "READ COMMITTED", params: map[string]string{isolation: "'READ-COMMITTED'"}},
	{name: "SERIALIZABLE", not: "TiDB", params: map[string]string{isolation: "'SERIALIZABLE'"}},
	// What changes arithmetic, the text of numbers, times and strings, or how a text is read.
	{name: "quotients without fraction", params: map[string]string{"div_precision_increment": "0"}, main: true},
	{name: "NO_UNSIGNED_SUBTRACTION, HIGH_NOT_PRECEDENCE, REAL_AS_FLOAT", params: map[string]string{"sql_mode": "'NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT,STRICT_ALL_TABLES'", "div_precision_increment": "30"}},
	{name: "fractions of seconds rounded, NO_ZERO_DATE", only: "MariaDB", params: map[string]string{"sql_mode": "'TIME_ROUND_FRACTIONAL,SIMULTANEOUS_ASSIGNMENT,NO_ZERO_IN_DATE,NO_ZERO_DATE,STRICT_TRANS_TABLES'"}},
	{name: "fractions of seconds cut, CHAR padded", only: "MySQL", params: map[string]string{"sql_mode": "'TIME_TRUNCATE_FRACTIONAL,PAD_CHAR_TO_FULL_LENGTH,STRICT_TRANS_TABLES'"}},
	{name: "weeks, months and NULL otherwise", not: "TiDB", params: map[string]string{"lc_time_names": "'de_DE'", "default_week_format": "6", "sql_auto_is_null": "1", "max_sort_length": "64"}},
	{name: "strings compared by bytes", params: map[string]string{"collation": "utf8mb4_bin"}},
	{name: "strings compared without accents and case", params: map[string]string{"collation": "utf8mb4_unicode_520_ci", "interpolateParams": "true"}},
	{name: "statements of 20 s", only: "MariaDB", params: map[string]string{"max_statement_time": "20", "lock_wait_timeout": "20", "innodb_lock_wait_timeout": "10"}},
	{name: "reads of 20 s", only: "MySQL", params: map[string]string{"max_execution_time": "20000", "lock_wait_timeout": "20", "innodb_lock_wait_timeout": "10"}},
	{name: "at most a hundred thousand rows", params: map[string]string{"sql_select_limit": "100000"}},
	{name: "unique checks off, few rows joined", not: "TiDB", params: map[string]string{"unique_checks": "0", "foreign_key_checks": "0", "sql_big_selects": "0", "max_join_size": "1000000", "group_concat_max_len": "4", "max_error_count": "0"}},
	{name: "auto-increment by three", params: map[string]string{"auto_increment_increment": "3", "auto_increment_offset": "2"}},
	{name: "plans otherwise, MariaDB", only: "MariaDB", params: map[string]string{"optimizer_switch": "'index_merge=off,derived_merge=off,derived_with_keys=off,materialization=off,semijoin=off'", "optimizer_use_condition_selectivity": "1"}},
	{name: "plans otherwise, MySQL", only: "MySQL", params: map[string]string{"optimizer_switch": "'index_merge=off,derived_merge=off,materialization=off,semijoin=off,skip_scan=off'"}},
	{name: "tables with a key only, invisible if need be", only: "MySQL", params: map[string]string{"sql_require_primary_key": "ON", "show_create_table_verbosity": "ON"}},
	{name: "snapshot isolation", only: "MariaDB", params: map[string]string{"innodb_snapshot_isolation": "ON"}},
	{name: "REPEATABLE READ, messages in German", params: map[string]string{isolation: "'REPEATABLE-READ'", "lc_messages": "'de_DE'"}},
	{name: "spring in Berlin", clocks: clocks{"Europe/Berlin", spring}, params: map[string]string{"clientFoundRows": "true"}},
	{name: "autumn in Berlin", clocks: clocks{"Europe/Berlin", autumn}, params: map[string]string{"clientFoundRows": "true"}, main: true},
	{name: "spring in New York", clocks: clocks{"America/New_York", spring}},
	{name: "autumn in New York", clocks: clocks{"America/New_York", autumn}},
}

var sessionsOfPostgreSQL = []session{
	{name: "tables of another schema", elsewhere: true},
	{name: "pgx, REPEATABLE READ", params: map[string]string{"default_transaction_isolation": "repeatable read"}},
	{name: "pgx, SERIALIZABLE", params: map[string]string{"default_transaction_isolation": "serializable"}},
	{name: "pgx, descriptions cached, backslashes escape", params: map[string]string{"default_query_exec_mode": "cache_describe", "standard_conforming_strings": "off"}},
	{name: "pgx, never described", params: map[string]string{"default_query_exec_mode": "exec"}},
	{name: "pgx, simple protocol", params: map[string]string{"default_query_exec_mode": "simple_protocol"}, main: true},
	{name: "pq, binary parameters, SERIALIZABLE", driver: "postgres", params: map[string]string{"binary_parameters": "yes", "default_transaction_isolation": "serializable"}},
	{name: "pq, backslashes escape, zone -08:00", driver: "postgres", params: map[string]string{"standard_conforming_strings": "off", "TimeZone": "Etc/GMT+8"}},
	{name: "pgx, messages in German", params: map[string]string{"lc_messages": "de_DE.UTF-8"}},
	// What changes arithmetic, the text of numbers, times and strings, or how a text is read.
	{name: "pgx, simple protocol, floats with one digit", params: map[string]string{"default_query_exec_mode": "simple_protocol", "extra_float_digits": "-15"}, main: true},
	{name: "pgx, simple protocol, floats with all digits", params: map[string]string{"default_query_exec_mode": "simple_protocol", "extra_float_digits": "3"}},
	{name: "pq, floats with ten digits", driver: "postgres", params: map[string]string{"extra_float_digits": "-5"}},
	{name: "pgx, simple protocol, dates and intervals otherwise", params: map[string]string{"default_query_exec_mode": "simple_protocol", "DateStyle": "SQL, DMY", "IntervalStyle": "sql_standard", "TimeZone": "Asia/Kathmandu", "lc_numeric": "C", "lc_time": "C", "bytea_output": "escape"}},
	{name: "pq, dates in German, quotes with backslashes", driver: "postgres", params: map[string]string{"DateStyle": "German, DMY", "IntervalStyle": "iso_8601", "backslash_quote": "on", "escape_string_warning": "off"}},
	{name: "pgx, NULL otherwise", params: map[string]string{"transform_null_equals": "on", "array_nulls": "off", "quote_all_identifiers": "on"}},
	{name: "pgx, generic plans, no indexes", params: map[string]string{"plan_cache_mode": "force_generic_plan", "enable_indexscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_nestloop": "off", "jit": "off"}},
	{name: "pgx, plans made anew, no scans", params: map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "enable_sort": "off", "enable_mergejoin": "off", "enable_material": "off", "from_collapse_limit": "1", "join_collapse_limit": "1", "jit": "off"}},
	{name: "pgx, names looked for in the catalog last, statements of 20 s", params: map[string]string{"search_path": "public, pg_catalog", "statement_timeout": "20000", "lock_timeout": "10000", "idle_in_transaction_session_timeout": "20000"}},
	{name: "pgx, commits that nobody waits for, READ COMMITTED named", params: map[string]string{"synchronous_commit": "off", "default_transaction_isolation": "read committed", "default_transaction_deferrable": "on"}},
	{name: "pgx, described each time, idle sessions end after two seconds", params: map[string]string{"default_query_exec_mode": "describe_exec", "idle_session_timeout": "2000", "idle_in_transaction_session_timeout": "2000", "client_connection_check_interval": "100"}},
	{name: "pgx, little memory, plans otherwise", params: map[string]string{"work_mem": "64", "hash_mem_multiplier": "1", "temp_buffers": "100", "geqo_threshold": "2", "cursor_tuple_fraction": "0", "synchronize_seqscans": "off", "enable_hashagg": "off", "enable_incremental_sort": "off", "enable_memoize": "off", "enable_tidscan": "off", "enable_indexonlyscan": "off", "constraint_exclusion": "on", "random_page_cost": "1000"}},
	{name: "pgx, simple protocol, all told, no triggers", params: map[string]string{"default_query_exec_mode": "simple_protocol", "client_min_messages": "debug1", "row_security": "off", "check_function_bodies": "off", "session_replication_role": "replica", "timezone_abbreviations": "Australia", "TimeZone": "America/St_Johns", "default_toast_compression": "pglz", "xmlbinary": "hex", "stats_fetch_consistency": "snapshot"}},
	{name: "pgx, each error ends the session", params: map[string]string{"exit_on_error": "on"}},
	{name: "pgx, spring in Berlin", clocks: clocks{"Europe/Berlin", spring}},
	{name: "pgx, autumn in Berlin", clocks: clocks{"Europe/Berlin", autumn}},
	{name: "pq, spring in New York", driver: "postgres", clocks: clocks{"America/New_York", spring}},
	{name: "pq, autumn in New York", driver: "postgres", clocks: clocks{"America/New_York", autumn}, main: true},
}

var sessionsOfSQLite = []session{
	{name: "order reversed, LIKE by case", params: map[string]string{"_pragma": "reverse_unordered_selects(1)", "_pragma ": "case_sensitive_like(1)"}},
	{name: "keys checked, triggers recursive", params: map[string]string{"_pragma": "foreign_keys(1)", "_pragma ": "recursive_triggers(1)"}},
	{name: "columns with whole names, changes counted", params: map[string]string{"_pragma": "full_column_names(1)", "_pragma ": "short_column_names(0)", "_pragma  ": "count_changes(1)"}},
	{name: "no index by itself, nothing trusted, one at a time", params: map[string]string{"_pragma": "automatic_index(0)", "_pragma ": "trusted_schema(0)", "_pragma  ": "cache_size(1)", "_txlock": "exclusive"}},
	{name: "what is not committed is read, tables altered as they were", params: map[string]string{"_pragma": "read_uncommitted(1)", "_pragma ": "legacy_alter_table(1)", "_pragma  ": "secure_delete(1)", "_txlock": "immediate"}},
	{name: "nothing synchronous, cells checked", params: map[string]string{"_pragma": "synchronous(0)", "_pragma ": "cell_size_check(1)"}},
}

func TestTheLibraryWorksHoweverSessionsAreSetUp(t *testing.T) {
	t.Parallel()
	eachSession(t, play)
}

// eachSession runs the test in each kind of session, on the databases that have it.
func eachSession(t *testing.T, test func(*testing.T, *stage)) {
	for _, on := range []struct {
		each     func(*testing.T, func(*testing.T, dbtest.Database))
		sessions []session
	}{
		{dbtest.EachEmpty, sessions},
		{dbtest.MySQLs, sessionsOfMySQLs},
		{dbtest.PostgreSQL, sessionsOfPostgreSQL},
		{dbtest.SQLite, sessionsOfSQLite},
	} {
		for _, s := range on.sessions {
			t.Run(s.name, func(t *testing.T) {
				if testing.Short() && !s.main {
					t.Skip("left out: one of many sessions; make test-all has all of them")
				}
				t.Parallel()
				on.each(t, func(t *testing.T, d dbtest.Database) {
					if s.only != "" && s.only != d.Name {
						t.Skipf("left out: only %s has such sessions", s.only)
					}
					if s.not == d.Name {
						t.Skipf("left out: %s refuses such sessions", s.not)
					}
					test(t, setStage(t, s, d))
				})
			})
		}
	}
}

func TestWhereNothingCommitsByItselfAHandleMustBeginTransactions(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		db := fourMethods{dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{"autocommit": "0"}))}
		_, errOpen := queue_job.Open(db)
		_, errLock := newLock(t, db, shedlock.Config{}).TryLock(t.Context())
		for what, err := range map[string]error{
			"Open":        errOpen,
			"AddAsyncJob": queue_job.AddAsyncJob(db, queue_job.AddModelJob{JobType: 1}),
			"Start":       newRunner(t, db, queue_job.Config{HandleJobFunc: (&runs{}).handler}).Start(t.Context()),
			"TryLock":     errLock,
		} {
			if err == nil || !strings.Contains(err.Error(), "turn autocommit on") {
				t.Errorf("%s: %v, want a remedy", what, err)
			}
		}
	})
}

func TestASessionThatReadsOrCommitsOnlyAPartIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) {
		for _, c := range [][2]string{{"sql_select_limit", "3"}, {"sql_select_limit", "1000"}, {"sql_select_limit", "99999"}, {"completion_type", "'CHAIN'"}, {"sql_mode", "'EMPTY_STRING_IS_NULL'"}} {
			if strings.Contains(c[1], "EMPTY_STRING") && d.Name != "MariaDB" {
				continue // the others do not know it
			}
			db := dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{c[0]: c[1]}))
			_, errOpen := queue_job.Open(db)
			_, errLock := newLock(t, db, shedlock.Config{}).TryLock(t.Context())
			for what, err := range map[string]error{
				"Open":        errOpen,
				"Migrate":     schema.Migrate(t.Context(), db),
				"AddAsyncJob": queue_job.AddAsyncJob(db, queue_job.AddModelJob{JobType: 1}),
				"Start":       newRunner(t, db, queue_job.Config{HandleJobFunc: (&runs{}).handler}).Start(t.Context()),
				"TryLock":     errLock,
			} {
				if err == nil || !strings.Contains(err.Error(), c[0]) {
					t.Errorf("%s with %s = %s: %v, want a remedy", what, c[0], c[1], err)
				}
			}
		}
	})
}

func TestARunnerRefusesSessionsThatReadWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		db := dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{(&stage{Database: d}).parameter(isolation): "'READ-UNCOMMITTED'"}))
		if err := queue_job.AddAsyncJob(db, queue_job.AddModelJob{JobType: 1}); err != nil {
			t.Error(err)
		}
		r := newRunner(t, db, queue_job.Config{HandleJobFunc: (&runs{}).handler})
		err := r.Start(t.Context())
		if err == nil {
			stop(t, r)
		}
		if err == nil || !strings.Contains(err.Error(), "READ UNCOMMITTED") || !strings.Contains(err.Error(), "READ COMMITTED at least") {
			t.Errorf("%v, want a remedy", err)
		}
	})
}
