package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

// served starts pqueue serve, and returns the console's address and what ends it.
func served(t *testing.T, sh *shell, flags ...string) (address string, end func() int) {
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
	found := regexp.MustCompile(`http://\S+/`).FindString(string(text[:n]))
	if err != nil || found == "" {
		t.Fatalf("it says %q, %v", text[:n], err)
	}
	return found, func() int {
		cancel()
		return <-code
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
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, end = served(t, sh, "--password-file", file)
	ask("GET", at, "", http.StatusUnauthorized)
	ask("GET", at+"static/console.css", "wrong", http.StatusUnauthorized)
	ask("GET", at, "s3cret", http.StatusOK)
	if page := ask("POST", fmt.Sprintf("%sjobs/%d/cancel", at, id), "s3cret", http.StatusOK); !strings.Contains(page, "cancelled") {
		t.Error(page)
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}
