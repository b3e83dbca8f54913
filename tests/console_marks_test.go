package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// freshly asks a console that has nothing in its memory for a page.
func freshly(t *testing.T, d dbtest.Database, path string) string {
	t.Helper()
	return browse(t, console.Handler(open(t, d.DB))).get(path, http.StatusOK)
}

func TestADeployThatSomebodyHasMarkedHasItsVersionInTheCharts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		_, now, err := faces.Newest(t.Context(), jobs, d.DB)
		if err != nil {
			t.Fatal(err)
		}
		remember(t, d, now)
		ci := queue_job.WithActor(t.Context(), "ci <b>", "faster")
		for _, bad := range []string{"", " ", strings.Repeat("v", 65), "v1\nv2"} {
			if err := faces.MarkDeploy(ci, jobs, d.DB, bad); err == nil {
				t.Errorf("version %q is taken", bad)
			}
		}
		if err := faces.MarkDeploy(t.Context(), jobs, d.DB, "v1"); err == nil {
			t.Error("nobody knows who has deployed it")
		}
		for version, before := range map[string]time.Duration{"v1.3 <b>": 40 * time.Minute, "v1.4": 20*time.Minute - 30*time.Second} {
			if err := faces.MarkDeploy(ci, jobs, d.DB, version); err != nil {
				t.Fatal(err)
			}
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_act_tab SET acted_at = %d WHERE verb = 'deploy' AND acted_at >= %d", now.Add(-before).Unix(), now.Unix()))
		}
		var got series
		if err := json.Unmarshal([]byte(freshly(t, d, "/data/series?last=1h")), &got); err != nil || len(got.Deploys) != 2 {
			t.Fatalf("%+v, %v", got.Deploys, err)
		}
		if first, last := got.Deploys[0], got.Deploys[1]; first.Version != "v1.3 <b>" || len(first.Hosts) != 0 || last.Version != "v1.4" || fmt.Sprint(last.Hosts) != "[new/2]" {
			t.Errorf("%+v", got.Deploys)
		}
		page := freshly(t, d, "/")
		for _, text := range []string{"▼ v1.3 &lt;b&gt;<", "▼ v1.4<", "UTC: v1.4, as ci &lt;b&gt; said; 1 instance: new/2<"} {
			if !strings.Contains(page, text) {
				t.Errorf("%q is not in\n%s", text, page)
			}
		}
		if audit := freshly(t, d, "/audit"); !regexp.MustCompile(`<td>ci &lt;b&gt;</td><td>deploy</td>\s*<td></td>\s*<td class="text">faster</td>`).MatchString(audit) {
			t.Errorf("the audit log has no deploy:\n%s", audit)
		}
	})
}

func TestAnErrorThatIsMutedIsCountedAndStandsBehindTheOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		_, now, err := faces.Newest(t.Context(), jobs, d.DB)
		if err != nil {
			t.Fatal(err)
		}
		remember(t, d, now)
		const text = "no route to 7" // type 7 and type 8 have it
		id := faces.ErrorID(7, text)
		at := "/errors/" + id
		seven := func(_ *http.Request, _ console.Verb, jobType int32) bool { return jobType != 8 }
		b := browse(t, console.Handler(jobs, console.WithPermit(seven), console.WithActor(func(*http.Request) string { return "mary" })))
		form := func(changed ...string) url.Values {
			f := url.Values{"type": {"7"}, "text": {text}, "for": {"2d"}, "why": {"the <b>bank</b> is closed"}}
			for i := 0; i < len(changed); i += 2 {
				f.Set(changed[i], changed[i+1])
			}
			return f
		}
		runs := regexp.MustCompile(`<dt>Runs that ended with it</dt><dd>\d+`)
		counted := runs.FindString(b.get(at, http.StatusOK))
		for _, bad := range []url.Values{form("for", ""), form("for", "91d"), form("for", "0s"), form("for", "soon"), form("text", "another"), form("type", "seven")} {
			b.send(at+"/mute", bad, http.StatusBadRequest)
		}
		b.send("/errors/"+faces.ErrorID(8, text)+"/mute", form("type", "8"), http.StatusForbidden)
		b.send(at+"/explode", form(), http.StatusNotFound)
		page := b.send(at+"/mute?last=6h", form(), http.StatusOK)
		muted := now.Add(48 * time.Hour).UTC().Format("2006-01-02")
		for _, want := range []string{"The error is muted", "<dd>until " + muted, "by mary: the &lt;b&gt;bank&lt;/b&gt; is closed", "It is counted all the same.", "Unmute this error"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not in\n%s", want, page)
			}
		}
		if again := runs.FindString(b.get(at, http.StatusOK)); counted == "" || again != counted {
			t.Errorf("it was counted as %q, and is by now as %q", counted, again)
		}
		for _, jobType := range []int32{7, 8} {
			addType(t, d.DB, jobType, 1, 0)
		}
		execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) SELECT id, 1, 1, 'failed', '%s', %d, %[2]d, 'shop@host/1' FROM async_job_tab", text, now.UnixMilli()))
		other := faces.ErrorID(8, text)
		for _, list := range []string{"/", "/errors"} {
			page := freshly(t, d, list)
			first, last, pill := strings.Index(page, other), strings.Index(page, id), strings.Index(page, "muted until "+muted)
			if first < 0 || last < first || pill < last || strings.Count(page, "muted until") != 1 {
				t.Errorf("%s: the other error is at %d, the muted one at %d, and that it is muted at %d", list, first, last, pill)
			}
		}
		audit := freshly(t, d, "/audit")
		for _, want := range []string{"<td>mary</td><td>mute</td>", "type 7", "the &lt;b&gt;bank&lt;/b&gt; is closed", "no route to 7"} {
			if !strings.Contains(audit, want) {
				t.Errorf("%q is not in\n%s", want, audit)
			}
		}
		if page := b.send(at+"/unmute", form(), http.StatusOK); !strings.Contains(page, "The error is news again") || !strings.Contains(page, "Mute this error") {
			t.Errorf("it is muted still:\n%s", page)
		}
		if err := faces.MuteError(queue_job.WithActor(t.Context(), "mary", ""), jobs, d.DB, 7, text, time.Second); err != nil {
			t.Fatal(err)
		}
		await(t, func() string { return "the mute does not end" }, func() bool { return !strings.Contains(freshly(t, d, at), "Unmute") })
	})
}
