package conn

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Dialect is what differs between databases, mostly as fragments of SQL. Times are unix seconds.
type Dialect struct {
	Name string

	// The clock that jobs go by.
	NowSecond string           // whole seconds
	NowMicros string           // in microseconds: whole numbers, which no setting of a session rounds
	Once      string           // format: an expression that a statement computes once, not for each row
	Seconds   string           // format: a number of microseconds as whole seconds, rounded down
	clock     func() time.Time // used instead of the database's, see Sender.ByClock; nil: none

	// format: the condition that the clock has not passed a moment, in unix milliseconds, when the server looks at a row. It is the
	// first condition, so that it is asked whatever else is the matter with a row.
	InTime string

	// The clock that leases go by, and the column that holds it.
	LeaseNow     string // as fine as lock_until is
	LeaseRounded string // rounded to what lock_until can hold
	LeaseMillis  string // in milliseconds
	fromUnix     string // format: unix seconds to a timestamp
	toUnix       string // format: a timestamp to unix seconds
	exact        string // format: a number with a fraction as it is sent to us, so that no setting of the session rounds its text
	Greatest     string // the function that returns the larger of two values …
	Least        string // … and the smaller
	Quotient     string // the operator that divides whole numbers, and drops the remainder
	LeaseUpdate  string // UPDATE of shedlock_tab, safe from the session's time zone
	// format: the same, with its assignments and conditions, of leases with one of the names in a list, which nobody else has locked …
	UnlockedLeases string
	NamesFirst     bool   // … and the list comes before the arguments of the assignments
	OrLater        string // end of an INSERT of lines that overwrites an existing row unless its term is a later one
	IfMore         string // end of an INSERT of stats that overwrites an existing row if it has counted less
	IfKnown        string // end of an INSERT of tenures that says how an existing row ended, unless its holder has said that already
	ownSession     string // makes a session of our own safe from its time zone; empty: nothing to do

	// Rows that are inserted.
	InsertNew   string // start of an INSERT that leaves out rows whose key exists …
	UnlessThere string // … and its end
	// end of an INSERT of rows with this primary key that leaves existing rows as they are, and that many may send at once
	UnlessRow func(key string) string
	Returning string // end of an INSERT that returns the ids as rows; empty: the driver tells one id
	Chains    bool   // an INSERT may begin with an UPDATE, whose rows it inserts
	Arrays    bool   // many rows are inserted from arrays, one for each column, and not from a list of rows
	// no INSERT may read another table, or leave out rows, since the server warns of both in its log: a look before it must say that the row
	// is to be inserted
	LooksBefore bool
	// format: lets the ids that the database gives begin behind the largest one of a table; empty: the database does so by itself
	IDsBehind string
	// reads the step between the ids of one INSERT, whose first id the driver tells; empty: the step is 1, and the driver
	// tells the last
	IDStep string

	// Rows that are found.
	ByPrimary  string // index hint: by id
	ByDue      string // index hint: by job_type, job_status, priority, start_time, id
	ByKey      string // index hint: by job_key, unique_in; …
	KeysInRow  bool   // … keys that begin alike stand side by side in that index, whatever the collation of the database
	ByGroup    string // index hint: by job_group
	DeleteFrom string // format: start of a DELETE that finds its rows by the primary key
	Deletes    string // DELETE, and …
	// … UPDATE of tables that are small, so that the optimizer may go through all rows: safe updates must not refuse it
	Updates     string
	LockingRead string                             // end of a SELECT that sees what is committed, not the transaction's snapshot …
	HoldingRead string                             // … and lets nobody change its rows until the end of the transaction
	ForUpdate   string                             // end of a SELECT that locks its rows until the end of the transaction
	SkipLocked  string                             // behind ForUpdate: leaves out rows that others have locked; empty: the database cannot
	UnlessHeld  func(s *Sender, u Updating) string // an UPDATE that fails at once if another transaction has locked a row; see Updating
	PassingHeld func(s *Sender, u Updating) string // an UPDATE that leaves out rows that others have locked; nil: the database has none …
	AsksAgain   bool                               // … but tells which rows are not locked, so that these can be changed
	ofTypes     string                             // format: condition for the rows of types in an UPDATE, which locks them in the order of the types
	ByPaused    string                             // index hint for the types that are paused
	// condition: somebody has paused, divided or limited the type; there may be thousands of types, so it goes by indexes
	Steered     string
	latest      string // format: a read that goes to the primary, see FromPrimary
	unionPart   string // format: a SELECT with a limit, as a part of a UNION
	IDIn        func(ids []uint64) string
	BigInt      string                                     // the type of a whole number in a CAST
	Integer     string                                     // format: a column as a whole number, whatever was inserted there
	Commas      func(numbers []string, text string) string // one text of whole numbers and, unless it is NULL, a text behind them
	AtOnce      string                                     // the condition that start_time is 0
	KeyHash     string                                     // what share.ShardOf makes of a row's group; empty: the database cannot compute that
	Unforeseen  string                                     // format: a number that the planner does not see
	AnyType     string                                     // end of a SELECT that finds the first job type in a range along the due index
	PendingOnly bool                                       // the due index has pending rows only
	LanesInFull bool                                       // ORDER BY of a lane also names columns that are constant in it, see postgres.go
	SweepsEach  bool                                       // each type, status and priority is looked at by itself, see postgres.go
	// one or more conditions for what lies behind a start time and an id, written so that the index is entered there
	Later func(startTime, id string) []string

	// The schema.
	tableIn       string // format: one of the tables in the list of the next two; %[1]s its name, %[2]s its name without its schema
	columnsOf     string // format: names of tables and of their columns; %[1]s the list of tables, %[2]s their schema
	indexesOf     string // format: names of tables and of their indexes; likewise
	currentSchema string // the schema of tables whose names have none
	impatient     string // makes this session wait at most a second for the lock of a table; empty: the database does not wait
	patient       string // takes that back; empty: the end of the transaction does that

	// Sickness reads what keeps the database from cleaning up, see record.Store.Sickness. Empty: the database does not say.
	Sickness string
	// SicknessElsewhere asks other lists of the server, if those of Sickness cannot be read at the moment. Empty: there are none.
	SicknessElsewhere string

	// How statements are sent.
	begin        string // begins a transaction that will write
	ReadsAnew    string // has each statement of a transaction that has just begun see what is committed by then; empty: its locking reads do
	bind         int    // how arguments are written: a constant of sqlx
	bindsNumbers bool   // numbers that differ from one read to the next are arguments, see postgres.go
	// reads whether this session commits by itself, and whether replicas are sent its statements: see sessionOf; empty: every session does,
	// and none are
	session        string
	AsksFirst      bool // which rows are locked is asked by a statement of its own: replicas are sent the others, see ForStatements
	oneWriter      bool // only one statement at a time can write
	failureEndsAll bool // a statement that fails ends its transaction
	reservesConns  bool // a second connection works beside a pool of one
}

