package tests

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func schedulePage(name string) string { return "/schedule?name=" + url.QueryEscape(name) }

// shows fails unless a page has all of these texts.
func shows(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("there is no %q in\n%s", text, page)
		}
	}
}

func TestTheConsoleShowsAndSteersSchedulesThatAreRows(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		const name, evil = "t1/a night's & <b>report</b>?", `{"password":"open sesame","n":1}`
		put(t, jobs, d.DB, name, "CRON_TZ=Europe/Berlin 30 4 * * *", queue_job.AddModelJob{JobType: 7, JobParams: queue_job.JSON(evil), Meta: map[string]string{"tenant": "nine"}}, queue_job.NoOverlap(), queue_job.CatchUp(2))
		put(t, jobs, d.DB, "other", "@every 90s", queue_job.AddModelJob{JobType: 8})
		b := browse(t, console.Handler(jobs, console.WithActor(func(*http.Request) string { return "mary" })))
		list := b.get("/schedules", http.StatusOK)
		shows(t, list, `t1/a night&#39;s &amp; &lt;b&gt;report&lt;/b&gt;?</a>`, "<code>30 4 * * *</code>", "Europe/Berlin", "other", "@every 90s", "No job type has one.")
		if page := b.get("/schedules?prefix=t1", http.StatusOK); strings.Contains(page, "other") || !strings.Contains(page, "Europe/Berlin") {
			t.Errorf("the prefix finds %s", page)
		}
		page := b.get(schedulePage(name), http.StatusOK)
		zone, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		next, _ := jobs.NextTimes("CRON_TZ=Europe/Berlin 30 4 * * *", time.Now(), 5)
		for _, at := range next {
			shows(t, page, at.UTC().Format(time.DateTime))
			if at.In(zone).Format("15:04") != "04:30" {
				t.Errorf("%v is no time of it", at)
			}
		}
		shows(t, page, "the latest 2 of the times that pass", "a time passes without a job while", "nine", "none has come", "Pause the schedule", "Run it now", "Delete it for good")
		if strings.Contains(page, "open sesame") {
			t.Errorf("a secret is shown: %s", page)
		}
		do := func(verb string, want int) string {
			t.Helper()
			return b.send("/schedules/"+verb, url.Values{"name": {name}, "why": {"the bank is closed"}}, want)
		}
		shows(t, do("pause", http.StatusOK), "The schedule is paused", "none, while it is paused", "Resume the schedule")
		shows(t, do("pause", http.StatusOK), "Nothing was changed")
		shows(t, do("resume", http.StatusOK), "The schedule goes on", "Pause the schedule")
		shows(t, do("run", http.StatusOK), "was added, and is due now", "cron-t1/a night&#39;s")
		if is := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE params = ?", evil); is != 1 {
			t.Errorf("%d jobs were added", is)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		execute(t, d.DB, "UPDATE async_job_schedule_tab SET last_at = 1700000000, next_at = 1700000060, last_job = 1 WHERE name = ?", name)
		b = browse(t, console.Handler(jobs, console.WithActor(func(*http.Request) string { return "mary" })))
		shows(t, b.get("/schedules", http.StatusOK), "2023-11-14 22:14:20 passed without a job", "2023-11-14 22:13:20", `jobs/1">1</a> <span class="status failed">failed</span>`)
		shows(t, b.get(schedulePage(name), http.StatusOK), "ago without a job", `jobs/1">job 1</a> <span class="status failed">failed</span>`)
		do("drop", http.StatusNotFound)
		shows(t, do("delete", http.StatusOK), "The schedule is deleted", "other")
		do("delete", http.StatusNotFound)
		b.get(schedulePage(name), http.StatusNotFound)
		b.get("/schedule", http.StatusNotFound)
		acts := column[string](t, d.DB, "SELECT verb || ' ' || actor || ' ' || why FROM async_job_act_tab WHERE verb LIKE '%schedule' ORDER BY id")
		if got, want := strings.Join(acts, "; "), "pause schedule mary the bank is closed; resume schedule mary the bank is closed; run schedule mary the bank is closed; delete schedule mary the bank is closed"; got != want {
			t.Errorf("noted %q, want %q", got, want)
		}
	})
}

