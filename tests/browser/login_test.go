package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/service"
)

// behindLogin has the console of pqueue serve --login behind a proxy that takes a part of the path away, and makes a user.
func (w *world) behindLogin(t *testing.T, name, password string) (address string) {
	t.Helper()
	users, err := service.OpenUsers(t.Context(), w.db, "")
	if err == nil {
		err = users.Create(t.Context(), name, password, service.Operator)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(users.Protect(console.Handler(w.jobs, console.WithPermit(anybody), console.WithLogout("logout"),
		console.WithActor(func(r *http.Request) string { return service.UserOf(r).Name }))))
	t.Cleanup(server.Close)
	return proxied(t, server.URL)
}

func (b *tab) at(path string) {
	b.Helper()
	b.await(fmt.Sprintf("location.pathname === %q && document.readyState === 'complete'", path))
}

func TestSomebodyLogsInSearchesRetriesPausesAndLogsOut(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	const password = "correct horse battery"
	root := w.behindLogin(t, "ann", password)
	for _, width := range []int{360, 900, 1440} {
		for _, dark := range []bool{false, true} {
			b.screen(width, dark)
			b.do(chromedp.Navigate(root + fmt.Sprint("jobs/", w.failed)))
			b.at("/tools/queue/login")
			where := fmt.Sprintf("/login, %d pixels, dark %v", width, dark)
			b.accessible(where)
			b.quiet(where)
		}
	}
	b.do(chromedp.SendKeys("#name", "ann"), chromedp.SendKeys("#password", "wrong"+kb.Enter))
	b.await(`document.querySelector("[role=alert]") !== null`)
	b.accessible("a wrong password")
	b.quiet("a wrong password", "the server responded with a status of 401")
	b.do(chromedp.SendKeys("#password", password+kb.Enter))
	b.at(fmt.Sprint("/tools/queue/jobs/", w.failed))
	b.press("Retry")
	b.await(`document.querySelector("[role=status]") !== null`)

	b.do(chromedp.SendKeys("#search", fmt.Sprint(w.waits)+kb.Enter))
	b.at("/tools/queue/jobs")
	b.await(fmt.Sprintf(`document.querySelector("a[href$='jobs/%d']") !== null`, w.waits))
	b.do(chromedp.Navigate(root + "queues/1"))
	b.press("Pause on all instances")
	b.await(`document.querySelector("[role=status]") !== null`)
	b.screen(360, false)
	b.accessible("logged in, on a phone")

	b.press("Log out")
	b.at("/tools/queue/login")
	b.do(chromedp.Navigate(root + "queues/1"))
	b.at("/tools/queue/login")
	b.quiet("logged out")
	acts, err := operate.Acts(t.Context(), w.jobs, w.db, operate.ActFilter{Actor: "ann"})
	if err != nil || len(acts) != 2 {
		t.Errorf("ann did %+v, %v", acts, err)
	}
}
