package deliver

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"
)

// traces are what one call leaves behind on its way. A connection is made by a goroutine of the transport's, which may outlive the call.
type traces struct {
	mu       sync.Mutex
	timing   Timing
	tlsBegan time.Time
	tlsErr   error
	ip       netip.AddrPort
	gotAt    time.Time // when there was a connection
}

type tracesKey struct{}

// tracesOf finds the traces of the call that a connection is made for.
func tracesOf(ctx context.Context) *traces {
	if t, ok := ctx.Value(tracesKey{}).(*traces); ok {
		return t
	}
	return &traces{}
}

// follow makes a transport leave traces. It tells the clock when there is a connection, and ends connections that are old.
func (t *traces) follow(ctx context.Context, header http.Header, connected func()) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, tracesKey{}, t), &httptrace.ClientTrace{
		TLSHandshakeStart: func() { t.with(func() { t.tlsBegan = time.Now() }) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			t.with(func() { t.timing.TLS, t.tlsErr = time.Since(t.tlsBegan), err })
		},
		GotConn: func(got httptrace.GotConnInfo) { // before the header is written, and by the same goroutine
			now := time.Now()
			if got.Reused && isOld(got.Conn, now) {
				header["Connection"] = []string{"close"}
			}
			t.with(func() {
				t.gotAt = now
				if to, err := netip.ParseAddrPort(got.Conn.RemoteAddr().String()); err == nil {
					t.ip = to
				}
			})
			connected()
		},
		GotFirstResponseByte: func() { t.with(func() { t.timing.FirstByte = time.Since(t.gotAt) }) },
	})
}

func (t *traces) with(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

func (t *traces) looked(took time.Duration)    { t.with(func() { t.timing.DNS = took }) }
func (t *traces) connected(took time.Duration) { t.with(func() { t.timing.Connect = took }) }

// read returns the traces so far, and the error of TLS.
func (t *traces) read() (Timing, netip.AddrPort, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.timing, t.ip, t.tlsErr
}
