package deliver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	dnsTimeout  = 3 * time.Second
	dnsKept     = 30 * time.Second
	dnsBadKept  = 5 * time.Second // that a host has no address
	dnsHostsMax = 100_000
)

func orSystem(r Resolver) Resolver {
	if r == nil {
		return &net.Resolver{PreferGo: true}
	}
	return r
}

// names keeps what a resolver answered for a while, and asks once for all who want to know the same.
type names struct {
	resolver Resolver
	over     context.Context // ends with the Deliverer
	running  sync.WaitGroup  // look-ups

	mu    sync.Mutex
	hosts map[string]*lookup
}

// lookup is one question. Done is closed when it is answered.
type lookup struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
	until time.Time // it is kept; zero: as long as it runs
}

func newNames(over context.Context, resolver Resolver) *names {
	return &names{resolver: orSystem(resolver), over: over, hosts: map[string]*lookup{}}
}

// addresses returns the addresses of a host. The look-up goes on if ctx ends: others may want the answer.
func (n *names) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	q := n.ask(host, time.Now())
	select {
	case <-q.done:
		return q.addrs, q.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (n *names) ask(host string, now time.Time) *lookup {
	n.mu.Lock()
	defer n.mu.Unlock()
	if q := n.hosts[host]; q != nil && (q.until.IsZero() || now.Before(q.until)) {
		return q
	}
	q := &lookup{done: make(chan struct{})}
	if n.over.Err() != nil {
		q.err = n.over.Err()
		close(q.done)
		return q
	}
	if len(n.hosts) >= dnsHostsMax {
		n.dropOne()
	}
	n.hosts[host] = q
	n.running.Go(func() { n.answer(host, q) })
	return q
}

func (n *names) answer(host string, q *lookup) {
	ctx, cancel := context.WithTimeout(n.over, dnsTimeout)
	defer cancel()
	addrs, err := n.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	if err != nil && ctx.Err() != nil {
		err = &net.DNSError{Err: "no answer in time", Name: host, IsTimeout: true}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	q.addrs, q.err, q.until = addrs, err, time.Now().Add(dnsKept)
	if err != nil {
		q.until = time.Now().Add(dnsBadKept)
	}
	close(q.done)
}

// dropOne makes room: any host that is not being looked up.
func (n *names) dropOne() {
	for host, q := range n.hosts {
		if !q.until.IsZero() {
			delete(n.hosts, host)
			return
		}
	}
}

// tidy drops what is not kept any longer.
func (n *names) tidy(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for host, q := range n.hosts {
		if !q.until.IsZero() && !now.Before(q.until) {
			delete(n.hosts, host)
		}
	}
}
