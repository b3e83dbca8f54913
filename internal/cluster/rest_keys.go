package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// keysTold is what the table says of the keys that handlers have under a lease that is given away. Nothing starts under it any more,
// so the keys become fewer only.
type keysTold struct {
	rows  int // 0: nothing was told
	turn  int64
	n     int
	at    time.Time
	tried time.Time // when that was first tried
	said  bool      // that the next holder does not know them
}

const (
	keysEvery = 100 * time.Millisecond // as handlers end, if it takes no longer
	keysAgain = time.Hour              // lines that nobody has written for a day are deleted
	keysMax   = 5 * time.Second        // then the lease is given away without them, so that its jobs do not wait longer
)

// writeRestKeys writes which keys the handlers have that run under a lease, if the member limits keys, handlers have some, and the table
// does not say so already.
func (c *Coordinator) writeRestKeys(ctx context.Context, s *seat, lease *keeper.Lease, k *keysTold) error {
	now := time.Now()
	if c.process.Tables.RestKeys == nil || k.rows > 0 && now.Sub(k.at) < keysEvery {
		return nil
	}
	keys, limited := s.KeysUnder(lease)
	if !limited || k.rows == 0 && len(keys) == 0 || k.rows > 0 && len(keys) == k.n && now.Sub(k.at) < keysAgain {
		return nil
	}
	if k.tried.IsZero() {
		k.tried = now
	}
	if k.rows == 0 && now.Sub(k.tried) > keysMax {
		if k.said {
			return nil
		}
		k.said = true
		c.process.Log.Warn(s.About(), fmt.Sprintf("lease %s is given away, and the next holder does not know which keys %d handlers have: "+
			"the table does not take it", lease.Want.Name, len(keys)))
		return nil
	}
	rows := max(k.rows, 1+len(keys)/store.RestKeysTogether)
	k.turn++
	if err := c.process.Tables.RestKeys.WriteRestKeys(ctx, restOf(lease), rows, k.turn, keys); err != nil {
		return err
	}
	k.rows, k.n, k.at = rows, len(keys), time.Now()
	return nil
}

// dropRestKeys deletes what was told of a lease that is no more. If that fails, it is deleted with the old lines.
func (c *Coordinator) dropRestKeys(lease *keeper.Lease, rows int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.process.Life), takeMax)
	defer cancel()
	c.process.Errlog.On(ctx, "drop the keys of a rest", c.process.Tables.RestKeys.DropRestKeys(ctx, restOf(lease), rows))
}

func restOf(lease *keeper.Lease) string { return share.Remains(lease.Want.Name, lease.Term) }
