package browser

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// openShop starts examples/console, and returns where its console is.
func openShop(t *testing.T) (address string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "shop")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/console").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	shop := exec.Command(program, "-listen", "127.0.0.1:0")
	out, err := shop.StdoutPipe()
	if err == nil {
		err = shop.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shop.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		if err := shop.Wait(); err != nil {
			t.Errorf("after Ctrl-C, the shop ends with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`http://\S+/`).FindString(line)
}

// With PQ_TEST_PICTURES, it takes the pictures of docs/operate/console.md, after twenty minutes or so: "make pictures".
func TestTheShopThatLivesIsSeen(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	root := openShop(t)
	has := func(page, text string) {
		t.Helper()
		b.do(chromedp.Navigate(root + page))
		b.await(`document.querySelector("main").innerText.includes(` + text + `)`)
	}
	b.screen(1440, false)
	has("jobs?type=7&status=failed", `"failed\t"`)
	failed := eval[string](b, `document.querySelector("tbody a").getAttribute("href")`)
	has("queues/4", `"job-4/2"`)
	folder := os.Getenv("PQ_TEST_PICTURES")
	if folder != "" {
		b.do(chromedp.Navigate(root))
		// Partner, some time after it has become unreachable, and something in the pictures of the last hour.
		b.awaitWithin(30*time.Minute, `document.querySelector("main").innerText.includes("should be looked at") &&
			[...document.querySelectorAll(".picture .success")].some((bars) => bars.getAttribute("d").split("M").length > 10)`)
	}
	for _, of := range []struct {
		name, page string
		width      int
		dark       bool
	}{
		{"now", "", 1440, false},
		{"now-dark", "", 1440, true},
		{"now-phone", "", 360, false},
		{"job", strings.TrimPrefix(failed, "./"), 1440, false},
	} {
		b.screen(of.width, of.dark)
		b.do(chromedp.Navigate(root + of.page))
		b.accessible(of.name)
		b.quiet(of.name)
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if folder != "" {
			if err := os.WriteFile(filepath.Join(folder, of.name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
