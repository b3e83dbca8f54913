package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What befell a job stands on its page in the order of time, for no statement more than before.
func TestTheConsoleTellsTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var recovers atomic.Bool
		jobs := open(t, d.DB)
		start(t, d.DB, queue_job.Config{ServiceName: "shop", NeedRetry: true, MaxRetries: 3, WaitTime: time.Hour, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			_, err := queue_job.Step(ctx, job, "charge <b>", func(context.Context) (int, error) { return 1, nil })
			if !recovers.Load() {
				err = errors.Join(err, errors.New("no route to <b>host</b>"))
			}
			return err
		}})
		id := addOne(t, jobs, d.DB).Id
		addOne(t, jobs, d.DB, inAnHour()) // of which nothing is told on the page of the first
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 4")
		var sent atomic.Int64
		actor := console.WithActor(func(*http.Request) string { return "mary" })
		b := browse(t, console.Handler(open(t, tallied{d.DB, &sent}), actor))
		path := fmt.Sprint("/jobs/", id)
		tells := func(want ...string) {
			t.Helper()
			bestOfThree(t, func() error {
				sent.Store(0)
				page := b.get(path, http.StatusOK)
				if n := sent.Load(); n > 5 {
					return fmt.Errorf("%d statements", n)
				}
				for _, line := range want {
					if !regexp.MustCompile(`(?s)<section class="card timeline">` + line).MatchString(page) {
						return fmt.Errorf("%q is not in\n%s", line, page)
					}
				}
				return nil
			})
		}
		run := `.*<strong>Run 1</strong> <span class="status retry">retry</span> <span class="of">took [^<]+ on shop@\S+, .* after it was added</span> <q>no route to &lt;b&gt;host&lt;/b&gt;</q>`
		tells(`.*<strong>Step</strong> <span class="of">recorded by run 1</span> <q>charge &lt;b&gt;</q>`,
			`.*<strong>Added</strong> <span class="of">by whom is not kept</span>`+run+`.*<strong>Next run</strong> <span class="of">in \S+ \S+</span>.*<strong>Retries</strong> .* it fails for good after retry 3, at about`)
		recovers.Store(true)
		for _, earlier := range []string{ // what people did has its second
			"async_job_tab SET create_time = create_time - 60", "async_job_log_tab SET started = started - 60000, finished = finished - 60000",
			"async_job_step_tab SET created = created - 60, ended_at = ended_at - 60000",
		} {
			execute(t, d.DB, "UPDATE "+earlier)
		}
		b.send(path+"/run-now", url.Values{"why": {"<b>the bank</b> is open"}}, http.StatusOK)
		awaitNumber(t, d.DB, 1, succeeded)
		tells(run + `.*<strong>reschedule</strong> <span class="of">by mary</span> <q>&lt;b&gt;the bank&lt;/b&gt; is open</q>` +
			`.*<strong>Run 2</strong> <span class="status completed">completed</span> <span class="of">ended[^<]* after run 1 had ended; when it began is not kept of a run that succeeds</span>`)
		await(t, func() string { return "who had the job last is not told" }, func() bool {
			execute(t, d.DB, "UPDATE async_job_lease_log_tab SET holder = 'shop@elsewhere/7#aaaaaaaaaaaa.1'") // the holder writes it within seconds
			return regexp.MustCompile(`ended on shop@elsewhere/7, `).MatchString(b.get(path, http.StatusOK))
		})
	})
}
