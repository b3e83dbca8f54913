package cli

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// shell runs commands as somebody at a shell would, on one database.
type shell struct {
	*testing.T
	dsn string
	in  string
}

// newShell is a shell on an empty file of SQLite. Its tables are not there.
func newShell(t *testing.T) (*shell, *sql.DB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Ping(); err != nil { // makes the file
		t.Fatal(err)
	}
	return &shell{T: t, dsn: "sqlite://" + file}, db
}

// newTables is newShell with the tables in place.
func newTables(t *testing.T) (*shell, *sql.DB, *queue_job.Jobs) {
	t.Helper()
	sh, db := newShell(t)
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	jobs, err := queue_job.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	return sh, db, jobs
}

func (sh *shell) run(args ...string) (code int, out, said string) {
	sh.Helper()
	var stdout, stderr bytes.Buffer
	if sh.dsn != "" {
		args = append(args, "--dsn", sh.dsn)
	}
	code = Run(sh.Context(), args, Streams{strings.NewReader(sh.in), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

// want runs a command line, whose words have no blanks in them, and sees how it ends and what it writes.
func (sh *shell) want(line string, code int, parts ...string) (out string) {
	sh.Helper()
	got, out, said := sh.run(strings.Fields(line)...)
	if got != code {
		sh.Fatalf("pqueue %s: exit code %d, want %d\n%s%s", line, got, code, out, said)
	}
	for _, part := range parts {
		if !strings.Contains(out+said, part) {
			sh.Errorf("pqueue %s does not say %q:\n%s%s", line, part, out, said)
		}
	}
	return out
}

// start runs job types until the test ends. Jobs that succeed are kept for a month.
func start(t *testing.T, db *sql.DB, configs ...queue_job.Config) {
	t.Helper()
	for i := range configs {
		configs[i].LockSecond = cmp.Or(configs[i].LockSecond, 2)
	}
	runner, err := persistent_queue.New(configs, nil, persistent_queue.WithDB(db), persistent_queue.WithoutMigration(), persistent_queue.WithRetention(queue_job.Retention{Done: 30 * day}))
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := runner.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
