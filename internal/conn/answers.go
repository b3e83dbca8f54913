package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
)

// isDeadlock reports whether the server ended the statement because it and another transaction waited for each other or,
// on a node of a Galera cluster, because a transaction of another node was first. This package does not know the error
// types of the drivers.
func isDeadlock(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState() == "40P01"
	}
	return strings.Contains(err.Error(), "Error 1213 ")
}

var sqliteError = regexp.MustCompile(`\(\d+\)$`) // its number

// IsRolledBack reports whether an error of MySQL, or of one like it, says that the statement has changed nothing, because a transaction of
// another session or of another node of a cluster was first: a deadlock, or Group Replication's error 3101.
func IsRolledBack(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Error 1213 ") || strings.Contains(err.Error(), "Error 3101 "))
}

// IsAnswered reports whether an error is the server's answer to a statement, so that nothing of it is still under way. Only errors that are
// known to be answers count.
func IsAnswered(err error) bool {
	var with interface{ SQLState() string }
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), isBroken(err):
		return false
	case errors.As(err, &with):
		return true
	}
	return mysqlError.MatchString(err.Error()) || strings.Contains(err.Error(), "SQLITE_")
}

var mysqlError = regexp.MustCompile(`Error \d{4} \(`)

// IsLocked reports whether the server did not wait, or not any longer, for a row that another transaction has locked.
func IsLocked(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState() == "55P03"
	}
	return err != nil && (strings.Contains(err.Error(), "Error 1205 ") || strings.Contains(err.Error(), "Error 3572 "))
}

// IsRefused reports whether the database has refused a statement for what it says: it neither waited in vain for a lock, nor undid it for another
// transaction, nor is the connection gone.
func IsRefused(err error) bool {
	var with interface{ SQLState() string }
	switch {
	case err == nil:
		return false
	case IsDuplicate(err), strings.Contains(err.Error(), "constraint failed"): // of SQLite, a trigger says that, too
		return true
	case isDeadlock(err), IsLocked(err), IsRolledBack(err), isBusy(err.Error()):
		return false
	case errors.As(err, &with):
		return IsAnswered(err) && with.SQLState() != "40001"
	}
	return IsAnswered(err) || sqliteError.MatchString(err.Error())
}

// isBusy reports whether SQLite has had no turn to write, or TiDB was in conflict with another write.
func isBusy(text string) bool {
	return strings.Contains(text, "database is locked") || strings.Contains(text, "SQLITE_BUSY") || strings.Contains(text, "Error 9007 ")
}

// IsDuplicate reports whether a statement failed because another row has a key that must be unique.
func IsDuplicate(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState() == "23505"
	}
	return err != nil && (strings.Contains(err.Error(), "Error 1062 ") || strings.Contains(err.Error(), "UNIQUE constraint failed"))
}

// IsOutOfRange reports whether a sum of MySQL, or of one like it, did not fit its type.
func IsOutOfRange(err error) bool { return err != nil && strings.Contains(err.Error(), "Error 1690 ") }

// isBroken reports whether the connection is gone, so that nobody knows whether the statement took effect. go-sql-driver
// has an error of its own for that, pgx and lib/pq return errors of the network, and a server that closes a connection
// may say so first (57P01 to 57P05).
func isBroken(err error) bool {
	var network *net.OpError
	var refused interface{ SQLState() string }
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &network):
		return !network.Timeout()
	case errors.As(err, &refused):
		return strings.HasPrefix(refused.SQLState(), "57P")
	}
	text := err.Error()
	return text == "invalid connection" || strings.HasSuffix(text, "conn closed") ||
		strings.HasPrefix(text, "Error 4031 ") || strings.HasPrefix(text, "Error 1927 ") // the server closed an idle one
}
