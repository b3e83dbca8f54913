package deliver

import (
	"container/list"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Identity is by which way, and as whom, calls go out. Calls with an equal Identity share connections, so keep the pointers of a
// configuration rather than making new ones for each call.
type Identity struct {
	// Proxy is the URL of an egress proxy, http or https; empty: none. The proxy sees the receiver's name and must guard the addresses
	// itself. The environment's proxies are never used.
	Proxy string
	// Certificate is the client's, for receivers that ask for one; nil: none.
	Certificate *tls.Certificate
	// RootCAs are the authorities that may vouch for the receiver; nil: those of the system.
	RootCAs *x509.CertPool
	// HTTP2 allows HTTP/2. Without it, calls go out as HTTP/1.1.
	HTTP2 bool
	// Guard, if not nil, takes the place of [Config.Guard].
	Guard *Guard
}

const (
	identitiesMax      = 256
	idleMax            = 8192
	idleOfHostMax      = 512              // more than most limits, so that a call seldom needs a new connection
	idleTimeout        = 55 * time.Second // below the minute after which many receivers close
	responseHeaderMax  = 64 << 10
	tlsSessionsMax     = 1024
	http2PingAfter     = 15 * time.Second
	http2PingPatience  = 5 * time.Second
	connectionPatience = dnsTimeout + connectTimeout + tlsTimeout + time.Second // of a call, until it has a connection
)

// identities keeps a transport for each Identity in use.
type identities struct {
	dialer *dialer
	guard  *Guard

	mu         sync.Mutex
	transports map[Identity]*list.Element // of *identified
	recent     *list.List
}

type identified struct {
	identity  Identity
	transport *http.Transport
}

func newIdentities(d *dialer, g *Guard) *identities {
	return &identities{dialer: d, guard: g, transports: map[Identity]*list.Element{}, recent: list.New()}
}

// guardOf is the guard that counts for an identity.
func (s *identities) guardOf(i Identity) *Guard {
	if i.Guard != nil {
		return i.Guard
	}
	return s.guard
}

// transport finds the transport of an identity, or makes it. One that has not been used for long makes room; calls that still use it go on.
func (s *identities) transport(i Identity) (*http.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, found := s.transports[i]; found {
		s.recent.MoveToFront(e)
		return e.Value.(*identified).transport, nil
	}
	t, err := s.newTransport(i)
	if err != nil {
		return nil, err
	}
	s.transports[i] = s.recent.PushFront(&identified{i, t})
	if s.recent.Len() > identitiesMax {
		last := s.recent.Remove(s.recent.Back()).(*identified)
		delete(s.transports, last.identity)
		last.transport.CloseIdleConnections()
	}
	return t, nil
}

// newTransport makes the only kind of client that there is: no redirects, no cookies, no environment, no address that was not looked at.
func (s *identities) newTransport(i Identity) (*http.Transport, error) {
	guard := s.guardOf(i)
	t := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: i.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessionsMax)},
		TLSHandshakeTimeout:    tlsTimeout,
		DisableCompression:     true,
		MaxIdleConns:           idleMax,
		MaxIdleConnsPerHost:    idleOfHostMax,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: responseHeaderMax,
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: http2PingAfter, PingTimeout: http2PingPatience},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(i.HTTP2)
	if i.Certificate != nil {
		t.TLSClientConfig.Certificates = []tls.Certificate{*i.Certificate}
	}
	if i.Proxy != "" {
		proxy, err := url.Parse(i.Proxy)
		if err != nil || proxy.Scheme != "http" && proxy.Scheme != "https" || proxy.Host == "" {
			return nil, errors.New("the topic's egress proxy is no URL that begins with http:// or https://; correct it")
		}
		guard = nil // the dialer sees the proxy only
		t.Proxy = http.ProxyURL(proxy)
		t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return &proxyError{answer.StatusCode}
			}
			return nil
		}
	}
	t.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		return s.dialer.dial(ctx, guard, address)
	}
	return t, nil
}

func (s *identities) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.recent.Front(); e != nil; e = e.Next() {
		e.Value.(*identified).transport.CloseIdleConnections()
	}
}
