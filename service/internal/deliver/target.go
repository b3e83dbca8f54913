package deliver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

const urlMax = 2048 // bytes

// target is what a URL names, in one spelling.
type target struct {
	url    *url.URL
	origin string
	host   string     // in ASCII and lower case, without a dot at the end
	addr   netip.Addr // if the host is an address
	port   uint16
}

// parseTarget reads a URL once, so that nothing after it can read it another way.
func parseTarget(raw string) (*target, error) {
	if len(raw) > urlMax {
		return nil, fmt.Errorf("the URL has %d bytes; use at most %d", len(raw), urlMax)
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == 0xfffd }); i >= 0 {
		return nil, errors.New("the URL has a space, a backslash or a control character; encode it with %")
	}
	if strings.Contains(raw, "#") {
		return nil, errors.New("the URL has a fragment, which is never sent; leave out the # and what follows")
	}
	u, err := url.Parse(strict(raw))
	if err != nil {
		return nil, errors.New("the URL cannot be read; use something like https://shop.example/cancel")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL begins neither with http:// nor with https://; use one of these")
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("the URL has no host; use something like https://shop.example/cancel")
	case u.User != nil:
		return nil, errors.New("the URL has a user or a password; send the header Authorization instead")
	}
	t := &target{url: u}
	if t.host, t.addr, err = hostOf(u); err != nil {
		return nil, err
	}
	if t.port, err = portOf(u); err != nil {
		return nil, err
	}
	u.Host = t.host
	if t.addr.Is6() {
		u.Host = "[" + t.host + "]"
	}
	if t.port != defaultPort(u.Scheme) {
		u.Host = net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
	}
	t.origin = u.Scheme + "://" + u.Host
	return t, nil
}

// strict is a URL whose path and query have only characters that may stand there (RFC 3986). Many servers refuse a request with others, or cut
// it there. What is encoded already stays as it is, and a % that begins nothing stands for itself. Brackets stay in a query, where programs
// write them for lists and nobody minds.
func strict(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		return raw
	}
	path, query, hasQuery := strings.Cut(rest[i:], "?")
	var b strings.Builder
	b.WriteString(raw[:len(raw)-len(rest)+i])
	writeStrict(&b, path, "/:@!$&'()*+,;=-._~")
	if hasQuery {
		b.WriteByte('?')
		writeStrict(&b, query, "/?:@!$&'()*+,;=-._~[]")
	}
	return b.String()
}

func writeStrict(b *strings.Builder, text, marks string) {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(marks, c) >= 0, c == '%' && isEscape(text[i:]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(b, "%%%02X", c)
		}
	}
}

// isEscape reports whether a text that begins with % begins with an encoded byte.
func isEscape(text string) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(text) > 2 && strings.IndexByte(digits, text[1]) >= 0 && strings.IndexByte(digits, text[2]) >= 0
}

// WithoutValues is an address as those may see it who may not see secrets: without the values of its query, without a password and without what
// stands behind a #.
func WithoutValues(address string) string {
	address, _, hasFragment := strings.Cut(address, "#")
	address, query, hasQuery := strings.Cut(address, "?")
	if begin := strings.Index(address, "//") + 2; begin >= 2 {
		end := len(address)
		if i := strings.IndexByte(address[begin:], '/'); i >= 0 {
			end = begin + i
		}
		if at := strings.LastIndexByte(address[begin:end], '@'); at >= 0 {
			user, _, hasPassword := strings.Cut(address[begin:begin+at], ":")
			if hasPassword {
				address = address[:begin] + user + ":…" + address[begin+at:]
			}
		}
	}
	if hasQuery {
		address += "?"
	}
	for n, part := range strings.Split(query, "&") {
		if n > 0 {
			address += "&"
		}
		if name, _, _ := strings.Cut(part, "="); query != "" {
			address += name + "=…"
		}
	}
	if hasFragment {
		address += "#…"
	}
	return address
}

// hostOf is the host of a URL, as a name or as an address. Other spellings of addresses than the usual are refused: what they mean differs
// from program to program.
func hostOf(u *url.URL) (string, netip.Addr, error) {
	name := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(name)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", netip.Addr{}, errors.New("the URL's host in brackets is no IPv6 address without a zone; use something like https://[2600:db::1]/")
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	name, err := hostASCII(name)
	if err != nil {
		return "", netip.Addr{}, fmt.Errorf("the URL's host %w", err)
	}
	if !lastLabelIsNumber(name) {
		return name, netip.Addr{}, nil
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return "", netip.Addr{}, errors.New("the URL's host ends with a number and is no IPv4 address; use four decimal numbers without zeros in front")
	}
	return name, addr, nil
}

// hostASCII is a host name as it is looked up: in ASCII and lower case, without a dot at the end.
func hostASCII(name string) (string, error) {
	if strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) >= 0 {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", errors.New("is no valid international name; use its ASCII form, which begins with xn--")
		}
		name = ascii
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if len(name) > 253 {
		return "", errors.New("is longer than 253 characters; no name on the internet is")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errors.New("is no host name; use letters, digits, - and _, with single dots between")
		}
	}
	return name, nil
}

// lastLabelIsNumber reports whether some program may take a host for an IPv4 address: 127.1, 2130706433, 0x7f.1 and 0177.0.0.1 all are
// one to somebody.
func lastLabelIsNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, found := strings.CutPrefix(last, "0x"); found {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		return defaultPort(u.Scheme), nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("the URL's port is not valid; use a number from 1 to 65535")
	}
	return uint16(n), nil
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// isLocalhost reports whether a name always means this machine.
func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// otherServices are ports from 1024 on of services that take a request of HTTP for a command, or that are dangerous to whom they obey.
var otherServices = []uint16{
	1433, 1521, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4369, 5432, 5672, 5984, 6000, 6379, 6443, 6667, 7000, 7001, 8500, 9042,
	9092, 9200, 9300, 10250, 10255, 11211, 15672, 26379, 27017, 27018, 50070,
}

func portIsUsual(port uint16) bool {
	return port == 80 || port == 443 || port >= 1024 && !slices.Contains(otherServices, port)
}