func dialectOf(ctx context.Context, db DB) (Dialect, error) {
	version, err := readText(ctx, db, "SELECT VERSION()")
	if err != nil {
		// SQLite is the only one without VERSION(); it has sqlite_version() instead.
		if _, errLite := readText(ctx, db, "SELECT sqlite_version()"); errLite == nil {
			return SQLite, nil
		}
		return Dialect{}, err
	}
	switch {
	case strings.Contains(version, "PostgreSQL"), strings.Contains(version, "CockroachDB"):
		return PostgreSQL, nil
	case strings.Contains(version, "MariaDB"):
		return MariaDB, nil
	case strings.Contains(version, "TiDB"):
		return TiDB, nil
	default:
		return MySQL, nil
	}
}

// plusUnusable adds 4 to what is read of a session if its SELECTs return the first few rows and leave out the others, 8 if each COMMIT
// begins another transaction, 16 if it reads what others have not committed, and 32 if an empty text is NULL in it. The comments are for
// MySQL and for MariaDB, which call an isolation differently.
const plusUnusable = " + 4 * (@@sql_select_limit < " + rowsLeast + ") + 8 * (@@completion_type = 'CHAIN')" +
	" + 32 * (@@sql_mode LIKE '%EMPTY_STRING_IS_NULL%')" +
	"/*!80000 + 16 * (@@transaction_isolation = 'READ-UNCOMMITTED') *//*M! + 16 * (@@tx_isolation = 'READ-UNCOMMITTED') */"

// rowsLeast is how many rows a SELECT without a LIMIT must be able to return: there may be as many types and leases.
const rowsLeast = "100000"

// sessionIs is what the sender must know of the sessions of a handle.
type sessionIs struct {
	commits    bool // by itself
	statements bool // are what replicas are sent
	seesAll    bool // also what others have not committed
}

// sessionOf looks at this session. It is an error if the session does not return all that is read, or not commit all that is written.
func (d *Dialect) sessionOf(ctx context.Context, db DB) (is sessionIs, err error) {
	text, err := readText(ctx, db, d.session)
	if err != nil && strings.Contains(err.Error(), "Error 1193 ") { // a server that has no such formats any more
		text, err = readText(ctx, db, "SELECT @@autocommit"+plusUnusable)
	}
	n, _ := strconv.Atoi(text)
	switch {
	case n&8 != 0:
		err = unusable(
			"in the sessions of this database, each COMMIT begins another transaction, since completion_type is CHAIN, and nobody would commit what is " +
				"written in it; set it to NO_CHAIN")
	case n&32 != 0:
		err = unusable(
			"in the sessions of this database an empty text is NULL, since sql_mode has EMPTY_STRING_IS_NULL, and the tables have columns that are never " +
				"NULL; take it out of sql_mode, or set another sql_mode in the DSN")
	case n&4 != 0:
		err = unusable("the sessions of this database return only the first rows of a SELECT, since sql_select_limit is less than " +
			rowsLeast + ", and leave out the others without a word; set it to DEFAULT, or by sql_select_limit=18446744073709551615 in the DSN")
	}
	return sessionIs{commits: n&1 != 0, statements: n&2 != 0, seesAll: n&16 != 0}, err
}

