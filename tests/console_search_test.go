package tests

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

var rowOfAList = regexp.MustCompile(`<tr data-k="(\d+)">`)

// listed are the jobs on a page of the console, from its first row on.
func listed(t *testing.T, page string) (ids []uint64) {
	t.Helper()
	for _, row := range rowOfAList.FindAllStringSubmatch(page, -1) {
		id, err := strconv.ParseUint(row[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// searched is a database with jobs to be found, by names that a test gives them.
func searched(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) map[string]uint64 {
	t.Helper()
	add := func(jobType int32, params any, options ...queue_job.AddOption) uint64 {
		return addOne(t, jobs, d.DB, append(options, ofType(jobType), func(j *queue_job.AddModelJob) { j.JobParams = params })...).Id
	}
	order := func(customer string, sku int) map[string]any {
		return map[string]any{"Customer": customer, "password": "s3cret", "lines": []map[string]int{{"sku": sku}}}
	}
	ids := map[string]uint64{
		"refused": add(7, order("c-28", 47), queue_job.WithKey("order-81"), queue_job.Tags("eu", "urgent")),
		"failed":  add(7, order("c-2", 48), queue_job.WithKey("order-82"), queue_job.Tags("eu")),
		"later":   add(7, order("Müller & Söhne", 49), queue_job.WithKey("order-9"), inAnHour()),
		"mail":    add(8, "order-81", queue_job.WithKey("mail-1")),
		"plain":   add(8, nil),
	}
	ids["number"] = add(8, nil, queue_job.WithKey(fmt.Sprint(ids["plain"])))
	set := func(name string, status queue_job.JobStatus, attempts int) {
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = %d, attempts = %d WHERE id = %d", status, attempts, ids[name]))
	}
	set("refused", queue_job.JobStatusRetry, 5)
	set("failed", queue_job.JobStatusFailed, 3)
	for name, text := range map[string]string{"refused": "POST https://partner.example: Connection refused", "failed": "100% of the_disk is full"} {
		execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) "+
			"VALUES (%d, 1, 1, 'retry', '%s', 1, 2, 'a')", ids[name], text))
	}
	return ids
}

func TestTheConsoleFindsJobsByOneLanguageWithFiveStatementsAtMost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		handle := &recorded{DB: d.DB}
		jobs := open(t, handle)
		ids := searched(t, d, jobs)
		for text, names := range map[string][]string{
			"":                                 {"refused", "failed", "later", "mail", "plain", "number"},
			fmt.Sprint(ids["later"]):           {"later"},
			fmt.Sprint(ids["plain"]):           {"plain", "number"}, // an id, and a key
			"order-81":                         {"refused"},
			"order-8":                          {"refused", "failed"},
			"key:order-8*":                     {"refused", "failed"},
			"order-*":                          {"refused", "failed", "later"},
			"key:order-8":                      {},
			"ORDER-8*":                         {},
			"queue:8":                          {"mail", "plain", "number"},
			"queue:8 order-81":                 {},
			"state:failed,retrying":            {"refused", "failed"},
			"state:failed":                     {"failed"},
			"queue:7 state:scheduled":          {"later"},
			`error:"connection refused"`:       {"refused"},
			`error:CONNECTION queue:8`:         {},
			`error:"100% of the_disk"`:         {"failed"},
			`error:"100_ of"`:                  {},
			"params.Customer:c-28":             {"refused"},
			"params.Customer:c-2":              {"failed"},
			"params.lines.0.sku:49":            {"later"},
			`params.Customer:"Müller & Söhne"`: {"later"},
			"params.password:s3cret":           {}, // what is masked, a search does not tell
			"attempts:>3":                      {"refused"},
			"attempts:3":                       {"failed"},
			"attempts:<=3 queue:7":             {"failed", "later"},
			"tag:eu":                           {"refused", "failed"},
			"tag:urgent tag:eu":                {"refused"},
			"tag:e":                            {},
			"since:1h queue:7":                 {"refused", "failed", "later"},
			"due:..5m":                         {},
			"due:-30m.. queue:7":               {"later"},
			"tag:eu state:retrying attempts:>1 order-8*": {"refused"},
		} {
			handle.take()
			page := browse(t, console.Handler(jobs)).get("/jobs?q="+url.QueryEscape(text), http.StatusOK) // with nothing in its memory
			sent := len(handle.take())
			got, want := listed(t, page), []uint64{}
			for _, name := range names {
				want = append(want, ids[name])
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%q finds %v, want %v of %v\n%s", text, got, want, ids, page)
			}
			if sent > 5 {
				t.Errorf("%q takes %d statements", text, sent)
			}
		}
	})
}

