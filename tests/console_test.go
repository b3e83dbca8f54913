package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// browser asks a console for pages, as somebody on its machine.
type browser struct {
	t    *testing.T
	base string
}

func browse(t *testing.T, h http.Handler) browser {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return browser{t, server.URL}
}

// get returns a page.
func (b browser) get(path string, want int) string {
	b.t.Helper()
	answer, err := http.Get(b.base + path)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.read(answer, path, want)
}

// escapedQuery is a link whose query has no "=": a template has taken it for the value of a parameter.
var escapedQuery = regexp.MustCompile(`href="[^"?]*\?[^"=]+"`)

func (b browser) read(answer *http.Response, path string, want int) string {
	b.t.Helper()
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		b.t.Errorf("%s: status %d, want %d; %v\n%s", path, answer.StatusCode, want, err, body)
	}
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		b.t.Errorf("%s: the policy is %q", path, policy)
	}
	if link := escapedQuery.Find(body); link != nil {
		b.t.Errorf("%s: a link asks for nothing, because its query was escaped as a whole: %s", path, link)
	}
	return string(body)
}

// press sends a form, and returns the page to which that leads.
func (b browser) press(path string, want int) string {
	b.t.Helper()
	return b.send(path, nil, want)
}

func (b browser) send(path string, fields url.Values, want int) string {
	b.t.Helper()
	answer, err := http.PostForm(b.base+path, fields)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.read(answer, path, want)
}

func ofType(jobType int32) queue_job.AddOption {
	return func(j *queue_job.AddModelJob) { j.JobType = jobType }
}

// tallied is a handle that counts its statements.
type tallied struct {
	*sql.DB
	statements *atomic.Int64
}

func (d tallied) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	d.statements.Add(1)
	return d.DB.ExecContext(ctx, query, args...)
}

func (d tallied) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	d.statements.Add(1)
	return d.DB.QueryContext(ctx, query, args...)
}

// clockless is a handle on which nobody can ask what time it is.
type clockless struct{ *sql.DB }

func (d clockless) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "AS newest") {
		return nil, errors.New("the clock is away")
	}
	return d.DB.QueryContext(ctx, query, args...)
}

func TestAPageThatWasReadIsShownIfTheClockIsAway(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs, err := queue_job.Open(clockless{d.DB})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.Pause(t.Context(), d.DB, 7); err != nil {
			t.Fatal(err)
		}
		b := browse(t, console.Handler(jobs))
		for _, path := range []string{"/leases", "/jobs?key=k"} {
			b.get(path, http.StatusOK)
		}
	})
}

