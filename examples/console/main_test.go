package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// If the partner never catches up, every page of the shop stays red and shows nothing else.
func TestThePartnerCatchesUpInEachPeriod(t *testing.T) {
	const come, half = partnerShare / 0.15, 0.5 // a second, for meanBetweenOrders; of the runs fail
	if meanBetweenOrders != 150*time.Millisecond {
		t.Fatal("how many jobs come is another number")
	}
	if partnerRate <= 1.1*come/half {
		t.Errorf("%v start in a second; %v come, and half of them start again", partnerRate, come)
	}
}

// With deploys every half second, the instances of the start are soon gone.
func TestTheShopIsSeenInTheConsoleWhileItIsDeployed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, closeShop := context.WithCancel(t.Context())
	defer closeShop()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, "127.0.0.1:0", 500*time.Millisecond, out)
		out.Close()
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err, <-ended)
	}
	address := regexp.MustCompile(`http://\S+/`).FindString(line)
	get := func(path string) (status int, text string) {
		answer, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		read, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(read)
	}
	page := func(path string) string {
		status, text := get(path)
		for again := 0; status != http.StatusOK && strings.Contains(text, context.DeadlineExceeded.Error()) && again < 3; again++ { // the machine stood still
			time.Sleep(3 * time.Second) // by then, the console has forgotten the error
			status, text = get(path)
		}
		if status != http.StatusOK {
			t.Fatalf("%s: %d\n%s", path, status, text)
		}
		return text
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not seen\n%s", what, page(""))
			}
		}
	}
	ofInstances := regexp.MustCompile(`<span class="of">([0-9a-f]{12})</span>`)
	var first []string
	await("the instances of the start", func() bool {
		first = ofInstances.FindAllString(page("instances"), -1)
		return len(first) > 0
	})
	await("mails that were sent", func() bool { return strings.Contains(page("jobs?type=1&status=success"), `href="./jobs/`) })
	await("a deploy of all instances", func() bool {
		now := page("instances")
		return !slices.ContainsFunc(first, func(id string) bool { return strings.Contains(now, id) })
	})
	for _, of := range jobTypes() {
		if overview := page(""); !strings.Contains(overview, of.ServiceName) {
			t.Errorf("%s is not on the overview", of.ServiceName)
		}
	}

	closeShop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the shop does not close")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
