package deliver

import (
	"crypto/tls"
	"crypto/x509"
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
