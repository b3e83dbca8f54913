package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// outliving is a handler that runs on when the row of its job does not show that any more. The jobs of key "a" tell when that is so, and
// wait for the test; the others end at once.
type outliving struct {
	db      *sql.DB
	final   string // how the row becomes final
	jobs    *queue_job.Jobs
	outlive chan struct{}
	end     chan struct{}

	mu      sync.Mutex
	started []string // parameters, in the order of their starts
	atOnce  int      // handlers of the key
	most    int
}

func (o *outliving) handle(ctx context.Context, job *queue_job.Job) error {
	if job.Key != "a" {
		o.note(job, 0)
		return nil
	}
	defer o.note(job, +1)()
	if job.JobParams != `"first"` {
		return nil
	}
	err := o.finish(ctx, job)
	close(o.outlive)
	<-o.end
	return err
}

// finish makes the row final.
func (o *outliving) finish(ctx context.Context, job *queue_job.Job) error {
	if o.final != "completed" {
		if n, err := o.jobs.Cancel(ctx, o.db, queue_job.ID(job.Id)); err != nil || n != 1 {
			return fmt.Errorf("%d were cancelled, %w", n, err)
		}
		return nil
	}
	tx, err := o.db.BeginTx(ctx, nil)
	if err == nil {
		err = errors.Join(job.CompleteTx(ctx, tx), tx.Commit())
	}
	return err
}

func (o *outliving) note(job *queue_job.Job, ofKey int) (ended func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = append(o.started, strings.Trim(job.JobParams, `"`))
	o.atOnce += ofKey
	o.most = max(o.most, o.atOnce)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.atOnce -= ofKey
	}
}

func (o *outliving) have(params string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, started := range o.started {
		if started == params {
			n++
		}
	}
	return n
}

// A handler may run on when its job is final: it has completed the job in a transaction of its own and sends a mail now, or the job was
// cancelled and it tidies up. The key is busy until the handler has ended, whatever becomes of the lease meanwhile.
func TestAKeyIsBusyAsLongAsItsHandlerRunsHoweverTheLeaseMoves(t *testing.T) {
	t.Parallel()
	limits := map[string]queue_job.Config{"MaxPerKey": {MaxPerKey: 1}, "OrderedByKey": {OrderedByKey: true}}
	for _, move := range []string{"HandOver", "Stop", "SetShards", "Drain"} {
		for _, final := range []string{"completed", "cancelled", "deleted"} {
			for limit, cfg := range limits {
				if move != "HandOver" && (final == "deleted" || limit == "OrderedByKey") {
					continue // the same way
				}
				t.Run(fmt.Sprintf("%s, %s, %s", move, final, limit), func(t *testing.T) {
					t.Parallel()
					dbtest.Each(t, func(t *testing.T, d dbtest.Database) { keyOutlives(t, d, move, final, cfg) })
				})
			}
		}
	}
}

func keyOutlives(t *testing.T, d dbtest.Database, move, final string, cfg queue_job.Config) {
	migrate(t, d)
	jobs := open(t, d.DB)
	o := &outliving{db: d.DB, final: final, jobs: jobs, outlive: make(chan struct{}), end: make(chan struct{})}
	cfg.LockSecond, cfg.WorkerPoolCapacity, cfg.HandleJobFunc = 60, 4, o.handle // whose lease is lost loses its keys
	one := start(t, d.DB, cfg)
	end := sync.OnceFunc(func() { close(o.end) })
	t.Cleanup(end)
	addJob := func(key, params string) (id uint64) {
		t.Helper()
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, Key: key, JobParams: params})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := addJob("a", "first")
	<-o.outlive
	if final == "deleted" {
		addJob("b", "newest") // which nobody may delete
		if n, err := jobs.DeleteJobs(t.Context(), d.DB, queue_job.ID(first)); err != nil || n != 1 {
			t.Fatalf("%d were deleted, %v", n, err)
		}
	}
	stopped := moveLease(t, d, jobs, one, cfg, move)
	addJob("a", "second")
	for n := range 8 { // behind it, on each shard; whoever starts them has seen it
		addJob(fmt.Sprint("other", n%4), "other")
		await(t, func() string { return "an other job does not start" }, func() bool { return o.have("other") == n+1 })
	}
	if n := o.have("second"); n > 0 {
		t.Errorf("the key's next job has started, and its first handler runs")
	}
	end()
	await(t, func() string { return "the key's next job does not start" }, func() bool { return o.have("second") == 1 })
	if o.most > 1 {
		t.Errorf("%d handlers of the key at a time", o.most)
	}
	<-stopped
	awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_now_tab WHERE lock_name LIKE 'rest-%'")
}

