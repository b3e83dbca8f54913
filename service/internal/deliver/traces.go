package deliver

import (
	"context"
	"crypto/tls"
	"net"
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

	conn    net.Conn // the last that the call got
	written int64    // bytes that had gone out on it before
	headers bool     // the call's header has gone out, as far as HTTP/2 is concerned
	refused bool     // the call has ended, since it would have gone out twice
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
//
// It also sees to it that a call is one request on the wire. When a connection breaks, net/http sends a request again on the next that is
// idle, and on all the others after it. So a call that asks for a connection after a byte of it went out is refused. If none did, as on a
// connection that the receiver had closed before, it may have another.
func (t *traces) follow(ctx context.Context, header http.Header, connected, refuse func()) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, tracesKey{}, t), &httptrace.ClientTrace{
		GetConn: func(string) {
			if t.isSent() {
				refuse()
			}
		},
		WroteHeaders:      func() { t.with(func() { t.headers = true }) },
		TLSHandshakeStart: func() { t.with(func() { t.tlsBegan = time.Now() }) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			t.with(func() { t.timing.TLS, t.tlsErr = time.Since(t.tlsBegan), err })
		},
		GotConn: func(got httptrace.GotConnInfo) { // before the header is written, and by the same goroutine
			now, c, shared := time.Now(), connectionOf(got.Conn), isShared(got.Conn)
			if t.isSent() {
				refuse()
				if c != nil && !shared {
					_ = c.Close() // or it would go out all the same; HTTP/2 looks at the context before it writes
				}
				return
			}
			if got.Reused && c != nil {
				if !shared && c.isOver(now) {
					_ = c.Close() // so that nothing is written on it, and the call gets another
				}
				if now.After(c.old) {
					header["Connection"] = []string{"close"}
				}
			}
			t.with(func() {
				t.gotAt, t.conn, t.headers = now, got.Conn, false
				if c != nil {
					t.written = c.written.Load()
				}
				if to, err := netip.ParseAddrPort(got.Conn.RemoteAddr().String()); err == nil {
					t.ip = to
				}
			})
			connected()
		},
		GotFirstResponseByte: func() { t.with(func() { t.timing.FirstByte = time.Since(t.gotAt) }) },
	})
}

// isSent reports whether the receiver may have got something of the call.
func (t *traces) isSent() (sent bool) {
	t.with(func() {
		if t.conn == nil {
			return
		}
		if c := connectionOf(t.conn); c != nil && !isShared(t.conn) {
			sent = c.written.Load() != t.written
		} else {
			sent = t.headers
		}
		t.refused = sent
	})
	return sent
}

func (t *traces) isRefused() (refused bool) {
	t.with(func() { refused = t.refused })
	return refused
}

// keep notes how long the receiver keeps the connection, if it says so.
func (t *traces) keep(answer http.Header, now time.Time) {
	wait, said := keepAlive(answer)
	if !said {
		return
	}
	t.with(func() {
		if c := connectionOf(t.conn); c != nil && !isShared(t.conn) {
			c.until.Store(now.Add(wait).UnixNano())
		}
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
