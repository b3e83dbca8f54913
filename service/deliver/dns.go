package deliver

import (
	"context"
	"net/netip"
)

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}
