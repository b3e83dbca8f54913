package tests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/shedlock"
)

const (
	playLock = 8 * time.Second // a stall of four seconds does not cost it, and it is renewed twice within six
	playWait = time.Second
)

// nasty is text that some session might take for something else.
const nasty = `it's a "quoted" \ and \n, 100 %s ? $1 :x -- /* Zwölf 🐘`

// play lets two instances do all that the library does in one session, and looks at it from an ordinary one.
func play(t *testing.T, s *stage) {
	playLocks(t, s)
	one, other := newInstance(t, s), newInstance(t, s)
	localTime, lease := s.startClock(t, one.pool), watchLease(t, s)
	s.pulse = feelPulse(t, s.Database)

	unlocked := startAmongLockedRows(t, s, one, lease)
	due := s.now().Truncate(time.Second).Add(3 * time.Second)
	one.add(t, "delayed", due)
	other.start(t)
	addJobs(t, s, one)
	awaitNumber(t, s.DB, 0, s.query("SELECT COUNT(*) FROM async_job_tab WHERE job_status NOT IN (1, 2, 5) OR job_status IS NULL"))
	lease.await(t, 3) // taken, and renewed twice
	stopping, stopped := handOver(t, s, one, other)
	lease.stop()

	lease.judge(t, s.pulse, playLock, *one.held.Load(), stopping)
	wantStart(t, s, one.of("locked"), unlocked, unlocked, time.Second)
	wantStart(t, s, one.of("delayed"), due.Add(-s.ahead), due.Add(-s.ahead), time.Second)
	wantStart(t, s, other.of("after the stop"), stopping, stopped, time.Second)
	wantRunsAgain(t, s, one)
	wantFates(t, s, append(one.ran.all(), other.ran.all()...))
	wantLog(t, s)
	deleteAll(t, s, one)
	if ahead := s.minutesFromUTC(t, one.pool) - localTime; ahead != s.clocks.minutes() {
		t.Errorf("the session's local time was put forward by %d minutes, want %d: this proves nothing", ahead, s.clocks.minutes())
	}
}

// playLocks lets two instances share a lock.
func playLocks(t *testing.T, s *stage) {
	t.Helper()
	cfg := shedlock.Config{TablePrefix: s.prefix}
	one, other := newLock(t, s.handleOn(s.open(t)), cfg), newLock(t, s.handleOn(s.open(t)), cfg)
	wantTryLock(t, one, true)
	wantTryLock(t, other, false)
	unlock(t, one)
	wantTryLock(t, other, true)
	unlock(t, other)
}

// startAmongLockedRows starts an instance while another transaction has the rows of two jobs. It withdraws one of them,
// and commits at the moment that is returned.
func startAmongLockedRows(t *testing.T, s *stage, i *instance, lease *watch) (unlocked time.Time) {
	t.Helper()
	locked, withdrawn := i.add(t, "locked", time.Time{}), i.add(t, "withdrawn", time.Time{})
	i.add(t, "overdue", s.now().Add(-time.Hour))
	tx := begin(t, s.DB)
	for id, change := range map[uint64]string{locked: "update_time = update_time + 1", withdrawn: fmt.Sprintf("job_status = 5, update_time = %d", s.now().Unix())} {
		if _, err := tx.Exec(s.query("UPDATE async_job_tab SET "+change+" WHERE id = ?"), id); err != nil {
			t.Fatal(err)
		}
	}
	i.start(t)
	if s.Name != "SQLite" { // where whoever locks a row locks the lease too
		lease.await(t, 1)
	}
	sleep(t.Context(), 300*time.Millisecond) // by now, the rows are to be marked
	unlocked = time.Now()
	commit(t, tx)
	await(t, func() string { return "the instance does not get the lease" }, func() bool { return i.held.Load() != nil })
	return unlocked
}

