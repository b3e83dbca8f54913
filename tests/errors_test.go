package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The log has no index by time, and its last rows are of the newest jobs. So a type that works on old ones is not among them.
func TestTheErrorOfAnOldBacklogIsTheFirstOnThePageWithinAMinute(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		const old, young = 1000, 600
		add := func(jobType int32, n int) {
			models := make([]queue_job.AddModelJob, n)
			for i := range models {
				models[i] = queue_job.AddModelJob{JobType: jobType, JobParams: i}
			}
			if _, err := jobs.AddMany(t.Context(), d.DB, models); err != nil {
				t.Fatal(err)
			}
		}
		add(7, old)
		add(8, young)
		start(t, d.DB,
			queue_job.Config{JobType: 7, ServiceName: "partner", NeedRetry: true, MaxRetries: 1, WaitTime: time.Second, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				return fmt.Errorf("order %s is gone", job.JobParams)
			}},
			queue_job.Config{JobType: 8, ServiceName: "mail", HandleJobFunc: func(context.Context, *queue_job.Job) error { return queue_job.Fail(errors.New("no route")) }})
		awaitNumber(t, d.DB, old+young, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		var e *faces.Errors
		awaitWithin(t, time.Minute, func() string { return fmt.Sprintf("the errors are %+v", e) }, func() bool {
			var err error
			if e, err = faces.LatestErrors(t.Context(), jobs, d.DB, 500); err != nil {
				t.Fatal(err)
			}
			return e.Runs == 2*old+young
		})
		if g := e.Groups; len(g) != 2 || g[0].JobType != 7 || g[0].Runs != 2*old || g[0].Failed != old || g[0].TypeName != "partner" || g[1].Runs != young || g[1].Failed != young || e.All {
			t.Errorf("%+v", e)
		}
		page := browse(t, console.Handler(jobs)).get("/errors", http.StatusOK)
		if first, second := strings.Index(page, ">partner</a>"), strings.Index(page, ">mail</a>"); first < 0 || second < first || !strings.Contains(page, "2600 runs did not succeed.") {
			t.Error(page)
		}
	})
}
