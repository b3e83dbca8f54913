// Package tests proves what the library promises, on every database it supports: one file for each chapter of the
// promise, each test named after its claim.
package tests

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(workerMain())
	}
	before := goleak.IgnoreCurrent() // ants starts goroutines of its own when it is imported
	code := dbtest.Run(m)
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// start runs a Runner until the test ends. Configurations get what the test does not care about.
func start(t *testing.T, db queue_job.DB, configs ...queue_job.Config) *persistent_queue.Runner {
	t.Helper()
	r := newRunner(t, db, configs...)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, r) })
	return r
}

// open opens the jobs in a database.
func open(t *testing.T, db queue_job.DB) *queue_job.Jobs {
	t.Helper()
	jobs, err := queue_job.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// column reads the one column that a query has.
func column[T any](t *testing.T, db *sql.DB, query string) (values []T) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// idsOf are the ids of so many rows that were added together.
func idsOf(t *testing.T, db *sql.DB, rows int) []uint64 {
	t.Helper()
	ids := make([]uint64, rows)
	for i, first := 0, uint64(number(t, db, "SELECT MIN(id) FROM async_job_tab")); i < rows; i++ {
		ids[i] = first + uint64(i)
	}
	return ids
}

func newRunner(t *testing.T, db queue_job.DB, configs ...queue_job.Config) *persistent_queue.Runner {
	t.Helper()
	return newRunnerWith(t, nil, db, configs...)
}

func newRunnerWith(t *testing.T, options []persistent_queue.Option, db queue_job.DB, configs ...queue_job.Config) *persistent_queue.Runner {
	t.Helper()
	for i := range configs {
		cfg := &configs[i]
		if cfg.ServiceName == "" {
			cfg.ServiceName = "test"
		}
		if cfg.JobType == 0 {
			cfg.JobType = 1
		}
		if cfg.LockSecond == 0 {
			cfg.LockSecond = 10 // a machine that stands still for a second or two shall not cost a lease whose loss is not the subject
		}
		if cfg.Db == nil {
			cfg.Db = db
		}
	}
	r, err := persistent_queue.New(configs, logOf(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stop(t *testing.T, r *persistent_queue.Runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// logOf writes to the test's log.
func logOf(t *testing.T) logger.QueueLog {
	return logger.QueueLog{Slog: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))}
}

// add adds n jobs of type 1 that are due at a time, 0 for at once.
func add(t *testing.T, db *sql.DB, n int, at uint32) {
	t.Helper()
	addType(t, db, 1, n, at)
}

func addType(t *testing.T, db *sql.DB, jobType int32, n int, at uint32) {
	t.Helper()
	now := time.Now().Unix()
	for n > 0 {
		some := min(n, 1000)
		n -= some
		row := fmt.Sprintf("('{}', %d, 0, %d, %d, %d)", jobType, at, now, now)
		execute(t, db, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES "+
			strings.Repeat(row+", ", some-1)+row)
	}
}

func execute(t *testing.T, db *sql.DB, query string, args ...any) sql.Result {
	t.Helper()
	result, err := db.Exec(dbtest.Rebind(db, query), args...)
	if err != nil {
		t.Fatalf("%s: %v", query[:min(len(query), 200)], err)
	}
	return result
}

func number(t *testing.T, db *sql.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRow(dbtest.Rebind(db, query), args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// patience is how long a test waits for what has to come, where how soon is not its subject.
const patience = 3 * time.Minute

// awaitNumber waits until a query yields the number.
func awaitNumber(t *testing.T, db *sql.DB, want int64, query string, args ...any) {
	t.Helper()
	var got int64
	await(t, func() string { return fmt.Sprintf("%s: %d, want %d", query, got, want) }, func() bool {
		got = number(t, db, query, args...)
		return got == want
	})
}

// awaitAtLeast is awaitNumber for what goes on growing.
func awaitAtLeast(t *testing.T, db *sql.DB, least int64, query string, args ...any) {
	t.Helper()
	var got int64
	await(t, func() string { return fmt.Sprintf("%s: %d, want at least %d", query, got, least) }, func() bool {
		got = number(t, db, query, args...)
		return got >= least
	})
}

// await waits until the condition holds; what says what it waited for, if it does not come.
func await(t *testing.T, what func() string, condition func() bool) {
	t.Helper()
	awaitWithin(t, patience, what, condition)
}

// awaitWithin is await where the time is a promise.
func awaitWithin(t *testing.T, within time.Duration, what func() string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(dbtest.Pace(time.Since(began))) {
		if time.Since(began) > within {
			t.Fatalf("after %v: %s", within, what())
		}
	}
}

var bestOfThree = dbtest.BestOfThree

const succeeded = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1"

// runs notes the runs of a handler.
type runs struct {
	mu   sync.Mutex
	list []run
}

type run struct {
	id      uint64
	started time.Time
	job     queue_job.Job
}

func (r *runs) note(job *queue_job.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, run{job.Id, time.Now(), *job})
}

func (r *runs) all() []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]run(nil), r.list...)
}

func (r *runs) of(id uint64) (list []run) {
	for _, run := range r.all() {
		if run.id == id {
			list = append(list, run)
		}
	}
	return list
}

// handler notes every run and succeeds.
func (r *runs) handler(_ context.Context, job *queue_job.Job) error {
	r.note(job)
	return nil
}

func migrate(t *testing.T, d dbtest.Database) {
	t.Helper()
	if err := schema.Migrate(t.Context(), d.DB); err != nil {
		t.Fatal(err)
	}
}

// lines is a log that a test can read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) log() logger.QueueLog {
	return logger.QueueLog{Slog: slog.New(slog.NewTextHandler(l, nil))}
}

// long marks a test that takes its time; -short leaves it out.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out: it takes long; make test-all runs it")
	}
}

// addKeyed adds n jobs of type 1 with a key.
func addKeyed(t *testing.T, db *sql.DB, n int, key string) {
	t.Helper()
	addRows(t, db, n, func(int) row { return row{key: key} })
}

// row is what an added job has beside the usual.
type row struct {
	key      string
	priority int
	at       int64 // start_time
}

// addRows adds n jobs of type 1.
func addRows(t *testing.T, db *sql.DB, n int, each func(i int) row) {
	t.Helper()
	now := time.Now().Unix()
	for i := 0; i < n; {
		var rows []string
		for ; i < n && len(rows) < 1000; i++ {
			r, key := each(i), "NULL"
			if r.key != "" {
				key = "'" + r.key + "'"
			}
			rows = append(rows, fmt.Sprintf("('{}', 1, 0, %d, %d, %d, %s, %d)", r.at, now, now, key, r.priority))
		}
		execute(t, db, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key, priority) VALUES "+strings.Join(rows, ", "))
	}
}

// unlessFigures is more for whoever wants figures, and has the machine alone.
func unlessFigures[T any](more, usual T) T {
	if os.Getenv("PQ_TEST_FIGURES") != "" {
		return more
	}
	return usual
}

// unlessShort is the first value, or in the short run the second.
func unlessShort[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}
