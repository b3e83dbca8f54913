package browser

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

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
