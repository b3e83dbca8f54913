package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// debt is a row that this keeper has no use for any more, and that may say all the same that it has the lease: the statement that was to give it
// back has failed, or its answer was lost. Its holder lives, so nobody takes the lease from it, and its type would stand still until it expires.
//
//	Move        the rest is written ──✕ the name is not given away    the next Move gives it, or the next look, or the end of the lease
//	Release …   ✕ the row is not given back                           the next look that shows the row under this owner gives it back
//	stop        ✕ the row is not given back, and no look follows      the instance leaves its life behind, and others bury it
//
// No two takings have one owner, and no taking has a name twice, so nobody else can have the row while it has this owner.
type debt struct {
	owner   string
	minLock time.Duration
	at      time.Time // when it was noted
	again   time.Time // before, nothing is sent: a statement has failed
	wait    ground.Backoff
}

const (
	owedMost   = unsureMost
	owedLonger = 10 * time.Second // between two tries to delete a row: such a statement waits if somebody has locked the row, and the look with it
)

// owe notes that a row of a lease is to be given back. If there are too many, others are forgotten: those leases expire.
func (k *Keeper) owe(row string, l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owed == nil || len(k.owed) >= owedMost {
		k.owed = map[string]*debt{}
	}
	k.owed[row] = &debt{owner: l.owner, minLock: l.Want.MinLock, at: time.Now(), wait: ground.Backoff{First: time.Second, Longest: owedLonger}}
}

// OwesName reports whether the name of a lease that others take from an instance which is not heard of is still to be given back.
func (k *Keeper) OwesName() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for row, d := range k.owed {
		if _, _, governed := share.TakingOf(d.owner); governed && isOfType(row) {
			return true
		}
	}
	return false
}

func isOfType(row string) bool {
	_, _, is := share.ParseType(row)
	return is
}

// payDebts gives back what is owed, as far as a list shows it: first the names of types, which stand still, and then the rest. What takes
// longer than half of the time goes on at the next look: this one is also to take what is free.
func (k *Keeper) payDebts(ctx context.Context, seen []store.Seen) error {
	k.mu.Lock()
	none := len(k.owed) == 0
	k.mu.Unlock()
	if none { // mostly
		return nil
	}
	there, half := map[string]bool{}, halfOf(ctx)
	var later []func()
	for i := range seen {
		row := &seen[i]
		switch d := k.debtOf(row.Name); {
		case d == nil || row.Owner != d.owner || row.Free || row.Layout < 0:
			continue
		case !isOfType(row.Name):
			later = append(later, func() { k.payRow(ctx, row, d) })
		case time.Now().After(half):
		default:
			if err := k.payName(ctx, row, d); err != nil {
				return err
			}
		}
		there[row.Name] = true
	}
	for _, pay := range later {
		if time.Now().Before(half) {
			pay()
		}
	}
	k.forgetDebts(there)
	return nil
}

func (k *Keeper) debtOf(row string) *debt {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.owed[row]
}

func (k *Keeper) payName(ctx context.Context, row *store.Seen, d *debt) error {
	switch _, err := k.leases.ReleaseLease(ctx, row.Name, d.owner, d.minLock); {
	case errors.Is(err, store.ErrLocked): // the next look tries again
		return nil
	case err != nil:
		return err
	}
	k.paid(row.Name, d.owner)
	if d.minLock == 0 {
		row.Free, row.Left = true, 0
	}
	return nil
}

// payRow deletes a row. It ends no look if that fails.
func (k *Keeper) payRow(ctx context.Context, row *store.Seen, d *debt) {
	if time.Now().Before(d.again) {
		return
	}
	if k.leases.DropLease(ctx, row.Name, d.owner) != nil {
		d.again = time.Now().Add(d.wait.Next())
		return
	}
	k.paid(row.Name, d.owner)
	row.Free, row.Left = true, 0
}

// paid notes that a row was given back that an owner had.
func (k *Keeper) paid(row, owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.owed[row]; d != nil && d.owner == owner {
		delete(k.owed, row)
	}
}

// forgetDebts forgets names that are somebody else's or free, and what was noted long ago. A row that is not there may still come: a statement of
// unknown outcome may write it late.
func (k *Keeper) forgetDebts(there map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for row, d := range k.owed {
		since := time.Since(d.at)
		if !there[row] && isOfType(row) && since > 2*showsWithin || since > unsureMax {
			delete(k.owed, row)
		}
	}
}
