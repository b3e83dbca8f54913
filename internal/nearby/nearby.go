// Package nearby says whether a program on this machine has sent a request. The API and the console ask it if whoever started them has said
// that programs on this machine may do everything.
//
// A doubt remains, and nothing can remove it: a proxy on this machine that speaks HTTP/1.1, sends the address of its upstream as the host, and
// adds nothing looks like a program. HAProxy does so unless it is told otherwise. So this is never a default where somebody may have put a
// proxy in front.
package nearby

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// FromThisMachine goes by the peer and by the name in the address bar, since a foreign page may have its own name lead here. A request that
// a proxy has passed on is somebody else's, and so is one that a foreign page sends. HTTP/1.0 is what nginx speaks to its upstream unless it is
// told otherwise, and what hardly any program speaks today.
func FromThisMachine(r *http.Request) bool {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && isLoopback(peer) && isLoopback(hostOf(r.Host)) && r.ProtoAtLeast(1, 1) && !IsPassedOn(r) && !fromForeignPage(r)
}

// passedOn are headers of proxies, and the beginnings of such headers. Whether there is a value does not matter: a client may have sent the
// header, and a proxy emptied it.
var (
	passedOn = []string{"Forwarded", "Via", "X-Real-Ip",
		"True-Client-Ip", "Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Remote-Addr", "X-Remote-Ip", "X-Proxyuser-Ip",
		"Proxy-Connection", "Proxy-Client-Ip", "Wl-Proxy-Client-Ip", "X-Host", "X-Rewrite-Url",
		"X-Scheme", "X-Https", "X-Url-Scheme", "X-Arr-Ssl",
		"X-Arr-Log-Id", "Front-End-Https", "Cdn-Loop", "X-Amz-Cf-Id", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context",
		"X-Request-Start", "X-Varnish", "X-Azure-Clientip", "X-Azure-Socketip", "X-Azure-Fdid", "X-Appengine-User-Ip"}
	passedOnPrefixes = []string{"X-Forwarded", "X-Original-",
		"X-Envoy-", "Cf-", "Fastly-", "Fly-", "X-Vercel-", "X-Nf-", "X-Akamai-", "Akamai-", "X-Proxy-", "X-Goog-", "X-Ms-"}
	ofCallbacks = []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}
)

// IsPassedOn reports whether a request was sent for somebody else: by a proxy, or as a callback of a service like ours, whose tasks anybody
// with a token may add. Each callback has such a header, and no task can leave it out.
func IsPassedOn(r *http.Request) bool {
	for name := range r.Header {
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.Contains(passedOn, name) || slices.Contains(ofCallbacks, name) || slices.ContainsFunc(passedOnPrefixes, begins) || begins("Pq-") {
			return true
		}
	}
	return false
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
