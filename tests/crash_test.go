package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The fault suite kills holders on servers; a file that processes share is beyond it.
func TestAKilledHolderLosesNothing(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const jobs, lock, capacity = 10_000 / slack, 3, 100
		settings := workerSettings{Types: []int32{1}, LockSecond: lock, Capacity: capacity}
		workers := []*worker{startWorker(t, d, settings), startWorker(t, d, settings)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		added := make(chan error, 1)
		go func() { added <- addSteadily(ctx, d.DB, jobs) }()
		awaitAtLeast(t, d.DB, jobs/2+1, succeeded)
		kills := 0
		bestOfThree(t, func() error {
			kills++
			workers = append(workers, startWorker(t, d, settings)) // one dies, one takes over, one is left
			return killHolder(t, d, workers, lock*time.Second)
		})
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		total := jobs + kills // with each comes a job
		awaitNumber(t, d.DB, int64(total), succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != int64(total) {
			t.Errorf("%d rows, want %d", n, total)
		}

		ran := map[uint64]int{}
		for _, w := range workers {
			w.end(syscall.SIGTERM)
			for id, times := range w.started() {
				ran[id] += len(times)
			}
		}
		again := 0
		for _, n := range ran {
			again += n - 1
		}
		lost := int(number(t, d.DB, "SELECT SUM(lost) FROM async_job_tab")) // marked when the holder died
		if len(ran) != total || again > lost {
			t.Errorf("%d of %d jobs ran, %d runs beyond the first; in flight were %d", len(ran), total, again, lost)
		}
		if most := kills * (capacity + 3000); lost > most { // the running, and a batch each marked ahead, waiting to be written, and being written
			t.Errorf("%d rows were marked, want %d at most", lost, most)
		}
		t.Logf("runs beyond the first: %d; in flight at the kill: %d", again, lost)
	})
}

// killHolder kills the worker that holds the lease, and adds a job for its successor. What the lease lasts beyond the death
// is exact; that the successor works within LockSecond + 1 s is returned as an error if it is not so.
func killHolder(t *testing.T, d dbtest.Database, workers []*worker, lock time.Duration) error {
	t.Helper()
	holder := slices.MaxFunc(workers, func(a, b *worker) int { return a.latest().Compare(b.latest()) })
	holder.end(syscall.SIGKILL)
	dead := time.Now()
	until := map[string]string{"mysql": "1000 * UNIX_TIMESTAMP(lock_until)", "pgx": "CAST(1000 * EXTRACT(EPOCH FROM lock_until) AS bigint)", "sqlite": "1000 * unixepoch(lock_until)"}
	expires := time.UnixMilli(number(t, d.DB, "SELECT "+until[d.Driver]+" FROM shedlock_tab WHERE lock_name = 'job-1'"))
	if left := time.Until(expires); left > lock+time.Second { // lock_until is rounded
		t.Errorf("the dead holder's lease lasts %v longer, want at most LockSecond = %v", left, lock)
	}
	add(t, d.DB, 1, 0) // it may have been at the last one
	var next time.Time
	await(t, func() string { return "nobody takes over" }, func() bool {
		next = firstStart(workers, dead)
		return !next.IsZero()
	})
	gap := next.Sub(dead)
	t.Logf("the next job started %v after the kill, %v after the lease's end", gap, next.Sub(expires))
	if gap > lock+time.Second {
		return fmt.Errorf("the next job started %v after the kill, want at most LockSecond + 1 = %v", gap, lock+time.Second)
	}
	return nil
}

// firstStart is when the first job started after a moment; zero: none has.
func firstStart(workers []*worker, after time.Time) (first time.Time) {
	for _, w := range workers {
		for _, times := range w.started() {
			for _, at := range times {
				if at.After(after) && (first.IsZero() || at.Before(first)) {
					first = at
				}
			}
		}
	}
	return first
}

