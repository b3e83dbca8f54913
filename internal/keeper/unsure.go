package keeper

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// unsure are the owners of takings, and of lives, whose outcome is unknown, with the moment of each. The server may carry such a taking out when its
// sender has given it up, and has given back in vain what it may have taken: a proxy has held it, or the server stood still. Then the row
// says that somebody has the lease, and nobody works.
type unsure map[string]time.Time

const (
	unsureMax  = time.Hour // no server carries a statement out so late
	unsureMost = 1000
)

// note notes an owner. If there are too many, or it was long ago, others are forgotten.
func (u *unsure) note(owner string, now time.Time) {
	if *u == nil {
		*u = unsure{}
	}
	maps.DeleteFunc(*u, func(_ string, at time.Time) bool { return now.Sub(at) > unsureMax || len(*u) >= unsureMost })
	(*u)[owner] = now
}

// endUnsure ends the leases and lives in a list that such a taking has begun. No two takings have one owner, so nobody works under it.
func (k *Keeper) endUnsure(ctx context.Context, seen []store.Seen) error {
	k.mu.Lock()
	owners := maps.Clone(k.unsure) // mostly none
	k.mu.Unlock()
	if len(owners) == 0 {
		return nil
	}
	for i := range seen {
		row := &seen[i]
		if _, ours := owners[row.Owner]; !ours || row.Free || row.Layout < 0 {
			continue
		}
		switch _, err := k.leases.ReleaseLease(ctx, row.Name, row.Owner, 0); {
		case errors.Is(err, store.ErrLocked): // the next look tries again
		case err != nil:
			return err
		default:
			row.Free, row.Left = true, 0
		}
	}
	return nil
}

// noteParted notes, of a lease that was given back a moment ago, that others may write its rest still, if they may have buried this instance before
// that: their last look has shown the lease.
func (k *Keeper) noteParted(l *Lease) {
	if l.starts.life == nil || l.starts.life.lasts(time.Now()) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parted == nil || len(k.parted) >= unsureMost {
		k.parted = map[string]string{}
	}
	k.parted[l.rest()] = l.owner
}

// dropParted deletes the rows of such rests.
func (k *Keeper) dropParted(ctx context.Context, seen []store.Seen) error {
	k.mu.Lock()
	parted := maps.Clone(k.parted) // mostly none
	k.mu.Unlock()
	for i := range seen {
		row := &seen[i]
		if owner, is := parted[row.Name]; !is || row.Free || row.Owner != owner {
			continue
		}
		if err := k.leases.DropLease(ctx, row.Name, row.Owner); err != nil {
			return err
		}
		row.Free, row.Left = true, 0
	}
	return nil
}
