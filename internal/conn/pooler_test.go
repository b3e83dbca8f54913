package conn

import (
	"errors"
	"strings"
	"testing"
)

// refusedAs is an error as the drivers have it.
type refusedAs struct{ state, text string }

func (r refusedAs) Error() string    { return r.text }
func (r refusedAs) SQLState() string { return r.state }

func TestAPoolersMixUpIsExplainedAndToldOnce(t *testing.T) {
	var told []error
	s := &Sender{advice: &advice{}}
	s.Advise(func(err error) { told = append(told, err) })
	for _, err := range []error{
		refusedAs{"26000", `prepared statement "stmtcache_1" does not exist`},
		refusedAs{"42P05", `prepared statement "stmtcache_1" already exists`},
		refusedAs{"08P01", "bind message supplies 2 parameters, but prepared statement \"\" requires 1"},
	} {
		got := s.explain(err)
		if !errors.Is(got, err) || !strings.Contains(got.Error(), "default_query_exec_mode=exec") {
			t.Errorf("no remedy in %v", got)
		}
	}
	if len(told) != 1 {
		t.Errorf("told %d times", len(told))
	}
	for _, err := range []error{refusedAs{"08P01", "query_wait_timeout"}, refusedAs{"40P01", "deadlock detected"}, errors.New("bind message supplies"), nil} {
		if got := s.explain(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
