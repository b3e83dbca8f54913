package tests

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// recorded is a handle that keeps the statements that were sent through it.
type recorded struct {
	*sql.DB
	mu   sync.Mutex
	sent []lastQuery
}

func (r *recorded) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.mu.Lock()
	r.sent = append(r.sent, lastQuery{query: query, args: args})
	r.mu.Unlock()
	return r.DB.QueryContext(ctx, query, args...)
}

// take returns what was sent since the last call.
func (r *recorded) take() []lastQuery {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// wholeTable is how a plan says that it reads the jobs, or one of their indexes, or the log from the first row to the last. The last rows of
// the log are read along its index.
var wholeTable = map[string]*regexp.Regexp{
	"SQLite":     regexp.MustCompile(`(?m)SCAN (async_job_tab|work)\b|SCAN async_job_log_tab *$`),
	"PostgreSQL": regexp.MustCompile(`Seq Scan on async_job_(tab|log_tab)\b`),
	"MySQL":      regexp.MustCompile(`(async_job_tab|work) +(ALL|index) |async_job_log_tab +ALL `),
	"MariaDB":    regexp.MustCompile(`(async_job_tab|work) +(ALL|index) |async_job_log_tab +ALL `),
}

// Whoever looks at a page of the console waits for a tenth of a second at most, and sends five statements at most, also if the table has
// millions of rows. Such a table keeps a server busy for minutes, so run this test alone, with PQ_TEST_ROWS=11000000.
func TestThePagesOfTheConsoleAreQuickHoweverManyJobsThereAre(t *testing.T) {
	all, err := strconv.Atoi(os.Getenv("PQ_TEST_ROWS"))
	if err != nil {
		t.Skip("left out: it disturbs others; set PQ_TEST_ROWS=11000000 and run it alone")
	}
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const types, statementsMost, most = 200, 5, 100 * time.Millisecond
		migrate(t, d)
		fillTable(t, d, types, all)
		configs := make([]queue_job.Config, types)
		for n := range configs {
			configs[n] = queue_job.Config{JobType: int32(n + 1), HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		}
		start(t, d.DB, configs...)
		awaitNumber(t, d.DB, types, awakeTypes)
		handle := &recorded{DB: d.DB}
		jobs, err := queue_job.Open(handle)
		if err != nil {
			t.Fatal(err)
		}
		last := number(t, d.DB, "SELECT MAX(id) FROM async_job_tab")
		failed := number(t, d.DB, "SELECT MAX(job_id) FROM async_job_log_tab")
		planned := map[string]bool{}
		for _, path := range []string{
			"/", "/?last=24h", "/?last=24h&compare=1", "/data/series", "/errors/0123456789abcdef", "/queues/7", "/queues/7/simulate", "/jobs", "/jobs?type=7", "/jobs?type=1&status=failed", "/jobs?type=7&status=failed", "/jobs?type=7&status=init", "/jobs?type=7&status=retry",
			"/jobs?status=failed", "/jobs?status=retry", "/jobs?status=success", "/jobs?key=key-7", "/jobs?key=none", fmt.Sprint("/jobs?key=", failed), fmt.Sprint("/jobs?before=", all/2), fmt.Sprint("/jobs?type=7&status=failed&before=", all/2),
			fmt.Sprint("/jobs/", last), fmt.Sprint("/jobs/", failed), "/errors", "/leases", "/leases?last=30d", "/workers", "/schedules", "/health", "/retention", "/audit", fmt.Sprint("/audit?job=", failed),
			"/operations/new?verb=cancel&type=7&status=init", "/operations/new?verb=retry&status=failed",
		} {
			var took []time.Duration
			var sent []lastQuery
			for range 5 {
				b := browse(t, console.Handler(jobs)) // with nothing in its memory
				handle.take()
				began := time.Now()
				b.get(path, http.StatusOK)
				took, sent = append(took, time.Since(began)), handle.take()
			}
			slices.Sort(took)
			t.Logf("%-10s %-50s %2d statements, %v (%v to %v)", d.Name, path, len(sent), took[2].Round(time.Millisecond/10), took[0].Round(time.Millisecond/10), took[4].Round(time.Millisecond/10))
			if len(sent) > statementsMost || took[2] > most {
				t.Errorf("%s costs %d statements and %v, want %d and %v at most", path, len(sent), took[2], statementsMost, most)
			}
			for i := range sent {
				if planned[sent[i].query] {
					continue
				}
				planned[sent[i].query] = true
				if plan := planOf(t, d, &sent[i]); wholeTable[d.Name].MatchString(plan) {
					t.Errorf("%s reads all rows:\n%s\n%s", path, sent[i].query, plan)
				}
			}
		}
	})
}

// fillTable fills the table: ten of eleven jobs have ended, of which 2 % have failed and have a row in the log; the others are due in a
// month. One job of a hundred has one of ten keys.
func fillTable(t *testing.T, d dbtest.Database, types, all int) {
	t.Helper()
	const seeds = 1100
	now := time.Now().Unix()
	for n := range seeds {
		status, startTime, attempts := queue_job.JobStatusSuccess, now-86400, 1
		switch {
		case n%11 == 5:
			status, startTime, attempts = queue_job.JobStatusInit, now+30*86400, 0
		case n%50 == 0:
			status = queue_job.JobStatusFailed
		case n%333 == 1:
			status = queue_job.JobStatusCancelled
		}
		var key any
		if n%100 == 7 {
			key = fmt.Sprintf("key-%d", n/100)
		}
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, attempts, job_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			`{"order":4711}`, n%types+1, int32(status), startTime, now-2*86400, now-86400, attempts, key)
	}
	const columns = "params, job_type, job_status, start_time, create_time, update_time, attempts, job_key"
	for rows := seeds; rows < all; {
		some := min(rows, all-rows, 1_000_000)
		some -= some % seeds
		if some == 0 {
			break
		}
		execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (%s) SELECT %s FROM async_job_tab ORDER BY id LIMIT %d", columns, columns, some))
		rows += some
	}
	execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'failed', 'no route to host', %d, %d, 'shop@host/1' FROM async_job_tab WHERE job_status = 2", now*1000, now*1000))
	switch d.Name {
	case "PostgreSQL":
		execute(t, d.DB, "VACUUM ANALYZE async_job_tab")
		execute(t, d.DB, "VACUUM ANALYZE async_job_log_tab")
	case "MySQL", "MariaDB":
		execute(t, d.DB, "ANALYZE TABLE async_job_tab, async_job_log_tab")
	}
}