func TestWhatIsWrongWithASearchIsSaidBesideIt(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		start(t, d.DB, queue_job.Config{JobType: 7, ServiceName: "partner", HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		awaitNumber(t, d.DB, 1, awakeTypes)
		b := browse(t, console.Handler(jobs))
		for query, says := range map[string]string{
			"q=stat:failed":               "no such field; there are queue, state",
			"q=no+route":                  "two words alone",
			"q=queue:7&type=7":            "a queue is chosen beside the search",
			"q=state:failed&state=failed": "a state is chosen beside the search",
			"q=queue:partnr":              "there are partner",
			"q=a&key=b":                   "two words alone",
		} {
			page := b.get("/jobs?"+query, http.StatusOK)
			if text := regexp.MustCompile(`role="alert">([^<]*)<`).FindStringSubmatch(page); text == nil || !strings.Contains(text[1], says) || len(listed(t, page)) > 0 {
				t.Errorf("%s: there is no %q in\n%s", query, says, page)
			}
		}
		if page := b.get("/jobs?q=queue:partner", http.StatusOK); strings.Contains(page, `role="alert"`) {
			t.Errorf("the name of a queue:\n%s", page)
		}
		b.get("/operations/new?verb=retry&q=error:no", http.StatusBadRequest)
		b.get("/operations/new?verb=retry&q=stat:failed", http.StatusBadRequest)
		b.get("/jobs?ids=one", http.StatusBadRequest)
	})
}

func TestASearchNamesNoQueueThatSomebodyMayNotSee(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		ids := searched(t, d, jobs)
		b := browse(t, console.Handler(jobs, console.WithPermit(func(_ *http.Request, _ console.Verb, jobType int32) bool { return jobType == 7 })))
		for text, want := range map[string][]string{"order-81": {"refused"}, "mail-1": {}, fmt.Sprint(ids["mail"]): {}, "error:refused": {"refused"}} {
			got := listed(t, b.get("/jobs?q="+url.QueryEscape(text), http.StatusOK))
			if len(got) != len(want) || len(want) > 0 && got[0] != ids[want[0]] {
				t.Errorf("%q finds %v, want %v", text, got, want)
			}
		}
		b.get("/jobs?q=queue:8", http.StatusForbidden)
		if got := listed(t, b.get(fmt.Sprintf("/jobs?ids=%d,%d", ids["refused"], ids["mail"]), http.StatusOK)); !slices.Equal(got, []uint64{ids["refused"]}) {
			t.Errorf("asked how they stand, the console tells of %v", got)
		}
	})
}

func TestAListSaysHowItsJobsStandByNowAndHowManyNewerOnesThereAre(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ids []uint64
		for range 3 {
			ids = append(ids, addOne(t, jobs, d.DB, ofType(7)).Id)
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", ids[1]))
		addOne(t, jobs, d.DB, ofType(7))
		addOne(t, jobs, d.DB, ofType(8))
		b := browse(t, console.Handler(jobs))
		asked := fmt.Sprintf("ids=%d,%d,%d,99999", ids[2], ids[1], ids[0])
		page := b.get("/jobs?type=7&state=queued&"+asked, http.StatusOK)
		if got := listed(t, page); !slices.Equal(got, []uint64{ids[2], ids[1], ids[0]}) || !strings.Contains(page, ">completed<") {
			t.Errorf("the list is of %v, want these as they stand: %v\n%s", got, ids, page)
		}
		newest := fmt.Sprintf("ids=%d,%d", ids[2], ids[0])
		for query, want := range map[string]string{"type=7&": ">1 newer ↑<", "": ">2 newer ↑<", "type=7&before=99999&": `role="status"></span>`} {
			if page := b.get("/jobs?"+query+newest, http.StatusOK); !strings.Contains(page, want) {
				t.Errorf("%s: there is no %q in\n%s", query, want, page)
			}
		}
		addType(t, d.DB, 7, 60, 0)
		b = browse(t, console.Handler(jobs))
		if page := b.get("/jobs?type=7&"+asked, http.StatusOK); strings.Contains(page, "newer ↑") { // 99999 is the newest of them
			t.Errorf("%s", page)
		}
		if page := b.get(fmt.Sprintf("/jobs?type=7&ids=%d", ids[0]), http.StatusOK); !strings.Contains(page, `href="./jobs?type=7">50 or more newer ↑<`) {
			t.Errorf("%s", page)
		}
	})
}

