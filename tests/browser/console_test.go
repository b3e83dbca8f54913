package browser

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// smuggled are texts that would run in a page that is made without care.
var smuggled = []string{
	`<script>smuggled()</script>`,
	`"><img src=x onerror=smuggled()>`,
	`' autofocus onfocus=smuggled() x='`,
	`</pre></textarea></title><svg/onload=smuggled()>`,
	`javascript:smuggled()`,
	`{{constructor.constructor('smuggled()')()}}`,
	`<a href="javascript:smuggled()">press</a>`,
	"a\u2028</script><script>smuggled()</script>\u2028.",
	`<iframe srcdoc="<script>parent.smuggled()</script>"></iframe>`,
	`<style>@import "//elsewhere.example/x";</style>`,
}

const (
	mails   = 1
	paused  = 2
	long    = 3
	unknown = 9 // nobody runs it
)

// world is a database with jobs in all states, and a Runner.
type world struct {
	db                                                        *sql.DB
	jobs                                                      *queue_job.Jobs
	done, failed, failsToo, retried, later, waits, runs, left uint64 // jobs
	stuck, moving                                             uint64 // flows
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "w.db"))+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	all := strings.Join(smuggled, "\n")
	configs := []queue_job.Config{
		{JobType: mails, ServiceName: "mail " + smuggled[0], NeedRetry: true, MaxRetries: 3, WaitTime: time.Hour, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			switch job.JobParams {
			case `"fails"`:
				return queue_job.Fail(errors.New(all))
			case `"is retried"`:
				return errors.New(all)
			}
			return errors.Join(job.SetProgress(ctx, smuggled[1]), job.SetResult(ctx, all))
		}},
		{JobType: paused, ServiceName: "paused " + smuggled[1], HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }},
		{JobType: long, ServiceName: strings.Repeat("long", 20), Shards: 3, HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	}
	w := &world{db: db}
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if w.jobs, err = queue_job.Open(db, queue_job.WithCron(cron.Parse)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.jobs.Pause(t.Context(), db, paused); err != nil { // before there is a holder, who would hear of it within a second only
		t.Fatal(err)
	}
	for range 2 { // a lease needs somebody to go to
		runner, err := persistent_queue.New(configs, logger.QueueLog{Slog: slog.New(slog.DiscardHandler)}, persistent_queue.WithDB(db))
		if err == nil {
			err = runner.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_ = runner.Stop(ctx) // a handler runs until then
		})
	}
	add := func(jobType int32, params any, options ...queue_job.AddOption) uint64 {
		t.Helper()
		added, err := w.jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: jobType, JobParams: params}.With(options...))
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	w.remember(t)
	for n, text := range smuggled {
		add(paused, text, queue_job.WithKey(fmt.Sprint(n, text)), queue_job.WithGroup(text), queue_job.WithMeta(text, text))
	}
	w.done = add(mails, smuggled)
	w.failed = add(mails, "fails")
	w.failsToo = add(mails, "fails")
	w.retried = add(mails, "is retried")
	w.later = add(paused, map[string]any{"amount": 1})
	w.waits = add(paused, map[string]any{"password": "secret", "amount": 12345678901234567})
	w.runs = add(long, strings.Repeat("long ", 300))
	w.left = add(unknown, nil)
	w.schedule(t)
	w.flow(t)
	if _, err := operate.Begin(queue_job.WithActor(t.Context(), smuggled[0], all), w.jobs, db, operate.Change{Verb: operate.SetPriority, Priority: queue_job.PriorityHigh, Filter: queue_job.Filter{JobTypes: []int32{paused}}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// flow adds a flow that gets stuck, and one that goes on.
func (w *world) flow(t *testing.T) {
	t.Helper()
	add := func(f *queue_job.Flow) uint64 {
		t.Helper()
		added, err := w.jobs.AddFlow(t.Context(), w.db, f)
		if err != nil {
			t.Fatal(err)
		}
		return added.Id
	}
	f := queue_job.NewFlow(smuggled[0], queue_job.FlowKey(smuggled[1]))
	f.Job("pay", queue_job.AddModelJob{JobType: mails, JobParams: smuggled})
	f.Job("fails", queue_job.AddModelJob{JobType: mails, JobParams: "fails"})
	for n, text := range smuggled {
		if strings.Contains(text, "\u2028") {
			continue
		}
		job := f.Job(text, queue_job.AddModelJob{JobType: mails, JobParams: smuggled})
		if job.After("pay"); n > 1 {
			job.After("fails")
		}
	}
	f.Job("tidy", queue_job.AddModelJob{JobType: mails, JobParams: smuggled}).After(smuggled[0]).AfterEnd("fails")
	w.stuck = add(f)
	f = queue_job.NewFlow("order", queue_job.FlowKey("4711"))
	job := queue_job.AddModelJob{JobType: paused}
	f.Job("pay", job)
	f.Job("write the invoice", job).After("pay")
	f.Job("pack", job).After("pay")
	f.Job("ship", job).After("write the invoice", "pack")
	f.Job("tell support", job).AfterEnd("pay")
	w.moving = add(f)
}

// nightly is a schedule.
const nightly = "tenant-7/nightly"

// schedule puts schedules: some whose last job has failed, one that is paused, one whose time has passed.
func (w *world) schedule(t *testing.T) {
	t.Helper()
	names := []string{nightly, "tenant-7/hourly", "paused", "passed", "deleted"}
	for _, text := range smuggled {
		if len(text) < 90 && !strings.Contains(text, "\u2028") {
			names = append(names, text)
		}
	}
	for i, name := range names {
		times := []string{"CRON_TZ=Europe/Berlin 30 4 * * *", "@hourly", "*/5 8-18 * * 1-5"}[i%3]
		err := w.jobs.PutSchedule(t.Context(), w.db, name, times, queue_job.AddModelJob{JobType: []int32{mails, paused, unknown}[i%3], JobParams: smuggled, Meta: map[string]string{smuggled[0]: smuggled[1]}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.jobs.PauseSchedule(t.Context(), w.db, "paused"); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{
		fmt.Sprintf("last_at = %d, last_job = %d WHERE name <> 'paused'", time.Now().Add(-time.Hour).Unix(), w.failed),
		fmt.Sprintf("next_at = %d, put_at = 1 WHERE name = 'passed'", time.Now().Add(-time.Hour).Unix()),
	} {
		if _, err := w.db.ExecContext(t.Context(), "UPDATE async_job_schedule_tab SET "+set); err != nil {
			t.Fatal(err)
		}
	}
}

// remember writes a history of some hours.
func (w *world) remember(t *testing.T) {
	t.Helper()
	st, err := record.Open(t.Context(), w.db, "")
	if err != nil {
		t.Fatal(err)
	}
	const minutes, leases = 40 * 60, 12
	var stats []record.Stat
	var tenures []record.Tenure
	chance, now := rand.New(rand.NewPCG(1, 2)), time.Now().Truncate(time.Minute)
	at := func(minute int) time.Time { return now.Add(time.Duration(minute-minutes) * time.Minute) }
	for minute := range minutes {
		busy := 40 + 30*math.Sin(float64(minute)/40)
		state := record.StatState{Runs: map[string]int64{"success": int64(busy) + chance.Int64N(10)}, Delay: make([]int64, record.Ranges), Took: make([]int64, record.Ranges)}
		slow := minute%400 > 340 // something behind the handlers is slow
		if slow {
			state.Runs["failed"], state.Runs["retry"] = chance.Int64N(9), chance.Int64N(20)
			state.Level = record.Level{Waiting: chance.Int64N(900), Overdue: int64(minute%400-340) * 1000, Busy: chance.Int64N(100)}
			for n, text := range append(smuggled[:3:3], "POST https://partner.example/orders: connection refused") {
				at := at(minute).UnixMilli()
				state.Errors.Errors = append(state.Errors.Errors, store.ErrorStat{Text: text, Runs: 1 + int64(n), Failed: 1, First: at, Last: at + 1000, Job: 1})
			}
		}
		for _, n := range state.Runs {
			for range n {
				delay := int(2 + chance.NormFloat64())
				if slow {
					delay += 3 + chance.IntN(1+(minute%400-340)/6)
				}
				state.Delay[max(0, delay)]++
				state.Took[4+chance.IntN(4)]++
			}
		}
		stats = append(stats, record.Stat{JobType: mails, Begin: at(minute).Unix(), Seconds: 60, Lease: "job-1", Term: 1, StatState: state})
	}
	hosts := []string{"mail@web-1/812#aaaaaaaaaaaa.1", "mail@web-2/77#bbbbbbbbbbbb.1", smuggled[1] + "@web-3/9#cccccccccccc.1"}
	ways := []string{record.Asked, record.Asked, record.Released, record.Expired, record.Lost}
	for lease := range leases {
		name, minute, term := fmt.Sprintf("job-%d/%d", long, 3+lease), 0, int64(1)
		if lease == 0 {
			name = "job-1"
		}
		for minute < minutes {
			next := minute + 20 + chance.IntN(300)
			tenure := record.Tenure{Lease: name, Term: term, Owner: hosts[chance.IntN(len(hosts))], Taken: at(minute).UnixMilli()}
			if next < minutes {
				tenure.Ended, tenure.How = at(next).UnixMilli()-chance.Int64N(50), ways[chance.IntN(len(ways))]
			}
			if tenure.How == record.Expired {
				next += 8
			}
			tenures = append(tenures, tenure)
			minute, term = next, term+1
		}
	}
	if err := errors.Join(st.WriteStats(t.Context(), stats), st.WriteTenures(t.Context(), tenures)); err != nil {
		t.Fatal(err)
	}
}

// settled waits until the jobs are in the states that the test is about.
func (w *world) settled(t *testing.T) {
	t.Helper()
	want := map[uint64]queue_job.JobStatus{w.done: queue_job.JobStatusSuccess, w.failed: queue_job.JobStatusFailed, w.failsToo: queue_job.JobStatusFailed, w.retried: queue_job.JobStatusRetry}
	for end := time.Now().Add(patience); len(want) > 0; time.Sleep(tick) {
		for id, status := range want {
			job, err := w.jobs.Get(t.Context(), w.db, queue_job.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			if job.Status == status {
				delete(want, id)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("these jobs are not where they should be: %v", want)
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(tick) {
		f, err := w.jobs.Flow(t.Context(), w.db, w.stuck)
		if err != nil || f.Stuck {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("this flow is not stuck: %+v", f)
		}
	}
}

// pages are all that the console has, and whether the answer is an error.
func (w *world) pages() map[string]bool {
	pages := map[string]bool{"": false, "?last=24h": false, "?last=x": true, "errors/0123456789abcdef": false, "errors/" + faces.ErrorID(mails, smuggled[0]) + "?last=24h": false, fmt.Sprintf("?from=%d&to=%d", time.Now().Add(-9*time.Hour).Unix(), time.Now().Unix()): false, "jobs": false, "jobs?status=failed": false, "jobs?type=2": false, "jobs?key=nothing": false, "workers": false, "schedules": false, "schedules?prefix=tenant": false, "schedule?name=" + url.QueryEscape(nightly): false, "schedule?name=paused": false, "schedule?name=passed": false, "schedule?name=" + url.QueryEscape(smuggled[1]): false, "schedule": true, "health": false, "retention": false, "errors": false, "audit": false, "audit?job=1": false, "operations/new?verb=cancel&type=2": false, "operations/1": false, "operations/99": true, "leases": false, "leases?last=30d": false, "queues/1?last=30h": false, "queues/1/simulate": false, "queues/1/simulate?last=30h&workers=1&rate=0.5": false, "queues/1/simulate?workers=x": true, "queues/1?last=a": true,
		"queues/1": false, "queues/2": false, "queues/3": false, "queues/77": true, "jobs/999999": true, "jobs/x": true}
	for _, page := range []string{"flows", "flows?state=stuck", "flows?kind=order&key=4711", fmt.Sprint("flows/", w.stuck), fmt.Sprint("flows/", w.moving)} {
		pages[page] = false
	}
	pages["flows/999"], pages["flows?state=late"] = true, true
	for _, id := range []uint64{1, 2, 3, 4, w.done, w.failed, w.retried, w.later, w.waits, w.runs, w.left} {
		pages[fmt.Sprintf("jobs/%d", id)] = false
	}
	return pages
}

func anybody(*http.Request, console.Verb, int32) bool { return true }

// serve has the console below a path.
func (w *world) serve(t *testing.T, path string) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(path, http.StripPrefix(strings.TrimSuffix(path, "/"), console.Handler(w.jobs, console.WithTitle(smuggled[1]), console.WithPermit(anybody))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + path
}

// behindProxy has the console behind a proxy that takes a part of the path away.
func (w *world) behindProxy(t *testing.T) (address string) {
	t.Helper()
	return proxied(t, w.serve(t, "/"))
}

func proxied(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/tools/queue", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}))
	t.Cleanup(proxy.Close)
	return proxy.URL + "/tools/queue/"
}

const notFound, badRequest = "the server responded with a status of 404", "the server responded with a status of 400"

func TestEveryPageCanBeUsedOnEveryScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled(t)
	root := w.serve(t, "/")
	for _, width := range []int{360, 900, 1440} {
		t.Run(fmt.Sprint(width, " pixels"), func(t *testing.T) {
			t.Parallel()
			b := openTab(t)
			for page, isError := range w.pages() {
				b.screen(width, false)
				b.do(chromedp.Navigate(root + page))
				eval[chromedp.Void](b, `document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
				for _, dark := range []bool{false, true} {
					b.screen(width, dark)
					where := fmt.Sprintf("/%s, %d pixels, dark %v", page, width, dark)
					b.accessible(where)
					if isError {
						b.quiet(where, notFound, badRequest)
					} else {
						b.quiet(where)
					}
				}
			}
		})
	}
}

func TestEveryPageWorksBelowAnyPathAndBehindAProxy(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	for name, root := range map[string]string{"below a path": w.serve(t, "/a/b/"), "behind a proxy": w.behindProxy(t)} {
		for page, isError := range w.pages() {
			b.do(chromedp.Navigate(root + page))
			where := name + ": " + page
			if isError {
				b.quiet(where, notFound, badRequest)
			} else {
				b.quiet(where)
			}
			if eval[string](b, "getComputedStyle(document.querySelector('header')).display") != "flex" {
				b.Errorf("%s: the style sheet is not there", where)
			}
			for _, link := range eval[[]string](b, "[...document.querySelectorAll('a[href]')].map((a) => a.href)") {
				if !strings.HasPrefix(link, root) {
					b.Errorf("%s: a link leads to %s", where, link)
				} else if !strings.Contains(link, "#") {
					answer, err := http.Get(link)
					if err != nil {
						b.Fatal(err)
					}
					answer.Body.Close()
					if answer.StatusCode != http.StatusOK && !isError {
						b.Errorf("%s: %s answers %s", where, link, answer.Status)
					}
				}
			}
		}
	}
}

// press moves to a button with the keyboard alone, and presses it. The page must show where the keyboard is.
func (b *tab) press(button string) {
	b.Helper()
	const stopsMax = 100
	for range stopsMax {
		b.do(chromedp.KeyEvent(kb.Tab))
		if eval[string](b, "document.activeElement.innerText.trim()") != button {
			continue
		}
		if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
			b.Errorf("nobody sees that %q has the focus: the outline is %q", button, outline)
		}
		b.do(chromedp.KeyEvent(kb.Enter))
		return
	}
	b.Fatalf("the Tab key does not reach %q\n%s", button, eval[string](b, "document.body.innerText"))
}

func TestEveryChangeIsMadeByTheKeyboard(t *testing.T) {
	t.Parallel()
	for name, withScripts := range map[string]bool{"with scripts": true, "without scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, w := openTab(t), newWorld(t)
			w.settled(t)
			root := w.behindProxy(t)
			call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !withScripts})
			for _, change := range []struct{ page, open, button, says string }{
				{"queues/1", "", "Pause on all instances", "paused"},
				{"queues/1", "", "Resume", "goes on"},
				{"queues/1", "", "Hand over", "asked"},
				{"schedule?name=" + url.QueryEscape(nightly), "", "Pause the schedule", "paused"},
				{"schedule?name=" + url.QueryEscape(nightly), "", "Resume the schedule", "goes on"},
				{"schedule?name=" + url.QueryEscape(nightly), "", "Run it now", "due now"},
				{"schedule?name=deleted", "Delete the schedule", "Delete it for good", "deleted"},
				{fmt.Sprintf("flows/%d", w.stuck), "Retry the flow", "Retry it", "goes on"},
				{fmt.Sprintf("flows/%d", w.moving), "Cancel the flow", "Cancel it", "cancelled"},
				{"errors/" + faces.ErrorID(mails, smuggled[0]) + "?last=24h", "", "Mute this error", "muted"},
				{"errors/" + faces.ErrorID(mails, smuggled[0]) + "?last=24h", "", "Unmute this error", "news again"},
				{fmt.Sprintf("jobs/%d", w.failed), "", "Retry", "runs again"},
				{fmt.Sprintf("jobs/%d", w.failsToo), "Retry it with other parameters", "Retry with these", "runs again"},
				{fmt.Sprintf("jobs/%d", w.retried), "", "Run now", "due now"},
				{fmt.Sprintf("jobs/%d", w.later), "Change it", "Set the parameters", "changed"},
				{fmt.Sprintf("jobs/%d", w.later), "Change it", "Reschedule", "changed"},
				{fmt.Sprintf("jobs/%d", w.later), "Change it", "Set the priority", "changed"},
				{fmt.Sprintf("jobs/%d", w.waits), "", "Cancel", "cancelled"},
				{fmt.Sprintf("jobs/%d", w.runs), "", "Cancel", "cancelled"},
			} {
				b.do(chromedp.Navigate(root + change.page))
				if change.open != "" {
					b.press(change.open)
				}
				b.press(change.button)
				b.await(`document.querySelector("[role=status]") !== null`)
				if says := eval[string](b, `document.querySelector("[role=status]").innerText`); !strings.Contains(strings.ToLower(says), change.says) {
					b.Errorf("%s, %s: the page says %q", change.page, change.button, says)
				}
				b.quiet(change.page + ", " + change.button)
			}
			job, err := w.jobs.Get(t.Context(), w.db, queue_job.ID(w.waits))
			if err != nil || job.Status != queue_job.JobStatusCancelled {
				t.Errorf("the job that waited: %v, %v", job.Status, err)
			}
		})
	}
}

func TestAPageStaysUpToDateAndRestsWhileSomebodyIsAtWorkInIt(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	b.do(chromedp.Navigate(w.serve(t, "/") + "queues/1"))
	b.await(`document.querySelector("main").innerText.includes("Pause on all instances")`)
	eval[chromedp.Void](b, `window.stays = true`)
	if _, err := w.jobs.Pause(t.Context(), w.db, mails); err != nil {
		t.Fatal(err)
	}
	b.await(`document.querySelector("main").innerText.includes("Resume")`)
	if !eval[bool](b, "window.stays === true") {
		t.Error("the page was loaded anew")
	}
	b.do(chromedp.Focus(chromedp.CSS("main button:enabled")))
	if _, err := w.jobs.Resume(t.Context(), w.db, mails); err != nil {
		t.Fatal(err)
	}
	const twoLooks = 5 * time.Second // a page looks every two seconds
	time.Sleep(twoLooks)
	if !eval[bool](b, `document.activeElement.innerText === "Resume"`) {
		t.Error("a button was taken away from under the keyboard")
	}
	eval[chromedp.Void](b, "document.activeElement.blur()")
	b.await(`document.querySelector("main").innerText.includes("Pause on all instances")`)
	b.quiet("queues/1")

	b.do(chromedp.Navigate(w.serve(t, "/") + fmt.Sprintf("jobs/%d", w.later)))
	eval[chromedp.Void](b, `document.querySelector("textarea").value = "{}"`)
	time.Sleep(twoLooks)
	if text := eval[string](b, `document.querySelector("textarea").value`); text != "{}" {
		t.Errorf("what somebody had written was taken away: %q is there", text)
	}
}
