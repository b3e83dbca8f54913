package conn

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// ErrNoTables is the cause of an error if a statement needs a table, a column or an index that is not there. The error
// says first what the server said.
var ErrNoTables = errors.New("the tables of persistent-queue are missing in this database, or not up to date: call schema.Migrate, " +
	"or start a Runner without WithoutMigration, with the same table prefix")

// remedied adds [ErrNoTables] to what a server says about a missing table, column or index (1146, 1054, 1176; 42P01,
// 42703). This package does not know the error types of the drivers, so it goes by the codes; SQLite has no code for it,
// only a text.
func remedied(err error) error {
	if err == nil || !isMissing(err) {
		return err
	}
	return fmt.Errorf("%w; %w", err, ErrNoTables)
}

func isMissing(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return slices.Contains([]string{"42P01", "42703"}, with.SQLState())
	}
	return missing.MatchString(err.Error())
}

var missing = regexp.MustCompile(`\bError (1146|1054|1176)\b|no such (table|column|index)\b|has no column named`)
