package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var databases atomic.Int64

// emptied has databases that tests have left, with the tables as [schema.Migrate] makes them and no rows: to make one, and to drop it,
// costs a server up to a tenth of a second of CPU. If a package does not call [Run], each test gets a new database.
var emptied struct {
	sync.Mutex
	kept  bool
	names map[kind][]string
}

// Run runs the tests of a package. Its tests use databases one after the other; Run drops these at the end, and closes what it opened.
func Run(m *testing.M) (code int) {
	emptied.kept, emptied.names = true, map[kind][]string{}
	code = m.Run()
	for k, names := range emptied.names {
		if err := dropAll(k, names); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	admins.close()
	return code
}

func dropAll(k kind, names []string) error {
	admin, err := admins.of(k)
	if err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, drop(k, admin, name))
	}
	return err
}

// pools are connections to the servers themselves, on which databases are made and dropped: one pool for all tests.
type pools struct {
	mu   sync.Mutex
	open map[kind]*sql.DB
}

var admins = pools{open: map[kind]*sql.DB{}}

// of opens the pool of a server that is the one that its variable should name.
func (p *pools) of(k kind) (*sql.DB, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if admin := p.open[k]; admin != nil {
		return admin, nil
	}
	admin, err := sql.Open(k.driver, os.Getenv(k.variable))
	if err != nil {
		return nil, err
	}
	admin.SetMaxIdleConns(idleMax)
	var version string
	err = admin.QueryRow("SELECT VERSION()").Scan(&version)
	if name := nameOf(version); err == nil && name != k.name {
		err = fmt.Errorf("the server that %s names says it is %s", k.variable, name)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", k.name, err), admin.Close())
	}
	p.open[k] = admin
	return admin, nil
}

func (p *pools) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, admin := range p.open {
		admin.Close()
		delete(p.open, k)
	}
}

// contents is what a test finds in its database.
type contents bool

const (
	nothing contents = false
	tables  contents = true
)

// create makes a database, or takes one that was emptied.
func create(k kind, admin *sql.DB, want contents) (name string, has contents, err error) {
	if want == tables || k.name == "PostgreSQL" { // it takes all out of a database at once
		if name := anEmptied(k); name != "" {
			if want == nothing {
				err = stripPostgres(k, name)
			}
			return name, want, err
		}
	}
	name = fmt.Sprintf("pq_test_%d_%d", os.Getpid(), databases.Add(1))
	_, err = admin.Exec("CREATE DATABASE " + name)
	return name, nothing, err
}

func anEmptied(k kind) (name string) {
	emptied.Lock()
	defer emptied.Unlock()
	names := emptied.names[k]
	if last := len(names) - 1; last >= 0 {
		name, emptied.names[k] = names[last], names[:last]
	}
	return name
}

// takeAway drops a database, or empties it for the next test.
func takeAway(k kind, admin *sql.DB, name, dsn string) error {
	if !emptied.kept || k.name == "TiDB" {
		return drop(k, admin, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	empty := emptyMySQL
	if k.driver == "pgx" {
		empty = emptyPostgres
	}
	reusable, err := empty(ctx, k, admin, name, dsn)
	if err != nil || !reusable {
		return errors.Join(err, drop(k, admin, name))
	}
	emptied.Lock()
	defer emptied.Unlock()
	emptied.names[k] = append(emptied.names[k], name)
	return nil
}

// patience is how long a server has to let the sessions of a database go.
const patience = time.Minute

// drop drops a database. MySQL and MariaDB wait for the last connection; the test's own are closed by now. PostgreSQL waits
// for some seconds and refuses, so it is asked again.
func drop(k kind, admin *sql.DB, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		var err error
		if k.driver == "pgx" { // DROP DATABASE WITH (FORCE) is too new for PostgreSQL 12
			_, err = admin.ExecContext(ctx, endSessions, name)
		}
		if err == nil {
			_, err = admin.ExecContext(ctx, "DROP DATABASE "+name)
		}
		if err == nil || k.driver != "pgx" || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
