package tests

import (
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

// has sees that a page has some texts.
func (b browser) has(path string, parts ...string) {
	b.t.Helper()
	page := b.get(path, http.StatusOK)
	for _, part := range parts {
		if !strings.Contains(page, part) {
			b.t.Errorf("%s has no %q: %s", path, part, page)
		}
	}
}

func TestTheConsoleShowsAndSteersFlows(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		b := browse(t, console.Handler(jobs))
		b.has("/flows", "There is no such flow.")
		b.get("/flows/1", http.StatusNotFound)
		b.get("/flows/x", http.StatusNotFound)
		b.get("/flows?state=late", http.StatusBadRequest)
		b.get("/flows?before=x", http.StatusBadRequest)
		var ran parts
		ran.fail("pack", true)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		f := queue_job.NewFlow("order", queue_job.FlowKey("4711"))
		f.Job("pay", part("pay"))
		f.Job("pack", part("pack")).After("pay")
		f.Job("invoice", part("invoice")).After("pay")
		f.Job("ship", part("ship")).After("invoice", "pack")
		f.Job("tell support", part("tell support")).AfterEnd("pack")
		id := addFlow(t, jobs, d.DB, f)
		at := fmt.Sprint("/flows/", id)
		await(t, func() string { return fmt.Sprint(ran.all()) }, func() bool {
			return strings.Contains(b.get(at, http.StatusOK), "It is stuck") && len(ran.all()) == 3
		})
		page := b.get(at, http.StatusOK)
		for _, part := range []string{"3 of 5 jobs", `&#34;pack&#34; is failed. Run 1: no luck (failed). Before it has succeeded, this is not added: &#34;ship&#34;.`,
			"Retry the flow", "Cancel the flow", `<svg class="graph"`, `class="line done"`, `class="line end"`, `class="to come"`, `<span class="status to come">to come</span>`} {
			if !strings.Contains(page, part) {
				t.Errorf("the page of a stuck flow has no %q: %s", part, page)
			}
		}
		pack := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "pack").JobId
		b.has(fmt.Sprint("/jobs/", pack), fmt.Sprintf(`<a href="../flows/%d">%d</a>`, id, id), "1 job that comes after it is not added before it has succeeded.")
		b.has("/flows?state=stuck", fmt.Sprintf(`href="./flows/%d"`, id), ">stuck<", "3 of 5")
		ran.fail("pack", false)
		if page := b.press(at+"/retry", http.StatusOK); !strings.Contains(page, "The flow goes on.") {
			t.Error(page)
		}
		awaitNumber(t, d.DB, 1, flowsDone)
		b.has(at, "It is done. 5 of 5 jobs have succeeded.")
		b.has("/flows?key=4711&kind=order", ">done<")
		for _, do := range []string{"retry", "cancel"} {
			if page := b.press(at+"/"+do, http.StatusOK); !strings.Contains(page, "Nothing was changed") {
				t.Error(page)
			}
		}
		b.press(at+"/undo-it-all", http.StatusNotFound)
		later := queue_job.NewFlow("order", queue_job.FlowKey("4712"))
		later.Job("later", part("later").With(queue_job.After(time.Hour)))
		second := addFlow(t, jobs, d.DB, later)
		at = fmt.Sprint("/flows/", second)
		if page := b.press(at+"/cancel", http.StatusOK); !strings.Contains(page, "The flow is cancelled") || !strings.Contains(page, "so no job of it is added any more") {
			t.Error(page)
		}
		addFlow(t, jobs, d.DB, later)
		if page := b.press(at+"/retry", http.StatusOK); !strings.Contains(page, "another flow of the kind with its key is open") {
			t.Error(page)
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Limit: 1})
		if err != nil || len(acts) != 1 || !strings.HasPrefix(acts[0].Actor, "console, ") {
			t.Errorf("%+v, %v", acts, err)
		}
		b.has("/audit", "retry flow", "cancel flow")
	})
}

func TestALargeFlowIsATableWithPagesAndNoPicture(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(450))
		for range 60 {
			addFlow(t, jobs, d.DB, chainOf("small", ""))
		}
		b := browse(t, console.Handler(jobs))
		at := fmt.Sprint("/flows/", id)
		page := b.get(at, http.StatusOK)
		if strings.Contains(page, `class="graph"`) || !strings.Contains(page, fmt.Sprintf(`href="../flows/%d?after=200"`, id)) || strings.Contains(page, "middle-200") {
			t.Error(page)
		}
		b.has(at+"?after=400", "middle-449", "last", "middle-0, middle-1, middle-2 and 447 more")
		b.has("/flows", fmt.Sprintf("before=%d", id+11), "Older flows")
		b.has(fmt.Sprint("/flows?before=", id+11), fmt.Sprintf(`flows/%d"`, id))
	})
}
