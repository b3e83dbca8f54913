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

	"github.com/create-info/persistent-queue/console"
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
	b.do(chromedp.Navigate(w.behind(t, &instead) + "types/1"))
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
	if !eval[bool](b, `document.querySelector("main").innerText === "late"`) {
		t.Error("the answer was not taken")
	}
	b.quiet("types/1")
}
