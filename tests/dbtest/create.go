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

// emptied has databases of PostgreSQL that tests have left, for other tests: to make and to drop a database costs PostgreSQL a
// quarter of a second of CPU. Without [Run], there are none.
var emptied struct {
	sync.Mutex
	kept  bool
	names []string
}

// Run runs the tests of a package. Its tests use PostgreSQL's databases one after the other; Run drops them at the end.
func Run(m *testing.M) (code int) {
	emptied.kept = true
	code = m.Run()
	if len(emptied.names) == 0 {
		return code
	}
	admin, err := sql.Open(postgres[0].driver, os.Getenv(postgres[0].variable))
	if err == nil {
		for _, name := range emptied.names {
			err = errors.Join(err, drop(postgres[0], admin, name))
		}
		err = errors.Join(err, admin.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// create makes an empty database, or takes one that was emptied.
func create(k kind, admin *sql.DB) (name string, err error) {
	if k.driver == "pgx" {
		if name := anEmptied(); name != "" {
			return name, nil
		}
	}
	name = fmt.Sprintf("pq_test_%d_%d", os.Getpid(), databases.Add(1))
	_, err = admin.Exec("CREATE DATABASE " + name)
	return name, err
}

func anEmptied() (name string) {
	emptied.Lock()
	defer emptied.Unlock()
	if last := len(emptied.names) - 1; last >= 0 {
		name, emptied.names = emptied.names[last], emptied.names[:last]
	}
	return name
}

// takeAway drops a database, or empties it for the next test.
func takeAway(k kind, admin *sql.DB, name, dsn string) error {
	if k.driver != "pgx" || !emptied.kept {
		return drop(k, admin, name)
	}
	if err := empty(admin, name, dsn); err != nil {
		return errors.Join(err, drop(k, admin, name))
	}
	emptied.Lock()
	defer emptied.Unlock()
	emptied.names = append(emptied.names, name)
	return nil
}

// patience is how long a server has to let the sessions of a database go.
const patience = time.Minute

// endSessions ends the sessions in a database of PostgreSQL. A session may take a moment to end.
const endSessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"

// empty takes everything out of a database of PostgreSQL that a test may have put there: schemas and settings.
func empty(admin *sql.DB, name, dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		ended, err := admin.ExecContext(ctx, endSessions, name)
		if err != nil {
			return err
		}
		if n, err := ended.RowsAffected(); err != nil || n == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, `DO $$ DECLARE s record; BEGIN
		FOR s IN SELECT nspname AS name FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
			EXECUTE format('DROP SCHEMA %I CASCADE', s.name);
		END LOOP;
		CREATE SCHEMA public;
		GRANT ALL ON SCHEMA public TO public;
		EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
	END $$`)
	return err
}

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
