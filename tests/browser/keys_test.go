package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func (b *tab) keys(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

func TestKeysLeadAnywhereAndChangeNothing(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	root := w.behindProxy(t)
	b.do(chromedp.Navigate(root))
	for letter, page := range map[string]string{"j": "jobs", "f": "flows", "e": "errors", "s": "schedules", "w": "workers", "l": "leases", "h": "health", "r": "retention", "a": "audit", "o": ""} {
		b.keys("g" + letter)
		b.await(fmt.Sprintf(`location.href === %q && document.readyState === "complete"`, root+page))
	}
	b.do(chromedp.Navigate(root + "jobs"))
	const at = `document.activeElement.closest("tr")?.rowIndex`
	b.keys("jj")
	b.await(at + " === 2")
	b.keys("kx")
	b.await(at + ` === 1 && document.querySelector("tbody tr input").checked`)
	b.keys("x")
	b.await(`!document.querySelector("tbody tr input").checked`)
	b.keys("r")
	b.await(`document.getElementById("live").innerText === "‖ Paused"`)
	b.keys("r")
	b.await(`document.getElementById("live").innerText === "● Live"`)
	b.keys("?")
	b.await(`document.getElementById("keys").open`)
	b.accessible("the sheet of keys")
	b.keys("j" + kb.Escape)
	b.await(`!document.getElementById("keys").open`)
	b.keys("/")
	b.await(`document.activeElement.matches("main [name=q]")`)
	b.keys("gjtrx?/")
	b.await(`document.activeElement.value.endsWith("gjtrx?/") && !document.getElementById("keys").open`) // off inside fields
	b.keys(kb.Escape)
	b.await(`document.activeElement === document.body`)
	b.keys("j" + kb.Enter)
	b.await(`/jobs\/\d+$/.test(location.pathname)`)
	b.quiet("keys")
}

func TestAThemeIsThereFromTheFirstPaintOnAlsoWithoutScripts(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	root := w.behindProxy(t)
	b.screen(1440, false)
	const dark, light = "rgb(14, 17, 22)", "rgb(247, 248, 250)"
	ground := func(want string) {
		t.Helper()
		b.await(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, want))
	}
	b.do(chromedp.Navigate(root + "queues/1"))
	ground(light)
	eval[chromedp.Void](b, `window.stays = true; document.querySelector(".theme [value=dark]").click()`)
	ground(dark)
	if !eval[bool](b, "window.stays === true") {
		t.Error("the page was loaded anew")
	}
	b.await(`fetch("../").then((r) => r.text()).then((t) => t.includes('data-theme="dark"'))`)
	b.do(chromedp.Navigate(root))
	if !eval[bool](b, `document.documentElement.dataset.theme === "dark" && document.querySelector("meta[name=color-scheme]").content === "dark"`) {
		t.Error("the page comes without the theme, so it flashes")
	}
	b.keys("t") // from dark to the system's, which is light
	ground(light)
	b.screen(1440, true)
	ground(dark)
	b.keys("t")
	ground(light)
	b.quiet("themes")
}
