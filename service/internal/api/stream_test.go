package api

import (
	"context"
	"errors"
	"io"
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
		a.streams = newPlaces(a.Intake.Room())
		ended := make(chan struct{})
		web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			_ = a.addStream(&call{w, r, nil})
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
		if len(a.streams.open) != 0 || len(a.streams.adding) != 0 {
			t.Error("it keeps its places")
		}
	})
}

func TestOpenStreamsTakeNoRoomFromOtherRequests(t *testing.T) {
	a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, 8<<20)}}
	defer a.Intake.Close()
	a.streams = newPlaces(a.Intake.Room())
	ctx, cancel := context.WithCancel(t.Context())
	open := func() (*httptest.ResponseRecorder, error) {
		from, _ := io.Pipe()
		go func() {
			<-ctx.Done()
			from.Close()
		}()
		w := httptest.NewRecorder()
		return w, a.addStream(&call{w, httptest.NewRequestWithContext(ctx, "POST", "/v1/batch", from), nil})
	}
	const streams = 2 // of a room of eight mebibytes
	ended := make(chan error, streams)
	for range streams {
		go func() {
			_, err := open()
			ended <- err
		}()
	}
	for end := time.Now().Add(time.Minute); len(a.streams.open) < streams && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	release, full := a.Intake.Admit(8 << 20)
	if full != nil {
		t.Fatal(full)
	}
	release()
	_, err := open()
	if bad := (*problem.Problem)(nil); !errors.As(err, &bad) || bad.Code != problem.Busy || bad.RetryAfter == 0 {
		t.Errorf("a third stream: %v", err)
	}
	cancel()
	for range streams {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestAStreamWaitsForAPlaceAndGivesItBack(t *testing.T) {
	a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, 1)}}
	defer a.Intake.Close()
	a.streams = newPlaces(a.Intake.Room())
	a.streams.adding <- struct{}{} // that of another stream
	w := httptest.NewRecorder()
	ended := make(chan error)
	go func() {
		ended <- a.addStream(&call{w, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/batch", strings.NewReader("x\ny\n")), nil})
	}()
	select {
	case <-ended:
		t.Fatal("it did not wait")
	case <-time.After(2 * streamWait):
	}
	<-a.streams.adding
	if err := <-ended; err != nil || len(a.streams.adding) != 0 {
		t.Error(err)
	}
	if n := strings.Count(w.Body.String(), `"problem":{`); n != 2 {
		t.Errorf("%s", w.Body)
	}
}
