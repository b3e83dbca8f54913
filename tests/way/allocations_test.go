package way

import (
	"context"
	"database/sql"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// most is how often a plain job may allocate memory on its way, the driver's part included. Whoever raises it says in the commit what for.
// One allocation more, of a job that escapes to the heap for a feature that it does not use, is a fifth more.
const most = 5.0

func TestAPlainJobAllocatesNoMoreThanItDid(t *testing.T) {
	const n = 40_000
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "jobs.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	jobs, err := queue_job.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.AddMany(t.Context(), db, plainJobs(n)); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	var before, after runtime.MemStats
	done := make(chan struct{})
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "plain", JobType: 7, Db: db,
		HandleJobFunc: func(context.Context, *queue_job.Job) error {
			switch ran.Add(1) {
			case n / 4: // what a start brings with it is over
				runtime.ReadMemStats(&before)
			case n / 4 * 3:
				runtime.ReadMemStats(&after)
				close(done)
			}
			return nil
		},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := runner.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	perJob := float64(after.Mallocs-before.Mallocs) / (n / 2)
	t.Logf("a plain job allocates %.2f times", perJob)
	if perJob > most {
		t.Errorf("a plain job allocates %.2f times, and may %.1f times", perJob, most)
	}
}

func plainJobs(n int) []queue_job.AddModelJob {
	list := make([]queue_job.AddModelJob, n)
	for i := range list {
		list[i] = queue_job.AddModelJob{JobType: 7, JobParams: i}
	}
	return list
}
