package deliver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	connectTimeout = 5 * time.Second
	tlsTimeout     = 5 * time.Second
	addressesMax   = 8 // of a host that are tried
	connectionLife = 5 * time.Minute
)

// dialer makes the connections, and knows all that are open.
type dialer struct {
	names *names
	over  context.Context // ends with the Deliverer
	open  func(ctx context.Context, d *net.Dialer, to netip.AddrPort) (net.Conn, error)

	mu    sync.Mutex
	conns map[*connection]struct{}
}

// connection is an open connection. When it has reached its age, its next call is its last: so a host that moved is found at its new
// address (https://go.dev/issue/54429).
type connection struct {
	net.Conn
	dialer *dialer
	old    time.Time

	raw     syscall.RawConn // nil: it is no socket
	written atomic.Int64    // bytes
	until   atomic.Int64    // unix nanoseconds: the receiver closes it soon after, if nothing comes; 0: it has not said
}

func (c *connection) Write(p []byte) (n int, err error) {
	n, err = c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// isOver reports whether no call should go out on a connection that was idle: the receiver has closed it, is about to, or has sent what
// nobody asked for. net/http hears of that a little later, which may be too late.
func (c *connection) isOver(now time.Time) bool {
	until := c.until.Load()
	return until > 0 && now.UnixNano() > until || c.raw != nil && isReadable(c.raw)
}

func newDialer(over context.Context, n *names) *dialer {
	return &dialer{names: n, over: over, conns: map[*connection]struct{}{}, open: openTCP}
}

func openTCP(ctx context.Context, d *net.Dialer, to netip.AddrPort) (net.Conn, error) {
	return d.DialContext(ctx, "tcp", to.String())
}

// dial connects to a host that a guard allows; nil: to an egress proxy, which an administrator named.
func (d *dialer) dial(ctx context.Context, g *Guard, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.over, func() { cancel(context.Canceled) })()
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	took := tracesOf(ctx)
	if took.isRefused() {
		return nil, errSentOnce
	}
	addrs, host, err := d.resolve(ctx, host, took)
	if err != nil {
		return nil, err
	}
	base := &net.Dialer{KeepAlive: 30 * time.Second}
	if g != nil {
		if err := g.vetted(host, addrs, uint16(port)); err != nil {
			return nil, err
		}
		base.ControlContext = g.control(host)
	}
	began := time.Now()
	c, err := d.firstOf(ctx, base, addrs, uint16(port))
	took.connected(time.Since(began))
	if err != nil {
		return nil, err
	}
	return d.keep(c)
}

// resolve returns the addresses of a host, and its name, which is empty if the host is an address.
func (d *dialer) resolve(ctx context.Context, host string, took *traces) ([]netip.Addr, string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, "", nil
	}
	began := time.Now()
	addrs, err := d.names.addresses(ctx, host)
	took.looked(time.Since(began))
	return addrs, host, err
}

// firstOf tries the addresses one after the other, each for its part of the time.
func (d *dialer) firstOf(ctx context.Context, base *net.Dialer, addrs []netip.Addr, port uint16) (c net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	addrs = addrs[:min(len(addrs), addressesMax)]
	for i, addr := range addrs {
		part, end := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addrs)-i))
		c, err = d.open(part, base, netip.AddrPortFrom(addr, port))
		end()
		if err == nil || ctx.Err() != nil {
			return c, err
		}
	}
	return nil, err
}

// control is the last look at an address, right before the connection: whatever came before, no other address can be called.
func (g *Guard) control(host string) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("address %q of network %q: %w", address, network, errors.ErrUnsupported)
		}
		return g.vet(host, to.Addr(), to.Port())
	}
}

func (d *dialer) keep(c net.Conn) (net.Conn, error) {
	life := connectionLife*8/10 + rand.N(connectionLife*4/10) // so that not all that began together end together
	k := &connection{Conn: c, dialer: d, old: time.Now().Add(life)}
	if socket, ok := c.(syscall.Conn); ok {
		k.raw, _ = socket.SyscallConn() // an error: it is closed, which the call will see
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over.Err() != nil {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	d.conns[k] = struct{}{}
	return k, nil
}

func (c *connection) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.conns, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}

// closeAll closes what is open.
func (d *dialer) closeAll() {
	d.mu.Lock()
	conns := d.conns
	d.conns = map[*connection]struct{}{}
	d.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// connectionOf finds the connection that is inside of TLS; nil if there is none.
func connectionOf(c net.Conn) *connection {
	for {
		switch in := c.(type) {
		case *connection:
			return in
		case interface{ NetConn() net.Conn }:
			c = in.NetConn()
		default:
			return nil
		}
	}
}

// isShared reports whether several calls are on a connection at a time.
func isShared(c net.Conn) bool {
	secure, ok := c.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// keepAlive is how long a receiver keeps a connection on which nothing comes, as the header Keep-Alive says in seconds: a little less, since
// its clock began before ours.
func keepAlive(answer http.Header) (wait time.Duration, said bool) {
	for part := range strings.SplitSeq(answer.Get("Keep-Alive"), ",") {
		if text, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(part)), "timeout="); found {
			seconds, err := strconv.ParseUint(text, 10, 16)
			wait = time.Duration(seconds) * time.Second
			return wait - min(time.Second, wait/2), err == nil
		}
	}
	return 0, false
}
