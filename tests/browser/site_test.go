package browser

import (
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// madeSite is the site of the documents, which is made once: its files by their addresses.
var madeSite = sync.OnceValues(func() (files map[string][]byte, err error) {
	folder, err := os.MkdirTemp("", "site")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if out, err := exec.Command("go", "run", "../../site", "-root", "../..", "-to", folder).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go run ./site: %w\n%s", err, out)
	}
	files = map[string][]byte{}
	return files, filepath.WalkDir(folder, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(folder, file)
		if err == nil {
			files[filepath.ToSlash(below)], err = os.ReadFile(file)
		}
		return err
	})
})

// openSite serves the site below a path, as GitHub's pages do, and returns where that is and the addresses of the pages below it.
func openSite(t *testing.T) (root string, pages []string) {
	t.Helper()
	files, err := madeSite()
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if path.Ext(name) == ".html" {
			pages = append(pages, name)
		}
	}
	slices.Sort(pages)
	if len(pages) < 50 {
		t.Fatalf("the site has %d pages", len(pages))
	}
	const below = "/persistent-queue/"
	server := httptest.NewServer(http.StripPrefix(below, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		content, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		w.Write(content)
	})))
	t.Cleanup(server.Close)
	return server.URL + below, pages
}

// isOld says that a page stands in no folder: it only leads on.
func isOld(page string) bool {
	return !strings.Contains(page, "/") && page != "index.html" && page != "contents.html"
}

func TestEveryPageOfTheSiteCanBeReadOnEveryScreen(t *testing.T) {
	t.Parallel()
	openTab(t) // says so if there is no browser, before the site is made
	root, pages := openSite(t)
	var lock sync.Mutex
	anchors, links := map[string][]string{}, map[string][]string{} // by the address of the page
	t.Run("all", func(t *testing.T) {
		const tabs = 4
		for n := range tabs {
			t.Run(fmt.Sprint("tab ", n), func(t *testing.T) {
				t.Parallel()
				b := openTab(t)
				for i := n; i < len(pages); i += tabs {
					if isOld(pages[i]) {
						continue
					}
					address := root + pages[i]
					has, leads := b.read(address)
					lock.Lock()
					anchors[address], links[address] = has, leads
					lock.Unlock()
				}
			})
		}
	})
	seen := 0
	for page, leads := range links {
		for _, link := range leads {
			to, anchor, _ := strings.Cut(link, "#")
			if !strings.HasPrefix(to, root) {
				if !strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "http://127.0.0.1:8080/") { // that of the reader's service
					t.Errorf("%s leads to %s", page, link)
				}
				continue
			}
			seen++
			name, err := url.PathUnescape(anchor)
			if has, ok := anchors[to]; !ok || err != nil || anchor != "" && !slices.Contains(has, name) {
				t.Errorf("%s: a link leads to %s, which is not there", page, link)
			}
		}
	}
	if seen < 2000 {
		t.Errorf("%d links were looked at", seen)
	}
}

// read looks at a page as people have it, and returns what links can lead to on it, and where its own lead.
func (b *tab) read(address string) (anchors, links []string) {
	b.Helper()
	b.screen(360, false)
	b.do(chromedp.Navigate(address))
	for _, screen := range []struct {
		width int
		dark  bool
	}{{360, false}, {1280, true}} {
		b.screen(screen.width, screen.dark)
		where := fmt.Sprintf("%s, %d pixels, dark %v", address, screen.width, screen.dark)
		b.accessible(where)
		b.quiet(where)
	}
	if odd := eval[string](b, `[...document.querySelectorAll("code, pre")].find((e) => !/monospace/.test(getComputedStyle(e).fontFamily))?.textContent ?? ""`); odd != "" {
		b.Errorf("%s: code whose letters are not of one width: %s", address, odd)
	}
	for _, image := range eval[[]string](b, `Promise.all([...document.images].map((i) => { i.loading = "eager"; return i.decode().then(() => "", () => i.src); }))`) {
		if image != "" {
			b.Errorf("%s: no picture at %s", address, image)
		}
	}
	return eval[[]string](b, `[...document.querySelectorAll("[id]")].map((e) => e.id)`), eval[[]string](b, `[...document.querySelectorAll("a[href]")].map((a) => a.href)`)
}

// slash presses the key that opens the search. The page keeps its letter from being typed, and a real keyboard then sends none.
func (b *tab) slash() {
	b.Helper()
	for _, is := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		call(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: is, Key: "/", Code: "Slash", WindowsVirtualKeyCode: 191})
	}
}

