package tests

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func linesOf(t *testing.T, jobs *queue_job.Jobs, d dbtest.Database) []queue_job.Line {
	t.Helper()
	lines, err := jobs.Lines(t.Context(), d.DB)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestWhatWaitsInMemoryAndWhatRunsStandsInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var failed atomic.Bool
		goOn := make(chan struct{})
		cfg := queue_job.Config{WorkerPoolCapacity: 2, MaxPerKey: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if failed.CompareAndSwap(false, true) {
				return queue_job.Fail(context.Canceled)
			}
			<-goOn
			return nil
		}}
		// One fails, two run, two wait for a worker, and two for the slot of their key.
		add := func(key string, n int) {
			t.Helper()
			for range n {
				if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, Key: key}); err != nil {
					t.Fatal(err)
				}
			}
		}
		add("", 1)
		r := start(t, d.DB, cfg)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		add("a", 3)
		add("", 3)
		since := time.Now()
		var line queue_job.Line
		await(t, func() string { return "nothing is told of two that run" }, func() bool {
			lines := linesOf(t, jobs, d)
			if len(lines) > 0 {
				line = lines[0]
			}
			return len(lines) == 1 && line.Running == 2 && line.Waiting+line.Marked == 4
		})
		about(t, "when that was told", line.Told, time.Now())
		if line.JobType != 1 || line.Lease != "job-1" || line.Instance == "" || line.Workers != 2 || line.Parked != 2 || line.More || line.Runs[queue_job.JobStatusFailed] != 1 {
			t.Errorf("%+v", line)
		}
		if fleet, err := jobs.Fleet(t.Context(), d.DB); err != nil || len(fleet.Types) != 1 || fleet.Types[0].Name != "test" || len(fleet.Leases) != 1 || fleet.Leases[0].TypeName != "test" ||
			fleet.Leases[0].Instance != line.Instance || len(fleet.Lines) != 1 || fleet.Lines[0].Instance != line.Instance || len(fleet.Instances) != 1 || fleet.Instances[0].Id != line.Instance {
			t.Errorf("the fleet at once: %v, %+v", err, fleet)
		}
		if line.Overdue < 0 || line.Overdue > time.Since(since)+2*time.Second {
			t.Errorf("the oldest has been due for %v", line.Overdue)
		}
		close(goOn)
		awaitNumber(t, d.DB, 6, succeeded)
		stop(t, r)
		if lines := linesOf(t, jobs, d); len(lines) != 1 || lines[0].Instance != "" {
			t.Errorf("when nobody holds the type: %+v", lines)
		}
	})
}

func TestALineIsNotOverwrittenByAnEarlierHolderAndIsGoneWhenItIsOld(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		st := storeOf(t, d.DB)
		tell := func(lines ...store.Line) {
			t.Helper()
			if err := st.WriteLines(t.Context(), lines); err != nil {
				t.Fatal(err)
			}
		}
		line := func(lease string, term int64, running int) store.Line {
			return store.Line{Lease: lease, Term: term, LineState: store.LineState{Running: running, Workers: 5}}
		}
		tell(line("job-1", 7, 1), line("job-2/3", 7, 2))
		tell(line("job-1", 6, 3), line("job-2/3", 8, 4)) // the first comes late
		tell(line("job-2/3", 8, 5))
		running := func() (n []int) {
			t.Helper()
			lines, err := st.Lines(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				n = append(n, l.Running)
			}
			return n
		}
		if got := running(); !slices.Equal(got, []int{1, 5}) {
			t.Errorf("%v run, want 1 and 5", got)
		}
		execute(t, d.DB, "UPDATE async_job_now_tab SET told_at = 1000 WHERE lock_name = 'job-1'")
		if err := st.DropLines(t.Context(), 1001); err != nil {
			t.Fatal(err)
		}
		if got := running(); !slices.Equal(got, []int{5}) {
			t.Errorf("%v run, want 5", got)
		}
	})
}
