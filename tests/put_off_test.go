package tests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A deferral moves the time at which a job is due. For those who look, it has been late since it was due first.
func TestJobsThatTheirHandlerPutsOffAreLateSinceTheyFirstFellDue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		const many = 120
		models := make([]queue_job.AddModelJob, many)
		for i := range models {
			models[i] = queue_job.AddModelJob{JobType: 7, JobParams: fmt.Sprintf("http://printer.example/%d", i)}
		}
		added, err := jobs.AddMany(t.Context(), d.DB, models)
		if err != nil {
			t.Fatal(err)
		}
		age(t, d, 20*time.Second, "1 = 1") // Check tells of them when they are late for 30 s
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		r := start(t, d.DB, queue_job.Config{JobType: 7, ServiceName: "print", HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if strings.HasSuffix(job.JobParams, `/0"`) {
				return nil
			}
			return &queue_job.Outcome{Status: queue_job.JobStatusContinue, Wait: 5 * time.Second, Deferred: true, Because: "http://printer.example is off", Until: until}
		}})
		var h *operate.Health
		awaitWithin(t, time.Minute, func() string { return fmt.Sprintf("the findings are %+v", h) }, func() bool {
			if h, err = operate.Check(t.Context(), jobs, d.DB, time.Minute); err != nil {
				t.Fatal(err)
			}
			return len(h.Findings) == 1 && h.Findings[0].Kind == "put off"
		})
		says := func(text string, wants ...string) {
			t.Helper()
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("there is no %q in\n%s", want, text)
				}
			}
		}
		f := h.Findings[0]
		if f.Kind != "put off" || f.Severity != operate.Warning || *f.JobType != 7 {
			t.Errorf("%+v", f)
		}
		cause := "http://printer.example is off, until " + until.UTC().Format(time.TimeOnly) + " UTC"
		says(f.Text, fmt.Sprintf("%d jobs are put off by its handler, the first of them for 3", many-1), cause+fmt.Sprintf(" (%d jobs)", many-1))
		if state := r.Types()[0]; state.PutOff != many-1 || state.PutOffFor < 25*time.Second || state.PutOffFor > time.Minute*slack {
			t.Errorf("the metrics are told of %d that are put off, the first for %v", state.PutOff, state.PutOffFor)
		}
		page := browse(t, console.Handler(jobs))
		says(page.get("/", http.StatusOK), "One thing should be looked at.", "119+ put off", "(1) Overview")
		e, err := operate.Explain(t.Context(), jobs, d.DB, added[5].Id)
		if err != nil {
			t.Fatal(err)
		}
		if e.Reasons[0].Kind == operate.NotDue { // else it runs just now
			says(e.Reasons[0].Text, "Its handler has put it off", "times since it was added", "It waits for this: "+cause+"; 118 others wait for it.")
		}
		stop(t, r) // then it writes its last minute
		awaitWithin(t, 90*time.Second, func() string { return "the run that succeeded is not in the statistics" }, func() bool {
			periods, err := operate.History(t.Context(), jobs, d.DB, 7, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			started, ended := int64(0), int64(0)
			for i := range periods {
				started, ended = started+periods[i].Started(), ended+periods[i].Ended()
			}
			if ended > 1 || started > many { // a run that is put off in the next minute has started in this
				t.Fatalf("%d runs have started and %d have ended, but all but one were put off", started, ended)
			}
			return ended == 1
		})
	})
}
