package tests

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Nobody has died: three deploys must not fail a job for which each left too little time.
func TestAJobThatAStopHasCutOffIsNotLost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const stops = 3
		var told settledList
		add(t, d.DB, 1, 0)
		for n := range stops {
			began, release := make(chan *queue_job.Job, 1), make(chan struct{})
			r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(told.add)}, dbtest.Open(t, d.Driver, d.DSN), deaf(began, release))
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			job := awaitDeaf(t, d.DB, began)
			if job.Attempt != n+1 || job.Lost != 0 || job.Retries != 0 {
				t.Errorf("after %d stops: attempt %d, lost %d, retries %d", n, job.Attempt, job.Lost, job.Retries)
			}
			cutOff(t, r, 100*time.Millisecond)
			if got, want := standing(t, d.DB), fmt.Sprintf("status 4, term 0, attempts %d, lost 0, retries 0", n+1); got != want {
				t.Errorf("after %d stops: %s; want %s", n+1, got, want)
			}
			close(release) // the process would have ended
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'retry' AND error LIKE 'cut off by a stop%'"); n != stops {
			t.Errorf("%d rows of the log say that a stop has cut the job off, of %d rows", n, number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'lost'"); n != 0 {
			t.Errorf("%d rows of the log say that a run was lost", n)
		}
		for _, s := range told.all() {
			if s.Status != queue_job.JobStatusRetry || s.Err == nil || !strings.Contains(s.Err.Error(), "cut off by a stop") {
				t.Errorf("OnSettled was told of %v, %v", s.Status, s.Err)
			}
		}
		if n := len(told.all()); n != stops {
			t.Errorf("OnSettled was told of %d outcomes, want %d", n, stops)
		}
	})
}

// Another instance has the lease's name already, and could start the job at once, while the handler is still in the middle of it.
func TestAJobThatAStopHasCutOffRunsAgainWhenItsLeaseHasEnded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const lock = 6 // renewed every 2 seconds, so 4 are left at least
		began, release := make(chan *queue_job.Job, 1), make(chan struct{})
		cfg := deaf(began, release)
		cfg.LockSecond = lock
		leaves := newRunnerWith(t, nil, dbtest.Open(t, d.Driver, d.DSN), cfg)
		if err := leaves.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		awaitDeaf(t, d.DB, began)
		var ran runs
		start(t, d.DB, queue_job.Config{LockSecond: lock, HandleJobFunc: ran.handler})
		await(t, func() string { return "the other instance does not stand by" }, func() bool {
			return number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'at-%'") == 2
		})
		cutOff(t, leaves, 3*time.Second)
		stopped := time.Now()
		if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'rest-1-%'"); n != 1 {
			t.Errorf("%d rests: the lease was not given away while the handler ran", n)
		}
		awaitRuns(t, &ran, 1)
		if after := ran.all()[0].started.Sub(stopped); after < lock/3*time.Second {
			t.Errorf("the job started %v after Stop; the lease of its handler lasts longer", after)
		}
		awaitNumber(t, d.DB, 1, succeeded+" AND lost = 0 AND attempts = 2")
		close(release)
	})
}

// What a stop finds done is left as it is: by whoever has cancelled the job, or by the handler itself, whose transaction may still be open.
func TestAStopCutsOffNoJobThatIsDone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		began, release, ended := make(chan *queue_job.Job, 3), make(chan struct{}), make(chan error, 3)
		var told settledList
		cfg := deaf(began, release)
		handlers := dbtest.Open(t, d.Driver, d.DSN)
		cfg.HandleJobFunc = func(_ context.Context, job *queue_job.Job) (err error) {
			defer func() { ended <- err }()
			if job.JobParams == "waits" {
				began <- job
				<-release
				return nil
			}
			tx, err := handlers.BeginTx(context.Background(), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := job.CompleteTx(context.Background(), tx); err != nil {
				return err
			}
			if job.JobParams == "commits" {
				err = tx.Commit()
			}
			began <- job
			<-release
			if job.JobParams == "commits" {
				return err
			}
			return tx.Commit()
		}
		what := []string{"waits", "commits", "commits late"}
		if d.Name == "SQLite" { // an open transaction holds up all others
			what = what[:2]
		}
		r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(told.add)}, d.DB, cfg)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var first int64
		for _, params := range what {
			execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES (?, 1, 0, 0, 0, 0)", params)
			awaitDeaf(t, d.DB, began)
			if params == "waits" {
				first = number(t, d.DB, "SELECT MAX(id) FROM async_job_tab")
			}
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 5 WHERE id = ?", first) // by its id: another row is locked
		cutOff(t, r, 100*time.Millisecond)
		close(release)
		for range what {
			if err := <-ended; err != nil {
				t.Error("a handler: ", err)
			}
		}
		awaitNumber(t, d.DB, int64(len(what)-1), succeeded+" AND retries = 0 AND lost = 0")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5"); n != 1 {
			t.Error("the cancelled job is not cancelled any more: ", standing(t, d.DB))
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n != 0 {
			t.Errorf("%d rows of the log say that a run was cut off", n)
		}
		for _, s := range told.all() {
			t.Errorf("OnSettled was told that job %d is %v", s.Job.Id, s.Status)
		}
	})
}

// deaf is a configuration with a handler that does not hear of the end of its context.
func deaf(began chan<- *queue_job.Job, until <-chan struct{}) queue_job.Config {
	return queue_job.Config{LostLimit: 1, LockSecond: 2, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		began <- job
		<-until
		return nil
	}}
}

func awaitDeaf(t *testing.T, db *sql.DB, began <-chan *queue_job.Job) *queue_job.Job {
	t.Helper()
	select {
	case job := <-began:
		return job
	case <-time.After(patience / 3):
		t.Fatal("the job does not run: ", standing(t, db))
		return nil
	}
}

// cutOff stops a Runner whose handler does not end.
func cutOff(t *testing.T, r *persistent_queue.Runner, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := r.Stop(ctx); err == nil || !strings.Contains(err.Error(), "handler still runs") && !strings.Contains(err.Error(), "handlers still run") {
		t.Errorf("Stop says %v", err)
	}
}

func standing(t *testing.T, db *sql.DB) string {
	t.Helper()
	var status, term, attempts, lost, retries int64
	if err := db.QueryRow("SELECT job_status, term, attempts, lost, retries FROM async_job_tab ORDER BY id LIMIT 1").Scan(&status, &term, &attempts, &lost, &retries); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("status %d, term %d, attempts %d, lost %d, retries %d", status, term, attempts, lost, retries)
}

// settledList has what a hook was told.
type settledList struct {
	mu   sync.Mutex
	list []queue_job.Settled
}

func (s *settledList) add(_ context.Context, settled []queue_job.Settled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, settled...)
}

func (s *settledList) all() []queue_job.Settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]queue_job.Settled(nil), s.list...)
}
