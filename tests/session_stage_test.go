package tests

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// stage is a database, set up for one session.
type stage struct {
	session
	dbtest.Database               // as an ordinary session sees it
	dsn             string        // of the session
	ahead           time.Duration // the session's clock, of ours
	pulse           *pulse        // of the machine, while the session lasts
}

// setStage makes the tables through such a session.
func setStage(t *testing.T, as session, d dbtest.Database) *stage {
	t.Helper()
	s := &stage{session: as, Database: d}
	if s.driver == "" {
		s.driver = d.Driver
	}
	if s.elsewhere {
		s.prefix = s.schema(t) + "." + s.prefix
	}
	params := map[string]string{}
	for name, value := range s.params {
		params[s.parameter(name)] = value
	}
	if s.clocks.zone != "" {
		params = s.withZone(t, params)
	}
	s.dsn = withParams(s.DSN, params)
	s.setClock(t)
	s.makeTables(t)
	return s
}

// makeTables makes the tables, and brings others, which the original made, up to date.
func (s *stage) makeTables(t *testing.T) {
	t.Helper()
	old := s.prefix + "old_"
	for _, ddl := range original[s.Database.Driver] {
		execute(t, s.DB, tableNames.ReplaceAllString(ddl, old+"$0"))
	}
	db := s.open(t)
	for _, prefix := range []string{s.prefix, old} {
		err := schema.Migrate(t.Context(), db, schema.WithTablePrefix(prefix))
		if err != nil && strings.Contains(err.Error(), `invalid value for parameter "lc_messages"`) {
			t.Skipf("left out: the server has no German messages: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// isolation stands for the variable that MariaDB calls by another name before version 11.1.
const isolation = "transaction_isolation"

func (s *stage) parameter(name string) string {
	if name == isolation && s.Name == "MariaDB" {
		return "tx_isolation"
	}
	return name
}

// open opens a pool of such sessions.
func (s *stage) open(t *testing.T) *sql.DB {
	t.Helper()
	var db *sql.DB
	if s.clocks.zone != "" && s.driver == "mysql" {
		db = openOverheard(t, s.dsn, s.tellTime)
	} else {
		db = dbtest.Open(t, s.driver, s.dsn)
	}
	db.SetMaxOpenConns(s.maxConns)
	return db
}

// handleOn is what the library is given of a pool.
func (s *stage) handleOn(db *sql.DB) queue_job.DB {
	if s.bare {
		return fourMethods{db}
	}
	return db
}

var tableNames = regexp.MustCompile(`\b(async_job_tab|shedlock_tab|async_job_log_tab)\b`)

// query is a text of SQL with the tables' names as the session has them, and the arguments as its driver wants them.
func (s *stage) query(text string) string {
	return dbtest.Rebind(s.DB, tableNames.ReplaceAllString(text, s.prefix+"$0"))
}

var schemas atomic.Int64

// schema makes another place for tables, and returns its name. Tests side by side have one each.
func (s *stage) schema(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("pq_test_%d_other_%d", os.Getpid(), schemas.Add(1))
	execute(t, s.DB, "CREATE SCHEMA "+name)
	if s.Name != "PostgreSQL" { // where a schema is a database, which nobody else drops
		t.Cleanup(func() { execute(t, s.DB, "DROP SCHEMA "+name) })
	}
	return name
}

// withParams adds parameters to a DSN of a server.
func withParams(dsn string, params map[string]string) string {
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	for name, value := range params {
		name = strings.TrimSpace(name) // a parameter may be there twice
		// To some drivers, a plus sign is no space.
		dsn += separator + name + "=" + strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		separator = "&"
	}
	return dsn
}
