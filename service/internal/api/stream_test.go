package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// wires are connections in memory, so that their deadlines go by the test's clock.
type wires chan net.Conn

func (w wires) Accept() (net.Conn, error) {
	if c, more := <-w; more {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (w wires) Close() error   { return nil }
func (w wires) Addr() net.Addr { return &net.IPAddr{} }

func TestAStreamWhoseAnswersNobodyTakesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, intake.RoomDefault)}}
		defer a.Intake.Close()
		a.streams = newPlaces()
		ended := make(chan struct{})
		web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			_ = a.addStream(&call{w, r, tokens.Adder("alias"), a, nil})
		})}
		w := make(wires, 1)
		var running sync.WaitGroup
		running.Go(func() { _ = web.Serve(w) })
		ours, theirs := net.Pipe()
		w <- theirs
		running.Go(func() {
			_, _ = io.WriteString(ours, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
			for {
				if _, err := io.WriteString(ours, "2\r\nx\n\r\n"); err != nil { // a line that is no task
					return
				}
				time.Sleep(time.Second)
			}
		})
		select {
		case <-ended:
		case <-time.After(3 * streamQuiet):
			t.Error("it goes on")
		}
		ours.Close()
		close(w)
		web.Close()
		<-ended
		running.Wait()
		if a.streams.open != 0 || len(a.streams.of) != 0 || len(a.streams.adding) != 0 {
			t.Error("it keeps its places")
		}
	})
}

func TestTheStreamsOfOneCallerLeavePlacesForOthers(t *testing.T) {
	a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, intake.RoomDefault)}}
	defer a.Intake.Close()
	a.streams = newPlaces()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var open sync.WaitGroup
	stream := func(who string) error {
		from, _ := io.Pipe()
		go func() {
			<-ctx.Done()
			from.Close()
		}()
		return a.addStream(&call{httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "/v1/batch", from), tokens.Adder(who), a, nil})
	}
	until := func(n int) {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			a.streams.mu.Lock()
			there := a.streams.open
			a.streams.mu.Unlock()
			if there == n {
				return
			}
		}
		t.Fatalf("there are not %d streams", n)
	}
	for n := 1; n <= streamsMax; n++ {
		who := string(rune('a' + (n-1)/streamsOfOne))
		open.Go(func() { _ = stream(who) })
		until(n)
		if n == streamsOfOne {
			if bad := (*problem.Problem)(nil); !errors.As(stream("a"), &bad) || bad.Code != problem.Busy || !strings.Contains(bad.Detail, "this caller") {
				t.Errorf("one more of the same: %v", bad)
			}
		}
	}
	if bad := (*problem.Problem)(nil); !errors.As(stream("z"), &bad) || bad.Code != problem.Busy || bad.RetryAfter == 0 || strings.Contains(bad.Detail, "this caller") {
		t.Errorf("one more than there may be: %v", bad)
	}
	cancel()
	open.Wait()
}

func TestAStreamWaitsForAPlaceAndGivesItBack(t *testing.T) {
	a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, 1)}}
	defer a.Intake.Close()
	a.streams = newPlaces()
	for range streamsAdding {
		a.streams.adding <- struct{}{} // that of another stream
	}
	w := httptest.NewRecorder()
	ended := make(chan error)
	go func() {
		ended <- a.addStream(&call{w, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/batch", strings.NewReader("x\ny\n")), tokens.Adder("alias"), a, nil})
	}()
	select {
	case <-ended:
		t.Fatal("it did not wait")
	case <-time.After(2 * streamWait):
	}
	<-a.streams.adding
	if err := <-ended; err != nil || len(a.streams.adding) != streamsAdding-1 {
		t.Error(err)
	}
	if n := strings.Count(w.Body.String(), `"problem":{`); n != 2 {
		t.Errorf("%s", w.Body)
	}
}

// Whoever sends a stream may wait for the answer before the first line, and the server would wait for that line before it answers.
func TestAStreamThatIsRefusedIsAnsweredBeforeItEnds(t *testing.T) {
	handler := Handler(Parts{Topics: topics.New(nil, topics.Limits{}, nil, slog.New(slog.DiscardHandler))})
	for _, c := range []struct {
		path, media string
		open        bool // the sender may call
		want        int
	}{
		{"/v1/batch", "application/x-ndjson", false, http.StatusUnauthorized},
		{"/v1/batch", "application/x-ndjson; charset=utf-8", false, http.StatusUnauthorized},
		{"/v1/batch", "Application/X-NDJSON", false, http.StatusUnauthorized},
		{"/v1/batch", "application/x-ndjson; charset=iso-8859-1", true, http.StatusUnsupportedMediaType},
		{"/v1/batch/", "application/x-ndjson", true, http.StatusNotFound},
	} {
		from, to := io.Pipe()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, from)
		r.Header.Set("Content-Type", c.media)
		if c.open {
			r = r.WithContext(tokens.Open(r.Context()))
			r.RemoteAddr, r.Host = "127.0.0.1:50000", "127.0.0.1:8080"
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		to.Close()
		if w.Code != c.want || w.Header().Get("Connection") != "close" {
			t.Errorf("%s, %s: %d, Connection: %q, want %d and close: %s", c.path, c.media, w.Code, w.Header().Get("Connection"), c.want, w.Body)
		}
	}
}
