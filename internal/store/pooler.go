package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// advice is what an application is to be told once, when the first error shows that it is wrongly set up.
type advice struct {
	once sync.Once
	tell func(error)
}

// Advise has the function called at the first error that shows that a pooler mixes up prepared statements, with the error
// and what to set. Call it before others use the store.
func (s *Store) Advise(tell func(error)) { s.advice.tell = tell }

func (s *Store) explain(err error) error {
	err, wrong := explained(err)
	if wrong && s.advice != nil && s.advice.tell != nil {
		s.advice.once.Do(func() { s.advice.tell(err) })
	}
	return err
}

// explained adds the remedy to an error that has one.
func explained(err error) (_ error, wrong bool) {
	if err == nil {
		return nil, false
	}
	if remedy := remedyOf(err); remedy != "" {
		return fmt.Errorf("%w; %s", err, remedy), true
	}
	return err, false
}

// remedyOf is what to set if a pooler mixes up prepared statements: one that lends a server's session for the length of a
// transaction, to a driver that prepares in one what it executes in the next. Empty: the error is another one. The error
// types are the drivers', which this package does not know; it goes by the code, and by the name of the type.
func remedyOf(err error) string {
	var refused interface{ SQLState() string }
	if !errors.As(err, &refused) {
		return ""
	}
	switch refused.SQLState() {
	case "26000", "42P05": // there is no such statement, or there is one
	case "08P01": // poolers say it too, of other things
		if !strings.Contains(err.Error(), "bind message supplies") {
			return ""
		}
	default:
		return ""
	}
	const lending = `have the pooler lend whole sessions (pool_mode = session); see docs/databases.md, "What lies between"`
	if strings.Contains(fmt.Sprintf("%T", refused), "pq.") {
		return "a pooler such as PgBouncer mixes up the statements that lib/pq prepares, and may bind a value to another client's statement without an error: " +
			"add binary_parameters=yes to the DSN, or " + lending
	}
	return "a pooler such as PgBouncer mixes up the statements that the driver prepares: with pgx, add default_query_exec_mode=exec to the DSN; " +
		"or use PgBouncer 1.21 or later with max_prepared_statements above 0; or " + lending
}
