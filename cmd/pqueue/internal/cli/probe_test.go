package cli

import (
	"database/sql"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
)

func TestProbesNeedNoLoginWhateverIsServed(t *testing.T) {
	sh, _, _ := newTables(t)
	sh.want("user create ann", exitDone)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("a long enough s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ending sync.WaitGroup // side by side, since each takes a second
	for _, flags := range []string{
		"--read-only",
		"--api=false --delivery=false",
		"--api=false --delivery=false --login",
		"--api=false --delivery=false --password-file " + file,
		"--api=false --delivery=false --trusted-proxy 10.1.2.3 --user-header X-Forwarded-User",
		"--api=false --login",
		"--delivery=false --password-file " + file,
	} {
		at, end := served(t, sh, strings.Fields(flags)...)
		for _, path := range []string{"livez", "readyz"} {
			var status int
			var text string
			await(t, path+" of "+flags, func() bool { // the API and delivery take a moment to start
				status, text = probe(t, at+path)
				return status != http.StatusServiceUnavailable
			})
			if status != http.StatusOK || text != "ok\n" {
				t.Errorf("%s: /%s says %d, %s", flags, path, status, text)
			}
		}
		ending.Go(func() {
			if code := end(); code != exitDone {
				t.Errorf("%s: exit code %d after Ctrl-C", flags, code)
			}
		})
	}
	ending.Wait()
}

// probe asks as Kubernetes does: it follows no redirect.
func probe(t *testing.T, address string) (status int, text string) {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestReadinessIsRedBeforeAConsoleAloneStopsListening(t *testing.T) {
	sh, _, _ := newTables(t)
	at, end := served(t, sh, "--read-only")
	ended := make(chan int)
	go func() { ended <- end() }()
	await(t, "readiness turns red", func() bool {
		status, text := probe(t, at+"readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "about to stop")
	})
	if status, text := probe(t, at+"livez"); status != http.StatusOK {
		t.Errorf("while it stops, /livez says %d, %s", status, text)
	}
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// A database that is away may refuse, and may not answer at all.
func TestAConsoleWithoutItsDatabaseIsAliveAndNotReady(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // the kernel takes connections, and nobody answers
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for what, at := range map[string]net.Addr{"silent": silent.Addr(), "closed": closed.Addr()} {
		for driver, dsn := range map[string]string{"mysql": "ann@tcp(" + at.String() + ")/jobs", "pgx": "postgres://ann@" + at.String() + "/jobs?sslmode=disable"} {
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			c := &alone{db: db, log: slog.New(slog.DiscardHandler)}
			web := httptest.NewServer(service.Probes(c.live, c.ready))
			defer web.Close()
			began := time.Now()
			for range 20 { // who asks within a second of an answer gets the same
				if status, text := probe(t, web.URL+"/readyz"); status != http.StatusServiceUnavailable || text != "the database does not answer\n" {
					t.Errorf("%s, %s: /readyz says %d, %s", driver, what, status, text)
				}
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s, %s: to ask for readiness twenty times took %v", driver, what, took)
			}
			if status, text := probe(t, web.URL+"/livez"); status != http.StatusOK {
				t.Errorf("%s, %s: /livez says %d, %s", driver, what, status, text)
			}
		}
	}
}