func TestWhoMayOnlyLookChangesNoScheduleAndSeesThoseOfTheirTypes(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		for i := range 2 * 60 {
			put(t, jobs, d.DB, fmt.Sprintf("n%03d", i), "@hourly", queue_job.AddModelJob{JobType: 7 + int32(i%2)})
		}
		b := browse(t, console.Handler(jobs, console.WithPermit(func(_ *http.Request, do console.Verb, jobType int32) bool {
			return do == console.See && jobType != 8
		})))
		seen, more := 0, "/schedules"
		for pages := 0; more != "" && pages < 5; pages++ {
			page := b.get(more, http.StatusOK)
			seen += strings.Count(page, `href="./schedule?name=n`)
			if strings.Contains(contentOf(page), `method="post"`) || strings.Contains(page, "n001") {
				t.Errorf("%s shows too much: %s", more, page)
			}
			_, rest, _ := strings.Cut(page, `href="./schedules?`)
			query, _, found := strings.Cut(rest, `">More`)
			if more = ""; found {
				more = "/schedules?" + strings.ReplaceAll(query, "&amp;", "&")
			}
		}
		if seen != 60 {
			t.Errorf("saw %d schedules, want 60", seen)
		}
		if page := b.get(schedulePage("n000"), http.StatusOK); strings.Contains(contentOf(page), `method="post"`) {
			t.Errorf("a schedule may be changed: %s", page)
		}
		b.get(schedulePage("n001"), http.StatusForbidden)
		for _, name := range []string{"n000", "n001"} {
			for _, do := range []string{"pause", "resume", "run", "delete"} {
				b.send("/schedules/"+do, url.Values{"name": {name}}, http.StatusForbidden)
			}
		}
		if n := number(t, d.DB, "SELECT (SELECT COUNT(*) FROM async_job_schedule_tab WHERE revision = 1 AND paused_at IS NULL) + (SELECT COUNT(*) FROM async_job_tab)"); n != 120 {
			t.Errorf("%d of 120 schedules are as they were", n)
		}
		for _, name := range []string{"n002", "n003"} {
			if paused, err := jobs.PauseSchedule(queue_job.WithActor(t.Context(), "mary", ""), d.DB, name); err != nil || !paused {
				t.Fatal(paused, err)
			}
		}
		if page := b.get("/audit", http.StatusOK); !strings.Contains(page, "n002") || strings.Contains(page, "n003") {
			t.Errorf("what people did: %s", page)
		}
	})
}

func TestWhatACodecHasEncodedOfAScheduleIsNeitherShownNorWrittenAsPlainText(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		codec, err := aesgcm.New(aesgcm.Key{ID: "a", Secret: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := queue_job.Open(d.DB, queue_job.WithCron(cron.Parse), queue_job.WithCodec(codec))
		if err != nil {
			t.Fatal(err)
		}
		put(t, jobs, d.DB, "nightly", "@daily", queue_job.AddModelJob{JobType: 7, JobParams: "sesame"})
		for what, c := range map[string]struct {
			jobs    *queue_job.Jobs
			options []console.Option
			runs    int
			shown   string
		}{
			"without the codec":         {openWithCron(t, d.DB), nil, http.StatusConflict, "encrypted, "},
			"with it":                   {jobs, nil, http.StatusOK, "encrypted, "},
			"with it, and shows values": {jobs, []console.Option{console.WithDecoded()}, http.StatusOK, "sesame"},
		} {
			b := browse(t, console.Handler(c.jobs, c.options...))
			page := b.get("/schedules", http.StatusOK) + b.get(schedulePage("nightly"), http.StatusOK) + b.send("/schedules/run", url.Values{"name": {"nightly"}}, c.runs)
			if !strings.Contains(page, c.shown) || strings.Contains(page, "sesame") != (c.shown == "sesame") {
				t.Errorf("%s: %s", what, page)
			}
		}
		rows := column[string](t, d.DB, "SELECT params FROM async_job_tab")
		for _, stored := range append(rows, column[string](t, d.DB, "SELECT params FROM async_job_schedule_tab")...) {
			if _, encoded := queue_job.EncodingOf(stored); !encoded || strings.Contains(stored, "sesame") {
				t.Errorf("stored as %q", stored)
			}
		}
		if len(rows) != 2 {
			t.Errorf("%d jobs were added, want 2", len(rows))
		}
	})
}
