package deliver

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// listen gives each connection, after its request has come in, to a receiver that need not speak HTTP.
func listen(t *testing.T, answer func(c *net.TCPConn, request *http.Request)) (url string, connections *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	connections = new(atomic.Int64)
	over := make(chan struct{})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			serving.Go(func() {
				ended := make(chan struct{})
				serving.Go(func() {
					select {
					case <-over:
						c.Close() // whatever it does
					case <-ended:
					}
				})
				defer close(ended)
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					answer(c.(*net.TCPConn), r)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(over)
		serving.Wait()
	})
	return "http://" + l.Addr().String() + "/", connections
}

// endlessly writes until the other side has had enough, and returns how much it took.
func endlessly(c net.Conn, text string) (taken int64) {
	for {
		n, err := io.WriteString(c, text)
		if taken += int64(n); err != nil {
			return taken
		}
	}
}

func drip(c net.Conn, text string) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

const okHead = "HTTP/1.1 200 OK\r\n"

// Whatever a receiver does, a call ends in time, with a verdict that is right, and with little memory.
func TestReceiversThatMisbehaveGetTheirVerdictInTime(t *testing.T) {
	const most = bodyTimeout + 8*time.Second // none waits longer than for a body, and a machine may stand still for a while
	mebibyte := strings.Repeat("x", 1<<20)
	for what, c := range map[string]struct {
		answer func(*net.TCPConn, *http.Request)
		want   Outcome
		code   Code
	}{
		"it never answers":                {func(c *net.TCPConn, _ *http.Request) { io.Copy(io.Discard, c) }, Retry, CodeHeaderTimeout},
		"its header drips":                {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead); drip(c, "X-A: b\r\n") }, Retry, CodeHeaderTimeout},
		"its header drips within a line":  {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead+"X-A: "); drip(c, "b") }, Retry, CodeHeaderTimeout},
		"its header has no end":           {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead); endlessly(c, "X-A: b\r\n") }, Retry, CodeProtocol},
		"a line of its header has no end": {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead+"X-A: "); endlessly(c, mebibyte) }, Retry, CodeProtocol},
		"its first line has no end":       {func(c *net.TCPConn, _ *http.Request) { endlessly(c, mebibyte) }, Retry, CodeProtocol},
		"it promises an answer for ever":  {func(c *net.TCPConn, _ *http.Request) { endlessly(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") }, Retry, CodeProtocol},
		"it changes the protocol": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
			io.Copy(io.Discard, c)
		}, Retry, CodeProtocol},
		"it speaks something else": {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, "220 mail.example ESMTP\r\n") }, Retry, CodeProtocol},
		"its status is none": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, "HTTP/1.1 999 Whatever\r\nContent-Length: 0\r\n\r\n")
		}, Retry, CodeProtocol},
		"its length is below zero": {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead+"Content-Length: -5\r\n\r\n") }, Retry, CodeProtocol},
		"it has two lengths": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Content-Length: 5\r\nContent-Length: 6\r\n\r\n")
		}, Retry, CodeProtocol},
		"it closes at once":           {func(*net.TCPConn, *http.Request) {}, Retry, CodeReset},
		"it resets at once":           {func(c *net.TCPConn, _ *http.Request) { reset(c) }, Retry, CodeReset},
		"it closes within the header": {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead+"X-A: b") }, Retry, CodeReset},
		"its body never comes": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Content-Length: 5\r\n\r\n")
			io.Copy(io.Discard, c)
		}, Succeeded, ""},
		"its body drips": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Content-Length: 10000000\r\n\r\n")
			drip(c, "x")
		}, Succeeded, ""},
		"its body has no end": {func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead+"\r\n"); endlessly(c, mebibyte) }, Succeeded, ""},
		"its body has no end, in chunks": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Transfer-Encoding: chunked\r\n\r\n")
			endlessly(c, "1000\r\n"+mebibyte[:0x1000]+"\r\n")
		}, Succeeded, ""},
		"its trailer has no end": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Transfer-Encoding: chunked\r\n\r\n0\r\n")
			endlessly(c, "X-A: b\r\n")
		}, Succeeded, ""},
		"it resets within the body": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Content-Length: 500\r\n\r\nxxx")
			reset(c) // what has come in before can be read all the same
		}, Succeeded, ""},
		"it fails, and its body has no end": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, "HTTP/1.1 500 No\r\n\r\n")
			endlessly(c, mebibyte)
		}, Retry, CodeStatus},
		"it says that its body is a bomb": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, okHead+"Content-Encoding: gzip\r\n\r\n")
			endlessly(c, mebibyte)
		}, Succeeded, ""},
		"it sends its answer twice": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, strings.Repeat(okHead+"Content-Length: 2\r\n\r\nok", 2))
		}, Succeeded, ""},
		"it asks for a pause of a year": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, "HTTP/1.1 429 No\r\nRetry-After: 31536000\r\nContent-Length: 0\r\n\r\n")
		}, Deferred, CodeRateLimited},
		"it asks for a pause until it is old": {func(c *net.TCPConn, _ *http.Request) {
			io.WriteString(c, "HTTP/1.1 503 No\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n")
		}, Deferred, CodeRateLimited},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDeliverer(t, Config{Guard: local(t)})
			url, _ := listen(t, c.answer)
			call := callTo(url)
			call.Timeout = time.Minute
			if c.code == CodeHeaderTimeout {
				call.Timeout = time.Second
			}
			began := time.Now()
			result := d.Deliver(t.Context(), call)
			if took := time.Since(began); took > most {
				t.Errorf("it took %v, want %v at most", took, most)
			}
			if result.Outcome != c.want || result.Code != c.code {
				t.Errorf("%v %s: %s, want %v %s", result.Outcome, result.Code, result.Detail, c.want, c.code)
			}
			if result.Wait > 2*time.Hour {
				t.Errorf("the task waits for %v", result.Wait)
			}
		})
	}
}