func TestTheConsoleShowsAndSteers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		goOn := make(chan struct{})
		var fails atomic.Bool
		fails.Store(true)
		start(t, d.DB, queue_job.Config{JobType: 7, ServiceName: "mail", WorkerPoolCapacity: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if fails.Load() {
				return queue_job.Fail(errors.New("no route"))
			}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return nil
		}})
		// The console is somewhere in an application, and a proxy takes a part of the path away.
		b := browse(t, http.StripPrefix("/a/b", console.Handler(jobs, console.WithTitle("shop"))))
		b.base += "/a/b"
		failed := addOne(t, jobs, d.DB, ofType(7)).Id
		status := func(id uint64, want queue_job.JobStatus) {
			t.Helper()
			awaitNumber(t, d.DB, int64(want), "SELECT job_status FROM async_job_tab WHERE id = ?", id)
		}
		status(failed, queue_job.JobStatusFailed)
		says := func(page string, texts ...string) {
			t.Helper()
			for _, text := range texts {
				if !strings.Contains(page, text) {
					t.Errorf("there is no %q in\n%s", text, page)
				}
			}
		}
		job := fmt.Sprint("/jobs/", failed)
		says(b.get(job, http.StatusOK), "no route", "failed", "Retry")
		says(b.get("/errors", http.StatusOK), `mail</a> <span class="of">7</span>`, "no route", "These are all runs that did not succeed and whose jobs are still there: 1.")
		fails.Store(false)
		says(b.press(job+"/retry", http.StatusOK), "The job runs again", "Cancel")
		await(t, func() string { return "the console does not see it run" }, func() bool {
			return strings.Contains(b.get(job, http.StatusOK), `<span class="status running">running</span>`)
		})
		says(b.press(job+"/run-now", http.StatusOK), "an instance has the job")
		says(b.press(job+"/cancel", http.StatusOK), "The job is cancelled")
		says(b.press(job+"/cancel", http.StatusOK), "Nothing was changed")
		status(failed, queue_job.JobStatusCancelled)

		pauseFor := func(for_, why string, want int) string {
			return b.send("/queues/7/pause", url.Values{"for": {for_}, "why": {why}}, want)
		}
		for _, for_ := range []string{"soon", "-1h", "0", "366d", "1"} {
			says(pauseFor(for_, "", http.StatusBadRequest), "use a time up to a year")
		}
		until := time.Now().Add(24 * time.Hour).UTC().Format(time.DateOnly)
		says(pauseFor("1d", "the <b>bank</b> is closed", http.StatusOK), "The type is paused", ", until 20", "Paused by", "the &lt;b&gt;bank&lt;/b&gt; is closed", "Set another end")
		says(b.get("/queues/7", http.StatusOK), "until "+until)
		says(b.press("/queues/7/pause", http.StatusOK), "The type is paused", "Resume", "Paused by")
		if page := b.get("/queues/7", http.StatusOK); strings.Contains(page, ", until 20") || strings.Contains(page, "bank") {
			t.Errorf("the pause has its end, or its reason, still: %s", page)
		}
		says(b.get("/", http.StatusOK), "No job type runs: 1 is paused.", "is-note", "It has been paused for", `mail</a> <span class="of">7</span>`)
		later := addOne(t, jobs, d.DB, ofType(7), inAnHour(), queue_job.WithKey("order-47"))
		says(b.get("/jobs?type=7&status=init&key=order-47", http.StatusOK), fmt.Sprintf(">%d</a>", later.Id))
		says(b.get(fmt.Sprint("/jobs?key=", later.Id), http.StatusOK), "order-47")
		says(b.get(fmt.Sprint("/jobs/", later.Id), http.StatusOK), "not due", "paused", "Resume the type.")
		says(b.press(fmt.Sprintf("/jobs/%d/run-now", later.Id), http.StatusOK), "The job is due now")
		says(b.press("/queues/7/resume", http.StatusOK), "The type goes on", "WorkerPoolCapacity")
		limits := func(workers, rate string, want int) string {
			return b.send("/queues/7/limits", url.Values{"workers": {workers}, "rate": {rate}}, want)
		}
		says(limits("1", "0.5", http.StatusOK), "these limits within a second", "to 0.5 starts a second") // the configuration allows one at a time
		says(b.get("/health", http.StatusOK), "Somebody has limited it to 0.5 starts a second")
		says(b.get("/queues/7/simulate?workers=1", http.StatusOK), `placeholder="0.5"`)
		says(limits("1", "0.5", http.StatusOK), "Nothing was changed")
		says(limits("few", "", http.StatusBadRequest), "use a whole number from 1 up")
		says(limits("", "1e-9", http.StatusBadRequest), "use 0.0001 to 1000000 jobs a second")
		says(limits("", "", http.StatusOK), "these limits within a second", "nobody has lowered them")
		close(goOn)
		status(later.Id, queue_job.JobStatusSuccess)
		says(b.press(fmt.Sprintf("/jobs/%d/delete", later.Id), http.StatusOK), "the largest id of all", "Delete for good")

		job = fmt.Sprint("/jobs/", addOne(t, jobs, d.DB, ofType(7), inAnHour(), func(j *queue_job.AddModelJob) { j.JobParams = map[string]int{"order": 1} }).Id)
		says(b.press(fmt.Sprintf("/jobs/%d/delete", later.Id), http.StatusOK), "The job is deleted")
		b.get(fmt.Sprint("/jobs/", later.Id), http.StatusNotFound)
		says(b.press(job+"/delete", http.StatusOK), "Nothing was changed")
		says(b.get(job, http.StatusOK), "Change it", "<textarea", "&#34;order&#34;: 1", "<option selected>normal</option>")
		says(b.send(job+"/set-params", url.Values{"params": {"{\r\n  \"order\": 12345678901234567890\r\n}"}}, http.StatusOK), "The job is changed", "12345678901234567890")
		says(b.send(job+"/set-params", url.Values{"params": {"{order}"}}, http.StatusBadRequest), "The parameters are no JSON")
		says(b.send(job+"/set-priority", url.Values{"priority": {"high"}}, http.StatusOK), "The job is changed", "<option selected>high</option>")
		b.send(job+"/set-priority", url.Values{"priority": {"highest"}}, http.StatusBadRequest)
		says(b.send(job+"/reschedule", url.Values{"due": {"2099-01-02T03:04"}}, http.StatusOK), "The job is changed", "2099-01-02 03:04:00")
		b.send(job+"/reschedule", url.Values{"due": {"tomorrow"}}, http.StatusBadRequest)
		says(b.press(job+"/cancel", http.StatusOK), "Retry it with other parameters")
		says(b.send(job+"/set-params", url.Values{"params": {"{}"}}, http.StatusOK), "Nothing was changed")
		says(b.send(job+"/retry", url.Values{"params": {`{"order": 2}`}}, http.StatusOK), "The job runs again")
		await(t, func() string { return "it does not run with the other parameters" }, func() bool {
			page := b.get(job, http.StatusOK)
			return strings.Contains(page, ">completed<") && strings.Contains(page, "&#34;order&#34;: 2") && !strings.Contains(page, "<textarea")
		})
		masked := fmt.Sprint("/jobs/", addOne(t, jobs, d.DB, ofType(7), inAnHour(), func(j *queue_job.AddModelJob) { j.JobParams = map[string]string{"password": "x"} }).Id)
		if page := b.get(masked, http.StatusOK); strings.Contains(page, "<textarea") || !strings.Contains(page, "pqueue job set-params") {
			t.Errorf("masked parameters may be changed: %s", page)
		}

		says(b.get("/workers", http.StatusOK), "1 instance", "mail")
		says(b.press("/queues/7/leases/0/hand-over", http.StatusConflict), "no other instance")
		instances, err := jobs.Instances(t.Context(), d.DB)
		if err != nil || len(instances) != 1 {
			t.Fatal(instances, err)
		}
		says(b.press("/workers/"+instances[0].Id+"/drain", http.StatusConflict), "no other instance")
		says(b.press("/workers/"+instances[0].Id+"/undrain", http.StatusOK), "Nothing was changed")
		b.press("/workers/"+instances[0].Id+"/restart", http.StatusNotFound)
		says(b.get("/jobs/999999", http.StatusNotFound), "There is no job 999999")
		b.get("/queues/8", http.StatusNotFound)
		b.get("/jobs?status=odd", http.StatusBadRequest)
		b.press(job+"/explode", http.StatusNotFound)
	})
}