// addJobs adds jobs in every way, to end in every way.
func addJobs(t *testing.T, s *stage, i *instance) {
	t.Helper()
	i.addAlone(t, s, nasty)
	serialized(t, func() error {
		tx := begin(t, i.pool)
		_, err := i.tryAdd(t, tx, "rolled back", time.Time{})
		return errors.Join(err, tx.Rollback())
	})
	plain := s.query("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES (?, 1, NULL, NULL, ?, ?)")
	serialized(t, func() error {
		tx := begin(t, i.pool)
		defer tx.Rollback()
		if _, err := i.tryAdd(t, tx, "committed", time.Time{}); err != nil {
			return err
		}
		if _, err := tx.Exec(plain, nasty, s.now().Unix(), s.now().Unix()); err != nil {
			return err
		}
		return tx.Commit()
	})
	for _, params := range []string{"retried", "failed", "continued"} {
		i.add(t, params, time.Time{})
	}
}

// serialized does it again when PostgreSQL could not serialize it, as whoever asks for SERIALIZABLE there has to.
func serialized(t *testing.T, do func() error) {
	t.Helper()
	for range 10 {
		err := do()
		if err == nil {
			return
		}
		t.Log(err)
		if !strings.Contains(err.Error(), "could not serialize access") {
			break
		}
	}
	t.Fatal("it could not be done")
}

// handOver stops one instance and lets the other, which stands by, run a job.
func handOver(t *testing.T, s *stage, one, other *instance) (stopping, stopped time.Time) {
	t.Helper()
	stopping = time.Now()
	stop(t, one.Runner)
	stopped = time.Now()
	other.addAlone(t, s, "after the stop")
	await(t, func() string { return "nobody takes over" }, func() bool { return len(other.ran.all()) > 0 })
	stop(t, other.Runner)
	return stopping, stopped
}

// deleteAll deletes the jobs, and what the history has of them.
func deleteAll(t *testing.T, s *stage, i *instance) {
	t.Helper()
	failed := uint64(number(t, s.DB, s.query("SELECT id FROM async_job_tab WHERE params = ?"), quoted("failed")))
	ended := number(t, s.DB, s.query("SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (1, 2, 5) AND id < (SELECT MAX(id) FROM async_job_tab)")) // the job with the largest id is not deleted
	serialized(t, func() error {
		n, err := i.jobs.DeleteJobs(t.Context(), i.pool, queue_job.ID(failed))
		if n != 1 && err == nil {
			t.Errorf("%d jobs are deleted by id", n)
		}
		return err
	})
	serialized(t, func() error {
		n, err := i.jobs.Delete(t.Context(), i.pool, queue_job.DeleteRange{Before: time.Now().Add(24 * time.Hour)}) // whichever clock wrote the rows: no session's is ahead
		if err == nil && int64(n) != ended-1 {                                                                      // one is deleted by its id
			t.Errorf("%d jobs are deleted, want %d", n, ended-1)
		}
		return err
	})
	if n := number(t, s.DB, s.query("SELECT COUNT(*) FROM async_job_log_tab")); n != 0 {
		t.Errorf("%d runs of deleted jobs are in the log", n)
	}
	st, err := record.Open(t.Context(), i.handle, s.prefix)
	if err != nil {
		t.Fatal(err)
	}
	later, ctx := time.Now().Add(24*time.Hour), t.Context()
	for what, drop := range map[string]func() error{
		"roll up the history": func() error { _, _, err := st.RollUp(ctx, 1, 0, later.Unix(), 3600); return err },
		"drop the history":    func() error { return st.DropStats(ctx, 1, later.Unix()) },
		"drop tenures":        func() error { return st.DropTenures(ctx, later.UnixMilli()) },
		"drop lines":          func() error { return st.DropLines(ctx, later.Unix()) },
		"drop leases":         func() error { return st.DropEnded(ctx, []string{"at-000000000000", "job-1"}) },
		"end pauses":          func() error { _, err := st.EndPauses(ctx, []int32{1, 2, 3}); return err },
		"name types": func() error {
			_, err := st.NameTypes(ctx, []record.TypeName{{JobType: 1, Name: "one"}, {JobType: 2, Name: "two"}})
			return err
		},
		"end tenures": func() error { return st.ExpireTenures(ctx, []record.Tenure{{Lease: "job-1", Term: 9, Taken: 1}}) },
	} {
		serialized(t, func() error {
			err := drop()
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			return err
		})
	}
	if stats, err := st.Stats(ctx, 1, 0, later.Unix()); err != nil || len(stats) != 0 {
		t.Errorf("%d rows of the history are left: %v", len(stats), err)
	}
}

