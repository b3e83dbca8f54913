package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service"
)

// behind has the console behind something that may answer in the place of its pages. Nil: nothing does.
func (w *world) behind(t *testing.T, instead *atomic.Pointer[http.HandlerFunc]) (address string) {
	t.Helper()
	h := console.Handler(w.jobs, console.WithPermit(anybody))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := instead.Load(); answer != nil && !strings.HasPrefix(r.URL.Path, "/static/") {
			(*answer)(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// A row that moves away under the pointer is another job when somebody presses.
func TestAListOfJobsStaysWhereItIsAndSaysWhatIsNew(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	b.do(chromedp.Navigate(w.serve(t, "/") + "jobs"))
	first := eval[string](b, `window.first = document.querySelector("tbody tr"); window.first.dataset.k`)
	top := eval[float64](b, `window.first.getBoundingClientRect().top`)
	eval[chromedp.Void](b, `window.first.querySelector("input").click(); document.querySelector("main select").selectedIndex = 1`)
	for range 3 {
		if _, err := w.jobs.Add(t.Context(), w.db, queue_job.AddModelJob{JobType: paused}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.jobs.Cancel(t.Context(), w.db, queue_job.ID(w.later)); err != nil {
		t.Fatal(err)
	}
	b.await(`document.querySelector(".newer").innerText === "3 newer ↑"`)
	b.await(fmt.Sprintf(`document.querySelector('tr[data-k="%d"] .status').innerText === "cancelled"`, w.later))
	if !eval[bool](b, fmt.Sprintf(`document.querySelector("tbody tr") === window.first && window.first.dataset.k === "%s" && window.first.querySelector("input").checked &&
		window.first.getBoundingClientRect().top === %v && document.querySelector("main select").selectedIndex === 1`, first, top)) {
		t.Error("the row has moved, or what somebody had checked or chosen was taken away")
	}
	if _, err := w.jobs.DeleteJobs(t.Context(), w.db, queue_job.ID(w.later)); err != nil {
		t.Fatal(err)
	}
	b.await(fmt.Sprintf(`document.querySelector('tr[data-k="%d"]').classList.contains("gone")`, w.later))
	b.do(chromedp.Click(chromedp.CSS(".newer a")))
	b.await(fmt.Sprintf(`document.querySelector("tbody tr") !== null && document.querySelector("tbody tr").dataset.k > %s`, first))
	b.quiet("jobs")
}

// To count the jobs may take seconds, so it is done once, and not every two seconds.
func TestTheJobsOfAnOperationAreCountedOnceAndNotAgainAndAgain(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	b.do(chromedp.Navigate(w.serve(t, "/") + "operations/new?verb=cancel&type=2"))
	eval[chromedp.Void](b, `window.stays = true; document.querySelector("h1").innerText = "As it was"`)
	time.Sleep(5 * time.Second) // two looks
	if !eval[bool](b, `window.stays === true && document.querySelector("h1").innerText === "As it was" && performance.getEntriesByType("resource").every((e) => e.initiatorType !== "fetch")`) {
		t.Error("the jobs were counted again")
	}
	b.quiet("operations/new")
}

func TestAPageAsksForItselfOnlyWhenItHasItsAnswer(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	var instead atomic.Pointer[http.HandlerFunc]
	b.do(chromedp.Navigate(w.behind(t, &instead) + "queues/1"))
	eval[chromedp.Void](b, `{
		window.asked = window.underWay = window.most = 0;
		const ask = window.fetch;
		window.fetch = async (...what) => {
			window.most = Math.max(window.most, ++window.underWay);
			try { return await ask(...what); } finally { window.underWay--; window.asked++; }
		};
	}`)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(5 * time.Second): // two looks
		case <-r.Context().Done():
		}
		fmt.Fprintf(w, `<main id="content"><p>late</p></main>`)
	})
	instead.Store(&slow)
	b.await("window.asked >= 2")
	if most := eval[int](b, "window.most"); most != 1 {
		t.Errorf("%d requests were under way", most)
	}
	b.await(`document.querySelector("main").innerText === "late"`) // once it is taken, which is after it has come
	b.quiet("queues/1")
}

func TestAPageThatGetsNoAnswerOfTheConsoleIsMarkedAndStays(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	var instead atomic.Pointer[http.HandlerFunc]
	b.do(chromedp.Navigate(w.behind(t, &instead) + "queues/1"))
	const stale, stays = `document.querySelector("main").classList.contains("stale")`, `document.querySelector("main").innerText.includes("Pause on all instances")`
	for _, answer := range []struct {
		status int
		text   string
	}{
		{http.StatusBadGateway, "bad gateway"},
		{http.StatusServiceUnavailable, "<h1>Sorry</h1>"},
		{http.StatusBadGateway, "<main><h1>The proxy is sorry</h1></main>"},
		{http.StatusUnauthorized, "who are you?"},
		{http.StatusOK, "<h1>Maintenance</h1>"},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(answer.status)
			fmt.Fprint(w, answer.text)
		})
		instead.Store(&h)
		b.await(stale)
		if !eval[bool](b, stays) {
			t.Errorf("%d, %s: the page is %s", answer.status, answer.text, eval[string](b, "document.body.innerText"))
		}
		instead.Store(nil)
		b.await("!" + stale)
	}
	b.quiet("queues/1", "the server responded with a status of 502", "the server responded with a status of 503", "the server responded with a status of 401")
}