// Updating is an UPDATE of rows of async_job_tab, in parts.
type Updating struct{ Set, IDs, InTime, Where string }

// text writes the UPDATE, between what a database says before and behind it. It stands on the way of each job, so it is written in one
// go.
func (u Updating) text(s *Sender, before, behind string) string {
	return before + "UPDATE " + s.Tables.Jobs + " " + s.ByPrimary + " SET " + u.Set + " WHERE " + u.IDs + " AND " + u.InTime + " AND " + u.Where + behind
}

// patiently writes an UPDATE that waits for rows that are locked.
func patiently(s *Sender, u Updating) string { return u.text(s, "", "") }

// FromPrimary writes a read on which a decision about a lease, a mark or a schedule depends. A replica would answer
// from the past. Proxies and libraries that split reads from writes (MaxScale, ProxySQL, MySQL Router, pgpool-II,
// GORM's dbresolver) recognise a locking read by its words, above all by FOR UPDATE at the end, and send it to the
// primary. The words stand around the query, which is a derived table or a CTE. There, no database locks the query's
// rows, so the read never waits for a locked row. TiDB would, and gets the query alone. The result has no order.
func (d *Dialect) FromPrimary(query string) string { return fmt.Sprintf(d.latest, query) }

// ByKeyOf is a small table in an UPDATE of one row, which is found by its primary key. By another index, a server would lock the entry of that
// index first, and the row then; whoever goes by the primary key locks them the other way round.
func (d *Dialect) ByKeyOf(table string) string { return strings.TrimRight(table+" "+d.ByPrimary, " ") }

// NowOnce writes the current second for a statement about many rows.
func (d *Dialect) NowOnce() string { return fmt.Sprintf(d.Once, d.NowSecond) }

// UnionAll joins SELECTs that have a limit each.
func (d *Dialect) UnionAll(selects []string) string {
	if len(selects) == 1 {
		return selects[0]
	}
	parts := make([]string, len(selects))
	for i, one := range selects {
		parts[i] = fmt.Sprintf(d.unionPart, one)
	}
	return strings.Join(parts, " UNION ALL ")
}

// RowsOf is the condition for the rows of job types in an UPDATE by their primary key. All instances may write them at once, so each
// statement locks them in the same order.
func (d *Dialect) RowsOf(types []int32) string { return fmt.Sprintf(d.ofTypes, Numbers(types)) }

func (d Dialect) named(prefix string) *Dialect {
	d.LeaseUpdate = WithPrefix(d.LeaseUpdate, prefix)
	d.UnlockedLeases = WithPrefix(d.UnlockedLeases, prefix)
	d.OrLater = WithPrefix(d.OrLater, prefix)
	d.IfMore = WithPrefix(d.IfMore, prefix)
	d.IfKnown = WithPrefix(d.IfKnown, prefix)
	d.ByDue = WithPrefix(d.ByDue, prefix)
	d.ByKey = WithPrefix(d.ByKey, prefix)
	d.ByGroup = WithPrefix(d.ByGroup, prefix)
	d.ofTypes = WithPrefix(d.ofTypes, prefix)
	d.ByPaused = WithPrefix(d.ByPaused, prefix)
	d.Steered = WithPrefix(d.Steered, prefix)
	d.Sickness, d.SicknessElsewhere = WithPrefix(d.Sickness, prefix), WithPrefix(d.SicknessElsewhere, prefix)
	return &d
}

// What store.Row.Group is in SQL: the row's own group, and the group that counts.
const (
	GroupOfOwn = "NULLIF(RTRIM(job_group), '')"
	GroupOf    = "COALESCE(" + GroupOfOwn + ", job_key)"
)

// PendingStatuses are what job_status says of a row that is to run, besides NULL.
const PendingStatuses = "0, 3, 4"

// steeredOr is Dialect.Steered where the planner unites what several indexes find.
const steeredOr = "layout IS NOT NULL OR paused_at IS NOT NULL OR workers IS NOT NULL OR rate IS NOT NULL"

// Dialect.OrLater, IfMore and IfKnown where an INSERT says ON CONFLICT: in PostgreSQL and SQLite.
const (
	onConflictLater = " ON CONFLICT (lock_name) " +
		"DO UPDATE SET term = excluded.term, told_at = excluded.told_at, state = excluded.state " +
		"WHERE async_job_now_tab.term <= excluded.term"
	onConflictMore = " ON CONFLICT (job_type, begins_at, lock_name, term) " +
		"DO UPDATE SET counted = excluded.counted, state = excluded.state " +
		"WHERE async_job_stat_tab.counted < excluded.counted"
	onConflictKnown = " ON CONFLICT (lock_name, term) DO UPDATE SET ended_at = excluded.ended_at, how = excluded.how" +
		" WHERE excluded.how IS NOT NULL AND (async_job_lease_log_tab.how IS NULL OR async_job_lease_log_tab.how = 'expired')"
)
