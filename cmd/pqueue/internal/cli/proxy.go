package cli

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/create-info/persistent-queue/console"
)

// proxies are what stands between clients and pqueue serve, and is believed: they say from which address a request comes and, if
// userHeader is set, from which user.
type proxies struct {
	networks   []netip.Prefix
	userHeader string
	operators  []string // who may change things; none: each user
}

func (s *server) proxies() (p proxies, err error) {
	p = proxies{userHeader: s.userHeader, operators: s.operators}
	if p.networks, err = networksOf("--trusted-proxy", s.trustedProxies); err != nil {
		return p, err
	}
	switch {
	case p.userHeader != "" && len(p.networks) == 0:
		return p, exitf(exitUsage,
			"--user-header: say with --trusted-proxy from which network the proxy's requests come; anybody else could send that header, too")
	case p.userHeader == "" && len(p.operators) > 0:
		return p, exitf(exitUsage, "--operators are users that --user-header names; users of --login have a role of their own: pqueue user create")
	}
	return p, nil
}

// networksOf reads networks that a flag lists. An address is a network of its own.
func networksOf(flag string, list []string) (networks []netip.Prefix, err error) {
	for _, text := range list {
		network, err := netip.ParsePrefix(text)
		if ip, errIP := netip.ParseAddr(text); errIP == nil {
			network, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			return nil, exitf(exitUsage, "%s: %q is no network, such as 10.1.0.0/16", flag, text)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

type userKey struct{}

// userOf is who has sent a request, as a trusted proxy says.
func userOf(r *http.Request) string {
	name, _ := r.Context().Value(userKey{}).(string)
	return name
}

// believe gives each request that comes through a trusted proxy the address of the client, and its user. The headers stay: whoever
// looks for them sees that the request does not come from this machine itself.
func (p *proxies) believe(next http.Handler) http.Handler {
	if len(p.networks) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err == nil && p.trusts(host) {
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, p.user(r)))
			r.RemoteAddr = net.JoinHostPort(p.client(host, r.Header.Values("X-Forwarded-For")), "0")
		}
		next.ServeHTTP(w, r)
	})
}

func (p *proxies) trusts(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(ip.Unmap()) })
}

// client is the last address on the way that is no proxy's. Each proxy appends the address that it sees, so what stands before that may
// be invented.
func (p *proxies) client(peer string, forwardedFor []string) string {
	for _, hop := range slices.Backward(strings.Split(strings.Join(forwardedFor, ","), ",")) {
		ip, is := hopOf(strings.TrimSpace(hop))
		if !is {
			return peer
		}
		if peer = ip.Unmap().String(); !p.trusts(peer) {
			return peer
		}
	}
	return peer
}

// hopOf is an address in X-Forwarded-For. Some proxies write its port, too, as Azure's gateway does, and then IPv6 in brackets.
func hopOf(text string) (ip netip.Addr, is bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr(), true
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	ip, err := netip.ParseAddr(text)
	return ip, err == nil
}

// user is the user that the proxy's header names; none, if it has several values, or a value that is no name.
func (p *proxies) user(r *http.Request) string {
	const longest = 100
	given := r.Header.Values(p.userHeader)
	if p.userHeader == "" || len(given) != 1 || len(given[0]) > longest ||
		strings.ContainsFunc(given[0], func(c rune) bool { return !unicode.IsPrint(c) }) {
		return ""
	}
	return strings.TrimSpace(given[0])
}

// permits says whether a user may do something.
func (p *proxies) permits(user string, do console.Verb) bool {
	return user != "" && (do == console.See || len(p.operators) == 0 || slices.Contains(p.operators, user))
}

// require lets requests through of which a trusted proxy says who has sent them.
func (p *proxies) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if userOf(r) == "" {
			http.Error(w, "no trusted proxy says who you are: its requests come from --trusted-proxy, and have the header "+p.userHeader,
				http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
