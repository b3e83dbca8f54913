package deliver

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// kept is a receiver that keeps its connections, and does with a request to /poison what it is made to do.
type kept struct {
	url string

	mu       sync.Mutex
	poisoned []string // methods
	conns    []net.Conn
}

func keeping(t *testing.T, poison func(c *net.TCPConn)) *kept {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{url: "http://" + l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.conns = append(k.conns, c)
			k.mu.Unlock()
			serving.Go(func() { k.serve(c.(*net.TCPConn), poison) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.closeAll()
		serving.Wait()
	})
	return k
}

func (k *kept) serve(c *net.TCPConn, poison func(c *net.TCPConn)) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(in)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err != nil {
			return
		}
		if r.URL.Path == "/poison" {
			k.mu.Lock()
			k.poisoned = append(k.poisoned, r.Method)
			k.mu.Unlock()
			poison(c)
			return
		}
		if _, err := io.WriteString(c, okHead+"Content-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// closeAll closes what is open. When it returns, the other sides have been told.
func (k *kept) closeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.Close()
	}
	k.conns = nil
}

// takePoisoned returns the requests to /poison since the last call.
func (k *kept) takePoisoned() (methods []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	methods, k.poisoned = k.poisoned, nil
	return methods
}

// warm leaves idle connections to a receiver.
func warm(t *testing.T, d *Deliverer, to *kept, identity Identity, connections int) {
	t.Helper()
	var calls sync.WaitGroup
	for n := range connections {
		calls.Go(func() {
			call := callTo(to.url + "/warm")
			call.Topic = &Topic{Name: fmt.Sprintf("warm-%d", n), Identity: identity} // each has a lane of its own
			if result := d.Deliver(t.Context(), call); result.Outcome != Succeeded {
				t.Errorf("%+v", result)
			}
		})
	}
	calls.Wait()
}

// A request that kills a worker of the receiver may have been obeyed before. Sent again on each idle connection, it would kill all workers.
func TestAnAttemptIsOneRequestOnTheWire(t *testing.T) {
	ends := map[string]func(c *net.TCPConn){
		"closes":                    func(*net.TCPConn) {},
		"resets":                    func(c *net.TCPConn) { reset(c) },
		"closes within a status":    func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 20") },
		"resets within a status":    func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 20"); reset(c) },
		"closes within a header":    func(c *net.TCPConn) { io.WriteString(c, okHead+"X-A: ") },
		"closes its direction only": func(c *net.TCPConn) { c.CloseWrite(); io.Copy(io.Discard, c) },
		"promises, and closes":      func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n") },
	}
	for what, poison := range ends {
		for _, idle := range []int{0, 1, 32} {
			for _, way := range []string{"directly", "through a proxy"} {
				t.Run(fmt.Sprintf("%s, %d idle, %s", what, idle, way), func(t *testing.T) {
					t.Parallel()
					to := keeping(t, poison)
					d := newDeliverer(t, Config{Guard: local(t)})
					identity := Identity{}
					if way != "directly" {
						identity.Proxy = to.url
					}
					for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"} {
						for _, body := range []string{"", `{"charge":1}`, strings.Repeat("x", 100_000)} {
							warm(t, d, to, identity, idle)
							call := callTo(to.url + "/poison")
							call.Method, call.Body = method, []byte(body)
							call.Topic = &Topic{Name: method + fmt.Sprint(len(body)), Identity: identity, Limits: Limits{PerSecond: 1}}
							result := d.Deliver(t.Context(), call)
							if got := to.takePoisoned(); !slices.Equal(got, []string{method}) || result.Outcome != Retry || result.Code != CodeReset && result.Code != CodeProtocol {
								t.Errorf("%s with %d bytes went out as %v: %v %s", method, len(body), got, result.Outcome, result.Code)
							}
						}
					}
				})
			}
		}
	}
}

