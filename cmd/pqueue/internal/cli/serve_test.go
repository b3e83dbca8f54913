package cli

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// served starts pqueue serve for programs on this machine, and returns the console's address and what ends it.
func served(t *testing.T, sh *shell, flags ...string) (address string, end func() int) {
	t.Helper()
	if !slices.Contains(flags, "--trusted-proxy") {
		flags = append([]string{"--open-to-this-machine"}, flags...)
	}
	return servedAs(t, sh, io.Discard, flags...)
}

// servedAs starts pqueue serve. What it says after its first line goes to a writer.
func servedAs(t *testing.T, sh *shell, rest io.Writer, flags ...string) (address string, end func() int) {
	t.Helper()
	t.Setenv("PQUEUE_DSN", sh.dsn)
	ctx, cancel := context.WithCancel(t.Context())
	said, say := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...), Streams{strings.NewReader(""), io.Discard, say})
		say.Close()
	}()
	text := make([]byte, 1000)
	n, err := said.Read(text)
	found := regexp.MustCompile(`http://[^/\s]+/`).FindString(string(text[:n]))
	rest.Write(text[:n])
	if err != nil || found == "" {
		t.Fatalf("it says %q, %v", text[:n], err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(rest, said)
	}()
	return found, func() int {
		cancel()
		ended := <-code
		<-copied
		return ended
	}
}