func TestJobsThatAreCheckedAndTheFirstThousandAreChangedAndNoOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const all = 1200
		jobs := open(t, d.DB)
		addType(t, d.DB, 7, all, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, attempts = 1")
		b := browse(t, console.Handler(jobs))
		page := b.get("/jobs?q=state:failed", http.StatusOK)
		for _, part := range []string{"the checked jobs", "the first 1,000", "all that match", `form="chosen"`} {
			if !strings.Contains(page, part) {
				t.Errorf("there is no %q in\n%s", part, page)
			}
		}
		b.get("/operations/new?verb=retry&which=checked", http.StatusBadRequest)
		b.get("/operations/new?verb=retry&which=some", http.StatusBadRequest)
		ids := listed(t, page)[:2]
		page = b.get(fmt.Sprintf("/operations/new?verb=retry&which=checked&q=state:failed&id=%d&id=%d&id=999999", ids[0], ids[1]), http.StatusOK)
		if !strings.Contains(page, "Retry: 2 jobs") || !strings.Contains(page, "1 other job that was chosen is gone") {
			t.Errorf("%s", page)
		}
		form := hiddenOf(page)
		if page := b.send("/operations", form, http.StatusBadRequest); !strings.Contains(page, "Say why") {
			t.Errorf("%s", page)
		}
		form.Set("why", "the partner is back")
		if page := b.send("/operations", form, http.StatusOK); !strings.Contains(page, "The chosen jobs run again") || !strings.Contains(page, `value="state:failed"`) {
			t.Errorf("%s", page)
		}
		waiting := func() []uint64 { return idsWhere(t, d, "job_status = 0") }
		if got := waiting(); !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
			t.Errorf("%v were checked, and %v run again", ids, got)
		}
		page = b.get("/operations/new?verb=retry&which=first&q=state:failed", http.StatusOK)
		if !strings.Contains(page, "Retry: 1000 jobs") {
			t.Errorf("%s", page)
		}
		form = hiddenOf(page)
		form.Set("why", "the partner is back")
		b.send("/operations", form, http.StatusOK)
		if got := len(waiting()); got != 1002 {
			t.Errorf("%d jobs run again, want 1000 and the 2", got)
		}
		left := idsWhere(t, d, "job_status = 2")
		if got := slices.Max(left); got > slices.Min(waiting()) {
			t.Errorf("job %d was left, and it is not one of the oldest", got)
		}
		page = b.get("/audit", http.StatusOK)
		if !strings.Contains(page, "the partner is back") || !strings.Contains(page, "1000 jobs") {
			t.Errorf("%s", page)
		}
		if page := b.send("/operations", form, http.StatusOK); !strings.Contains(page, "Nothing was changed") {
			t.Errorf("%s", page)
		}
	})
}

// hiddenOf are the hidden fields of the form of a page that changes jobs.
func hiddenOf(page string) url.Values {
	_, form, _ := strings.Cut(page, `<form method="post" action="../operations"`)
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`).FindAllStringSubmatch(form, -1) {
		fields.Add(field[1], field[2])
	}
	return fields
}

func TestOnlyThoseOfTheChosenJobsAreChangedThatSomebodyMayChange(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		ids := map[int32]uint64{}
		for _, jobType := range []int32{7, 8, 9} {
			ids[jobType] = addOne(t, jobs, d.DB, ofType(jobType)).Id
		}
		b := browse(t, console.Handler(jobs, console.WithPermit(func(_ *http.Request, do console.Verb, jobType int32) bool {
			return jobType == 7 || jobType == 8 && do == console.See
		})))
		page := b.get("/jobs", http.StatusOK)
		if strings.Contains(page, "on every page") || !strings.Contains(page, "the checked jobs") {
			t.Errorf("%s", page)
		}
		if page := b.get("/jobs?type=8", http.StatusOK); strings.Contains(page, "checkbox") {
			t.Errorf("jobs that nobody may change here can be checked:\n%s", page)
		}
		form := url.Values{"verb": {"cancel"}, "which": {"checked"}, "why": {"because"}}
		for _, id := range slices.Collect(maps.Values(ids)) {
			form.Add("id", fmt.Sprint(id))
		}
		b.send("/operations", form, http.StatusOK)
		if got := idsWhere(t, d, "job_status = 5"); !slices.Equal(got, []uint64{ids[7]}) {
			t.Errorf("%v were cancelled, and %d alone may be", got, ids[7])
		}
		form.Set("id", fmt.Sprint(ids[8]))
		b.send("/operations", form, http.StatusForbidden)
	})
}

func TestAThemeIsKeptInACookieOfTheConsoleAndLeadsBack(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		b := browse(t, http.StripPrefix("/a/b", console.Handler(open(t, d.DB))))
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for _, c := range []struct{ to, back, leads string }{
			{"dark", "jobs?q=state%3Afailed", "./jobs?q=state%3Afailed"}, {"light", "queues/7", "./queues/7"}, {"dark", "", "./"},
			{"dark", "//elsewhere.example", "./"}, {"dark", "https://elsewhere.example", "./"}, {"dark", "../../logout", "./"},
		} {
			answer, err := client.PostForm(b.base+"/a/b/theme", url.Values{"theme": {c.to}, "back": {c.back}})
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			cookies := answer.Cookies()
			if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != c.leads || len(cookies) != 1 || cookies[0].Value != c.to || cookies[0].Path != "" {
				t.Errorf("%+v: %s to %q with %v", c, answer.Status, answer.Header.Get("Location"), cookies)
			}
		}
		for sent, scheme := range map[string]string{"": "light dark", "dark": "dark", "light": "light", "pink": "light dark"} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+"/a/b/", nil)
			r.AddCookie(&http.Cookie{Name: "pqueue_theme", Value: sent})
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if page := b.read(answer, sent, http.StatusOK); !strings.Contains(page, `<meta name="color-scheme" content="`+scheme+`">`) {
				t.Errorf("%q:\n%s", sent, page)
			}
		}
		b.send("/a/b/theme", url.Values{"theme": {"pink"}}, http.StatusBadRequest)
	})
}
