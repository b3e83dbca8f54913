package store

// A second connection to SQLite would wait for the first one's transaction, and to ":memory:" it would be another
// database altogether, so none is reserved.
var sqlite = dialect{
	name: "SQLite",

	now:        "unixepoch()",
	nowPrecise: "unixepoch('subsec')",
	ceiling:    "(CAST(%[1]s AS INTEGER) + (%[1]s > CAST(%[1]s AS INTEGER)))",

	leaseNow:     "unixepoch()",
	leaseRounded: "CAST(unixepoch('subsec') + 0.5 AS INTEGER)",
	leaseMillis:  "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	fromUnix:     "datetime(%s, 'unixepoch')",
	toUnix:       "unixepoch(%s)",
	greatest:     "MAX",
	leaseUpdate:  "UPDATE shedlock_tab",
	unlessLease:  " ON CONFLICT DO NOTHING",

	insertNew: "INSERT OR IGNORE INTO",
	addMany:   addByValues,

	byPrimary: "NOT INDEXED",
	byDue:     "INDEXED BY async_job_due",
	byKey:     "INDEXED BY async_job_key",
	idIn:      func(ids []uint64) string { return "id IN (" + numbers(ids) + ")" },
	integer:   "CAST(%s AS INTEGER)",
	atOnce:    "start_time = 0",
	sweep:     sweepRanges,

	columnsOf: "SELECT name FROM pragma_table_info('%s')",
	indexesOf: "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '%s' COLLATE NOCASE",

	oneWriter: true,
}