func TestTheConsoleChangesManyJobsAndShowsWhoDidWhatAndWhy(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		addType(t, d.DB, 7, 700, 0)
		addType(t, d.DB, 8, 1, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, attempts = 1")
		b := browse(t, console.Handler(jobs, console.WithActor(func(*http.Request) string { return "mary" })))
		says := func(page string, texts ...string) {
			t.Helper()
			for _, text := range texts {
				if !strings.Contains(page, text) {
					t.Errorf("there is no %q in\n%s", text, page)
				}
			}
		}
		says(b.get("/audit", http.StatusOK), "Nobody did anything")
		says(b.get("/jobs?type=7&status=failed", http.StatusOK), "all that match, on every page", `value="retry"`)
		says(b.get("/operations/new?verb=retry&type=7&status=failed", http.StatusOK), "Retry: 700 jobs", "required")
		if page := b.get("/operations/new?verb=retry&type=7&status=failed", http.StatusOK); strings.Contains(page, "data-live") {
			t.Errorf("the jobs are counted again and again: %s", page)
		}
		says(b.get("/operations/new?verb=delete&type=7&status=failed", http.StatusOK), "Delete: 700 jobs", "gone for good")
		says(b.get("/operations/new?verb=retry&type=9", http.StatusOK), "There is no such job")
		b.get("/operations/new?verb=explode&type=7", http.StatusBadRequest)
		form := url.Values{"verb": {"retry"}, "type": {"7"}, "status": {"failed"}, "rate": {"5000"}}
		says(b.send("/operations", form, http.StatusBadRequest), "Say why")
		form.Set("why", "the <b>receiver</b> was down")
		says(b.send("/operations", form, http.StatusOK), "The operation has begun", "0 % looked at", "at most 5000 jobs a second", "nobody yet")
		operations, err := operate.Operations(t.Context(), jobs, d.DB, 0, 10)
		if err != nil || len(operations) != 1 {
			t.Fatal(operations, err)
		}
		at := fmt.Sprint("/operations/", operations[0].Id)
		says(b.press(at+"/stop", http.StatusOK), "The operation is stopped", "Resume")
		says(b.press(at+"/resume", http.StatusOK), "The operation goes on")
		b.press(at+"/explode", http.StatusNotFound)
		b.get("/operations/99999", http.StatusNotFound)
		start(t, d.DB, queue_job.Config{JobType: 7, WorkerPoolCapacity: 50, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		var page string
		await(t, func() string { return "the operation is not done\n" + page }, func() bool {
			page = b.get(at, http.StatusOK)
			return strings.Contains(page, "100 % looked at, 700 jobs changed.")
		})
		awaitNumber(t, d.DB, 700, succeeded)
		b.press("/queues/7/pause", http.StatusOK)
		last := slices.Max(idsWhere(t, d, "job_type = 7"))
		says(b.get("/audit", http.StatusOK), "mary", "the &lt;b&gt;receiver&lt;/b&gt; was down", "stop operation", "resume operation", "type 7", "pause", "500 jobs")
		says(b.get(fmt.Sprint("/audit?job=", last), http.StatusOK), "What people did to job", "retry", "200 jobs")
		b.get("/audit?job=one", http.StatusBadRequest)
	})
}

// lazy is a handle that takes its time for each look.
type lazy struct{ *sql.DB }

func (d lazy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	time.Sleep(200 * time.Millisecond)
	return d.DB.QueryContext(ctx, query, args...)
}

func TestASearchForTheOneJobOfManySaysHowFarItHasLooked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const many = 30_000
		jobs := open(t, lazy{d.DB})
		wanted := addOne(t, jobs, d.DB, ofType(8)).Id
		addType(t, d.DB, 7, many, 0)
		b := browse(t, console.Handler(jobs))
		found, looked := fmt.Sprintf(`href="./jobs/%d"`, wanted), regexp.MustCompile(`The jobs from id (\d+) on were looked at(?:, back to [-0-9: ]+ UTC)?, and there is no such job\. <a rel="next" href="\./(\S+)"`)
		path, pages, from := "/jobs?type=8", 1, uint64(math.MaxUint64)
		for ; ; pages++ {
			page := b.get(path, http.StatusOK)
			if strings.Contains(page, found) {
				break
			}
			match := looked.FindStringSubmatch(page)
			if match == nil {
				t.Fatalf("page %d neither has the job nor says how far it has looked\n%s", pages, page)
			}
			at, err := strconv.ParseUint(match[1], 10, 64)
			if err != nil || at >= from || at <= wanted {
				t.Fatalf("page %d has looked at the jobs from %d on, the page before from %d on; %v", pages, at, from, err)
			}
			from, path = at, "/"+strings.ReplaceAll(match[2], "&amp;", "&")
		}
		if pages < 3 {
			t.Errorf("%d pages, and each look takes longer than a page may search", pages)
		}
		// With a status, an index leads there at once.
		page := func(query string) string { return b.get("/jobs?type=8&status="+query, http.StatusOK) }
		for query, is := range map[string]bool{"init": true, fmt.Sprint("init&before=", wanted+1): true, fmt.Sprint("init&before=", wanted): false, "retry": false} {
			if text := page(query); strings.Contains(text, found) != is || strings.Contains(text, "There is no such job.") == is {
				t.Errorf("%s:\n%s", query, text)
			}
		}
		if quick := browse(t, console.Handler(open(t, d.DB))).get("/jobs?type=9", http.StatusOK); !strings.Contains(quick, "There is no such job.") && !looked.MatchString(quick) {
			t.Errorf("a job of a type that has none:\n%s", quick)
		}
	})
}

