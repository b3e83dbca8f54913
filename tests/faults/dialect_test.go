package faults

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"
	"time"
)

// dialect is what differs between databases in what the tests themselves ask of them.
type dialect struct {
	// Connections.
	driver    string
	connector func(dsn string) (driver.Connector, error)
	dsn       func(address, database string) string                                                    // for root; of no database: for the server as a whole
	address   func(dsn string) (string, error)                                                         // where it leads to
	through   func(dsn, address string) (string, error)                                                // it leads elsewhere, to a proxy
	ofWorker  func(dsn, name string) (string, error)                                                   // it tells the audit whose connection it is
	lingers   time.Duration                                                                            // for how long the driver may give up a connection that is silent
	insert    func(ctx context.Context, tx *sql.Tx, statement string, n int) (ids []uint64, err error) // so many jobs, by one statement

	// Statements.
	version              string
	unaudited            bool     // it has no triggers, so the tables of the audit stay empty
	audit                []string // its tables and triggers, and functions by which the tests' own statements are the same everywhere
	auditNoJobs          string   // takes the jobs' trigger away
	auditLeaseStatements []string
	truncate             string // the table of jobs, whose ids begin anew
	idsGoOn              string // behind the rows that were added with ids of their own; empty: they do by themselves
	byPrimary            string // index hint: rows are found, and locked, by their ids
	lockTable            string // of jobs, for nobody else
	unlockTable          string
	holdWrites           string // has all wait that write to the library's tables, until unlockTable
	session              string // the server's number of a connection from a port
	endSession           string // format: kills it
	altering             string // counts the ALTERs that wait for a lock
	marking              string // counts the marks that wait for the lock of the table
	deadlocks            string // counts those that the server has found
	isDeadlock           func(error) bool
	lastDeadlock         func(*sql.DB) string
	snapshot             []string // begin a transaction that goes on to see what is there now
	history              string   // counts the transactions whose old rows cannot be cleared away
	statements           string   // reads a name, and how many statements the server was sent

	// A server that is read-only.
	readOnly       []string // formats: whether it is
	readOnlyCode   string   // of its answer to a write
	isReadOnly     func(error) bool
	application    []string // make a user whom it stops
	applicationDSN func(address, database string) string

	// A server that is stopped, and what the proxy says in its place.
	stop         os.Signal // ends it cleanly, without waiting for its clients
	discard      os.Signal // ends it at once, and nothing of it is left but its data
	wire         wire
	refusals     []fate // when nobody is to blame
	refusalCodes string
}

func dialectOf(name string) dialect {
	switch name {
	case "PostgreSQL":
		return postgresDialect
	case "TiDB":
		return tidbDialect
	}
	return mysqlDialect
}
