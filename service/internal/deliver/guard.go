package deliver

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Guard decides which addresses may be called: a URL when a task is added, see Check, and each address whenever a connection is made.
// Without a list, only public addresses may be called. It may be used by any number of goroutines.
//
// Only the second look protects: a name may have another address by then. The first look tells the caller early.
type Guard struct {
	allow allowList
	never []netip.AddrPort
	here  []uint16 // ports of which no loopback address may be called; 0: none at all
}

// NewGuard makes a Guard. What stands in allow may be called, although it is not public; what stands in never may not, whatever allow says.
// NewGuard of package service says how both are written.
func NewGuard(allow []string, never []netip.AddrPort) (*Guard, error) {
	g := &Guard{}
	for _, line := range allow {
		if err := g.allow.add(line); err != nil {
			return nil, fmt.Errorf("%q %w", line, err)
		}
	}
	for _, own := range never {
		if addr := own.Addr().Unmap(); addr.IsUnspecified() || addr.IsLoopback() {
			g.here = append(g.here, own.Port())
		}
		if !own.Addr().IsUnspecified() {
			g.never = append(g.never, netip.AddrPortFrom(own.Addr().Unmap(), own.Port()))
			continue
		}
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of this machine: %w", err)
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				g.never = append(g.never, netip.AddrPortFrom(prefix.Addr().Unmap(), own.Port()))
			}
		}
	}
	return g, nil
}

// Check reports why a URL may not be called, without a look at the network: the URL is not valid, or it names an address, a port or a
// host that is not allowed. Only http and https are, without user, password and fragment, on the ports 80, 443 and from 1024 on that are
// no known service's.
func (g *Guard) Check(rawURL string) error {
	_, err := g.target(rawURL)
	return err
}

// target is what a URL names, if it may be called as far as that can be seen without a look-up.
func (g *Guard) target(rawURL string) (*target, error) {
	t, err := parseTarget(rawURL)
	if err != nil {
		return nil, err
	}
	switch {
	case t.addr.IsValid():
		if err := g.vet("", t.addr, t.port); err != nil {
			return nil, err
		}
	case isLocalhost(t.host) && !g.allow.hasHost(t.host, t.port):
		return nil, &BlockedError{Host: t.host, Port: t.port, Range: "this machine"}
	}
	if !portIsUsual(t.port) && !g.allow.hasPort(t.host, t.addr, t.port) {
		return nil, &BlockedError{Host: t.host, Port: t.port, Range: fmt.Sprintf("port %d, which is not for callbacks", t.port), portOnly: true}
	}
	return t, nil
}

// vetted checks the addresses of a host together: if one is forbidden, none is called, so nobody can mix a good answer with a bad one.
func (g *Guard) vetted(host string, addrs []netip.Addr, port uint16) error {
	for _, a := range addrs {
		if err := g.vet(host, a, port); err != nil {
			return err
		}
	}
	return nil
}

// vet checks an address. Host is the name that was looked up, empty for an address in a URL.
func (g *Guard) vet(host string, addr netip.Addr, port uint16) error {
	addr = addr.WithZone("").Unmap()
	blocked := &BlockedError{Host: host, Addr: addr, Port: port}
	if host == "" {
		blocked.Host = addr.String()
	}
	if addr.IsUnspecified() {
		blocked.Range, blocked.never = "this machine", true
		return blocked
	}
	for _, a := range append(embedded(addr), addr) {
		if slices.Contains(metadata, a) {
			blocked.Range, blocked.never = "the metadata service of a cloud", true
			return blocked
		}
		if g.isNever(a, port) {
			blocked.Range, blocked.never = "this service itself or its database", true
			return blocked
		}
	}
	if g.allow.hasHost(host, port) || g.allow.hasAddr(addr, port) && g.embeddedAllowed(addr, port) {
		return nil
	}
	if blocked.Range = notPublic(addr); blocked.Range != "" {
		return blocked
	}
	return nil
}

// isNever reports whether no list can allow an address. The kernel takes all of 127.0.0.0/8 for this machine, and a
// listener may have any of them.
func (g *Guard) isNever(addr netip.Addr, port uint16) bool {
	return slices.Contains(g.never, netip.AddrPortFrom(addr, port)) || slices.Contains(g.never, netip.AddrPortFrom(addr, 0)) ||
		addr.IsLoopback() && (slices.Contains(g.here, port) || slices.Contains(g.here, 0))
}

// embeddedAllowed reports whether the IPv4 addresses that an IPv6 address stands for may be called themselves: a list that allows the
// network of a translator does not allow all that the translator reaches.
func (g *Guard) embeddedAllowed(addr netip.Addr, port uint16) bool {
	for _, a := range embedded(addr) {
		if notPublic(a) != "" && !g.allow.hasAddr(a, port) {
			return false
		}
	}
	return true
}

// BlockedError says that a Guard does not allow an address.
type BlockedError struct {
	Host string     // as it stands in the URL
	Addr netip.Addr // the host's; not valid if it was not looked up. Error does not name it: who may add tasks need not know it
	Port uint16
	// Range is what the address belongs to, such as "private networks (10.0.0.0/8)".
	Range string

	never    bool // no configuration can allow it
	portOnly bool // the port is the reason
}

// Line is what to add to --egress-allow, the first argument of [NewGuard], so that the address may be called; empty: nothing can allow it.
func (e *BlockedError) Line() string {
	switch {
	case e.never:
		return ""
	case e.portOnly || e.Port != 0 && e.Port != 80 && e.Port != 443: // and no other port
		return net.JoinHostPort(e.Host, fmt.Sprint(e.Port))
	}
	return e.Host
}

func (e *BlockedError) Error() string {
	if e.never {
		return fmt.Sprintf("%s belongs to %s; it can never be called", e.Host, e.Range)
	}
	if e.portOnly {
		return fmt.Sprintf("%s has %s; use another port, or have an administrator add %q to --egress-allow", e.Host, e.Range, e.Line())
	}
	return fmt.Sprintf("%s belongs to %s; use a public address, or have an administrator add %q to --egress-allow", e.Host, e.Range, e.Line())
}
