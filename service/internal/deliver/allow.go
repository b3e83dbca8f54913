package deliver

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// allowList is what an administrator allows beyond public addresses.
type allowList struct {
	networks []allowedNetwork
	hosts    []allowedHost
}

type allowedNetwork struct {
	prefix netip.Prefix
	port   uint16 // 0: every usual port
}

type allowedHost struct {
	name  string // in lower case, without the *
	below bool   // *.name
	port  uint16 // 0: every usual port
}

// widestV4 and widestV6 are the largest networks that a line may allow: that of 10.0.0.0/8 and that of fc00::/7.
const widestV4, widestV6 = 8, 7

func (l *allowList) add(line string) error {
	if prefix, err := netip.ParsePrefix(line); err == nil {
		return l.addNetwork(prefix, 0)
	}
	if addr, err := netip.ParseAddr(strings.Trim(line, "[]")); err == nil {
		return l.addNetwork(netip.PrefixFrom(addr.WithZone(""), addr.BitLen()), 0)
	}
	if ap, err := netip.ParseAddrPort(line); err == nil && ap.Port() != 0 {
		return l.addNetwork(netip.PrefixFrom(ap.Addr().WithZone(""), ap.Addr().BitLen()), ap.Port())
	}
	host, port, found := strings.Cut(line, ":")
	entry := allowedHost{}
	if found {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("has no valid port; use a number from 1 to 65535")
		}
		entry.port = uint16(n)
	}
	host, entry.below = strings.CutPrefix(host, "*.")
	name, err := hostASCII(host)
	if err != nil || lastLabelIsNumber(name) {
		return errors.New("is neither a network nor a host; use something like 10.1.0.0/16, shop.internal or *.svc.cluster.local:8080")
	}
	entry.name = name
	l.hosts = append(l.hosts, entry)
	return nil
}

func (l *allowList) addNetwork(prefix netip.Prefix, port uint16) error {
	if prefix.Addr().Is4In6() {
		if prefix.Bits() < 96 {
			return errors.New("is too wide; name the networks that are meant")
		}
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	widest := widestV6
	if prefix.Addr().Is4() {
		widest = widestV4
	}
	switch {
	case prefix.Bits() < widest:
		return errors.New("is too wide; name the networks that are meant")
	case prefix.IsSingleIP() && slices.Contains(metadata, prefix.Addr()):
		return errors.New("is the metadata service of a cloud, which can never be allowed; take it off the list")
	}
	l.networks = append(l.networks, allowedNetwork{prefix.Masked(), port})
	return nil
}

// hasAddr reports whether an address may be called, whatever its name.
func (l *allowList) hasAddr(addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(l.networks, func(n allowedNetwork) bool {
		return n.prefix.Contains(addr) && (n.port == 0 || n.port == port)
	})
}

// hasHost reports whether a host may be called, whatever its address.
func (l *allowList) hasHost(host string, port uint16) bool {
	return host != "" && slices.ContainsFunc(l.hosts, func(h allowedHost) bool { return h.matches(host) && (h.port == 0 || h.port == port) })
}

// hasPort reports whether a line names this very port.
func (l *allowList) hasPort(host string, addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(l.hosts, func(h allowedHost) bool { return h.port == port && h.matches(host) }) ||
		slices.ContainsFunc(l.networks, func(n allowedNetwork) bool { return n.port == port && addr.IsValid() && n.prefix.Contains(addr) })
}

func (h allowedHost) matches(host string) bool {
	if h.below {
		return strings.HasSuffix(host, "."+h.name)
	}
	return host == h.name
}