func TestTheConsoleIsServedUntilCtrlC(t *testing.T) {
	sh, db, jobs := newTables(t)
	id, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, Key: "order-47"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, address, password string, want int) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			r.SetBasicAuth("ann", password)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d; %v", address, answer.StatusCode, want, err)
		}
		return string(page)
	}
	at, end := served(t, sh, "--title", "shop", "--read-only")
	if page := ask("GET", at+"jobs", "", http.StatusOK); !strings.Contains(page, "order-47") || !strings.Contains(page, "shop") {
		t.Error(page)
	}
	ask("POST", fmt.Sprintf("%sjobs/%d/cancel", at, id), "", http.StatusForbidden)
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}

	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("a long enough s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, end = served(t, sh, "--password-file", file)
	ask("GET", at, "", http.StatusUnauthorized)
	ask("GET", at+"static/console.css", "wrong", http.StatusUnauthorized)
	ask("GET", at, "a long enough s3cret", http.StatusOK)
	if page := ask("POST", fmt.Sprintf("%sjobs/%d/cancel", at, id), "a long enough s3cret", http.StatusOK); !strings.Contains(page, "cancelled") {
		t.Error(page)
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// As at https://ops/tools/queue/. What a browser does is done here, with the addresses that the pages have.
func TestALoginWorksBehindAProxyThatTakesAPrefixAway(t *testing.T) {
	sh, db, jobs := newTables(t)
	id, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, Key: "order-47"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Pause(t.Context(), db, 7); err != nil { // then the type has pages
		t.Fatal(err)
	}
	password := strings.TrimSpace(sh.want("user create ann", exitDone))
	at, end := served(t, sh, "--login", "--api=false", "--delivery=false")
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/tools/queue", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}))
	defer proxy.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	page := func(answer *http.Response, err error) (at *url.URL, text string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v: %s", answer.Request.URL, answer.Status, err, body)
		}
		return answer.Request.URL, string(body)
	}
	// send presses the button of a page's form.
	send := func(at *url.URL, text string, fill url.Values) (*url.URL, string) {
		t.Helper()
		action := regexp.MustCompile(`method="post" action="([^"]*)"`).FindStringSubmatch(text)
		if action == nil {
			t.Fatalf("no form at %s: %s", at, text)
		}
		address, err := at.Parse(html.UnescapeString(action[1]))
		if err != nil {
			t.Fatal(err)
		}
		return page(client.PostForm(address.String(), fill))
	}

	for _, deep := range []string{fmt.Sprint("/jobs/", id), "/queues/7/simulate?last=30h", "/jobs?type=7", "/"} {
		asked := proxy.URL + "/tools/queue" + deep
		at, text := page(client.Get(asked))
		kept := regexp.MustCompile(`name="to" value="([^"]*)"`).FindStringSubmatch(text)
		if at.Path != "/tools/queue/login" || kept == nil {
			t.Fatalf("%s leads to %s: %s", asked, at, text)
		}
		style, err := at.Parse("static/console.css")
		if err != nil || !strings.Contains(text, `href="static/console.css"`) {
			t.Fatalf("%s, %v", text, err)
		}
		page(client.Get(style.String()))
		at, text = send(at, text, url.Values{"name": {"ann"}, "password": {password}, "to": {html.UnescapeString(kept[1])}})
		if at.String() != asked || !strings.Contains(text, "<span>ann</span> <button>Log out</button>") {
			t.Fatalf("the login leads from %s to %s: %s", asked, at, text)
		}
		at, text = send(at, text, nil) // to log out is the first form that sends something
		if at.Path != "/tools/queue/login" || !strings.Contains(text, "<h1>Log in</h1>") {
			t.Fatalf("the logout leads from %s to %s: %s", asked, at, text)
		}
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// The demo says what to try. What it says is tried here, with a client in the place of curl.
func TestTheDemoDoesWhatItSays(t *testing.T) {
	t.Setenv("PQUEUE_DSN", "")
	ctx, cancel := context.WithCancel(t.Context())
	said, say := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"serve", "--demo", "--listen", "127.0.0.1:0"}, Streams{strings.NewReader(""), io.Discard, say})
		say.Close()
	}()
	curl := regexp.MustCompile(`curl -H "Authorization: Bearer \$PQ_TOKEN" (-X PUT )?--json '(.*)' (http://\S+)`)
	export, token := regexp.MustCompile(`export PQ_TOKEN=(\S+)`), ""
	called := regexp.MustCompile(`POST (/\w+)  attempt (\d).* answered (\d+)`)
	commands, calls := [][]string{}, []string{}
	for lines := bufio.NewScanner(said); len(calls) < 3 && lines.Scan(); {
		if c := export.FindStringSubmatch(lines.Text()); c != nil {
			token = c[1]
		}
		if c := curl.FindStringSubmatch(lines.Text()); c != nil {
			commands = append(commands, c)
		}
		if c := called.FindStringSubmatch(lines.Text()); c != nil {
			calls = append(calls, strings.Join(c[1:], " "))
		}
		if len(commands) == 3 {
			go func(commands [][]string) { // the scanner goes on meanwhile: a full pipe would stop the service
				for _, c := range commands {
					tryUntilReady(t, token, c[1] != "", c[2], c[3])
				}
			}(commands)
			commands = nil
		}
	}
	go io.Copy(io.Discard, said)
	if slices.Sort(calls); len(calls) != 3 || calls[0][:8] != "/flaky 1" || calls[1][:8] != "/flaky 2" || calls[2] != "/ok 1 200" {
		t.Errorf("the receiver got %q", calls)
	}
	cancel()
	if code := <-code; code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// A task that calls the database's port could speak to it.
func TestTheDatabasesServerIsKnownSoThatItIsNeverCalled(t *testing.T) {
	for _, c := range []struct{ driver, dsn, want string }{
		{"mysql", "shop:s3cret@tcp(127.0.0.1:3307)/shop", "[127.0.0.1:3307]"},
		{"mysql", "shop@unix(/run/mysqld/mysqld.sock)/shop", "[]"},
		{"pgx", "postgres://shop:s3cret@127.0.0.1:6432/shop", "[127.0.0.1:6432]"},
		{"pgx", "postgres://shop@127.0.0.2:6432,127.0.0.3:6433/shop?sslmode=disable", "[127.0.0.2:6432 127.0.0.3:6433]"},
		{"pgx", "postgres:///shop?host=/run/postgresql", "[]"},
		{"sqlite", "file:jobs.db", "[]"},
	} {
		at, err := serverOf(t.Context(), c.driver, c.dsn)
		slices.SortFunc(at, netip.AddrPort.Compare)
		if got := fmt.Sprint(slices.Compact(at)); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.dsn, got, err, c.want)
		}
	}
}

