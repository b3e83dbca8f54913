package service

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/create-info/persistent-queue/service/internal/deliver"
)

// Delivery says how callbacks are sent: to which addresses (Guard), how many at a time (InFlight), under which name (UserAgent), by which
// resolver, and who hears of broken destinations (Logger). The zero value: to public addresses, as many as the limit of open files leaves
// room for, as "pqueue/1.0", by the system's resolver, and [Config.Log] hears.
type Delivery = deliver.Config

// Guard decides which addresses may be called. Its method Check reports why a URL may not be, without a look at the network. The zero value:
// only public addresses may be called.
type Guard = deliver.Guard

// NewGuard makes a Guard. What stands in allow may be called, although it is not public:
//
//	10.1.0.0/16          a network; 10.1.2.3 alone works, too
//	10.1.2.3:6060        an address and a port; the port is allowed, too, even if it is a known service's
//	shop.internal        a host, whatever its address, with or without a port
//	*.svc.cluster.local  all hosts below a name, with or without a port
//
// What stands in never may not be called, whatever allow says: the process's own listeners and its database. The address 0.0.0.0 or ::
// stands for all addresses of this machine, and so does a loopback address for all of 127.0.0.0/8 and ::1; the port 0 stands for all ports.
// Metadata services of clouds may never be called either, nor the addresses 0.0.0.0 and ::, which lead to this machine.
func NewGuard(allow []string, never []netip.AddrPort) (*Guard, error) {
	return deliver.NewGuard(allow, never)
}

// Secret is a key that callbacks are signed with, for a time: Key is whsec_ or whsk_ and base64, as Standard Webhooks writes it, and
// NotBefore and NotAfter bound the time. To rotate, add the new one and date the old one; as long as both are valid, callbacks have both
// signatures.
type Secret = deliver.Secret

// Signer signs callbacks by the rules of Standard Webhooks: its method Sign returns the header webhook-signature of a body.
type Signer = deliver.Signer

// NewSigner makes a Signer of one to eight secrets. A secret that is empty, short or not random is refused: it would sign, and protect
// nobody.
func NewSigner(secrets ...Secret) (*Signer, error) { return deliver.NewSigner(secrets...) }

// Verify reports why a request was not signed with a key, as a receiver does: nil means that it was, at a moment within five minutes of now.
// The key is the whsec_ of HMAC-SHA256 or the whpk_ of a public Ed25519 key, see [PublicKey].
func Verify(header http.Header, body []byte, key string, now time.Time) error {
	return deliver.Verify(header, body, key, now)
}

// PublicKey returns the whpk_ that belongs to a whsk_, for receivers.
func PublicKey(private string) (string, error) { return deliver.PublicKey(private) }
