package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The tables as the original library has them; SQLite, which it did not know, gets the same columns.
var original = map[string][]string{
	"mysql": {
		`CREATE TABLE async_job_tab (
			id bigint(20) unsigned NOT NULL AUTO_INCREMENT,
			params varchar(4096) COLLATE utf8mb4_unicode_ci DEFAULT '' NOT NULL,
			job_type int(11) NOT NULL,
			job_status tinyint(4) DEFAULT NULL,
			start_time int(11) unsigned DEFAULT '0',
			create_time int(11) unsigned NOT NULL,
			update_time int(11) unsigned NOT NULL,
			PRIMARY KEY (id)
		) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci`,
		`CREATE TABLE shedlock_tab (
			lock_name varchar(64) NOT NULL,
			lock_until timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			locked_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
			locked_by varchar(255) NOT NULL,
			PRIMARY KEY (lock_name)
		) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
	},
	"sqlite": {
		`CREATE TABLE async_job_tab (
			id integer PRIMARY KEY AUTOINCREMENT, params varchar(4096) NOT NULL DEFAULT '', job_type int NOT NULL,
			job_status tinyint DEFAULT NULL, start_time int DEFAULT 0, create_time int NOT NULL, update_time int NOT NULL)`,
		`CREATE TABLE shedlock_tab (
			lock_name varchar(64) PRIMARY KEY NOT NULL, lock_until timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
			locked_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, locked_by varchar(255) NOT NULL)`,
	},
}

func createOriginal(t *testing.T, d dbtest.Database) {
	t.Helper()
	for _, ddl := range original[d.Driver] {
		execute(t, d.DB, ddl)
	}
}

// insertAsTheOriginal adds four rows as its users do: with all seven columns, without the id, with NULLs, and without
// the columns that may be left out.
func insertAsTheOriginal(t *testing.T, db *sql.DB, firstID int) {
	t.Helper()
	now := time.Now().Unix()
	const into = "INSERT INTO async_job_tab "
	execute(t, db, into+"(id, params, job_type, job_status, start_time, create_time, update_time) VALUES (?, '{}', 1, 0, 0, ?, ?)", firstID, now, now)
	execute(t, db, into+"(params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 0, ?, ?, ?)", now, now, now)
	execute(t, db, into+"(params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, NULL, NULL, ?, ?)", now, now)
	execute(t, db, into+"(job_type, create_time, update_time) VALUES (1, ?, ?)", now, now)
}

// originalProgram tells this test binary to be a program of the original README's shape, on the database that it names.
const originalProgram = "PQ_TEST_ORIGINAL_PROGRAM"

func TestAProgramWrittenForTheOriginalRunsOnTheOriginalsTables(t *testing.T) {
	if dsn := os.Getenv(originalProgram); dsn != "" {
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			t.Fatal(err)
		}
		var list []queue_job.Config
		list = append(list, queue_job.Config{
			ServiceName: "order", JobType: 1, NeedRetry: true, MaxRetries: 3, Db: db,
			HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil },
		})
		persistent_queue.Init(list, logger.QueueLog{})
		io.Copy(io.Discard, os.Stdin) // until the test is over
		os.Exit(0)
	}
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		createOriginal(t, d)
		insertAsTheOriginal(t, d.DB, 1)
		program := exec.Command(os.Args[0], "-test.run=^TestAProgramWrittenForTheOriginalRunsOnTheOriginalsTables$")
		program.Env = append(os.Environ(), originalProgram+"="+d.DSN)
		program.Stderr = t.Output()
		running, err := program.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			running.Close()
			if err := program.Wait(); err != nil {
				t.Error(err)
			}
		})
		awaitNumber(t, d.DB, 4, 10*time.Second, succeeded)
		insertAsTheOriginal(t, d.DB, 100)
		awaitNumber(t, d.DB, 8, 10*time.Second, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts = 1"); n != 8 {
			t.Errorf("%d of 8 jobs ran once", n)
		}
	})
}

func TestAnUpgradedTableIsAFreshOne(t *testing.T) {
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		fresh := shape(t, d)
		for _, table := range []string{"async_job_tab", "shedlock_tab", "async_job_log_tab"} {
			execute(t, d.DB, "DROP TABLE "+table)
		}
		createOriginal(t, d)
		insertAsTheOriginal(t, d.DB, 7)
		execute(t, d.DB, "INSERT INTO shedlock_tab (lock_name, locked_by) VALUES ('job-1', 'somebody')")
		migrate(t, d)
		if upgraded := shape(t, d); !slices.Equal(upgraded, fresh) {
			t.Errorf("upgraded:\n%s\n\nfresh:\n%s", strings.Join(upgraded, "\n"), strings.Join(fresh, "\n"))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id BETWEEN 7 AND 10 AND term = 0 AND attempts = 0 AND retries = 0 AND lost = 0 AND job_key IS NULL"); n != 4 {
			t.Errorf("%d of 4 rows are as they were", n)
		}
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitNumber(t, d.DB, 4, 10*time.Second, succeeded)
	})
}

// shape says which columns and indexes the tables have, in order.
func shape(t *testing.T, d dbtest.Database) (list []string) {
	t.Helper()
	queries := []string{ // MariaDB shows an int's width, which means nothing
		`SELECT CONCAT_WS(' ', table_name, column_name, REPLACE(column_type, 'int(11) u', 'int(10) u'), is_nullable, column_default, extra, collation_name) FROM information_schema.columns
			WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`,
		`SELECT CONCAT_WS(' ', table_name, index_name, non_unique, column_name, sub_part) FROM information_schema.statistics
			WHERE table_schema = DATABASE() ORDER BY table_name, index_name, seq_in_index`,
	}
	if d.Driver == "sqlite" {
		queries = []string{
			`SELECT t.name || ' ' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || COALESCE(c.dflt_value, '') || ' ' || c.pk
				FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.cid`,
			`SELECT i.tbl_name || ' ' || i.name || ' ' || c.name FROM sqlite_master i, pragma_index_info(i.name) c WHERE i.type = 'index' ORDER BY i.name, c.seqno`,
		}
	}
	for _, query := range queries {
		rows, err := d.DB.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			list = append(list, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, has := range []string{"async_job_tab term ", "async_job_tab attempts ", "async_job_tab retries ", "async_job_tab lost ", "async_job_tab job_key ", "shedlock_tab term ", "async_job_log_tab error ", "async_job_tab async_job_due "} {
		if !slices.ContainsFunc(list, func(line string) bool { return strings.HasPrefix(line, has) }) {
			t.Errorf("the tables lack %q", has)
		}
	}
	return list
}

func TestTwentyInstancesCreateTheTablesAtOnce(t *testing.T) {
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		migrateFromTwenty(t, d)
		shape(t, d)
	})
}

func TestTwentyInstancesUpgradeAFullTableAtOnce(t *testing.T) {
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		const rows = 20_000
		createOriginal(t, d)
		add(t, d.DB, rows, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET update_time = id, job_status = NULLIF(id % 5, 0), start_time = 3 * id")
		migrateFromTwenty(t, d)
		shape(t, d)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE params = '{}' AND job_type = 1 AND update_time = id AND start_time = 3 * id AND COALESCE(job_status, 0) = id % 5 AND (job_status IS NULL) = (id % 5 = 0) AND term = 0"); n != rows {
			t.Errorf("%d of %d rows are as they were", n, rows)
		}
	})
}

func migrateFromTwenty(t *testing.T, d dbtest.Database) {
	t.Helper()
	var all sync.WaitGroup
	for range 20 {
		db := dbtest.Open(t, d.Driver, d.DSN)
		all.Go(func() {
			if err := schema.Migrate(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestMigrateWaitsForATransactionAndLetsInsertsThroughMeanwhile(t *testing.T) {
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		const row = "INSERT INTO async_job_tab (params, job_type, create_time, update_time) VALUES ('{}', 1, 1, 1)"
		createOriginal(t, d)
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec(row); err != nil {
			t.Fatal(err)
		}

		stopInserting, inserting := make(chan struct{}), sync.WaitGroup{}
		var inserted int64
		var longest time.Duration
		inserting.Go(func() {
			for {
				select {
				case <-stopInserting:
					return
				default:
				}
				began := time.Now()
				if _, err := d.DB.Exec(row); err != nil {
					t.Error(err)
					return
				}
				inserted++
				longest = max(longest, time.Since(began))
			}
		})
		migrated := make(chan error, 1)
		go func() { migrated <- schema.Migrate(t.Context(), dbtest.Open(t, d.Driver, d.DSN)) }()
		select {
		case err := <-migrated:
			t.Errorf("Migrate ended while a transaction had the table: %v", err)
		case <-time.After(3 * time.Second):
			tx.Commit()
			if err := <-migrated; err != nil {
				t.Error(err)
			}
		}
		close(stopInserting)
		inserting.Wait()
		shape(t, d)
		t.Logf("%d inserts, the longest took %v", inserted, longest)
		if longest > 2500*time.Millisecond || inserted < 10 {
			t.Errorf("%d inserts, the longest took %v", inserted, longest)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != inserted+1 {
			t.Errorf("%d rows of %d inserts", n, inserted+1)
		}
	})
}

func TestWithoutTheRightsAnOutdatedSchemaIsRefusedWithTheSQLThatMendsIt(t *testing.T) {
	for name, create := range map[string]func(*testing.T, dbtest.Database){"original": createOriginal, "empty": func(*testing.T, dbtest.Database) {}} {
		t.Run(name, func(t *testing.T) {
			dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
				create(t, d)
				user := withoutDDL(t, d)
				refused := outdated(t, d, newRunner(t, user, queue_job.Config{HandleJobFunc: (&runs{}).handler}).Start(t.Context()))
				if !strings.Contains(refused.Error(), "denied") {
					t.Errorf("the error does not say why: %v", refused)
				}
				for _, ddl := range refused.SQL {
					execute(t, d.DB, ddl)
				}
				if err := schema.Check(t.Context(), user); err != nil {
					t.Fatalf("after its own SQL was run: %v", err)
				}
				shape(t, d)
				start(t, user, queue_job.Config{HandleJobFunc: (&runs{}).handler})
				add(t, user, 1, 0)
				awaitNumber(t, user, 1, 10*time.Second, succeeded)
			})
		})
	}
}

func TestWithoutMigrationAnOutdatedSchemaIsRefusedAndLeftAlone(t *testing.T) {
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		createOriginal(t, d)
		configs := []queue_job.Config{{ServiceName: "test", JobType: 1, Db: d.DB, LockSecond: 3, HandleJobFunc: (&runs{}).handler}}
		r, err := persistent_queue.New(configs, logOf(t), persistent_queue.WithoutMigration())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		refused := outdated(t, d, r.Start(t.Context()))
		if again := outdated(t, d, schema.Check(t.Context(), d.DB)); !slices.Equal(refused.SQL, again.SQL) {
			t.Errorf("Start changed something: it lacked\n%s\nand lacks\n%s", refused.SQL, again.SQL)
		}
		for _, ddl := range refused.SQL {
			execute(t, d.DB, ddl)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 1, 10*time.Second, succeeded)
	})
}

// outdated returns the error as the one that says what the schema lacks.
func outdated(t *testing.T, d dbtest.Database, err error) *schema.OutdatedError {
	t.Helper()
	var refused *schema.OutdatedError
	if !errors.As(err, &refused) {
		t.Fatalf("error is %v, want an OutdatedError", err)
	}
	if refused.Database != d.Name || len(refused.SQL) == 0 {
		t.Errorf("database %q lacks %q", refused.Database, refused.SQL)
	}
	for _, ddl := range refused.SQL {
		if !strings.Contains(err.Error(), ddl+";\n") {
			t.Errorf("the error lacks the SQL %q:\n%v", ddl, err)
		}
	}
	return refused
}

// withoutDDL returns a pool of a user who may work with rows, and no more.
func withoutDDL(t *testing.T, d dbtest.Database) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	config.User, config.Passwd = config.DBName, "rows only" // the database's name is nobody else's
	user := fmt.Sprintf("'%s'@'%%'", config.User)
	execute(t, d.DB, "CREATE USER "+user+" IDENTIFIED BY 'rows only'")
	t.Cleanup(func() { execute(t, d.DB, "DROP USER "+user) })
	if _, err := d.DB.Exec("GRANT SELECT, INSERT, UPDATE, DELETE ON " + config.DBName + ".* TO " + user); err != nil {
		var denied *mysql.MySQLError
		if errors.As(err, &denied) && denied.Number == 1044 && os.Getenv("PQ_TEST_ALL") == "" {
			t.Skipf("left out: the tests' own user may not grant: %v; \"make test\" has one who may", err)
		}
		t.Fatal(err)
	}
	return dbtest.Open(t, d.Driver, config.FormatDSN())
}

func TestMigrateOnlyLooksIfThereIsNothingToDo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		before := shape(t, d)
		if err := schema.Migrate(t.Context(), readOnly{fourMethods{d.DB}}); err != nil {
			t.Error(err)
		}
		migrate(t, d)
		if after := shape(t, d); !slices.Equal(before, after) {
			t.Errorf("before:\n%s\n\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	})
}

// readOnly is a handle that only reads.
type readOnly struct{ fourMethods }

func (readOnly) Exec(query string, _ ...any) (sql.Result, error) {
	return nil, fmt.Errorf("was asked to %s", query)
}