func TestAJobIsFoundByItsIdIfItFitsTheOtherFiltersAndNoOperationIsOfferedForIt(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		byID := addOne(t, jobs, d.DB, ofType(7)).Id
		byKey := addOne(t, jobs, d.DB, ofType(8), queue_job.WithKey(fmt.Sprint(byID))).Id
		b := browse(t, console.Handler(jobs))
		for _, search := range []struct {
			query   string
			finds   []uint64
			offered string // what the buttons are about; empty: there are none
		}{
			{fmt.Sprint("key=", byID), []uint64{byID, byKey}, "all with this key, on every page"},
			{fmt.Sprint("status=init&key=", byID), []uint64{byID, byKey}, "all with this key, on every page"},
			{fmt.Sprint("type=8&key=", byID), []uint64{byKey}, "all with this key, on every page"},
			{fmt.Sprint("type=8&status=init&key=", byID), []uint64{byKey}, "all with this key, on every page"},
			{fmt.Sprint("type=7&key=", byID), []uint64{byID}, ""},
			{fmt.Sprint("key=", byKey), []uint64{byKey}, ""},
			{fmt.Sprint("status=failed&key=", byID), nil, ""},
			{"type=8", []uint64{byKey}, "all that match, on every page"},
			{"type=9", nil, ""},
		} {
			page := b.get("/jobs?"+search.query, http.StatusOK)
			for _, id := range []uint64{byID, byKey} {
				if found := strings.Contains(page, fmt.Sprintf("jobs/%d\"", id)); found != slices.Contains(search.finds, id) {
					t.Errorf("%s finds job %d: %v", search.query, id, found)
				}
			}
			if offers := strings.Contains(page, "on every page"); offers != (search.offered != "") || !strings.Contains(page, search.offered) {
				t.Errorf("%s: there is no %q in\n%s", search.query, search.offered, page)
			}
		}
	})
}

// failing is a handle of which those reads fail that a pattern fits. Nil: none.
type failing struct {
	*sql.DB
	reads *atomic.Pointer[regexp.Regexp]
}

func (d failing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if fails := d.reads.Load(); fails != nil && fails.MatchString(query) {
		return nil, errors.New("the disk is full")
	}
	return d.DB.QueryContext(ctx, query, args...)
}

// soonBack is longer than the console keeps an error, and shorter than it keeps what it has read.
const soonBack = 15 * time.Second

func TestTheConsoleIsBackAMomentAfterAReadHasFailed(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		var reads atomic.Pointer[regexp.Regexp]
		jobs := open(t, failing{d.DB, &reads})
		b := browse(t, console.Handler(jobs))
		reads.Store(regexp.MustCompile(""))
		for _, path := range []string{"/", "/health", "/retention"} {
			if page := b.get(path, http.StatusInternalServerError); !strings.Contains(page, "the disk is full") {
				t.Errorf("%s does not say why:\n%s", path, page)
			}
		}
		b.press("/workers/0123456789ab/drain", http.StatusInternalServerError) // which is no refusal
		reads.Store(nil)
		b.press("/workers/0123456789ab/drain", http.StatusConflict)
		for _, path := range []string{"/", "/health", "/retention"} {
			awaitWithin(t, soonBack, func() string { return path + " is still away" }, func() bool {
				answer, err := http.Get(b.base + path)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				return answer.StatusCode == http.StatusOK
			})
		}
	})
}

// stuck is a handle of which those reads never end that a pattern fits.
type stuck struct {
	*sql.DB
	reads *regexp.Regexp
	begun *atomic.Int64 // so many of them
}

func (d stuck) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if d.reads.MatchString(query) {
		d.begun.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.DB.QueryContext(ctx, query, args...)
}

// To count so many jobs keeps a database busy, so the console does not try again for half a minute, as if it had counted them.
func TestThatTooManyJobsAreLateToBeCountedIsNotAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		begun := new(atomic.Int64)
		jobs := open(t, stuck{d.DB, regexp.MustCompile("AS late GROUP BY"), begun})
		if _, err := jobs.Pause(t.Context(), d.DB, 7); err != nil {
			t.Fatal(err)
		}
		b := browse(t, console.Handler(jobs))
		for range 2 {
			if page := b.get("/health", http.StatusOK); !strings.Contains(page, "could not be counted in five seconds") || !strings.Contains(page, "paused") {
				t.Errorf("%s", page)
			}
			time.Sleep(3 * time.Second) // by then, an error would be forgotten
		}
		b.get("/health", http.StatusOK)
		if n := begun.Load(); n != 1 {
			t.Errorf("the jobs were counted %d times", n)
		}
	})
}