func TestASearchOfTheSiteFindsWhatIsTypedInBothLanguages(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	root, _ := openSite(t)
	const results = `[...document.querySelectorAll(".search li a")]`
	for _, of := range []struct {
		page, typed string
		width       int
		into        string // where the first result leads
	}{
		{"index.html", "retry", 1280, ""},
		{"guide/handling.html", "SnOoZe", 360, ""},
		{"operate/console.html", "before the first deploy", 1280, "operate/operations.html#before-the-first-deploy"},
		{"zh/index.html", "重试", 1280, "zh/"},
		{"zh/index.html", "流程", 360, "zh/workflows.html"},
		{"zh/upgrading.html", "任务重试", 360, "zh/"}, // nowhere in one piece
	} {
		b.screen(of.width, false)
		b.do(chromedp.Navigate(root + of.page))
		b.await(`!document.querySelector(".find").hidden`)
		if of.width > 1000 {
			b.slash()
		} else {
			eval[chromedp.Void](b, `document.querySelector(".find").click()`)
		}
		b.await(`document.activeElement.type === "search"`)
		b.do(chromedp.KeyEvent(of.typed))
		if value := eval[string](b, "document.activeElement.value"); value != of.typed {
			b.Fatalf("%s: %q was typed, and %q stands there", of.page, of.typed, value)
		}
		b.await(results + ".length > 2")
		if text, begins := eval[string](b, results+"[0].innerText"), string([]rune(of.typed)[:2]); !strings.Contains(strings.ToLower(text), strings.ToLower(begins)) {
			b.Errorf("%s: a search for %q finds %q first", of.page, of.typed, text)
		}
		b.accessible("the results of " + of.typed)
		first := eval[string](b, results+"[0].href")
		if !strings.HasPrefix(first, root+of.into) {
			b.Errorf("%s: a search for %q leads to %s first, want %s", of.page, of.typed, first, of.into)
		}
		b.do(chromedp.KeyEvent(kb.Enter))
		b.await(fmt.Sprintf("location.href === %q && !document.querySelector('.search').open", first))
		b.quiet(of.page)
	}
	b.do(chromedp.Navigate(root))
	b.await(`!document.querySelector(".find").hidden`)
	b.slash()
	b.await(`document.activeElement.type === "search"`)
	b.do(chromedp.KeyEvent("xyzzyqwert"))
	b.await(`document.querySelector(".search [role=status]").textContent !== "" && ` + results + ".length === 0")
}

func TestAnOldAddressOfTheSiteLeadsOn(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	root, pages := openSite(t)
	old := 0
	for _, page := range pages {
		if isOld(page) {
			old++
			b.do(chromedp.Navigate(root + page))
			b.await(fmt.Sprintf(`/\/(guide|operate|service|inside)\/%s$/.test(location.pathname)`, strings.ReplaceAll(page, ".", `\.`)))
		}
	}
	if old < 20 {
		t.Errorf("%d old addresses", old)
	}
	b.quiet("old addresses")
}

// On a page of one language, the link to the other leads to the same page there, or to its front page.
func TestTheOtherLanguageIsALinkAway(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	root, _ := openSite(t)
	for from, to := range map[string]string{
		"index.html": "zh/index.html", "zh/index.html": "index.html",
		"guide/workflows.html": "zh/workflows.html", "zh/recipes.html": "guide/recipes.html", "zh/operations.html": "operate/operations.html",
		"operate/scaling.html": "zh/index.html", "zh/glossary.html": "index.html",
	} {
		b.do(chromedp.Navigate(root + from))
		if got := eval[string](b, `document.querySelector("header a[hreflang]").href`); got != root+to {
			b.Errorf("%s leads to %s in the other language, want %s", from, got, to)
		}
	}
	b.quiet("the other language")
}

func TestTheWayOfAJobMovesUnlessTheReaderWantsNoMotion(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	root, _ := openSite(t)
	const step = `document.querySelector(".way svg").dataset.step`
	for _, page := range []string{"index.html", "zh/index.html"} {
		for _, motion := range []string{"no-preference", "reduce"} {
			call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: motion}}})
			b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(root+page))
			eval[chromedp.Void](b, `document.querySelector(".way").scrollIntoView()`)
			b.await(`document.querySelector(".way.lives") !== null`)
			if motion == "reduce" {
				if moving := eval[int](b, `document.querySelector(".way").getAnimations({subtree: true}).length`); moving > 0 {
					b.Errorf("%s: %d parts move, and the reader wants no motion", page, moving)
				}
				b.steps(page)
				continue
			}
			b.await(step + ` === "2"`) // by itself
			b.await(step + ` === "3"`)
			eval[chromedp.Void](b, `document.querySelector(".way .play").click()`)
		}
	}
	b.quiet("the way of a job")
}

// steps goes through the steps of the animation by hand, and stays at the last, where the late write changes nothing.
func (b *tab) steps(page string) {
	b.Helper()
	const last = 8
	for n := range last {
		eval[chromedp.Void](b, fmt.Sprintf(`document.querySelectorAll(".way ol button")[%d].click()`, n))
		seen := eval[string](b, `[...document.querySelectorAll(".way svg text")].filter((e) => getComputedStyle(e).visibility === "visible").map((e) => e.textContent).join(" ")`)
		if term := map[bool]string{true: "13", false: "12"}[n > 3]; !strings.Contains(seen, term) {
			b.Errorf("%s: step %d shows no term %s: %s", page, n+1, term, seen)
		}
		if late := strings.Contains(seen, "WHERE term = 12"); late != (n == last-1) {
			b.Errorf("%s: the late write is seen in step %d: %v", page, n+1, late)
		}
	}
	if at := eval[string](b, `document.querySelector(".way svg").dataset.step`); at != fmt.Sprint(last) {
		b.Errorf("%s: the reader chose step %d, and sees %s", page, last, at)
	}
}
