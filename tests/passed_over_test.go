package tests

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// An instance had given the type away, still ran the first jobs of a long backlog, and died. The loader of the next holder has passed their
// rows by then, and its next round of the lane begins when the backlog is done.
func TestTheJobsOfADeadInstanceDoNotWaitForTheEndOfABacklogThatItsSuccessorWorksThrough(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const backlog, theirs, term = 5000, 5, 64
		migrate(t, d)
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, backlog, 0)
		first := number(t, d.DB, "SELECT MIN(id) FROM async_job_tab")
		execute(t, d.DB, "UPDATE async_job_tab SET term = ?, attempts = 1 WHERE id < ?", term, first+theirs)
		rest, owner := "rest-1-64", "test@elsewhere/1#aaaaaaaaaaaa.1"
		if err := st.MakeLeases(t.Context(), []string{rest}); err != nil {
			t.Fatal(err)
		}
		if err := st.MoveLease(t.Context(), rest, owner, term, 1, 3, theirs); err != nil { // which nobody renews
			t.Fatal(err)
		}
		began := make(chan uint64, backlog)
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 2 * theirs, QueueMaxSize: 20, LoadLimit: 20, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.Lost > 0 {
				began <- job.Id
			}
			time.Sleep(20 * time.Millisecond)
			return nil
		}})
		for range theirs {
			<-began
		}
		left := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 3, 4)")
		if t.Logf("they ran again when %d of %d jobs were left", left, backlog); left < backlog/4 {
			t.Error("they waited for the end of the backlog")
		}
	})
}

// Somebody changes jobs that an instance has in memory already. The mark of such a job finds another version of the row, and the loader has
// passed the row by then.
func TestJobsThatAreChangedWhileTheyWaitDoNotWaitForTheEndOfABacklog(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const backlog, changes = 5000, 20
		migrate(t, d)
		add(t, d.DB, backlog, 0)
		var (
			mu     sync.Mutex
			latest uint64
			begun  int
			left   = map[uint64]int{} // when a changed job began
		)
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 10, QueueMaxSize: 40, LoadLimit: 40, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			mu.Lock()
			latest = max(latest, job.Id)
			begun++
			if job.JobParams == `"changed"` {
				left[job.Id] = backlog - begun
			}
			mu.Unlock()
			time.Sleep(100 * time.Millisecond) // the job 15 ids on starts in 150 ms, so there is time to change it
			return nil
		}})
		jobs := open(t, d.DB)
		changed := map[uint64]bool{}
		for ahead := uint64(15); len(changed) < changes; ahead = ahead%90 + 15 { // how many are marked depends on the machine
			mu.Lock()
			next, tooMany := latest+ahead, begun > backlog/4
			mu.Unlock()
			if tooMany {
				t.Fatalf("only %d of %d jobs were changed", len(changed), changes)
			}
			n, err := jobs.SetParams(t.Context(), d.DB, queue_job.ID(next), "changed")
			if err == nil && n == 1 { // otherwise it is about to start
				changed[next] = true
			}
			time.Sleep(25 * time.Millisecond)
		}
		begins := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(left)
		}
		await(t, func() string { return "changed jobs have not begun" }, func() bool { return begins() == len(changed) })
		least := backlog
		for _, n := range left {
			least = min(least, n)
		}
		if t.Logf("%d changed jobs had begun when %d of %d jobs were left", len(changed), least, backlog); least < backlog/4 {
			t.Error("they waited for the end of the backlog")
		}
	})
}