// moveLease has the lease of the first type go elsewhere while a handler runs under it: to another instance that it starts, or to another line of
// the same one. What it returns is closed when nothing of the move goes on any more.
func moveLease(
	t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, one *persistent_queue.Runner, cfg queue_job.Config, move string,
) (over chan struct{}) {
	t.Helper()
	holder := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" }).holderOf(1)
	if move != "Replace" {
		start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 })
	}
	over = make(chan struct{})
	if move == "Stop" {
		go func() { defer close(over); stop(t, one) }()
	} else {
		close(over)
	}
	var err error
	switch move {
	case "HandOver":
		err = jobs.HandOver(t.Context(), d.DB, "job-1")
	case "Drain":
		err = jobs.Drain(t.Context(), d.DB, holder, time.Hour)
	case "SetShards":
		err = jobs.SetShards(t.Context(), d.DB, 1, 2)
	case "Replace":
		cfg.ServiceName, cfg.JobType, cfg.Db, cfg.WorkerPoolCapacity = "test", 1, d.DB, cfg.WorkerPoolCapacity+1
		err = one.Replace(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitFleet(t, jobs, d.DB, func(f fleet) bool {
		held, elsewhere := 0, move == "Replace"
		for _, l := range f.leases {
			if l.JobType == 1 && l.Instance != "" {
				held++
				elsewhere = elsewhere || l.Instance != holder
			}
		}
		return elsewhere && (move != "SetShards" || held == 2)
	})
	return over
}

// A batch has a thousand jobs. A column of MySQL and MariaDB has room for some 12,000 jobs and keys, and if all ids are even, as where
// auto_increment_increment is 2, those that are written in two parts may all fall into one.
func TestALeaseWithManyBatchesMovesAtOnceAndItsNextHolderKnowsAllTheirJobsAndKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		const n, batch = 9000, 1000
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		for from := 0; from < n; from += batch {
			var rows []string
			for i := range batch {
				rows = append(rows, fmt.Sprintf("(%d, '{}', 1, 0, 1, 1, 1, 'k%d')", 2*(1+from+i), from+i))
			}
			execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time, job_key) VALUES "+strings.Join(rows, ", "))
		}
		var running atomic.Int64
		end := make(chan struct{})
		cfg := queue_job.Config{LockSecond: 60, BatchSize: batch, MaxPerKey: 1,
			HandleBatchFunc: func(_ context.Context, list []*queue_job.Job) error {
				running.Add(int64(len(list)))
				<-end
				return nil
			}}
		one := start(t, d.DB, cfg)
		t.Cleanup(sync.OnceFunc(func() { close(end) }))
		await(t, func() string { return fmt.Sprint(running.Load(), " jobs run") }, func() bool { return running.Load() == n })
		began := time.Now()
		moveLease(t, d, jobs, one, cfg, "HandOver")
		if took := time.Since(began); took > 4*time.Second*slack {
			t.Errorf("the lease has moved after %v: it was given away untold", took)
		}
		rests := column[string](t, d.DB, "SELECT lock_name FROM shedlock_tab WHERE lock_name LIKE 'rest-%'")
		told, err := st.RestRuns(t.Context(), rests)
		if err != nil || len(rests) != 1 || len(told) != 1 {
			t.Fatal(rests, len(told), err)
		}
		keys := 0
		for _, n := range told[rests[0]].Keys {
			keys += n
		}
		if jobs := len(told[rests[0]].Jobs); jobs != n || keys != n {
			t.Errorf("%d jobs are told, and %d keys", jobs, keys)
		}
	})
}
