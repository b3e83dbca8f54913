package engine

import (
	"context"
	"time"

	"github.com/panjf2000/ants/v2"
)

// pool runs functions on goroutines that it keeps for a while. How many run at a time is counted by its user: a pool's
// own numbers count idle workers too.
type pool interface {
	Submit(func()) error
	ReleaseContext(context.Context) error
}

func newPool(capacity int, idle time.Duration) (pool, error) {
	return ants.NewPool(capacity, ants.WithExpiryDuration(idle))
}
