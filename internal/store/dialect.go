package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// dialect is what differs between databases, mostly as fragments of SQL. Times are unix seconds.
type dialect struct {
	name string

	// The clock that jobs go by.
	now       string           // whole seconds
	nowMicros string           // in microseconds: whole numbers, which no setting of a session rounds
	once      string           // format: an expression that a statement computes once, not for each row
	seconds   string           // format: whole seconds of so many microseconds, rounded down
	clock     func() time.Time // used instead of the database's, see Store.ByClock; nil: none

	// format: the condition that the clock has not passed a moment, in unix milliseconds, when the server looks at a row. It is the
	// first condition, so that it is asked whatever else is the matter with a row.
	inTime string

	// The clock that leases go by, and the column that holds it.
	leaseNow     string // as fine as lock_until is
	leaseRounded string // rounded to what lock_until can hold
	leaseMillis  string // in milliseconds
	fromUnix     string // format: unix seconds to a timestamp
	toUnix       string // format: a timestamp to unix seconds
	exact        string // format: a number with a fraction as it is sent to us, so that no setting of the session rounds its text
	greatest     string // the function that returns the larger of two values …
	least        string // … and the smaller
	quotient     string // the operator that divides whole numbers, and drops the remainder
	leaseUpdate  string // UPDATE of shedlock_tab, safe from the session's time zone
	// format: the same, with its assignments and conditions, of leases with one of the names in a list, which nobody else has locked …
	unlockedLeases string
	namesFirst     bool   // … and the list comes before the arguments of the assignments
	orLater        string // end of an INSERT of lines that overwrites an existing row unless its term is a later one
	ifMore         string // end of an INSERT of stats that overwrites an existing row if it has counted less
	ifKnown        string // end of an INSERT of tenures that says how an existing row ended, unless its holder has said that already
	ownSession     string // makes a session of our own safe from its time zone; empty: nothing to do

	// Rows that are inserted.
	insertNew   string // start of an INSERT that leaves out rows whose key exists …
	unlessThere string // … and its end
	// end of an INSERT of rows with this primary key that leaves existing rows as they are, and that many may send at once
	unlessRow  func(key string) string
	returning  string // end of an INSERT that returns the ids as rows; empty: the driver tells one id
	addMany    func(ctx context.Context, s *Store, jobs []NewJob, created int64) ([]uint64, error)
	addManyNew func(ctx context.Context, s *Store, jobs []NewJob, created int64) ([]uint64, ours, error) // leaves out rows whose key exists
	// adds the job for a time of a schedule; the contract is that of Store.AddScheduled
	addScheduled func(ctx context.Context, s *Store, jobType int32, at int64, key, params string) (added bool, err error)
	// format: lets the ids that the database gives begin behind the largest one of a table; empty: the database does so by itself
	idsBehind string
	// reads the step between the ids of one INSERT, whose first id the driver tells; empty: the step is 1, and the driver
	// tells the last
	idStep string

	// Rows that are found.
	byPrimary  string // index hint: by id
	byDue      string // index hint: by job_type, job_status, priority, start_time, id
	byKey      string // index hint: by job_key, unique_in
	byGroup    string // index hint: by job_group
	deleteFrom string // format: start of a DELETE that finds its rows by the primary key
	deletes    string // DELETE, and …
	// … UPDATE of tables that are small, so that the optimizer may go through all rows: safe updates must not refuse it
	updates     string
	lockingRead string                            // end of a SELECT that sees what is committed, not the transaction's snapshot
	forUpdate   string                            // end of a SELECT that locks its rows until the end of the transaction
	skipLocked  string                            // behind forUpdate: leaves out rows that others have locked; empty: the database cannot
	unlessHeld  func(s *Store, u updating) string // an UPDATE that fails at once if another transaction has locked a row; see updating
	// changes the rows that nobody else has locked, and leaves out the others; nil: the database cannot
	passingHeld func(ctx context.Context, s *Store, u updating, ids []uint64) (int, error)
	ofTypes     string // format: condition for the rows of job types in an UPDATE, which locks them in the order of the types
	byPaused    string // index hint for the types that are paused
	steered     string // condition: somebody has paused, divided or limited the type; there may be thousands of types, so it goes by indexes
	latest      string // format: a read that goes to the primary, see fromPrimary
	unionPart   string // format: a SELECT with a limit, as a part of a UNION
	idIn        func(ids []uint64) string
	bigint      string                                     // the type of a whole number in a CAST
	integer     string                                     // format: a column as a whole number, whatever was inserted there
	commas      func(numbers []string, text string) string // one text of whole numbers and, unless it is NULL, a text behind them
	atOnce      string                                     // the condition that start_time is 0
	keyHash     string                                     // what share.ShardOf makes of a row's group; empty: the database cannot compute that
	unforeseen  string                                     // format: a number that the planner does not see
	anyType     string                                     // end of a SELECT that finds the first job type in a range along the due index
	pendingOnly bool                                       // the due index has pending rows only
	lanesInFull bool                                       // ORDER BY of a lane also names columns that are constant in it, see postgres.go
	sweep       func(s *Store, part int, k kind, types []int32, limit int, args *arguments) string
	// one or more conditions for what lies behind a start time and an id, written so that the index is entered there
	later func(startTime, id string) []string

	// The schema.
	tableIn       string // format: one of the tables in the list of the next two; %[1]s its name, %[2]s its name without its schema
	columnsOf     string // format: names of tables and of their columns; %[1]s the list of tables, %[2]s their schema
	indexesOf     string // format: names of tables and of their indexes; likewise
	currentSchema string // the schema of tables whose names have none
	impatient     string // makes this session wait at most a second for the lock of a table; empty: the database does not wait
	patient       string // takes that back; empty: the end of the transaction does that

	// How statements are sent.
	begin        string // begins a transaction that will write
	bind         int    // how arguments are written: a constant of sqlx
	bindsNumbers bool   // numbers that differ from one read to the next are arguments, see postgres.go
	// reads whether this session commits by itself, and whether replicas are sent its statements: see sessionOf; empty: every session does,
	// and none are
	session        string
	asksFirst      bool // which rows are locked is asked by a statement of its own: replicas are sent the others, see forStatements
	oneWriter      bool // only one statement at a time can write
	failureEndsAll bool // a statement that fails ends its transaction
	reservesConns  bool // a second connection works beside a pool of one
}

