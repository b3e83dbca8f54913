package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// serveDemo serves everything on this machine, with a database that is deleted at the end, and a receiver that misbehaves on purpose.
func (a *app) serveDemo(ctx context.Context, s *server, password string) error {
	folder, err := os.MkdirTemp("", "pqueue-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	a.dsn, a.driver = "sqlite://"+filepath.ToSlash(filepath.Join(folder, "demo.db"))+"?mode=rwc&_pragma=journal_mode(WAL)", ""
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	to := &http.Server{Handler: &receiver{say: a.sayf}, ReadHeaderTimeout: headersMax}
	var serving sync.WaitGroup
	serving.Go(func() { _ = to.Serve(listener) }) // it ends with Close
	defer serving.Wait()
	defer to.Close()
	s.allow = append(s.allow, listener.Addr().String())
	s.tell = func(at net.Addr) { a.tellDemo(at, listener.Addr()) }
	return a.serveOn(ctx, s, password)
}

func (a *app) tellDemo(api, receiver net.Addr) {
	a.sayf(`
A receiver listens at http://%[2]s: /ok answers at once, /slow after two seconds, /flaky fails twice of three times, /busy asks for a pause
of two seconds, /broken always fails. Try this, after the line with export:

  curl -H "Authorization: Bearer $PQ_TOKEN" --json '{"url":"http://%[2]s/ok","body":{"hello":"world"}}' http://%[1]s/v1/topics/demo/tasks
  curl -H "Authorization: Bearer $PQ_TOKEN" --json '{"url":"http://%[2]s/flaky","retry":%[3]s}' http://%[1]s/v1/topics/demo/tasks
  curl -H "Authorization: Bearer $PQ_TOKEN" -X PUT --json '{"url":"http://%[2]s/ok","delay":"10s"}' http://%[1]s/v1/topics/demo/tasks/order-4711
`, api, receiver, `{"waits":["1s","2s"],"max_attempts":5}`)
}

// receiver is where the demo's callbacks go.
type receiver struct {
	say func(format string, args ...any)

	mu    sync.Mutex
	calls int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	const bodyShown = 200
	body, err := io.ReadAll(io.LimitReader(q.Body, bodyShown))
	if err != nil {
		return // cut off
	}
	r.mu.Lock()
	r.calls++
	call := r.calls
	r.mu.Unlock()
	status := http.StatusOK
	switch q.URL.Path {
	case "/slow":
		select {
		case <-time.After(2 * time.Second):
		case <-q.Context().Done():
		}
	case "/flaky":
		if call%3 != 0 {
			status = http.StatusInternalServerError
		}
	case "/busy":
		if call%2 != 0 {
			status = http.StatusTooManyRequests
			w.Header().Set("Retry-After", "2")
		}
	case "/broken":
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	fmt.Fprintln(w, http.StatusText(status))
	r.say("%s  %s %s  attempt %s of %s  %s  answered %d",
		time.Now().Format(time.TimeOnly), q.Method, q.URL.Path, q.Header.Get("Pq-Attempt"), q.Header.Get("Pq-Max-Attempts"), body, status)
}
