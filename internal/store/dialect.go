package store

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// dialect is what differs between databases, mostly as fragments of SQL. Times are unix seconds.
type dialect struct {
	name string

	// The clock that jobs go by.
	now        string           // whole seconds
	nowPrecise string           // with its fraction
	ceiling    string           // format: the next whole number
	clock      func() time.Time // another than the database's; nil: none

	// The clock that leases go by, and the column that holds it.
	leaseNow     string // as fine as lock_until is
	leaseRounded string // rounded to what lock_until can hold
	leaseMillis  string // in milliseconds
	fromUnix     string // format: unix seconds to a timestamp
	toUnix       string // format: a timestamp to unix seconds
	greatest     string // the function that returns the larger of two values
	leaseUpdate  string // UPDATE of shedlock_tab, safe from the session's time zone
	unlessLease  string // what an INSERT of leases says behind its rows to pass over those that exist
	ownSession   string // what makes a session of our own safe from its time zone

	// Rows that are inserted.
	insertNew   string // INSERT that passes over rows whose key exists …
	unlessThere string // … and what it says behind the rows for that
	returning   string // what an INSERT says to have its id returned as a row; empty: the driver tells it
	addMany     func(ctx context.Context, s *Store, jobs []NewJob, created int64) ([]uint64, error)
	// adds the job for a time of a schedule, as AddScheduled says
	addScheduled func(ctx context.Context, s *Store, jobType int32, at int64, key, params string) (added bool, err error)
	idStep       string // reads by how much the ids of one INSERT differ; empty: by one, and the driver tells the last

	// Rows that are found.
	byPrimary   string // index hint: by id
	byDue       string // index hint: by job_type, job_status, priority, start_time, id
	byKey       string // index hint: by job_key, unique_in
	lockingRead string // what a SELECT says to see what is committed, not the transaction's picture of it
	forUpdate   string // what a SELECT says to lock its rows until the transaction's end
	latest      string // format: a read that goes to the primary, where something sends others to a replica
	idIn        func(ids []uint64) string
	integer     string // format: a column of whole numbers, whatever is in it
	atOnce      string // start_time is 0
	unforeseen  string // format: a number that no plan is made for
	anyType     string // what a look at the due index for whatever type comes next says behind its range
	lanesInFull bool   // a lane is read in the order of all columns of the due index, whatever they are in the lane
	sweep       func(s *Store, part int, k kind, types []int32, limit int, args *arguments) string
	later       func(startTime, id string) []string // what lies behind a pair of these, said in one or more conditions so that an index is entered there

	// The schema.
	columnsOf string // format: the columns of the named table
	indexesOf string // format: the indexes of the named table
	impatient string // lets this session wait a second for the lock of a table, and no longer; empty: it does not wait
	patient   string // takes that back; empty: the end of the transaction does

	// How statements are sent.
	bind          int    // how arguments are written, as sqlx knows it
	bindsNumbers  bool   // numbers that differ from one read to the next are arguments
	autocommit    string // whether this session commits by itself; empty: every session does
	oneWriter     bool   // one statement at a time can write
	reservesConns bool   // a second connection works beside a pool of one
}

func dialectOf(ctx context.Context, db DB) (dialect, error) {
	version, err := readText(ctx, db, "SELECT VERSION()")
	if err != nil {
		// SQLite alone has no function of that name, but one of its own.
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
	default:
		return mysql, nil
	}
}

// fromPrimary writes a read that a decision about a lease, a mark or a schedule hangs on. Whatever splits reads from writes
// (MaxScale, ProxySQL, MySQL Router, pgpool-II, GORM's dbresolver) knows a locking read by its words, FOR UPDATE at the end
// above all, and sends it to the primary; a replica would answer from the past. The words stand around a read of its own,
// whose rows they lock in none of the databases: who holds such a row keeps nobody waiting. The result has no order.
func (d dialect) fromPrimary(query string) string { return fmt.Sprintf(d.latest, query) }

func (d dialect) named(prefix string) dialect {
	d.leaseUpdate = WithPrefix(d.leaseUpdate, prefix)
	d.byDue = WithPrefix(d.byDue, prefix)
	d.byKey = WithPrefix(d.byKey, prefix)
	return d
}
