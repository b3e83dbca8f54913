package schema

import (
	"errors"
	"regexp"
	"slices"
)

// This package does not know the error types of the drivers. For PostgreSQL it goes by the code that the driver tells,
// for the others by the text: "Error 1142 (42000): …" of go-sql-driver, or the text of SQLite.

// isWait reports whether another try may succeed. The statement waited too long for a lock (1205, 55P03), or met a
// deadlock (1213, 40P01) or a change of the table (1412, 8028 on TiDB). Or the part that it adds exists already (1050, 1060, 1061); a
// node of a Galera cluster may say so a moment before it shows the part. Or, on SQLite, the database was busy.
func isWait(err error) bool {
	return waited.MatchString(err.Error()) || slices.Contains([]string{"55P03", "40P01"}, sqlState(err))
}

// isRefusal reports whether the server will never run the statement for this user. Access is denied (1044, 1142, 1227,
// 1370, 42501), the server does not understand or cannot have such a table (1064, 1071, 1118, 42601), there is no such
// schema (1049, 3F000), or the name is a view's (42809).
func isRefusal(err error) bool {
	return refused.MatchString(err.Error()) || slices.Contains([]string{"42501", "42601", "3F000", "42809"}, sqlState(err))
}

var (
	waited  = regexp.MustCompile(`\bError (1050|1060|1061|1205|1213|1412|8028)\b|SQLITE_BUSY|database is locked|database table is locked`)
	refused = regexp.MustCompile(`\bError (1044|1142|1227|1370|1064|1071|1118|1049)\b|readonly database|not authorized|syntax error`)
)

func sqlState(err error) string {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState()
	}
	return ""
}
