package tests

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestWhatIsKeptLongerThanItShouldBeIsSeen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		kept := func() *faces.Kept {
			t.Helper()
			fleet, err := jobs.Fleet(t.Context(), d.DB)
			if err != nil {
				t.Fatal(err)
			}
			k, err := faces.KeptOf(t.Context(), jobs, d.DB, operate.HealthOf(fleet, nil).Types)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		says := func(rows int64, text string) {
			t.Helper()
			k := kept()
			if verdict, _ := k.Verdict(); k.Rows != rows || !strings.Contains(verdict, text) {
				t.Errorf("up to %d rows, %q; want %d, %q", k.Rows, verdict, rows, text)
			}
		}
		says(0, "Nobody deletes")
		if k := kept(); !k.Oldest.IsZero() || len(k.Types) > 0 {
			t.Errorf("an empty table keeps %+v", k)
		}

		handler := func(context.Context, *queue_job.Job) error { return nil }
		keep := queue_job.Retention{Done: time.Hour, Failed: 30 * 24 * time.Hour}
		r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithRetention(keep)}, d.DB, queue_job.Config{JobType: 1, HandleJobFunc: handler})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(t, d.DB, queue_job.Config{JobType: 2, HandleJobFunc: handler})
		await(t, func() string { return "both types are told" }, func() bool {
			k := kept()
			return len(k.Types) == 2 && !k.Types[0].Known.Told.IsZero() && !k.Types[1].Known.Told.IsZero()
		})
		stop(t, r)
		if k := kept(); k.Types[0].Known.Retention != keep || k.Types[1].Known.Retention != (queue_job.Retention{}) {
			t.Errorf("kept for %v and %v, want %v and for ever", k.Types[0].Known.Retention, k.Types[1].Known.Retention, keep)
		}

		inAnHour := uint32(time.Now().Add(time.Hour).Unix()) // type 2 runs
		add(t, d.DB, 4, inAnHour)
		addType(t, d.DB, 2, 1, inAnHour)
		ids := idsWhere(t, d, "1 = 1")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		says(5, "No job has outlived")
		age(t, d, 3*24*time.Hour, "job_type = 2")
		says(5, "No job has outlived") // they are kept for ever
		age(t, d, 3*time.Hour, "job_type = 1")
		says(5, "Jobs have outlived their time, the first of them by 2h")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2 WHERE job_type = 1")
		says(5, "No job has outlived") // the failed are kept for a month
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1 WHERE job_type = 1")
		age(t, d, 2*24*time.Hour, "job_type = 1")
		says(5, "Jobs of 1 type have outlived")
		if k := kept(); k.Types[0].Overdue.Round(time.Minute) != 50*time.Hour || k.Types[1].Overdue != 0 || time.Since(k.Oldest).Round(time.Hour) != 51*time.Hour {
			t.Errorf("overdue for %v and %v, the oldest is of %v", k.Types[0].Overdue, k.Types[1].Overdue, k.Oldest)
		}
		page := browse(t, console.Handler(jobs)).get("/retention", http.StatusOK)
		for _, want := range []string{"Jobs of 1 type have outlived", "5 rows at most", "<td>1h 0m</td><td>no limit</td><td>30d 0h</td>", "<td>2d 2h</td>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not in %s", want, page)
			}
		}

		if n, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(-time.Hour), JobTypes: []int32{1}}); err != nil || n != 4 {
			t.Fatal(n, err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_type = 1")
		says(1, "No job has outlived") // the row with the largest id stays
		if left := idsWhere(t, d, "1 = 1"); len(left) != 1 || left[0] != ids[4] {
			t.Errorf("%d are left of %d", left, ids)
		}
	})
}
