package conn

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// advice is given to an application once, when the first error shows that its setup is wrong.
type advice struct {
	once sync.Once
	tell func(error)
}

// Advise sets the function that is called once, at the first error that shows that a pooler mixes up prepared statements.
// The function gets the error, with what to set. Call Advise before others use the sender.
func (s *Sender) Advise(tell func(error)) { s.advice.tell = tell }

// explain adds the remedy to an error that has one, and calls what [Sender.Advise] has set at the first one.
func (s *Sender) explain(err error) error {
	err, wrong := explained(err)
	if wrong && s.advice != nil && s.advice.tell != nil {
		s.advice.once.Do(func() { s.advice.tell(err) })
	}
	return err
}

// explained adds the remedy to an error that has one; wrong reports whether it had one.
func explained(err error) (_ error, wrong bool) {
	if err == nil {
		return nil, false
	}
	if remedy := remedyOf(err); remedy != "" {
		return fmt.Errorf("%w; %s", err, remedy), true
	}
	return err, false
}

// remedyOf returns what to set if a pooler mixes up prepared statements; it is empty for other errors. Such a pooler
// lends a server's session for the length of a transaction, and the driver prepares a statement in one transaction and
// executes it in the next. This package does not know the error types of the drivers, so it goes by the code and by the
// name of the type.
func remedyOf(err error) string {
	var refused interface{ SQLState() string }
	if !errors.As(err, &refused) {
		return ""
	}
	switch refused.SQLState() {
	case "26000", "42P05": // the prepared statement does not exist, or exists already
	case "08P01": // poolers say it of other things too
		if !strings.Contains(err.Error(), "bind message supplies") {
			return ""
		}
	default:
		return ""
	}
	const lending = "have the pooler lend whole sessions (pool_mode = session); " +
		`see docs/operate/databases.md, "Between the application and the database"`
	if strings.Contains(fmt.Sprintf("%T", refused), "pq.") {
		return "a pooler such as PgBouncer mixes up the statements that lib/pq prepares, and may bind a value to another client's statement " +
			"without an error: " +
			"add binary_parameters=yes to the DSN, or " + lending
	}
	return "a pooler such as PgBouncer mixes up the statements that the driver prepares: with pgx, add default_query_exec_mode=exec to the DSN; " +
		"or use PgBouncer 1.21 or later with max_prepared_statements above 0; or " + lending
}
