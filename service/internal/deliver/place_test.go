package deliver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// taken is how many calls count as running, in all books.
func taken(d *Deliverer) (calls int) {
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	calls = d.lanes.inFlight
	for e := d.lanes.recent.Front(); e != nil; e = e.Next() {
		calls += e.Value.(*lane).inFlight
	}
	return calls
}

// roundTripper is a transport that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// badBody is a body of an answer that ends its reader.
type badBody struct{ end func() }

func (b badBody) Read([]byte) (int, error) { b.end(); return 0, io.EOF }
func (b badBody) Close() error             { return nil }

func TestAPlaceComesBackHoweverACallEnds(t *testing.T) {
	none := func(*http.Request) (*http.Response, error) { return nil, io.EOF }
	for what, end := range map[string]func(){"a panic": func() { panic("no") }, "runtime.Goexit": runtime.Goexit} {
		for where, set := range map[string]func(d *Deliverer) roundTripper{
			"the judge": func(d *Deliverer) roundTripper {
				d.judge = func(evidence, *Rules, time.Time) verdict { end(); return verdict{} }
				return none
			},
			"the transport": func(*Deliverer) roundTripper {
				return func(*http.Request) (*http.Response, error) { end(); return nil, nil }
			},
			"reading the body": func(*Deliverer) roundTripper {
				return func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, ContentLength: -1, Body: badBody{end}}, nil
				}
			},
		} {
			t.Run(what+" in "+where, func(t *testing.T) {
				d := newDeliverer(t, Config{Guard: local(t), InFlight: 1})
				way := set(d)
				to, err := d.identities.guard.target("http://127.0.0.1:9009/")
				if err != nil {
					t.Fatal(err)
				}
				enter := func() (ticket, Code) {
					got, why, _ := d.lanes.enter(t.Context(), laneKey{"orders", to.origin}, Limits{InFlight: 1})
					return got, why
				}
				place, why := enter()
				if why != "" {
					t.Fatal(why)
				}
				var call sync.WaitGroup
				call.Go(func() {
					defer func() { _ = recover() }()
					d.deliver(t.Context(), callTo("http://127.0.0.1:9009/"), to, way, place)
				})
				call.Wait()
				if n := taken(d); n != 0 {
					t.Errorf("%d calls count as running", n)
				}
				if place, why = enter(); why != "" {
					t.Fatalf("the next call gets no place: %s", why)
				}
				d.leave(place, verdict{outcome: Retry})
			})
		}
	}
}

// A call that goes on when its context is over does not keep the process.
func TestCloseHasALimit(t *testing.T) {
	to := receiver(t, func(http.ResponseWriter, *http.Request) {})
	var log bytes.Buffer
	d, err := New(Config{Guard: local(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	judging, on := make(chan struct{}), make(chan struct{})
	d.judge = func(evidence, *Rules, time.Time) verdict {
		close(judging)
		<-on
		return verdict{outcome: Retry}
	}
	var call sync.WaitGroup
	call.Go(func() { d.Deliver(context.Background(), callTo(to.URL)) })
	<-judging
	d.Close() // a test without the limit never ends
	if !strings.Contains(log.String(), "calls=1") {
		t.Errorf("the log says %q", log.String())
	}
	close(on)
	call.Wait()
	d.lanes.end()
}

// Three digits are a status for net/http: 000 is one, too.
func TestAStatusThatIsNoneIsAnAnswerAndGivesThePlaceBack(t *testing.T) {
	for _, status := range []string{"000", "001", "012", "099", "102", "199", "600", "999"} {
		url, _ := listen(t, func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, "HTTP/1.1 "+status+" x\r\nContent-Length: 0\r\n\r\n")
		})
		d := newDeliverer(t, Config{Guard: local(t), InFlight: 1})
		for range 3 {
			result := d.Deliver(t.Context(), callTo(url))
			if result.Outcome != Retry || result.Code != CodeProtocol && result.Code != CodeReset {
				t.Errorf("%s: %+v", status, result)
			}
		}
		if n := taken(d); n != 0 {
			t.Errorf("%s: %d calls count as running", status, n)
		}
	}
}

// What a receiver writes first, be it no HTTP at all: the call ends with a verdict, its place comes back, and nothing of an error's text is
// shown.
func FuzzNoAnswerKeepsItsPlace(f *testing.F) {
	for _, seed := range []string{
		okHead + "\r\n", "HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 099 \r\n\r\n", "HTTP/1.0 200\r\n\r\n", "HTTP/9.9 204 x\r\n\r\n", "HTTP/1.1 -12 x\r\n\r\n",
		"HTTP/1.1 101 x\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 000 x\r\n\r\n", "HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 429 x\r\nRetry-After: -1\r\n\r\n",
		"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "HTTP/1.1 200 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 301 x\r\nLocation: \x00\xff\r\n\r\n",
		"HTTP/1.1 200 x\r\nKeep-Alive: timeout=99999999999\r\nContent-Length: 2\r\n\r\nok", "\x16\x03\x01\x00", "PRI * HTTP/2.0\r\n\r\n", "", "\r\n\r\n", "HTTP/1.1 200 x\r\nPq-Retry: no\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b",
	} {
		f.Add([]byte(seed), byte(len(seed)))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	var answer atomic.Pointer[[]byte]
	var calls atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if n, _ := c.Read(make([]byte, 64<<10)); n > 0 {
					c.Write(*answer.Load())
				}
			}()
		}
	}()
	d, err := New(Config{Guard: local(f), InFlight: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(d.Close)
	f.Fuzz(func(t *testing.T, text []byte, kind byte) {
		answer.Store(&text)
		call := callTo("http://" + l.Addr().String() + "/")
		call.Topic = &Topic{Name: fmt.Sprint(calls.Add(1))} // a lane without a past
		switch kind % 4 {
		case 1:
			call.Topic.Rules.BodyJSON = map[string]string{"code": "0"}
		case 2:
			call.Topic.Rules.Success = []StatusRange{{200, 599}}
		case 3:
			call.Method = http.MethodHead
		}
		call.Timeout = TimeoutMin
		result := d.Deliver(t.Context(), call)
		if result.Outcome < Succeeded || result.Outcome > Aborted || (result.Outcome == Succeeded) != (result.Code == "") || result.Outcome != Succeeded && result.Detail == "" {
			t.Errorf("%q: %+v", text, result)
		}
		if n := taken(d); n != 0 {
			t.Fatalf("%q: %d calls count as running", text, n)
		}
	})
}
