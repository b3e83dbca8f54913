// Package service proves what the service promises, on every database: tasks come in over HTTP and go out as callbacks.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent() // ants starts goroutines of its own when it is imported
	code := dbtest.Run(m)
	os.RemoveAll(built)
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience is how long a test waits for what has to come, where how soon is not its subject.
const patience = time.Minute

// instance is a service with a client.
type instance struct {
	t     *testing.T
	base  string
	token string
}

// start runs a service until the test ends.
func start(t *testing.T, d dbtest.Database, set ...func(*service.Config)) *instance {
	t.Helper()
	guard, err := service.NewGuard([]string{"127.0.0.0/8"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := service.Config{DB: d.DB, Deliver: service.Delivery{Guard: guard}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), OpenToThisMachine: true}
	for _, s := range set {
		s(&cfg)
	}
	s, err := service.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return &instance{t: t, base: web.URL}
}

// answer is what came back.
type answer struct {
	*http.Response
	text  []byte
	value any // of the text, if it is JSON
}

// json reads a field of the answer, or of what is in it: "tasks.0.id".
func (a answer) json(path string) any {
	value := a.value
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			n := 0
			if _, err := fmt.Sscan(part, &n); err != nil || n >= len(v) {
				return nil
			}
			value = v[n]
		default:
			return nil
		}
	}
	return value
}

func (a answer) id() string { return fmt.Sprint(a.json("id")) }

// send sends JSON, or nothing, and wants a status. Headers come as "Name: value".
func (i *instance) send(want int, method, path, body string, headers ...string) answer {
	i.t.Helper()
	a := i.try(method, path, body, headers...)
	if a.StatusCode != want {
		i.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.StatusCode, want, a.text)
	}
	return a
}

// try sends a request, and returns whatever is answered.
func (i *instance) try(method, path, body string, headers ...string) answer {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), method, i.base+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if i.token != "" {
		r.Header.Set("Authorization", "Bearer "+i.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	a := answer{Response: response, text: bytes.TrimSpace(text)}
	_ = json.Unmarshal(text, &a.value) // or it is no JSON
	if told := announced()(method, r.URL.Path, a.StatusCode); told != "" {
		i.t.Errorf("%s %s: %s: %s", method, path, told, a.text)
	}
	return a
}

// called is a callback that a receiver got.
type called struct {
	method string
	path   string
	query  string
	header http.Header
	body   string
	at     time.Time
}

// receiver is where callbacks go. It answers as a function says, 200 without one.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []called
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		at := time.Now()
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return // cut off
		}
		r.mu.Lock()
		r.calls = append(r.calls, called{q.Method, q.URL.Path, q.URL.RawQuery, q.Header, string(body), at})
		n := len(r.calls)
		r.mu.Unlock()
		if answer != nil {
			answer(n, w, q)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []called {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// isReady asks the process at an address whether it may be sent requests.
func isReady(base string) func() bool {
	return func() bool {
		answer, err := http.Get(base + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: not so: %s", patience, what)
		}
	}
}

// status waits until a task has a status.
func (i *instance) awaitStatus(id, want string) answer {
	i.t.Helper()
	var last answer
	await(i.t, "task "+id+" is "+want, func() bool {
		last = i.send(http.StatusOK, "GET", "/v1/tasks/"+id, "")
		return last.json("status") == want
	})
	return last
}
