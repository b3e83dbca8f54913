// Package browser looks at the console, and at the site of the documents, in a real browser, with keyboard and screen as people have them.
// "make test-all" runs it; alone:
//
//	go run ./tests/testenv -browser -- go test ./tests/browser
package browser

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	patience = 2 * time.Minute // for a browser beside other work
	tick     = 50 * time.Millisecond
)

// axe checks pages for what keeps people from using them: https://github.com/dequelabs/axe-core, 4.14.1, MPL 2.0.
//
//go:embed testdata/axe.min.js
var axe string

// tab is a tab of a browser. It takes down what the browser complains about: errors of scripts, violations of the policy, addresses that
// do not answer.
type tab struct {
	*testing.T
	ctx context.Context

	lock       sync.Mutex
	complaints []string
}

// alarm is what scripts that were smuggled into a page call.
const alarm = "smuggled"

func openTab(t *testing.T) *tab {
	t.Helper()
	path := os.Getenv("PQ_TEST_BROWSER")
	if path == "" {
		if os.Getenv("PQ_TEST_ALL") != "" {
			t.Fatal(`PQ_TEST_BROWSER is not set: "make test-all" provides a browser`)
		}
		t.Skip(`left out: PQ_TEST_BROWSER is not set; "make test-all" provides a browser`)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox is not for root
	}
	ctx, closeBrowser := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(closeBrowser)
	b := &tab{T: t}
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithListener(b.listen))
	t.Cleanup(closeTab)
	b.ctx = ctx
	call(b, log.Enable, cdp.Empty{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: fmt.Sprintf(`window.%s = () => console.error("a script was %s in"); addEventListener("securitypolicyviolation", (e) => console.error("policy violated: " + e.violatedDirective + " by " + e.blockedURI + " " + e.sample));`, alarm, alarm)})
	return b
}

func (b *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		var words []string
		for _, arg := range e.Args {
			words = append(words, string(arg.Value), arg.Description)
		}
		text = strings.Join(words, " ")
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *page.EventJavascriptDialogOpening:
		text = "a dialog: " + e.Message
	default:
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.complaints = append(b.complaints, text)
}

// quiet fails if the browser has complained, but for what is expected.
func (b *tab) quiet(where string, expected ...string) {
	b.Helper()
	b.lock.Lock()
	defer b.lock.Unlock()
complaints:
	for _, c := range b.complaints {
		for _, e := range expected {
			if strings.Contains(c, e) {
				continue complaints
			}
		}
		b.Errorf("%s: %s", where, c)
	}
	b.complaints = nil
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// call sends a command of the DevTools' protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// eval runs JavaScript in the page.
func eval[T any](b *tab, script string) T {
	b.Helper()
	v, err := tryEval[T](b, script)
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return v
}

func tryEval[T any](b *tab, script string) (T, error) {
	return chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// await waits until JavaScript says true. An error means not yet: the page may be on its way to another.
func (b *tab) await(script string) {
	b.Helper()
	b.awaitWithin(patience, script)
}

func (b *tab) awaitWithin(span time.Duration, script string) {
	b.Helper()
	for end := time.Now().Add(span); ; time.Sleep(tick) {
		so, err := tryEval[bool](b, script)
		if err == nil && so {
			return
		}
		if time.Now().After(end) || b.ctx.Err() != nil {
			text, _ := tryEval[string](b, "document.body.innerText") // if there is any
			b.Fatalf("not within %v: %s: %v\n%s", span, script, err, text)
		}
	}
}

// screen sets what the tab looks like.
func (b *tab) screen(width int, dark bool) {
	b.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.EmulateViewport(int64(width), 900))
}

// accessible fails for what keeps people from using the page, and if the page is wider than the screen.
func (b *tab) accessible(where string) {
	b.Helper()
	if !eval[bool](b, `"axe" in window`) {
		eval[chromedp.Void](b, axe)
	}
	type violation struct {
		ID, Help string
		Nodes    []string
	}
	for _, v := range eval[[]violation](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) =>
		({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html + ": " + n.failureSummary)})))`) {
		b.Errorf("%s: %s (%s)\n%s", where, v.Help, v.ID, strings.Join(v.Nodes, "\n"))
	}
	if over := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		b.Errorf("%s: the page is %d pixels wider than the screen", where, over)
	}
}