func TestNowAndATypeComeWithoutWhatRanIfThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		var reads atomic.Pointer[regexp.Regexp]
		jobs := open(t, failing{d.DB, &reads})
		start(t, d.DB, queue_job.Config{JobType: 7, ServiceName: "mail", HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		awaitNumber(t, d.DB, 1, awakeTypes)
		stat := record.Stat{JobType: 7, Begin: time.Now().Truncate(time.Minute).Add(-10 * time.Minute).Unix(), Seconds: 60, Lease: "job-7", Term: 1, StatState: record.StatState{
			Runs: map[string]int64{"success": 30}, Delay: []int64{30}, Took: []int64{30}}}
		st, err := record.Open(t.Context(), d.DB, "")
		if err == nil {
			err = st.WriteStats(t.Context(), []record.Stat{stat})
		}
		if err != nil {
			t.Fatal(err)
		}
		b := browse(t, console.Handler(jobs))
		reads.Store(regexp.MustCompile("async_job_stat_tab"))
		const why, picture = "what ran cannot be read now: ", "30 runs ended"
		if page := b.get("/queues/7", http.StatusOK); !strings.Contains(page, "What ran cannot be read now: ") || !strings.Contains(page, "Pause on all instances") {
			t.Errorf("the type without what it did:\n%s", page)
		}
		b.get("/queues/7/simulate", http.StatusInternalServerError)
		b.get("/queues/7?last=a", http.StatusBadRequest)
		for range 2 {
			if page := b.get("/", http.StatusOK); !strings.Contains(page, ">mail<") || !strings.Contains(page, why) || !strings.Contains(page, "the disk is full") || strings.Contains(page, picture) {
				t.Errorf("the overview without pictures:\n%s", page)
			}
		}
		reads.Store(nil)
		var page string
		awaitWithin(t, soonBack, func() string { return "there are no pictures\n" + page }, func() bool {
			page = b.get("/", http.StatusOK)
			return strings.Contains(page, picture) && !strings.Contains(page, why)
		})
		awaitWithin(t, soonBack, func() string { return "the type is still without what it did" }, func() bool {
			return strings.Contains(b.get("/queues/7", http.StatusOK), "30 started and 30 ended")
		})
	})
}

// What a page leads to must be below the console, wherever that is.
func TestEveryAddressOfTheConsoleIsRelative(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for range 120 {
			addOne(t, jobs, d.DB, ofType(7), queue_job.WithKey("a&b=c"))
		}
		if _, err := jobs.Pause(t.Context(), d.DB, 7); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			addFlow(t, jobs, d.DB, fanOut(3))
		}
		b := browse(t, http.StripPrefix("/a/b", console.Handler(jobs)))
		address := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
		change := regexp.MustCompile(`/(cancel|run-now|resume|pause|limits|set-params|reschedule|set-priority|delete|drain|theme)$`)
		todo, seen := []string{"/a/b/"}, map[string]bool{"/a/b/": true}
		for len(todo) > 0 && len(seen) < 500 {
			at := todo[0]
			todo = todo[1:]
			page := b.get(at, http.StatusOK)
			for _, found := range address.FindAllStringSubmatch(page, -1) {
				here, _ := url.Parse(at)
				next, err := here.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
				if err != nil || strings.HasPrefix(found[1], "/") || !strings.HasPrefix(next.Path, "/a/b/") {
					t.Errorf("%s leads to %s", at, found[1])
					continue
				}
				to := next.RequestURI()
				isChange := change.MatchString(next.Path) || next.Path == "/a/b/operations/new" // wants the fields of its form
				if !seen[to] && !isChange {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		if len(seen) < 130 {
			t.Errorf("only %d addresses were found, and there are 120 jobs", len(seen))
		}
	})
}

// contentOf is a page without what is around it: there, whoever looks may choose a theme.
func contentOf(page string) string {
	_, content, _ := strings.Cut(page, "<main")
	return content
}

