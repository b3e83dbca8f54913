// Package nearby says whether a program on this machine has sent a request. The API and the console ask it as long as nobody has said who
// may do what.
package nearby

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// FromThisMachine goes by the peer and by the name in the address bar, since a foreign page may have its own name lead here. A request that
// a proxy has passed on is somebody else's, and so is one that a foreign page sends.
func FromThisMachine(r *http.Request) bool {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && isLoopback(peer) && isLoopback(hostOf(r.Host)) && !IsPassedOn(r) && !fromForeignPage(r)
}

// IsPassedOn reports whether a request comes from a proxy, which sent it for somebody else.
func IsPassedOn(r *http.Request) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}, func(header string) bool { return r.Header.Get(header) != "" })
}

// FromPage reports whether a page in a browser has sent a request, be it a page of ours. Other programs do not send these headers.
func FromPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// fromForeignPage reports whether a page that is not ours has sent a request. If somebody follows a link on such a page, that is their own
// act, and the page does not see what it leads to.
func fromForeignPage(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		if at, err := url.Parse(origin); err != nil || at.Host != r.Host {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func hostOf(hostAndPort string) string {
	if host, _, err := net.SplitHostPort(hostAndPort); err == nil {
		return host
	}
	return strings.Trim(hostAndPort, "[]")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost"
}