func TestMetricsHaveAnAddressOfTheirOwn(t *testing.T) {
	sh, _, _ := newTables(t)
	metrics, end := served(t, sh, "--metrics-listen", "127.0.0.1:0") // it says this address first
	for path, want := range map[string]int{"metrics": http.StatusOK, "v1/topics": http.StatusNotFound} {
		answer, err := http.Get(metrics + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want {
			t.Errorf("/%s: %s, %v, want %d", path, answer.Status, err, want)
		}
		if want == http.StatusOK && !(strings.Contains(string(text), "persistent_queue_healthy ") && strings.Contains(string(text), "go_goroutines ")) {
			t.Errorf("%s", text)
		}
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

func TestNoTaskCanCallTheListenerOfTheMetrics(t *testing.T) {
	sh, _, _ := newTables(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	metrics, end := served(t, sh, "--metrics-listen", "127.0.0.1:0", "--listen", free.Addr().String(), "--egress-allow", "127.0.0.0/8")
	await(t, "it is ready", func() bool {
		answer, err := http.Get("http://" + free.Addr().String() + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	for _, to := range []string{metrics, "http://" + free.Addr().String() + "/v1/tokens"} {
		answer, err := http.Post("http://"+free.Addr().String()+"/v1/topics/orders/tasks", "application/json", strings.NewReader(`{"url":"`+to+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "it can never be called") {
			t.Errorf("%s: %s, %v: %s", to, answer.Status, err, text)
		}
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

func tryUntilReady(t *testing.T, token string, put bool, body, address string) {
	method := "POST"
	if put {
		method = "PUT"
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusCreated {
			return
		}
		if answer.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) {
			t.Errorf("%s %s: %s: %s", method, address, answer.Status, text)
			return
		}
	}
}

func TestReadOnlyServesTheConsoleAlone(t *testing.T) {
	sh, _, _ := newTables(t)
	at, end := served(t, sh, "--read-only")
	for path, want := range map[string]int{"": http.StatusOK, "livez": http.StatusOK, "readyz": http.StatusOK, "v1/topics": http.StatusNotFound} {
		answer, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("/%s: %s, want %d", path, answer.Status, want)
		}
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

func TestATokenIsShownOnceAndCanBeRevoked(t *testing.T) {
	sh, _, _ := newTables(t)
	text := strings.TrimSpace(sh.want("token create --scope tasks:add,tasks:read --topic shop.* --valid 90d", exitDone, "pq_"))
	if _, rest, _ := strings.Cut(text, "_"); len(rest) < 40 {
		t.Errorf("the token is %q", text)
	}
	listed := sh.want("token list", exitDone, "tasks:add,tasks:read", "shop.*")
	if strings.Contains(listed, text[len(text)-20:]) {
		t.Error("the list shows a secret")
	}
	id := strings.TrimSpace(sh.want("token list -o id", exitDone))
	sh.want("token revoke "+id, exitDone)
	sh.want("token revoke "+id, exitNothing)
	sh.want("token create --scope everything", exitError, "tasks:add")
}

func TestTheConsoleAsksForUsersAndNotesWhoChangedWhat(t *testing.T) {
	sh, db, jobs := newTables(t)
	id, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, StartTime: 4_000_000_000})
	if err != nil {
		t.Fatal(err)
	}
	sh.want("serve --login --api=false --delivery=false --listen 127.0.0.1:0", exitUsage, "pqueue user create NAME")
	sh.want("serve --login --password-file x", exitUsage, "use one of them")
	password := strings.TrimSpace(sh.want("user create ann", exitDone))
	sh.in = "a long enough password\n"
	sh.want("user create bob --role read --password-stdin", exitDone)
	sh.want("user create bob", exitError, "bob is there already")
	sh.in = "short\n"
	sh.want("user create eve --password-stdin", exitError, "12 to 1000 bytes")
	sh.want("user create Eve", exitError, "a name has")
	sh.want("user create eve --role admin", exitError, "there are [read operate]")
	sh.want("user list", exitDone, "ann", "operate", "bob", "read")

	at, end := served(t, sh, "--login", "--api=false", "--delivery=false")
	as := func(name, password string) *http.Client {
		t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Jar: jar}
		answer, err := client.PostForm(at+"login", url.Values{"name": {name}, "password": {password}, "to": {"/jobs"}})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.Request.URL.Path != "/jobs" || !strings.Contains(string(text), "<span>"+name+"</span> <button>Log out</button>") {
			t.Fatalf("%s is at %s, %v: %s", name, answer.Request.URL, err, text)
		}
		return client
	}
	for _, c := range []struct {
		client *http.Client
		want   int
	}{{as("bob", "a long enough password"), http.StatusForbidden}, {as("ann", password), http.StatusOK}, {http.DefaultClient, http.StatusUnauthorized}} {
		answer, err := c.client.PostForm(fmt.Sprintf("%sjobs/%d/cancel", at, id), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("a change is answered with %d, want %d", answer.StatusCode, c.want)
		}
	}
	acts, err := operate.Acts(t.Context(), jobs, db, operate.ActFilter{Job: id})
	if err != nil || len(acts) != 1 || acts[0].Actor != "ann" {
		t.Errorf("%+v, %v", acts, err)
	}
	sh.want("user password ann", exitDone)
	sh.want("user drop bob", exitDone)
	sh.want("user drop bob", exitNothing, "there is no user bob")
	sh.want("user password bob", exitNothing, "there is no user bob")
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}