func TestTheConsoleChangesNothingForWhoeverMayOnlyLook(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		seen, hidden := addOne(t, jobs, d.DB, ofType(7)).Id, addOne(t, jobs, d.DB, ofType(8)).Id
		for _, jobType := range []int32{7, 8} {
			if _, err := jobs.Pause(t.Context(), d.DB, jobType); err != nil {
				t.Fatal(err)
			}
		}
		b := browse(t, console.Handler(jobs, console.WithPermit(func(_ *http.Request, do console.Verb, jobType int32) bool {
			return do == console.See && jobType != 8
		})))
		if page := b.get("/", http.StatusOK); strings.Contains(page, "queues/8") || strings.Contains(page, "<button class") {
			t.Errorf("the overview shows too much: %s", page)
		}
		if page := b.get("/jobs", http.StatusOK); strings.Contains(page, fmt.Sprint("jobs/", hidden)) {
			t.Errorf("the list shows too much: %s", page)
		}
		if page := b.get(fmt.Sprint("/jobs?key=", hidden), http.StatusOK); strings.Contains(page, fmt.Sprint("jobs/", hidden)) {
			t.Errorf("the search shows too much: %s", page)
		}
		if page := b.get(fmt.Sprint("/jobs/", seen), http.StatusOK); strings.Contains(contentOf(page), `method="post"`) {
			t.Errorf("a job may be changed: %s", page)
		}
		flows := [3]uint64{}
		for i, types := range [][2]int32{{7, 7}, {7, 8}, {8, 7}} { // the second job of the second flow is not there yet
			f := queue_job.NewFlow("order")
			f.Job("first", queue_job.AddModelJob{JobType: types[0]})
			f.Job("second", queue_job.AddModelJob{JobType: types[1]}).After("first")
			flows[i] = addFlow(t, jobs, d.DB, f)
		}
		if page := b.get(fmt.Sprint("/flows/", flows[0]), http.StatusOK); strings.Contains(contentOf(page), `method="post"`) || !strings.Contains(page, "second") {
			t.Errorf("a flow may be changed: %s", page)
		}
		b.get("/flows", http.StatusOK)
		for _, path := range []string{fmt.Sprint("/jobs/", hidden), "/jobs?type=8", "/queues/8", fmt.Sprint("/flows/", flows[2])} {
			b.get(path, http.StatusForbidden)
		}
		for _, id := range flows {
			b.press(fmt.Sprintf("/flows/%d/cancel", id), http.StatusForbidden)
			b.press(fmt.Sprintf("/flows/%d/retry", id), http.StatusForbidden)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 0"); n != 3 {
			t.Errorf("%d of 3 flows are open", n)
		}
		execute(t, d.DB, "DELETE FROM async_job_tab WHERE id NOT IN ("+fmt.Sprint(seen, ", ", hidden)+")")
		for _, path := range []string{"/queues/7/pause", "/queues/7/resume", "/queues/8/resume", "/queues/7/limits", "/queues/7/leases/0/hand-over", "/workers/0123456789ab/drain"} {
			b.press(path, http.StatusForbidden)
		}
		change := url.Values{"verb": {"cancel"}, "type": {"7"}, "why": {"a test"}}
		b.send("/operations", change, http.StatusForbidden)
		change.Del("type")
		change.Set("status", "init")
		b.send("/operations", change, http.StatusForbidden)
		b.get("/operations/new?verb=cancel&status=init", http.StatusForbidden)
		if page := b.get("/jobs?type=7", http.StatusOK); strings.Contains(page, "the checked jobs") || strings.Contains(page, "checkbox") {
			t.Errorf("many jobs may be changed: %s", page)
		}
		operation, err := operate.Begin(queue_job.WithActor(t.Context(), "mary", ""), jobs, d.DB, operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{7}}})
		if err != nil {
			t.Fatal(err)
		}
		mary := queue_job.WithActor(t.Context(), "mary", "the bank called")
		for id, name := range map[uint64]string{seen: "seen", hidden: "unseen"} {
			if _, err := jobs.SetParams(mary, d.DB, queue_job.ID(id), queue_job.JSON(fmt.Sprintf(`{"of":"%s","password":"open sesame"}`, name))); err != nil {
				t.Fatal(err)
			}
		}
		ofHidden, err := operate.Begin(queue_job.WithActor(t.Context(), "mary", ""), jobs, d.DB, operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{8}}})
		if err != nil {
			t.Fatal(err)
		}
		acts := b.get("/audit", http.StatusOK)
		for what, shown := range map[string]bool{
			fmt.Sprintf(`jobs/%d"`, seen): true, fmt.Sprintf(`operations/%d"`, operation): true, `\&#34;seen\&#34;`: true,
			fmt.Sprintf(`jobs/%d"`, hidden): false, fmt.Sprintf(`operations/%d"`, ofHidden): false, "unseen": false, "open sesame": false,
		} {
			if strings.Contains(acts, what) != shown {
				t.Errorf("what people did shows %s: %t; %s", what, !shown, acts)
			}
		}
		if page := b.get(fmt.Sprint("/audit?job=", hidden), http.StatusOK); strings.Contains(page, "unseen") {
			t.Errorf("what people did to a hidden job: %s", page)
		}
		b.press(fmt.Sprintf("/operations/%d/stop", operation), http.StatusForbidden)
		if page := b.get(fmt.Sprint("/operations/", operation), http.StatusOK); strings.Contains(contentOf(page), `method="post"`) {
			t.Errorf("an operation may be changed: %s", page)
		}
		for _, id := range []uint64{seen, hidden} {
			for _, do := range []string{"cancel", "retry", "run-now", "set-params", "reschedule", "set-priority", "delete"} {
				b.press(fmt.Sprintf("/jobs/%d/%s", id, do), http.StatusForbidden)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND changes = 1"); n != 2 {
			t.Errorf("%d of 2 jobs are as they were", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_type_tab WHERE paused_at IS NOT NULL"); n != 2 {
			t.Errorf("%d of 2 types are paused", n)
		}
	})
}

// The overview is rendered once for all who may see the same.
func TestWhoMaySeeLessGetsAnOverviewOfTheirOwn(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, jobType := range []int32{7, 8} {
			if _, err := jobs.Pause(t.Context(), d.DB, jobType); err != nil {
				t.Fatal(err)
			}
		}
		h := console.Handler(jobs, console.WithPermit(func(r *http.Request, _ console.Verb, jobType int32) bool {
			return jobType != 8 || r.Header.Get("X-User") == "mary"
		}), console.WithActor(func(r *http.Request) string { return r.Header.Get("X-User") }), console.WithLogout("/out"))
		for _, who := range []string{"mary", "john", "mary", "<b>", "john"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-User", who)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			page := w.Body.String()
			if !strings.Contains(page, "queues/7") || strings.Contains(page, "queues/8") != (who == "mary") || !strings.Contains(page, html.EscapeString(who)) {
				t.Errorf("%s sees %s", who, page)
			}
		}
	})
}

func TestTheLogoutIsWhereTheOptionSaysOnEveryPage(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, c := range []struct{ option, path, want string }{
			{"logout", "/", "./logout"},
			{"logout", "/jobs", "./logout"},
			{"logout", "/queues/7/simulate", "../../logout"},
			{"../logout", "/jobs/5", "../../logout"},
			{"/out", "/queues/7", "/out"},
			{"https://shop.example/out", "/queues/7", "https://shop.example/out"},
		} {
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			w := httptest.NewRecorder()
			console.Handler(jobs, console.WithLogout(c.option), console.WithPermit(func(*http.Request, console.Verb, int32) bool { return true })).ServeHTTP(w, r)
			if want := `<form class="logout" method="post" action="` + c.want + `">`; !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with %q: there is no %s in\n%s", c.path, c.option, want, w.Body)
			}
		}
	})
}

