package deliver

import (
	"fmt"
	"net/netip"
)

// ranges are the networks that are not public, from the special-purpose registries of IANA.
var ranges = []struct {
	prefix netip.Prefix
	name   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private networks"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private networks"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private networks"},
	{netip.MustParsePrefix("100.64.0.0/10"), "networks of providers"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local addresses"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "translators"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarks"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved addresses"},

	{netip.MustParsePrefix("::/128"), "this machine"},
	{netip.MustParsePrefix("::1/128"), "this machine"},
	{netip.MustParsePrefix("::/96"), "IPv4 in IPv6"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4 in IPv6"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translators"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translators"},
	{netip.MustParsePrefix("100::/64"), "discarded addresses"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "translators"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "private networks"},
	{netip.MustParsePrefix("fe80::/10"), "link-local addresses"},
	{netip.MustParsePrefix("fec0::/10"), "site-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// metadata are the addresses under which clouds give a machine its credentials. That of Azure is in a public range.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("169.254.170.2"),   // tasks of Amazon's ECS
	netip.MustParseAddr("169.254.170.23"),  // pods of Amazon's EKS
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"), // Google
}

var globalUnicast = netip.MustParsePrefix("2000::/3")

// notPublic names the range that keeps an address from being public; empty: it is public. An address without a zone, and not of the form
// ::ffff:1.2.3.4, is expected.
func notPublic(addr netip.Addr) string {
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return fmt.Sprintf("%s (%s)", r.name, r.prefix)
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "reserved addresses (all but 2000::/3)"
	}
	return ""
}

var (
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 addresses that an IPv6 address may stand for, wherever a translator finds them.
func embedded(addr netip.Addr) (v4 []netip.Addr) {
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case addr.Is4():
	case compatible.Contains(addr), nat64.Contains(addr):
		v4 = append(v4, last)
	case nat64Local.Contains(addr): // the prefix may be 48, 56, 64 or 96 bits long; byte 8 is skipped
		v4 = append(v4, last,
			netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}),
			netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}),
			netip.AddrFrom4([4]byte{b[9], b[10], b[11], b[12]}))
	case sixToFour.Contains(addr):
		v4 = append(v4, netip.AddrFrom4([4]byte(b[2:6])))
	}
	return v4
}
