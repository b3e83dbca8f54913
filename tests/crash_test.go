package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAKilledHolderLosesNothing(t *testing.T) {
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const jobs, lock, capacity = 10_000 / slack, 3, 100
		var workers []*worker
		for range 3 {
			workers = append(workers, startWorker(t, d, workerSettings{Types: []int32{1}, LockSecond: lock, Capacity: capacity}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		added := make(chan error, 1)
		go func() { added <- addSteadily(ctx, d.DB, jobs) }()
		var holder *worker
		await(t, func() string { return "half of the jobs have not run" }, func() bool {
			for _, w := range workers {
				if len(w.started()) > 0 {
					holder = w
				}
			}
			return number(t, d.DB, succeeded) > jobs/2
		})
		killed := time.Now()
		holder.end(syscall.SIGKILL)
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, jobs, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != jobs {
			t.Errorf("%d rows, want %d", n, jobs)
		}

		ran := map[uint64]int{}
		next := time.Time{} // the first start after the kill
		for _, w := range workers {
			w.end(syscall.SIGTERM)
			for id, times := range w.started() {
				ran[id] += len(times)
				for _, at := range times {
					if at.After(killed) && (next.IsZero() || at.Before(next)) {
						next = at
					}
				}
			}
		}
		again := 0
		for _, n := range ran {
			again += n - 1
		}
		lost := int(number(t, d.DB, "SELECT SUM(lost) FROM async_job_tab")) // marked when the holder died
		if len(ran) != jobs || again > lost {
			t.Errorf("%d of %d jobs ran, %d runs beyond the first; in flight were %d", len(ran), jobs, again, lost)
		}
		if most := capacity + 3000; lost > most { // the running, and a batch each marked ahead, waiting to be written, and being written
			t.Errorf("%d rows were marked, want %d at most", lost, most)
		}
		gap := next.Sub(killed)
		if gap > (lock+1)*time.Second {
			t.Errorf("the next job started %v after the kill, want at most LockSecond + 1 = %d s", gap, lock+1)
		}
		t.Logf("runs beyond the first: %d; in flight at the kill: %d; next start %v after it", again, lost, gap)
	})
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
	long(t)
	besideOthers(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const good = 200
		add(t, d.DB, good/2, 0)
		if err := queue_job.AddAsyncJob(d.DB, queue_job.AddModelJob{JobType: 1, JobParams: "deadly"}); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, good/2, 0)
		crashes := 0
		for number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0") > 0 && crashes < 5 {
			w := startWorker(t, d, workerSettings{Types: []int32{1}, LockSecond: 2, Capacity: 10, HandlerMS: 1, Deadly: `"deadly"`})
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
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		began, cause := make(chan struct{}, 9), make(chan error, 9)
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 5, WaitTime: time.Hour, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			began <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return errors.New("too late")
		}})
		add(t, d.DB, 1, 0)
		<-began
		// Somebody else takes the lease and marks the row with a later term.
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = %d WHERE id = 1", time.Now().UnixMilli()+1000_000))
		until := map[string]string{"mysql": "FROM_UNIXTIME(UNIX_TIMESTAMP() + 3600)", "pgx": "now() + interval '1 hour'", "sqlite": "datetime('now', '+1 hour')"}
		execute(t, d.DB, "UPDATE shedlock_tab SET locked_by = 'somebody else', lock_until = "+until[d.Driver])
		select {
		case err := <-cause:
			if !errors.Is(err, shedlock.ErrLost) {
				t.Errorf("the context ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the handler's context lives on")
		}
		<-time.After(500 * time.Millisecond)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND term > 0"); n != 1 {
			t.Error("the outcome of the lost run was written")
		}
	})
}

func TestALeaseRowMayBeDeleted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 10, succeeded)
		before := number(t, d.DB, "SELECT MAX(term) FROM async_job_tab")
		execute(t, d.DB, "DELETE FROM shedlock_tab")
		await(t, func() string { return "the lease was not taken again" }, func() bool {
			return number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE term > 0") == 1
		})
		add(t, d.DB, 10, 0)
		awaitNumber(t, d.DB, 20, succeeded)
		if after := number(t, d.DB, "SELECT MAX(term) FROM async_job_tab"); after <= before {
			t.Errorf("the term fell from %d to %d", before, after)
		}
	})
}

func TestHandlersCannotStarveTheLease(t *testing.T) {
	for _, limit := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("MaxOpenConns %d", limit), func(t *testing.T) {
			t.Parallel()
			dbtest.Servers(t, func(t *testing.T, d dbtest.Database) { // on SQLite, a second connection would wait for the first one's transaction
				migrate(t, d)
				pool := dbtest.Open(t, d.Driver, d.DSN)
				pool.SetMaxOpenConns(limit)
				start(t, pool, queue_job.Config{LockSecond: 2, WorkerPoolCapacity: 3, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
					tx, err := pool.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					defer tx.Rollback()
					if job.Id <= 3 { // longer than the lease lasts
						select {
						case <-time.After(3 * time.Second):
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