func TestASlashInANameDoesNotLeadOutOfTheConsole(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/workers/shop%2F7/undrain", nil)
		console.Handler(open(t, d.DB), console.WithPermit(func(*http.Request, console.Verb, int32) bool { return true })).ServeHTTP(w, r)
		if at := w.Header().Get("Location"); w.Code != http.StatusSeeOther || at != "../../workers?said=nothing" {
			t.Errorf("%d, to %q: %s", w.Code, at, w.Body)
		}
	})
}

// Who may retry, and not see to parameters, retries with the old ones.
func TestToRetryWithOtherParametersIsTwoPermissions(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		id := addOne(t, jobs, d.DB, ofType(7)).Id
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(id)))
		b := browse(t, console.Handler(jobs, console.WithPermit(func(_ *http.Request, do console.Verb, _ int32) bool {
			return do == console.See || do == console.Retry
		})))
		path := fmt.Sprint("/jobs/", id)
		if page := b.get(path, http.StatusOK); strings.Contains(page, "<textarea") || !strings.Contains(page, "/retry") {
			t.Errorf("%s", page)
		}
		b.send(path+"/retry", url.Values{"params": {"{}"}}, http.StatusForbidden)
		b.press(path+"/retry", http.StatusOK)
	})
}

func TestTheConsoleHearsNoForeignPageAndNoForeignMachine(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		id := addOne(t, jobs, d.DB, ofType(7)).Id
		h := console.Handler(jobs)
		send := func(method, path string, set func(*http.Request)) int {
			r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, nil)
			r.RemoteAddr = "127.0.0.1:5000"
			set(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		cancel := fmt.Sprintf("/jobs/%d/cancel", id)
		for name, set := range map[string]func(*http.Request){
			"another page":            func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"another page, by origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"another machine":         func(r *http.Request) { r.RemoteAddr = "10.0.0.7:5000" },
			"somebody behind a proxy": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.7") },
			"a name that leads here":  func(r *http.Request) { r.Host = "evil.example:8080" },
		} {
			if got := send("POST", cancel, set); got != http.StatusForbidden {
				t.Errorf("%s cancels a job: status %d", name, got)
			}
		}
		for name, set := range map[string]func(*http.Request){
			"another machine": func(r *http.Request) { r.RemoteAddr = "[2001:db8::1]:5000" },
			"another name":    func(r *http.Request) { r.Host = "evil.example" },
		} {
			if got := send("GET", "/jobs/"+fmt.Sprint(id), set); got != http.StatusForbidden {
				t.Errorf("%s sees a job: status %d", name, got)
			}
		}
		for _, host := range []string{"localhost:8080", "[::1]:8080", "127.0.0.1"} {
			if got := send("GET", "/jobs/"+fmt.Sprint(id), func(r *http.Request) { r.Host = host }); got != http.StatusOK {
				t.Errorf("http://%s: status %d", host, got)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0"); n != 1 {
			t.Error("the job is not as it was")
		}
	})
}

// Whatever a job brings with it, is text.
func TestNothingThatAJobBringsIsMarkup(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'javascript:alert(1)`
		jobs := open(t, d.DB)
		start(t, d.DB, queue_job.Config{JobType: 7, ServiceName: evil, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if err := job.SetProgress(ctx, evil); err != nil {
				return err
			}
			if err := job.SetResult(ctx, evil); err != nil {
				return err
			}
			if _, err := queue_job.Step(ctx, job, evil, func(context.Context) (string, error) { return evil, nil }); err != nil {
				return err
			}
			if err := jobs.Signal(ctx, d.DB, queue_job.ID(job.Id), evil, evil); err != nil {
				return err
			}
			return queue_job.Fail(errors.New(evil))
		}})
		added, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 7, Key: evil, Group: evil + "g", JobParams: map[string]string{evil: evil}, Meta: map[string]string{"evil": evil}})
		if err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		f := queue_job.NewFlow(evil[:60], queue_job.FlowKey(evil))
		f.Job(evil, queue_job.AddModelJob{JobType: 7})
		f.Job(evil+"2", queue_job.AddModelJob{JobType: 7}).After(evil)
		f.Job("refused "+evil, queue_job.AddModelJob{JobType: 7}).After(evil)
		flow := addFlow(t, jobs, d.DB, f)
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		if _, err := d.DB.Exec("UPDATE async_job_node_tab SET result = ?, problem = ?, state = CASE WHEN name LIKE 'refused%' THEN 4 ELSE state END", evil, evil); err != nil {
			t.Fatal(err)
		}
		b := browse(t, console.Handler(jobs, console.WithTitle(evil)))
		ofFlow := theFlow(t, jobs, d.DB, flow).Jobs[0].JobId
		for _, path := range []string{"/", "/queues/7", "/queues/7/simulate", "/errors", "/errors/" + faces.ErrorID(7, evil), "/jobs", "/jobs?key=" + url.QueryEscape(evil), fmt.Sprint("/jobs/", added), "/workers", "/schedules", "/health", "/retention", "/leases", "/?said=" + url.QueryEscape(evil), "/flows", "/flows?state=stuck", "/flows?key=" + url.QueryEscape(evil), fmt.Sprint("/flows/", flow), fmt.Sprint("/jobs/", ofFlow)} {
			page := b.get(path, http.StatusOK)
			if strings.Contains(page, "<script>") || strings.Contains(page, "<img") || strings.Contains(page, `="javascript:`) {
				t.Errorf("%s has markup that a job has brought:\n%s", path, page)
			}
		}
		for _, path := range []string{"/jobs/" + url.PathEscape("<script>"), "/queues/" + url.PathEscape("<script>"), "/jobs?type=" + url.QueryEscape("<script>"), "/jobs?status=" + url.QueryEscape("<script>"), "/flows/" + url.PathEscape("<script>"), "/flows?state=" + url.QueryEscape("<script>")} {
			answer, err := http.Get(b.base + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if strings.Contains(string(body), "<script>") {
				t.Errorf("%s: %s", path, body)
			}
		}
	})
}