// instance is an application with the library, on a pool of its own.
type instance struct {
	*persistent_queue.Runner
	pool   *sql.DB
	handle queue_job.DB
	jobs   *queue_job.Jobs
	ran    runs
	held   atomic.Pointer[time.Time] // since when it has had the lease
}

func newInstance(t *testing.T, s *stage) *instance {
	t.Helper()
	i := &instance{pool: s.open(t)}
	i.handle = s.handleOn(i.pool)
	var err error
	if i.jobs, err = queue_job.Open(i.handle, queue_job.WithTablePrefix(s.prefix)); err != nil {
		t.Fatal(err)
	}
	observer := queue_job.Observer{Lease: func(_ int32, _ int, held bool) {
		if held {
			now := time.Now()
			i.held.CompareAndSwap(nil, &now)
		}
	}}
	i.Runner = newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithObserver(observer)}, i.handle, queue_job.Config{
		TablePrefix: s.prefix, LockSecond: uint32(playLock / time.Second),
		NeedRetry: true, MaxRetries: 1, WaitTime: playWait, HandleJobFunc: i.handler,
	})
	return i
}

func (i *instance) handler(_ context.Context, job *queue_job.Job) error {
	i.ran.note(job)
	switch {
	case job.JobParams == `"continued"` && job.Attempt == 1:
		job.Status = queue_job.JobStatusContinue
	case job.JobParams == `"retried"` && job.Attempt == 1, job.JobParams == `"failed"`:
		return errors.New(nasty)
	}
	return nil
}

func (i *instance) start(t *testing.T) {
	t.Helper()
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, i.Runner) })
}

// addAlone adds a job outside of a transaction.
func (i *instance) addAlone(t *testing.T, s *stage, params string) {
	t.Helper()
	if s.prefix != "" {
		i.add(t, params, time.Time{})
		return
	}
	serialized(t, func() error {
		return queue_job.AddAsyncJob(i.handle, queue_job.AddModelJob{JobType: 1, JobParams: params})
	})
}

func (i *instance) add(t *testing.T, params string, due time.Time) (id uint64) {
	t.Helper()
	serialized(t, func() (err error) {
		id, err = i.tryAdd(t, i.pool, params, due)
		return err
	})
	return id
}

func (i *instance) tryAdd(t *testing.T, ex queue_job.Executor, params string, due time.Time) (id uint64, err error) {
	job := queue_job.AddModelJob{JobType: 1, JobParams: params}
	if !due.IsZero() {
		job.StartTime = uint32(due.Unix())
	}
	return i.jobs.Add(t.Context(), ex, job)
}