func TestAnAnswerWithoutAnEndTakesLittleMemoryAndIsNotReadOn(t *testing.T) {
	const calls = 50
	some := strings.Repeat("x", 64<<10)
	var taken atomic.Int64
	var receivers sync.WaitGroup
	url, _ := listen(t, func(c *net.TCPConn, _ *http.Request) {
		receivers.Add(1)
		defer receivers.Done()
		io.WriteString(c, okHead+"\r\n")
		taken.Add(endlessly(c, some))
	})
	d := newDeliverer(t, Config{Guard: local(t)})
	before := heapInUse()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if result := d.Deliver(t.Context(), callTo(url)); result.Outcome == Retry || result.Outcome == Failed {
				t.Errorf("%+v", result)
			}
		})
	}
	all.Wait()
	receivers.Wait()
	if more := heapInUse() - before; more > 16<<20 {
		t.Errorf("%d MB of memory for %d calls", more>>20, calls)
	}
	if each := taken.Load() / calls; each > 8<<20 { // what fits into the buffers between two sockets
		t.Errorf("each receiver wrote %d KB, of which 64 are read", each>>10)
	}
}

func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}

// certificate makes one for 127.0.0.1, which vouches for itself.
func certificate(t *testing.T, name string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receiver"}, NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}
}

func TestACallByHTTPSGoesToNobodyWhoCannotProveWhoHeIs(t *testing.T) {
	tomorrow := time.Now().Add(12 * time.Hour)
	for what, c := range map[string]struct {
		certificate tls.Certificate
		most        uint16 // version; 0: any
		known       bool   // its authority
		want        Outcome
		code        Code
	}{
		"a certificate of a known authority": {certificate(t, "127.0.0.1", tomorrow), 0, true, Succeeded, ""},
		"of nobody who is known":             {certificate(t, "127.0.0.1", tomorrow), 0, false, Retry, CodeTLS},
		"for somebody else":                  {certificate(t, "shop.example", tomorrow), 0, true, Retry, CodeTLS},
		"that has expired":                   {certificate(t, "127.0.0.1", time.Now().Add(-time.Hour)), 0, true, Retry, CodeTLS},
		"with TLS 1.1":                       {certificate(t, "127.0.0.1", tomorrow), tls.VersionTLS11, true, Retry, CodeTLS},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			to := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
			to.TLS = &tls.Config{Certificates: []tls.Certificate{c.certificate}, MinVersion: tls.VersionTLS10, MaxVersion: c.most}
			to.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail
			to.StartTLS()
			defer to.Close()
			call := callTo(to.URL)
			if c.known {
				authority, err := x509.ParseCertificate(c.certificate.Certificate[0])
				if err != nil {
					t.Fatal(err)
				}
				call.Topic.Identity.RootCAs = x509.NewCertPool()
				call.Topic.Identity.RootCAs.AddCert(authority)
			}
			result := newDeliverer(t, Config{Guard: local(t)}).Deliver(t.Context(), call)
			if result.Outcome != c.want || result.Code != c.code {
				t.Errorf("%v %s: %s, want %v %s", result.Outcome, result.Code, result.Detail, c.want, c.code)
			}
			if n := requests.Load(); (n > 0) != (c.want == Succeeded) {
				t.Errorf("%d requests came in", n)
			}
		})
	}
}

// A cancelled task's call ends at once, wherever it is, and is no attempt.
func TestACallEndsAtOnceWithItsContext(t *testing.T) {
	for what, answer := range map[string]func(*net.TCPConn, *http.Request){
		"before the header": func(c *net.TCPConn, _ *http.Request) { io.Copy(io.Discard, c) },
		"within the header": func(c *net.TCPConn, _ *http.Request) { io.WriteString(c, okHead); drip(c, "X-A: b\r\n") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			came := make(chan struct{}, 1)
			url, _ := listen(t, func(c *net.TCPConn, r *http.Request) { came <- struct{}{}; answer(c, r) })
			d := newDeliverer(t, Config{Guard: local(t)})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-came
				cancel(errors.New("cancelled"))
			}()
			call := callTo(url)
			call.Timeout = time.Minute
			began := time.Now()
			if result := d.Deliver(ctx, call); result.Outcome != Aborted {
				t.Errorf("%+v", result)
			}
			if took := time.Since(began); took > call.Timeout/2 {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// What was called once and never again leaves nothing behind.
func TestManyHostsThatAreCalledOnceLeaveNothingBehind(t *testing.T) {
	hosts := orMany(5_000, 100_000)
	to := receiver(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	port := to.URL[strings.LastIndexByte(to.URL, ':')+1:]
	d := newDeliverer(t, Config{Guard: local(t), Resolver: loopbackNames{}})
	before := heapInUse()
	var all sync.WaitGroup
	work := make(chan int)
	for range 50 {
		all.Go(func() {
			for n := range work {
				if result := d.Deliver(t.Context(), callTo(fmt.Sprintf("http://h%d.local.example:%s/", n, port))); result.Outcome != Succeeded {
					t.Errorf("host %d: %+v", n, result)
				}
			}
		})
	}
	for n := range hosts {
		work <- n
	}
	close(work)
	all.Wait()
	more := heapInUse() - before
	t.Logf("%d hosts: %d MB more in use, %d destinations known", hosts, more>>20, len(d.Destinations(nil, hosts)))
	if more > int64(hosts)*4<<10 {
		t.Errorf("%d MB more are in use", more>>20)
	}
}

// loopbackNames has this machine for all names.
type loopbackNames struct{}

func (loopbackNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}
