package schema

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorsAreRefusedOrWaitedForOrReported(t *testing.T) {
	for _, c := range []struct {
		text            string
		refused, waited bool
	}{
		{errDenied.Error(), true, false},
		{"Error 1044 (42000): Access denied for user 'app'@'%' to database 'shop'", true, false},
		{"Error 1071 (42000): Specified key was too long; max key length is 767 bytes", true, false},
		{"attempt to write a readonly database (8)", true, false},
		{errInUse.Error(), false, true},
		{"Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction", false, true},
		{"Error 1412 (HY000): Table definition has changed, please retry transaction", false, true},
		{"Error 8028 (HY000): Information schema is changed during the execution of the statement [try again later]", false, true},
		{"Error 1061 (42000): Duplicate key name 'async_job_due'", false, true},
		{"database is locked (5) (SQLITE_BUSY)", false, true},
		{errReadOnly.Error(), false, false},
		{"Error 1836 (HY000): Running in read-only mode", false, false},
		{"dial tcp 10.0.0.7:3306: connect: connection refused", false, false},
		{"Error 11420 (HY000): a number that only contains another", false, false},
	} {
		if got := isRefusal(errors.New(c.text)); got != c.refused {
			t.Errorf("refused %v: %s", got, c.text)
		}
		if got := isWait(errors.New(c.text)); got != c.waited {
			t.Errorf("waited %v: %s", got, c.text)
		}
	}
}

func TestAPortIsNoErrorNumber(t *testing.T) {
	for _, text := range []string{"dial tcp 10.0.0.7:1142: connect: connection refused", "dial tcp 10.0.0.7:1205: connect: connection refused"} {
		if isRefusal(errors.New(text)) || isWait(errors.New(text)) {
			t.Error(text)
		}
	}
}

// stated is an error of a PostgreSQL driver: it has a code, and a text in any language.
type stated string

func (s stated) Error() string    { return "FEHLER: keine Berechtigung für Schema public" }
func (s stated) SQLState() string { return string(s) }

func TestErrorsOfPostgreSQLAreToldByTheirCodes(t *testing.T) {
	for code, want := range map[string][2]bool{
		"42501": {true, false}, "3F000": {true, false}, "42601": {true, false},
		"55P03": {false, true}, "40P01": {false, true},
		"25006": {false, false}, "57P01": {false, false}, "23505": {false, false},
	} {
		err := fmt.Errorf("create: %w", stated(code))
		if got := [2]bool{isRefusal(err), isWait(err)}; got != want {
			t.Errorf("%s: refused, waited for %v, want %v", code, got, want)
		}
	}
}
