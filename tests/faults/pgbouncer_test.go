package faults

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// poolerSessions is how many sessions PgBouncer has with the server. It lends them in turn, so two statements that follow each
// other go to two of them.
const poolerSessions = 3

// newPgBouncer starts a pooler before a PostgreSQL of the test's own, which lends a session for each transaction, and
// makes an empty database "trial".
func newPgBouncer(t *testing.T) (s *server, address string) {
	t.Helper()
	command := readProgram(t, "PQ_TEST_PGBOUNCER")
	s = newServer(t, "PostgreSQL")
	if _, err := dbtest.Open(t, "pgx", s.dsn("")).Exec("CREATE DATABASE trial"); err != nil {
		t.Fatal(err)
	}
	port := dbtest.FreePort(t)
	settings := filepath.Join(s.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d user=root
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
`, s.port, port, poolerSessions)
	if version := pgbouncerVersion(t, command); version >= 21 { // later ones can keep prepared statements apart
		text += "max_prepared_statements = 0\n"
	}
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // it refuses to run as root
		command = append(command, "--user=nobody")
	}
	cmd := exec.Command(command[0], append(command[1:], settings)...)
	var said lines
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := startUntilTheEnd(t, cmd)
	address = fmt.Sprintf("127.0.0.1:%d", port)
	through := dbtest.Open(t, "pgx", pooled(address, "default_query_exec_mode=exec"))
	for deadline := time.Now().Add(acceptWait); through.Ping() != nil; time.Sleep(acceptPace) {
		if isClosed(ended) || time.Now().After(deadline) {
			t.Fatalf("PgBouncer lets nobody in: %v\n%s", through.Ping(), said.String())
		}
	}
	return s, address
}

// pgbouncerVersion is 18 for 1.18.
func pgbouncerVersion(t *testing.T, command []string) (version int) {
	t.Helper()
	said, err := exec.Command(command[0], append(slices.Clone(command[1:]), "--version")...).Output()
	if err == nil {
		_, err = fmt.Sscanf(string(said), "PgBouncer 1.%d", &version)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return version
}

// pooled is a DSN that leads through the pooler.
func pooled(address, setting string) string {
	return postgresDSN(address, "trial") + "&" + setting
}

// inEachSession runs something in all of the pooler's sessions at once, each in a transaction.
func inEachSession(t *testing.T, db *sql.DB, do func(*sql.Tx)) {
	t.Helper()
	var all []*sql.Tx
	for range poolerSessions {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		all = append(all, tx)
	}
	for _, tx := range all {
		do(tx)
	}
}

func TestMigrateThroughATransactionPoolerLeavesNothingInTheSessionsOfOthers(t *testing.T) {
	t.Parallel()
	for _, driver := range []struct{ name, setting string }{{"pgx", "default_query_exec_mode=exec"}, {"pgx", "default_query_exec_mode=simple_protocol"}, {"postgres", "binary_parameters=yes"}} {
		t.Run(driver.name+" "+driver.setting, func(t *testing.T) {
			t.Parallel()
			s, address := newPgBouncer(t)
			db := dbtest.Open(t, driver.name, pooled(address, driver.setting))
			sessions := map[string]bool{}
			inEachSession(t, db, func(tx *sql.Tx) {
				var pid string
				if err := tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid); err != nil {
					t.Fatal(err)
				}
				sessions[pid] = true
			})
			if len(sessions) != poolerSessions {
				t.Fatalf("%d sessions, want %d", len(sessions), poolerSessions)
			}
			began := time.Now()
			if err := schema.Migrate(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			left := 0
			inEachSession(t, db, func(tx *sql.Tx) {
				var limit string
				if err := tx.QueryRow("SHOW lock_timeout").Scan(&limit); err != nil {
					t.Fatal(err)
				}
				if limit != "0" {
					left++
				}
			})
			if left > 0 {
				t.Errorf("lock_timeout is set in %d of %d sessions", left, poolerSessions)
			}
			x := newTrial(t, s.name, s.dsn("trial"))
			x.tell("Migrate through PgBouncer lending transactions, "+driver.name+" "+driver.setting, 1, outcome{}, 0, 0, "in %v; lock_timeout is left in %d of %d sessions", took.Round(time.Millisecond), left, poolerSessions)
		})
	}
}

func TestJobsRunThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	s, address := newPgBouncer(t)
	x := newTrial(t, s.name, s.dsn("trial"))
	settings := workerSettings{DSN: pooled(address, "default_query_exec_mode=exec"), LockSecond: renewedLock, MaxOpenConns: 5}
	x.startWorker(settings)
	load := x.startLoad(100, work{MS: 5}, 0.1)
	holder := x.awaitHolder(time.Time{})
	x.startWorker(settings)
	x.awaitStart(time.Now().Add(renewedLock*time.Second/3+time.Second), 20*time.Second) // renewed
	killed := time.Now()
	holder.end(9)
	gap := x.awaitStart(killed, 20*time.Second, holder)
	x.within(gap, renewedLock*time.Second+2*time.Second, "the next start")
	o := x.conclude(time.Minute, load)
	x.noneFailed()
	x.stopWorkers()
	x.tell("PgBouncer lends transactions; SIGKILL", 1, o, gap, renewedLock*time.Second+2*time.Second, "%d sessions for 2 instances", poolerSessions)
}

// Beats and burials are single statements, so each may take another session.
func TestADeadProcessIsReplacedWithinSecondsBehindATransactionPooler(t *testing.T) {
	besideOthersInShort(t)
	s, address := newPgBouncer(t)
	x := newTrial(t, s.name, s.dsn("trial"))
	load := x.startLoadOf(busyTypes, 300, work{MS: 5}, 0)
	kills := repeat(20, 3)
	gaps := x.killOneOfTwo(kills, func() *worker {
		return x.startWorker(workerSettings{DSN: pooled(address, "default_query_exec_mode=exec"), Types: busyTypes, LockSecond: longLock, MaxOpenConns: 5})
	})
	o := x.conclude(2*time.Minute, load)
	x.stopWorkers()
	x.noneFailed()
	x.tellKills("PgBouncer lends transactions; SIGKILL of one of two", kills, o, gaps, fmt.Sprintf("; %d sessions for 2 instances", poolerSessions))
}

// TestAPoolerThatMixesUpPreparedStatementsIsNamedOnceInTheLogWithTheRemedy: drivers prepare by default, and PgBouncer before
// 1.21 knows nothing of it. With lib/pq, a value may also reach another one's statement unseen, so jobs are none of this.
func TestAPoolerThatMixesUpPreparedStatementsIsNamedOnceInTheLogWithTheRemedy(t *testing.T) {
	t.Parallel()
	for driver, remedy := range map[string]string{"pgx": "default_query_exec_mode=exec", "postgres": "binary_parameters=yes"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s, address := newPgBouncer(t)
			x := newTrial(t, s.name, s.dsn("trial"))
			db := dbtest.Open(t, driver, postgresDSN(address, "trial"))
			log := &lines{}
			var ran atomic.Int32
			began := time.Now()
			named := func() (n int) {
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, "level=ERROR") && strings.Contains(line, remedy) {
						n++
					}
				}
				return n
			}
			// The first statements may be hit too, and the error says the same. What is mixed up may also lead to other errors first.
			for deadline := began.Add(20 * time.Second); named() == 0; {
				runner, err := persistent_queue.New([]queue_job.Config{{ServiceName: "pooled", JobType: 1, Db: db, HandleJobFunc: func(context.Context, *queue_job.Job) error {
					ran.Add(1)
					return nil
				}}}, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(log, nil))}, persistent_queue.WithoutMigration())
				if err == nil {
					err = runner.Start(t.Context())
				}
				if err != nil && !strings.Contains(err.Error(), remedy) {
					t.Fatalf("the remedy is not in %v", err)
				}
				for until := time.Now().Add(3 * time.Second); err == nil && named() == 0 && time.Now().Before(until); {
					time.Sleep(10 * time.Millisecond)
				}
				if err == nil {
					stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
					runner.Stop(stopping)
					done()
				}
				if time.Now().After(deadline) {
					t.Fatalf("the remedy is not said at ERROR:\n%s", log)
				}
			}
			said := time.Since(began)
			if n := named(); n != 1 {
				t.Errorf("the remedy is said %d times at ERROR:\n%s", n, log)
			}
			x.tell("PgBouncer mixes up what "+driver+" prepares: the log names it", 1, outcome{}, said, 0, "%d jobs ran", ran.Load())
		})
	}
}