func TestTheConsoleShowsWhatASchedulesTimesHaveComeTo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		r := newRunner(t, d.DB, queue_job.Config{JobType: 7, ServiceName: "report", Schedule: cron.MustParse("@every 1h"), HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		page := func(options ...console.Option) string {
			t.Helper()
			return browse(t, console.Handler(jobs, options...)).get("/schedules", http.StatusOK)
		}
		reads := console.WithSchedules(func(text string) (queue_job.Schedule, error) { return cron.Parse(text) })
		next := time.Now().UTC().Truncate(time.Hour).Add(time.Hour).Format("15:00:00")
		await(t, func() string { return "the schedule begins" }, func() bool {
			types, err := jobs.Types(t.Context(), d.DB)
			return err == nil && len(types) == 1 && !types[0].Scheduled.IsZero() && types[0].Schedule != "" // two statements write them
		})
		if text := page(reads); !strings.Contains(text, "@every 1h0m0s") || !strings.Contains(text, next) || strings.Contains(text, "passed without a job") {
			t.Errorf("%s is not in %s", next, text)
		}
		if text := page(); !strings.Contains(text, "@every 1h0m0s") || strings.Contains(text, "Next times") {
			t.Error(text)
		}
		stop(t, r)
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_type_tab SET cron_at = %d", time.Now().Truncate(time.Hour).Add(-3*time.Hour).Unix()))
		if text := page(reads); !regexp.MustCompile(`[23] times passed without a job`).MatchString(text) { // two in the first seconds of an hour
			t.Error(text)
		}
	})
}

func TestLookingAtTheConsoleCostsFewStatements(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		sent := new(atomic.Int64)
		jobs, err := queue_job.Open(tallied{d.DB, sent})
		if err != nil {
			t.Fatal(err)
		}
		for jobType := range int32(200) {
			if _, err := jobs.Pause(t.Context(), d.DB, jobType); err != nil {
				t.Fatal(err)
			}
		}
		start(t, d.DB, queue_job.Config{JobType: 300, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		id := addOne(t, jobs, d.DB, ofType(7), queue_job.WithKey("a")).Id
		put(t, openWithCron(t, d.DB), d.DB, "a", "@daily", queue_job.AddModelJob{JobType: 7})
		release, started := make(chan struct{}), make(chan struct{})
		start(t, d.DB, queue_job.Config{JobType: 301, WorkerPoolCapacity: 1, OrderedByKey: true, HandleJobFunc: func(context.Context, *queue_job.Job) error {
			close(started)
			<-release
			return nil
		}})
		defer close(release)
		addOne(t, jobs, d.DB, ofType(301))
		<-started
		inLine := addOne(t, jobs, d.DB, ofType(301), queue_job.WithGroup("b")).Id
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET attempts = 1 WHERE id = %d", inLine)) // it has a log to read
		flow := addFlow(t, jobs, d.DB, fanOut(3))
		ofFlow := theFlow(t, jobs, d.DB, flow).Jobs[0].JobId
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2, attempts = 1 WHERE id = %d", ofFlow))
		// Of the leases, the second is the clock, once a minute: a page that says a wrong time is worse.
		for path, most := range map[string]int64{"/": 5, "/?last=30d": 5, "/?compare=1": 5, "/data/series": 5, "/data/series?compare=1": 5, "/errors/0123456789abcdef": 5, "/queues/7": 5, "/queues/300": 5, "/queues/300/simulate": 5, "/leases": 2, "/leases?last=30d": 2, "/jobs": 4, "/jobs?key=k": 4, "/jobs?type=7&status=init": 5, "/errors": 4, "/workers": 3, "/schedules": 4, "/schedule?name=a": 4, "/health": 6, "/retention": 5, "/audit": 3, "/audit?job=1": 2, "/operations/new?verb=cancel&type=7": 2, fmt.Sprint("/jobs/", id): 5, fmt.Sprint("/jobs/", inLine): 5, "/flows": 3, "/flows?state=stuck": 3, fmt.Sprint("/flows/", flow): 5, fmt.Sprint("/jobs/", ofFlow): 6} {
			bestOfThree(t, func() error {
				b := browse(t, console.Handler(jobs))
				sent.Store(0)
				b.get(path, http.StatusOK)
				if n := sent.Load(); n < 1 || n > most {
					return fmt.Errorf("%s costs %d statements, want %d at most", path, n, most)
				}
				return nil
			})
		}
		b := browse(t, console.Handler(jobs))
		sent.Store(0)
		began := time.Now()
		for range 20 {
			b.get("/", http.StatusOK)
		}
		took := time.Since(began)
		// three in two seconds, one in ten seconds, and one in fifteen
		if n, most := sent.Load(), 3*(int64(took/(2*time.Second))+1)+int64(took/(10*time.Second))+int64(took/(15*time.Second))+2; n > most {
			t.Errorf("twenty viewers cost %d statements within %v, want %d at most", n, took, most)
		}
		sent.Store(0)
		began = time.Now()
		for range 20 {
			b.get("/jobs?type=7&status=init", http.StatusOK)
		}
		took = time.Since(began)
		if n, most := sent.Load(), 5*(int64(took/(2*time.Second))+1); n > most {
			t.Errorf("twenty viewers of a list cost %d statements within %v, want %d at most", n, took, most)
		}
	})
}