func dialectOf(ctx context.Context, db DB) (dialect, error) {
	version, err := readText(ctx, db, "SELECT VERSION()")
	if err != nil {
		// SQLite is the only one without VERSION(); it has sqlite_version() instead.
		if _, errLite := readText(ctx, db, "SELECT sqlite_version()"); errLite == nil {
			return sqlite, nil
		}
		return dialect{}, err
	}
	switch {
	case strings.Contains(version, "PostgreSQL"), strings.Contains(version, "CockroachDB"):
		return postgres, nil
	case strings.Contains(version, "MariaDB"):
		return mariadb, nil
	case strings.Contains(version, "TiDB"):
		return tidb, nil
	default:
		return mysql, nil
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

// sessionIs is what the store must know of the sessions of a handle.
type sessionIs struct {
	commits    bool // by itself
	statements bool // are what replicas are sent
	seesAll    bool // also what others have not committed
}

// sessionOf looks at this session. It is an error if the session does not return all that is read, or not commit all that is written.
func (d dialect) sessionOf(ctx context.Context, db DB) (is sessionIs, err error) {
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

// updating is an UPDATE of rows of async_job_tab, in parts.
type updating struct{ set, ids, inTime, where string }

// text writes the UPDATE, between what a database says before and behind it. It stands on the way of each job, so it is written in one
// go.
func (u updating) text(s *Store, before, behind string) string {
	return before + "UPDATE " + s.jobs + " " + s.byPrimary + " SET " + u.set + " WHERE " + u.ids + " AND " + u.inTime + " AND " + u.where + behind
}

// patiently writes an UPDATE that waits for rows that are locked.
func patiently(s *Store, u updating) string { return u.text(s, "", "") }

// inOne changes the rows that nobody else has locked by one statement.
func inOne(text func(s *Store, u updating) string) func(context.Context, *Store, updating, []uint64) (int, error) {
	return func(ctx context.Context, s *Store, u updating, _ []uint64) (int, error) {
		return s.exec(ctx, text(s, u))
	}
}

// asking asks which rows are not locked, and changes those. If another transaction locks a row in between, it asks again.
func asking(ctx context.Context, s *Store, u updating, ids []uint64) (n int, err error) {
	for range askMost {
		if ids, err = s.Unlocked(ctx, ids); err != nil || len(ids) == 0 {
			return 0, err
		}
		u.ids = s.idIn(ids)
		if n, err = s.exec(ctx, s.unlessHeld(s, u)); !isLocked(err) {
			return n, err
		}
	}
	return 0, nil // as if all were locked
}

// askMost is how often a statement is preceded by the question which rows are not locked, if it finds a locked row all the same.
const askMost = 3

// fromPrimary writes a read on which a decision about a lease, a mark or a schedule depends. A replica would answer
// from the past. Proxies and libraries that split reads from writes (MaxScale, ProxySQL, MySQL Router, pgpool-II,
// GORM's dbresolver) recognise a locking read by its words, above all by FOR UPDATE at the end, and send it to the
// primary. The words stand around the query, which is a derived table or a CTE. There, no database locks the query's
// rows, so the read never waits for a locked row. TiDB would, and gets the query alone. The result has no order.
func (d dialect) fromPrimary(query string) string { return fmt.Sprintf(d.latest, query) }

// byKeyOf is a small table in an UPDATE of one row, which is found by its primary key. By another index, a server would lock the entry of that
// index first, and the row then; whoever goes by the primary key locks them the other way round.
func (d dialect) byKeyOf(table string) string { return strings.TrimRight(table+" "+d.byPrimary, " ") }

// nowOnce writes the current second for a statement about many rows.
func (d dialect) nowOnce() string { return fmt.Sprintf(d.once, d.now) }

func (d dialect) named(prefix string) dialect {
	d.leaseUpdate = WithPrefix(d.leaseUpdate, prefix)
	d.unlockedLeases = WithPrefix(d.unlockedLeases, prefix)
	d.orLater = WithPrefix(d.orLater, prefix)
	d.ifMore = WithPrefix(d.ifMore, prefix)
	d.ifKnown = WithPrefix(d.ifKnown, prefix)
	d.byDue = WithPrefix(d.byDue, prefix)
	d.byKey = WithPrefix(d.byKey, prefix)
	d.byGroup = WithPrefix(d.byGroup, prefix)
	d.ofTypes = WithPrefix(d.ofTypes, prefix)
	d.byPaused = WithPrefix(d.byPaused, prefix)
	d.steered = WithPrefix(d.steered, prefix)
	return d
}