// of returns the runs of the job that was added with these parameters.
func (i *instance) of(params string) []run {
	return runsOf(i.ran.all(), quoted(params))
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

func commit(t *testing.T, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// wantStart sees that the first of the runs did not start before the moment, nor much later: within what is promised, and
// what the machine's pulse allows since the library had something to do for it.
func wantStart(t *testing.T, s *stage, list []run, since, moment time.Time, within time.Duration) {
	t.Helper()
	if len(list) == 0 {
		t.Error("a job did not run")
		return
	}
	late := list[0].started.Sub(moment)
	within = s.pulse.allows(within*slack, since, list[0].started)
	t.Logf("%s started %v late; at most %v", list[0].job.JobParams, late, within)
	if late < 0 || late > within {
		t.Errorf("%s started %v late, want from 0 to %v", list[0].job.JobParams, late, within)
	}
}

// wantRunsAgain sees that what did not succeed waited before it ran again, and would have waited no less elsewhere.
func wantRunsAgain(t *testing.T, s *stage, i *instance) {
	t.Helper()
	for _, params := range []string{"retried", "failed", "continued"} {
		list := i.of(params)
		if len(list) != 2 {
			t.Errorf("%s ran %d times, want 2", params, len(list))
			continue
		}
		again := list[0].started.Add(playWait)
		wantStart(t, s, list[1:], list[0].started, again, time.Second)
		due := number(t, s.DB, s.query("SELECT start_time FROM async_job_tab WHERE params = ?"), quoted(params))
		within := s.pulse.allows(2*time.Second*slack, list[0].started, list[1].started) // whole seconds, and the time it took to write them
		if late := time.Unix(due, 0).Add(-s.ahead).Sub(again); late < 0 || late > within {
			t.Errorf("%s is due again %v late, want from 0 to %v", params, late, within)
		}
	}
}

// fate is what came of a job.
type fate struct{ status, attempts, retries, lost int }

// wantFates sees that each job came to its end, that its runs were counted, and that they got the parameters it was added
// with.
func wantFates(t *testing.T, s *stage, ran []run) {
	t.Helper()
	once := fate{status: 1, attempts: 1}
	want := map[string]fate{
		nasty:                    once,
		quoted(nasty):            once,
		quoted("committed"):      once,
		quoted("delayed"):        once,
		quoted("overdue"):        once,
		quoted("locked"):         once,
		quoted("after the stop"): once,
		quoted("withdrawn"):      {status: 5},
		quoted("continued"):      {status: 1, attempts: 2},
		quoted("retried"):        {status: 1, attempts: 2, retries: 1},
		quoted("failed"):         {status: 2, attempts: 2, retries: 1},
	}
	got := map[string]fate{}
	eachRow(t, s.DB, s.query("SELECT params, job_status, attempts, retries, lost FROM async_job_tab"), func(rows *sql.Rows) error {
		var params string
		var f fate
		err := rows.Scan(&params, &f.status, &f.attempts, &f.retries, &f.lost)
		got[params] = f
		return err
	})
	if !maps.Equal(got, want) {
		t.Errorf("the jobs are\n%v\nwant\n%v", got, want)
	}
	for params, f := range want {
		if n := len(runsOf(ran, params)); n != f.attempts {
			t.Errorf("%d runs with the parameters %s, want %d", n, params, f.attempts)
		}
	}
	if n := number(t, s.DB, s.query("SELECT COUNT(DISTINCT term) FROM async_job_tab WHERE term > 0")); n != 2 {
		t.Errorf("%d terms, want one of each instance", n)
	}
}

// wantLog sees that the log says which runs did not succeed, and why.
func wantLog(t *testing.T, s *stage) {
	t.Helper()
	var got []string
	eachRow(t, s.DB, s.query("SELECT params, attempt, outcome, error FROM async_job_log_tab JOIN async_job_tab ON id = job_id ORDER BY params, attempt"), func(rows *sql.Rows) error {
		var params, attempt, outcome, reason string
		err := rows.Scan(&params, &attempt, &outcome, &reason)
		got = append(got, params+" "+attempt+" "+outcome+": "+reason)
		return err
	})
	want := []string{`"failed" 1 retry: ` + nasty, `"failed" 2 failed: ` + nasty, `"retried" 1 retry: ` + nasty}
	if !slices.Equal(got, want) {
		t.Errorf("the log has\n%q\nwant\n%q", got, want)
	}
}

func eachRow(t *testing.T, db *sql.DB, query string, scan func(*sql.Rows) error) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// runsOf returns the runs that got these parameters.
func runsOf(list []run, params string) []run {
	return slices.DeleteFunc(slices.Clone(list), func(r run) bool { return r.job.JobParams != params })
}

// quoted is how text is stored.
func quoted(params string) string {
	text, _ := json.Marshal(params)
	return string(text)
}
