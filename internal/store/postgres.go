package store

import "github.com/jmoiron/sqlx"

// Moments in PostgreSQL are the same in every session time zone. A lease goes by the clock at the moment at which its row
// is looked at, which may be after a wait for another's transaction; jobs go by the moment at which the statement
// arrived, which an index can be asked for.
var postgres = dialect{
	name:         "PostgreSQL",
	now:          "CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)",
	nowPrecise:   "EXTRACT(EPOCH FROM statement_timestamp())",
	leaseNow:     "EXTRACT(EPOCH FROM clock_timestamp())",
	leaseRounded: "EXTRACT(EPOCH FROM clock_timestamp())",
	leaseMillis:  "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint)",
	fromUnix:     "to_timestamp(%s)",
	toUnix:       "EXTRACT(EPOCH FROM %s)",
	greatest:     "GREATEST",
	ceiling:      "CAST(CEILING(%s) AS bigint)",
	integer:      "%s",
	insertNew:    "INSERT INTO",
	unlessThere:  " ON CONFLICT DO NOTHING",
	returning:    " RETURNING id",
	leaseUpdate:  "UPDATE shedlock_tab",
	columnsOf:    "SELECT attname AS name FROM pg_attribute WHERE attrelid = to_regclass('%s') AND attnum > 0 AND NOT attisdropped",
	indexesOf:    "SELECT relname AS name FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = to_regclass('%s')",
	impatient:    "SET lock_timeout = '1s'",
	patient:      "RESET lock_timeout",

	bind:          sqlx.DOLLAR,
	bindsNumbers:  true,
	reservesConns: true,
}