func TestAPageLeadsToTheLoginWhenTheSessionHasEnded(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	const password, other = "correct horse battery", "another horse battery"
	root := w.behindLogin(t, "ann", password)
	logIn := func(password string) {
		t.Helper()
		b.at("/tools/queue/login")
		b.do(chromedp.SendKeys("#name", "ann"), chromedp.SendKeys("#password", password+kb.Enter))
		b.at("/tools/queue/queues/1")
	}
	b.do(chromedp.Navigate(root + "queues/1"))
	logIn(password)
	users, err := service.OpenUsers(t.Context(), w.db, "")
	if err == nil {
		_, err = users.SetPassword(t.Context(), "ann", other) // which ends her sessions
	}
	if err != nil {
		t.Fatal(err)
	}
	logIn(other)
	b.quiet("queues/1")
}

func TestAPageLeadsToTheLoginOfAnotherSite(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<link rel="icon" href="data:,"><main id="content">Who are you?</main>`)
	}))
	t.Cleanup(elsewhere.Close)
	var instead atomic.Pointer[http.HandlerFunc]
	b.do(chromedp.Navigate(w.behind(t, &instead) + "queues/1"))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	instead.Store(&h)
	b.await(`document.body !== null && document.body.innerText.includes("Who are you?")`)
	if at := eval[string](b, "location.href"); !strings.HasPrefix(at, elsewhere.URL) {
		t.Errorf("its text is in the page %s", at)
	}
	b.quiet("queues/1")
}

// Whoever has followed a link with the keyboard, and come back, would read old numbers for new ones.
func TestAPageStaysUpToDateWhileALinkHasTheFocusWhichItKeeps(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	b.do(chromedp.Navigate(w.serve(t, "/")))
	eval[chromedp.Void](b, `window.link = document.querySelector("tbody a"); window.link.focus(); document.querySelector("h1").innerText = "As it was"`)
	b.await(`document.querySelector("h1").innerText === "Overview" && document.activeElement !== window.link && document.activeElement.href === window.link.href`)
	b.quiet("the overview")
}

func TestAPageSaysThatItRestsWhileAButtonHasTheFocus(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	b.do(chromedp.Navigate(w.serve(t, "/") + "queues/1"))
	const says = `getComputedStyle(document.querySelector(".age"), "::after").content.includes("not kept up to date")`
	if eval[bool](b, says) {
		t.Error("it says so though nothing has the focus")
	}
	eval[chromedp.Void](b, `document.querySelector("main button:enabled").focus()`)
	b.await(says)
	eval[chromedp.Void](b, `document.activeElement.blur()`)
	b.await("!" + says)
	b.quiet("queues/1")
}
