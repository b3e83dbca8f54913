package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A page of a job has its steps, sleeps and signals, at no more than five statements, whatever the job does.
func TestTheConsoleShowsTheStepsOfAJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		id := runJob(t, d, func(ctx context.Context, job *queue_job.Job) error {
			_, err := queue_job.Step(ctx, job, "charge <b>", func(context.Context) (string, error) { return "secret", nil })
			if err == nil {
				_, _, err = queue_job.Await[string](ctx, job, "approval", time.Hour)
			}
			if err == nil {
				_, _, err = queue_job.Await[string](ctx, job, "hint", 0)
			}
			if err == nil {
				err = job.Sleep(ctx, "nap", time.Hour)
			}
			if err == nil {
				err = queue_job.Fail(errors.New("given up"))
			}
			return err
		})
		var sent atomic.Int64
		b := browse(t, console.Handler(open(t, tallied{d.DB, &sent})))
		path := fmt.Sprint("/jobs/", id)
		shows := func(want ...string) {
			t.Helper()
			bestOfThree(t, func() error {
				sent.Store(0)
				page := b.get(path, http.StatusOK)
				if n := sent.Load(); n > 5 {
					return fmt.Errorf("%d statements", n)
				}
				for _, row := range want {
					if !regexp.MustCompile(row).MatchString(page) {
						return fmt.Errorf("%q is missing in\n%s", row, page)
					}
				}
				if strings.Contains(page, "secret") || strings.Contains(page, "<b>") {
					return fmt.Errorf("a value, or markup:\n%s", page)
				}
				return nil
			})
		}
		const clock = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
		charged := `charge &lt;b&gt;</th><td>step</td><td class="number">1</td><td>` + clock + `</td><td class="number">8 bytes</td>`
		awaitNumber(t, d.DB, 1, itWaits)
		shows(charged, `approval</th><td>waits for this signal until `+clock+` UTC</td><td class="number">1</td><td></td>`)
		sendSignal(t, jobs, d.DB, id, "yes")
		awaitNumber(t, d.DB, 1, itWaits+" AND attempts = 2")
		shows(charged, `approval</th><td>signal</td><td class="number">1</td><td>`+clock+`</td><td class="number">5 bytes</td>`,
			`hint</th><td>signal that has not come until `+clock, `nap</th><td>sleep until `+clock)
		execute(t, d.DB, "UPDATE async_job_step_tab SET until_at = 5 WHERE kind = 1")
		changed(t, 1)(jobs.Reschedule(t.Context(), d.DB, queue_job.ID(id), time.Now()))
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		shows(charged, `nap</th><td>sleep until 1970-01-01`, "given up")
	})
}
