package bodies

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory, so that their deadlines are in virtual time.
type pipes struct{ accepted chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	if c, open := <-p.accepted; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	close(p.accepted)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve serves a handler as pqueue serve does, and returns what connects to it.
func serve(t *testing.T, handler http.HandlerFunc) (dial func() net.Conn) {
	p := &pipes{make(chan net.Conn)}
	web := &http.Server{Handler: Timed(handler), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Minute, IdleTimeout: 2 * time.Minute}
	go web.Serve(p)
	t.Cleanup(func() { web.Close() })
	return func() net.Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close() })
		p.accepted <- theirs
		return ours
	}
}

// trickle sends the head of a request and a byte each second, and returns when the connection is cut.
func trickle(c net.Conn, head string) (took time.Duration, said string) {
	began := time.Now()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer c.Close()
	sending.Go(func() {
		_, err := io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n"))
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(c, "1")
		}
	})
	text, _ := io.ReadAll(c)
	return time.Since(began), string(text)
}

func TestAConnectionWhoseBodyDoesNotComeIsCutWhateverItsHandlerDoes(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"it answers":              func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"it writes":               func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "no") },
		"it writes much":          func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("no", 100_000)) },
		"it flushes":              func(w http.ResponseWriter, _ *http.Request) { http.NewResponseController(w).Flush() },
		"it says that it goes on": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProcessing) },
		"it returns":              func(http.ResponseWriter, *http.Request) {},
		"it panics":               func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it reads a part":         func(_ http.ResponseWriter, r *http.Request) { io.ReadFull(r.Body, make([]byte, 1)) },
		"it reads all":            func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		"it reads a form":         func(_ http.ResponseWriter, r *http.Request) { r.PostFormValue("x") },
		"it has a deadline of its own": func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(3 * time.Second))
			io.Copy(io.Discard, r.Body)
		},
	} {
		for kind, head := range map[string]string{
			"a length":    "POST / HTTP/1.1\nHost: x\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 5000\n\n",
			"a long one":  "POST / HTTP/1.1\nHost: x\nContent-Length: 500000\n\n",
			"no length":   "POST / HTTP/1.1\nHost: x\nContent-Type: application/x-www-form-urlencoded\nTransfer-Encoding: chunked\n\n3\nabc\n",
			"GET":         "GET / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n",
			"it waits":    "POST / HTTP/1.1\nHost: x\nExpect: 100-continue\nContent-Length: 5000\n\n",
			"it is early": "POST / HTTP/1.0\nContent-Length: 5000\n\n",
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if took, said := trickle(serve(t, handler)(), head); took > Within(500_000)+rest+2*time.Second {
						t.Errorf("it was cut after %v: %q", took, said)
					}
				})
			})
		}
	}
}

func TestAHandlerWhoseBodyIsThereHasAllTheTimeItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
				err = errors.Join(err, context.Cause(r.Context()))
			case <-time.After(5 * time.Minute):
			}
			if err != nil || string(text) != "abc" {
				t.Errorf("%q, %v", text, err)
			}
		})()
		answers := bufio.NewReader(c)
		for range 2 { // and its connection serves others
			go io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
			if answer, err := http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusOK || answer.Close {
				t.Fatalf("%v, %v", answer, err)
			}
		}
	})
}

func TestAConnectionServesOnIfTheRestOfABodyComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })()
		answers := bufio.NewReader(c)
		for range 3 {
			go func() {
				io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
				time.Sleep(rest - time.Second)
				io.WriteString(c, strings.Repeat("x", 200_000))
			}()
			answer, err := http.ReadResponse(answers, nil)
			if err != nil || answer.StatusCode != http.StatusForbidden || answer.Close {
				t.Fatalf("%v, %v", answer, err)
			}
			time.Sleep(time.Minute) // nothing is left that would cut it
		}
	})
}

func TestAStreamThatAnswersBeforeItsEndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			control.EnableFullDuplex()
			w.WriteHeader(http.StatusOK)
			control.Flush()
			control.SetReadDeadline(time.Now().Add(time.Hour))
			text, err := io.ReadAll(r.Body)
			if err != nil || len(text) != 20 {
				t.Errorf("%q, %v", text, err)
			}
		})()
		go func() {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
			for range 20 {
				time.Sleep(time.Minute)
				io.WriteString(c, "x")
			}
		}()
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Error(err)
		}
	})
}

func TestHowLongABodyMayTake(t *testing.T) {
	for bytes, want := range map[int64]time.Duration{0: Grace, LeastSpeed: 11 * time.Second, 1 << 20: 26 * time.Second, 32 << 20: Most, 1 << 62: Most} {
		if got := Within(bytes); got != want {
			t.Errorf("%d bytes may take %v, want %v", bytes, got, want)
		}
	}
}