// addSteadily adds jobs of type 1, a hundred at a time.
func addSteadily(ctx context.Context, db *sql.DB, n int) error {
	jobs, err := queue_job.Open(db)
	if err != nil {
		return err
	}
	for ; n > 0; n -= 100 {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for range 100 {
			if _, err := jobs.Add(ctx, tx, queue_job.AddModelJob{JobType: 1}); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func TestAJobThatKillsItsProcessFailsAfterThreeCrashes(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const good = 200
		add(t, d.DB, good/2, 0)
		if err := queue_job.AddAsyncJob(d.DB, queue_job.AddModelJob{JobType: 1, JobParams: "deadly"}); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, good/2, 0)
		crashes := 0
		for number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0") > 0 && crashes < 5 {
			w := startWorker(t, d, workerSettings{Types: []int32{1}, Capacity: 10, HandlerMS: 1, Deadly: `"deadly"`})
			crashed := func() bool {
				select {
				case <-w.done:
					return true
				default:
					return false
				}
			}
			await(t, func() string { return "neither crashed nor done" }, func() bool {
				return crashed() || number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0") == 0
			})
			if crashed() {
				crashes++
				execute(t, d.DB, expire) // its lease, whose end nobody needs to wait for
			} else {
				w.end(syscall.SIGTERM)
			}
		}
		if crashes != 3 {
			t.Errorf("%d crashes, want 3", crashes)
		}
		if n := number(t, d.DB, succeeded); n != good {
			t.Errorf("%d of %d good jobs succeeded", n, good)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND lost = 3 AND attempts = 3"); n != 1 {
			t.Error("the deadly job is not failed with three runs lost")
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'failed' AND error LIKE '%process died%'"); n != 1 {
			t.Errorf("%d log rows say why", n)
		}
	})
}

func TestALostLeaseCancelsHandlersAndTheirOutcomeIsDropped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		began, cause, marked := make(chan struct{}, 9), make(chan error, 9), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(marked) })
		defer goOn()
		// A renewal finds out, so the lease is short. Should it be lost before its time, that changes nothing.
		start(t, d.DB, queue_job.Config{LockSecond: 3, NeedRetry: true, MaxRetries: 5, WaitTime: time.Hour, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			began <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			<-marked
			return errors.New("too late")
		}})
		add(t, d.DB, 1, 0)
		<-began
		// Somebody else takes the lease, and marks the row with a later term before the handler returns.
		until := map[string]string{"mysql": "FROM_UNIXTIME(UNIX_TIMESTAMP() + 3600)", "pgx": "now() + interval '1 hour'", "sqlite": "datetime('now', '+1 hour')"}
		execute(t, d.DB, "UPDATE shedlock_tab SET locked_by = 'somebody else', lock_until = "+until[d.Driver])
		select {
		case err := <-cause:
			if !errors.Is(err, shedlock.ErrLost) {
				t.Errorf("the context ended with %v", err)
			}
		case <-time.After(patience):
			t.Fatal("the handler's context lives on")
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = %d WHERE id = 1", time.Now().UnixMilli()+1000_000))
		goOn()
		<-time.After(500 * time.Millisecond)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term > 0"); n != 1 {
			t.Error("the outcome of the lost run was written")
		}
	})
}

func TestALeaseRowMayBeDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 10, succeeded)
		before := number(t, d.DB, "SELECT MAX(term) FROM async_job_tab")
		execute(t, d.DB, "DELETE FROM shedlock_tab")
		await(t, func() string { return "the lease was not taken again" }, func() bool {
			return number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND term > 0") == 1
		})
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 20, succeeded)
		if after := number(t, d.DB, "SELECT MAX(term) FROM async_job_tab"); after <= before {
			t.Errorf("the term fell from %d to %d", before, after)
		}
	})
}

func TestHandlersCannotStarveTheLease(t *testing.T) {
	long(t)
	t.Parallel()
	for _, limit := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("MaxOpenConns %d", limit), func(t *testing.T) {
			t.Parallel()
			dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) { // on SQLite, a second connection would wait for the first one's transaction
				pool := dbtest.Open(t, d.Driver, d.DSN)
				pool.SetMaxOpenConns(limit)
				start(t, pool, queue_job.Config{LockSecond: 6, WorkerPoolCapacity: 3, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
					tx, err := pool.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					defer tx.Rollback()
					if job.Id <= uint64(limit) { // all connections, longer than the lease lasts
						select {
						case <-time.After(8 * time.Second):
						case <-ctx.Done():
							return context.Cause(ctx)
						}
					}
					return nil
				}})
				add(t, d.DB, 20, 0)
				awaitNumber(t, d.DB, 20, succeeded)
				if n := number(t, d.DB, "SELECT COUNT(DISTINCT term) FROM async_job_tab"); n != 1 {
					t.Errorf("%d terms: the lease was lost", n)
				}
				if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1"); n != 0 {
					t.Errorf("%d jobs ran more than once", n)
				}
			})
		})
	}
}
