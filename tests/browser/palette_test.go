package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// ready waits until the scripts of a page listen.
func (b *tab) ready() {
	b.Helper()
	b.await(`document.readyState === "complete" && !document.getElementById("open-palette").hidden`)
}

// openPalette opens it by the keyboard, writes a text, and waits for what is chosen then.
func (b *tab) openPalette(text, chosen string) {
	b.Helper()
	b.ready()
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.await(`document.getElementById("palette").open && document.activeElement === document.querySelector("#palette input")`)
	b.keys(text)
	b.await(fmt.Sprintf(`document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.innerText.includes(%q)`, chosen))
}

func TestThePaletteLeadsAnywhereByTheKeyboardAlone(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	root := w.behindProxy(t)
	page := func(path string) {
		t.Helper()
		b.await(fmt.Sprintf(`location.href === %q && document.readyState === "complete"`, root+path))
	}
	b.do(chromedp.Navigate(root + "jobs"))
	b.ready()
	b.keys("j")
	const from = `document.activeElement.matches("main tbody a")`
	b.await(from)
	b.openPalette("", "Overview")
	for _, dark := range []bool{false, true} {
		for _, width := range []int{360, 1440} {
			b.screen(width, dark)
			b.accessible(fmt.Sprintf("the palette, %d pixels, dark %v", width, dark))
		}
	}
	b.keys(kb.ArrowDown + kb.ArrowDown + kb.ArrowUp)
	b.await(`document.querySelectorAll("#palette [aria-selected=true]").length === 1 && document.querySelector("#palette [aria-selected=true]").innerText.includes("Jobs")`)
	b.keys(kb.Escape)
	b.await(`!document.getElementById("palette").open && ` + from) // the focus is where it was

	b.openPalette("work", "Workers")
	b.keys(kb.Enter)
	page("workers")
	b.openPalette(fmt.Sprint(w.done), fmt.Sprint("Job ", w.done))
	b.keys(kb.Enter)
	page(fmt.Sprint("jobs/", w.done))
	b.openPalette("order-47", "Search jobs for “order-47”")
	b.keys(kb.Enter)
	page("jobs?q=order-47")
	b.openPalette("simulate longlong", "Simulate longlong") // the name of a queue, which the server has told
	b.keys(kb.Enter)
	page("queues/3/simulate")
	b.openPalette("failed longlong", "Failed jobs of longlong")
	b.keys(kb.Enter)
	b.await(`location.search.includes("state%3Afailed") && document.querySelector("main [name=q]")?.value.startsWith("queue:longlong")`)
	b.openPalette("dark", "Theme: dark")
	b.keys(kb.Enter)
	b.await(`document.documentElement.dataset.theme === "dark" && !document.getElementById("palette").open`)
	b.quiet("the palette")
}

func TestASearchIsCompletedWithTheNamesOfQueues(t *testing.T) {
	t.Parallel()
	b, w := openTab(t), newWorld(t)
	w.settled(t)
	b.do(chromedp.Navigate(w.serve(t, "/")))
	b.ready()
	b.do(chromedp.Focus(chromedp.CSS("#search")))
	b.keys("state:failed queue:lo")
	b.await(`[...document.getElementById("search").list.options].some((o) => o.value.startsWith("state:failed queue:longlong"))`)
	b.keys("x")
	b.await(`document.getElementById("search").list.options.length === 0`)
	b.accessible("a search with suggestions")
	b.quiet("suggestions")
}
