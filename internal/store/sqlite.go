package store

// A second connection to SQLite would wait for the first one's transaction, and to ":memory:" it would be another
// database altogether, so none is reserved.
var sqlite = dialect{
	name:         "SQLite",
	now:          "unixepoch()",
	nowPrecise:   "unixepoch('subsec')",
	leaseNow:     "unixepoch()",
	leaseRounded: "CAST(unixepoch('subsec') + 0.5 AS INTEGER)",
	leaseMillis:  "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
	fromUnix:     "datetime(%s, 'unixepoch')",
	toUnix:       "unixepoch(%s)",
	greatest:     "MAX",
	ceiling:      "(CAST(%[1]s AS INTEGER) + (%[1]s > CAST(%[1]s AS INTEGER)))",
	integer:      "CAST(%s AS INTEGER)",
	insertNew:    "INSERT OR IGNORE INTO",
	leaseUpdate:  "UPDATE shedlock_tab",
	byPrimary:    "NOT INDEXED",
	byDue:        "INDEXED BY async_job_due",
	columnsOf:    "SELECT name FROM pragma_table_info('%s')",
	indexesOf:    "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '%s'",
	idIn:         "id IN (%s)",
	atOnce:       "start_time = 0",
	sweep:        sweepRanges,
	oneWriter:    true,
}
