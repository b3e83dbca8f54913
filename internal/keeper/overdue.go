package keeper

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Overdue knows leases that last too long. Usually a lease ends when the database's clock says so. But if that clock was ahead when the
// lease was taken or renewed, and its holder died then, the lease would last until the clock gets there, and nobody would work for so
// long. So the owner in the row says for how long its holder can trust the lease without renewing it; and if somebody has seen the
// same row for longer, by a clock of its own, the holder is gone. The zero value is ready to use; it may be used by several keepers,
// and by several goroutines.
type Overdue struct {
	mu   sync.Mutex
	rows map[string]unrenewed // only few databases ever have such a row
}

// unrenewed is a row that says that it lasts longer than it may.
type unrenewed struct {
	owner string
	until int64
	since time.Time
}

// overdueLeast is by how much a row must last longer than it may: clocks are rounded to a second, and one that is set by less
// heals in that time.
const overdueLeast = 2 * time.Second

// find returns the places of the rows in the list whose holders are gone, though the rows last. It remembers the others. What is not in
// the list stays as it was: a look sees all leases of the engine, and a taking those that it wants.
func (o *Overdue) find(seen []store.Seen, at time.Time) (gone []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range seen {
		row := &seen[i]
		length := lengthOf(row.Owner)
		if row.Free || row.Layout < 0 || length == 0 || isOver(row) || row.Left <= (length+overdueLeast).Seconds() {
			delete(o.rows, row.Name)
			continue
		}
		now := unrenewed{row.Owner, row.Until, at}
		if was, known := o.rows[row.Name]; known && was.owner == now.owner && was.until == now.until {
			now.since = was.since
		}
		if o.rows == nil {
			o.rows = map[string]unrenewed{}
		}
		o.rows[row.Name] = now
		if at.Sub(now.since) > length+time.Second {
			gone = append(gone, i)
		}
	}
	return gone
}

// isOver reports whether a row says that a life is over. Whoever has buried it has said how long that is to be known: as long as its leases last.
func isOver(row *store.Seen) bool {
	_, is := share.ParseLife(row.Name)
	return is && row.Running <= store.Buried
}

// endOverdue ends the leases whose holders are gone. Such a holder trusts the lease no more, and does not renew it again.
func (k *Keeper) endOverdue(ctx context.Context, seen []store.Seen) error {
	for _, i := range k.overdue.find(seen, time.Now()) {
		row := &seen[i]
		if err := k.leases.AbandonLeases(ctx, []string{row.Name}, row.Owner); err != nil {
			return err
		}
		if k.onOverdue != nil {
			k.onOverdue(fmt.Sprintf("lease %s was to last for %s, and was not renewed for longer than the %s that its holder may trust it: "+
				"the database's clock must have been ahead when it was written; the lease is free now",
				row.Name, time.Duration(math.Round(row.Left))*time.Second, lengthOf(row.Owner)))
		}
		row.Free, row.Left = true, 0
	}
	return nil
}

// OnOverdue sets what remembers leases that last too long, instead of the keeper alone, and who hears of each that is ended. It is to be
// called before anything else.
func (k *Keeper) OnOverdue(o *Overdue, tell func(text string)) { k.overdue, k.onOverdue = o, tell }

// lengthOf is for how long the owner of a lease may trust it without renewing it; 0: it does not say so.
func lengthOf(owner string) time.Duration {
	_, length, _ := share.TakingOf(owner)
	if length >= share.LengthMax*time.Second || length < askedLeast {
		return 0
	}
	return length
}

// askedLeast is the shortest lease that anybody takes: an ask.
const askedLeast = min(time.Second, lease.ShortestLock)

// length is for how long nobody else may take a lease that is neither renewed nor given back, or that was given back too soon.
func (w Want) length() time.Duration {
	if w.MinLock > 0 {
		return max(w.Lock, w.MinLock+time.Second)
	}
	return w.Lock
}