// A receiver may close an idle connection before the next call goes out. Then nothing of the call is written there, and the task does not pay.
func TestAConnectionThatWasClosedMeanwhileCostsNoAttempt(t *testing.T) {
	to := keeping(t, nil)
	d := newDeliverer(t, Config{Guard: local(t)})
	for n := range 200 {
		warm(t, d, to, Identity{}, 1+n%4)
		to.closeAll()
		for _, method := range []string{"POST", "GET"} {
			call := callTo(to.url + "/x")
			call.Method = method
			if result := d.Deliver(t.Context(), call); result.Outcome != Succeeded {
				t.Fatalf("call %d: %+v", n, result)
			}
			to.closeAll()
		}
	}
}

// Node closes an idle connection after five seconds, and says so. A call that meets the close on its way would cost an attempt.
func TestAConnectionIsNotUsedForLongerThanItsReceiverKeepsIt(t *testing.T) {
	for text, want := range map[string]time.Duration{"timeout=5": 4 * time.Second, "timeout=5, max=100": 4 * time.Second, "Max=3, Timeout=1": 500 * time.Millisecond, "timeout=0": 0, "": -1, "timeout=x": -1, "max=4": -1} {
		wait, said := keepAlive(http.Header{"Keep-Alive": {text}})
		if !said {
			wait = -1
		}
		if wait != want {
			t.Errorf("%q: %v, want %v", text, wait, want)
		}
	}
	url, connections := listen(t, func(c *net.TCPConn, _ *http.Request) {
		io.WriteString(c, okHead+"Keep-Alive: timeout=0\r\nContent-Length: 2\r\n\r\nok")
		io.Copy(io.Discard, c)
	})
	d := newDeliverer(t, Config{Guard: local(t)})
	for range 3 {
		if result := d.Deliver(t.Context(), callTo(url)); result.Outcome != Succeeded {
			t.Fatalf("%+v", result)
		}
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections for three calls", n)
	}
}

// By HTTP/2, a receiver may say that it has not processed a request. net/http believes it, and sends the request up to seven times.
func TestAnAttemptIsOneRequestOnTheWireByHTTP2(t *testing.T) {
	own := certificate(t, "127.0.0.1", time.Now().Add(12*time.Hour))
	authority, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, refuse := range map[string]func(f *http2.Framer, stream uint32) error{
		"refuses the stream": func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		},
		"blames the protocol":   func(f *http2.Framer, stream uint32) error { return f.WriteRSTStream(stream, http2.ErrCodeProtocol) },
		"goes away":             func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"goes away and closes":  func(f *http2.Framer, _ uint32) error { f.WriteGoAway(0, http2.ErrCodeNo, nil); return io.EOF },
		"closes the connection": func(*http2.Framer, uint32) error { return io.EOF },
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(method+" "+what, func(t *testing.T) {
				t.Parallel()
				l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"}})
				if err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				requests := 0
				var serving sync.WaitGroup
				over := make(chan struct{})
				serving.Go(func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						ended := make(chan struct{})
						serving.Go(func() {
							select {
							case <-over:
							case <-ended:
							}
							c.Close()
						})
						serving.Go(func() {
							defer close(ended)
							if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
								return
							}
							f := http2.NewFramer(c, c)
							for err := f.WriteSettings(); err == nil; {
								var got http2.Frame
								if got, err = f.ReadFrame(); err != nil {
									return
								}
								switch got := got.(type) {
								case *http2.SettingsFrame:
									if !got.IsAck() {
										err = f.WriteSettingsAck()
									}
								case *http2.HeadersFrame:
									mu.Lock()
									requests++
									mu.Unlock()
									err = refuse(f, got.StreamID)
								}
							}
						})
					}
				})
				defer serving.Wait()
				defer close(over)
				defer l.Close()
				call := callTo("https://" + l.Addr().String() + "/poison")
				call.Method, call.Timeout = method, 5*time.Second
				call.Topic.Identity.HTTP2, call.Topic.Identity.RootCAs = true, x509.NewCertPool()
				call.Topic.Identity.RootCAs.AddCert(authority)
				result := newDeliverer(t, Config{Guard: local(t)}).Deliver(t.Context(), call)
				mu.Lock()
				defer mu.Unlock()
				if requests != 1 || result.Outcome != Retry {
					t.Errorf("%d requests: %+v", requests, result)
				}
			})
		}
	}
}
