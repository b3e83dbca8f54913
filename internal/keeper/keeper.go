// Package keeper takes named leases and keeps them. A [Keeper] renews all leases of one process on one database at
// every third of the shortest lease's length, the leases of one length in one statement. The engine keeps a lease for
// each job type with it, package shedlock a single lease.
//
// A [Lease] is held until it is given back ([Keeper.Release]), until it is lost, because trust in it has ended or the
// table says that it is no longer ours, or until the keeper's parent context ends. Each of these ends [Lease.Context].
// If a renewal takes effect after its lease has ended, [Keeper.Run] gives the row back, so that others need not wait
// for it to expire.
package keeper

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/store"
)

var (
	// ErrLost is the cause in [Lease.Context] if trust in the lease has ended or the table says that it is no longer
	// ours.
	ErrLost = errors.New("lease lost")
	// ErrReleased is the cause in [Lease.Context] if the lease was given back.
	ErrReleased = errors.New("lease released")
)

// Want is a lease to be taken by [Keeper.Take].
type Want struct {
	Name    string
	Holder  string        // stands in the table as the holder; empty: the keeper's holder
	Lock    time.Duration // whole seconds, at least [lease.ShortestLock]
	MinLock time.Duration // whole seconds, from the taking on, in which nobody else gets it, even if it is given back
}

// Lease is a lease that is or was held.
type Lease struct {
	Want
	Term   int64
	owner  string
	before store.Seen // the row before the lease was taken

	ctx     context.Context
	cancel  context.CancelCauseFunc
	trust   *time.Timer  // cancels the context when trust ends
	until   atomic.Int64 // the end of trust, in nanoseconds after epoch
	renewAt time.Time    // when it is renewed, or given back if it is late; only Run uses it
	expires time.Time    // when the row expires unless it is renewed; only Run uses it
}

// epoch anchors moments to the monotonic clock, so that setting the wall clock has no effect on trust.
var epoch = time.Now()

// Trusted reports whether the lease is certainly held at this moment. Ask before every act that only the holder may do.
func (l *Lease) Trusted() bool {
	return int64(time.Since(epoch)) < l.until.Load() && l.ctx.Err() == nil
}

// Context returns a context that ends when the lease is lost or given back, with [ErrLost] or [ErrReleased] as its cause,
// or when the keeper's parent ends.
func (l *Lease) Context() context.Context { return l.ctx }

func (l *Lease) trustUntil(moment time.Time) {
	l.until.Store(int64(moment.Sub(epoch)))
	l.trust.Reset(time.Until(moment))
}

func (l *Lease) end(cause error) {
	l.trust.Stop()
	l.cancel(cause)
}

// HeldBefore names who held the lease under an earlier term, in readable words. The table has the name of the last holder
// only; for a holder before that, HeldBefore gives the term.
func (l *Lease) HeldBefore(term int64) string {
	if term != l.before.Term {
		return fmt.Sprintf("holder of term %d", term)
	}
	holder, _, _ := strings.Cut(l.before.Owner, "#")
	return holder
}

// Leases is the keeper's view of the table of leases. [store.Store] implements it; the contracts are at its methods.
type Leases interface {
	SeeLeases(ctx context.Context, names []string) ([]store.Seen, error)
	MakeLeases(ctx context.Context, names []string) error
	TakeLeases(ctx context.Context, names []string, owner string, lockSeconds int64) (terms map[string]int64, err error)
	KeepLeases(ctx context.Context, names, owners []string, lockSeconds int64) (kept []string, err error)
	ReleaseLease(ctx context.Context, name, owner string, minLock time.Duration) (ours bool, err error)
}

// Keeper takes and keeps leases on one database. [Keeper.Run] renews what [Keeper.Take] has taken, so it must run as long
// as leases are held.
type Keeper struct {
	leases    Leases
	parent    context.Context
	holder    string // the readable part of locked_by: service, host, process
	onRenewal func(error)

	mu      sync.Mutex
	held    map[string]*Lease
	changed chan struct{} // a lease was taken: Run looks anew when the next renewal is

	late []*Lease // leases whose rows are to be given back, see dropLate; only Run uses it
}

// New returns a keeper. When parent ends, the contexts of its leases end. Holder stands in the table as the holder of its
// leases. The keeper calls onRenewal after each renewal, with nil or with the error after which it tries again.
func New(parent context.Context, leases Leases, holder string, onRenewal func(error)) *Keeper {
	return &Keeper{leases: leases, parent: parent, holder: holder, onRenewal: onRenewal, held: map[string]*Lease{}, changed: make(chan struct{}, 1)}
}

// Take takes the wanted leases that are free, and returns them. If none is free, it locks nothing. After an error, it
// returns the leases that it took before, and gives back those that the failed statement may have taken.
func (k *Keeper) Take(ctx context.Context, wants []Want) ([]*Lease, error) {
	free, err := k.free(ctx, wants)
	if err != nil {
		return nil, err
	}
	var taken []*Lease
	for _, wants := range groupByLock(free) {
		lock, sent, owner := wants[0].Lock, time.Now(), k.owner(wants[0].Holder)
		terms, err := k.leases.TakeLeases(ctx, names(wants), owner, int64(lock/time.Second))
		if err != nil {
			k.abandon(ctx, wants, owner)
			return taken, err
		}
		for _, want := range wants {
			for name, term := range terms {
				if want.named(name) {
					lease := k.hold(want.Want, term, owner, sent)
					lease.before = want.seen
					taken = append(taken, lease)
				}
			}
		}
	}
	return taken, nil
}

// named reports whether the lease has this name. MySQL and MariaDB ignore case in names, so the comparison does too.
func (w Want) named(name string) bool { return strings.EqualFold(w.Name, name) }

// abandon gives back the leases that a statement of unknown outcome may have taken.
func (k *Keeper) abandon(ctx context.Context, wants []seenWant, owner string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, want := range wants {
		if _, err := k.leases.ReleaseLease(ctx, want.Name, owner, 0); err != nil {
			return // the leases expire by themselves
		}
	}
}

func names[W interface{ name() string }](wants []W) []string {
	list := make([]string, len(wants))
	for i, want := range wants {
		list[i] = want.name()
	}
	return list
}

func (w Want) name() string { return w.Name }

// seenWant is a wanted lease, and its row as it was read.
type seenWant struct {
	Want
	seen store.Seen
}

// free returns the wanted leases that nobody holds. If a lease has no row yet, free makes one.
func (k *Keeper) free(ctx context.Context, wants []Want) (free []seenWant, err error) {
	if len(wants) == 0 {
		return nil, nil
	}
	seen, err := k.leases.SeeLeases(ctx, names(wants))
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, want := range wants {
		switch i := slices.IndexFunc(seen, func(s store.Seen) bool { return want.named(s.Name) }); {
		case i < 0:
			missing = append(missing, want.Name)
			free = append(free, seenWant{Want: want})
		case seen[i].Free:
			free = append(free, seenWant{want, seen[i]})
		}
	}
	if len(missing) > 0 {
		err = k.leases.MakeLeases(ctx, missing)
	}
	return free, err
}

// owner writes locked_by: the holder's readable name, and a part that is new at every call, so that a read-back never
// mistakes an earlier taking for this one.
func (k *Keeper) owner(readable string) string {
	var unique [6]byte
	rand.Read(unique[:])
	holder := []rune(cmp.Or(readable, k.holder))
	return string(holder[:min(len(holder), 240)]) + "#" + hex.EncodeToString(unique[:])
}

// Holder returns the readable part of locked_by for a service in this process.
func Holder(service string) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s@%s/%d", service, host, os.Getpid())
}

// hold notes that a lease was taken by a statement that was sent at that moment, and wakes Run.
func (k *Keeper) hold(want Want, term int64, owner string, sent time.Time) *Lease {
	ctx, cancel := context.WithCancelCause(k.parent)
	l := &Lease{Want: want, Term: term, owner: owner, ctx: ctx, cancel: cancel, renewAt: sent.Add(lease.RenewEvery(want.Lock)), expires: sent.Add(want.Lock)}
	l.trust = time.AfterFunc(time.Hour, func() { cancel(ErrLost) })
	l.trustUntil(lease.TrustedUntil(sent, want.Lock))
	k.mu.Lock()
	k.held[want.Name] = l
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
	return l
}

// Release gives a lease back: others can take it at once, or when MinLock has passed. It reports whether the lease was
// still ours; if not, it changes nothing in the table.
func (k *Keeper) Release(ctx context.Context, l *Lease) (ours bool, err error) {
	k.drop(l)
	l.end(ErrReleased)
	return k.leases.ReleaseLease(ctx, l.Name, l.owner, l.MinLock)
}

func (k *Keeper) drop(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[l.Name] == l {
		delete(k.held, l.Name)
	}
}

// Run renews the held leases, and gives late ones back, until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		wait := time.NewTimer(time.Until(k.nextRenewal()))
		select {
		case <-wait.C:
			k.giveBackLate(ctx)
			k.keep(ctx)
		case <-k.changed:
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// nextRenewal returns when the first of the held leases must be renewed, or a late one given back.
func (k *Keeper) nextRenewal() time.Time {
	next := time.Now().Add(time.Hour)
	for _, l := range append(k.all(), k.late...) {
		if l.renewAt.Before(next) {
			next = l.renewAt
		}
	}
	return next
}

// keep renews all held leases. If a statement fails, its leases are tried again after a moment. Trust in them still
// ends when it would have ended.
func (k *Keeper) keep(ctx context.Context) {
	const retryAfter = 100 * time.Millisecond
	all := slices.DeleteFunc(k.all(), func(l *Lease) bool {
		over := !l.Trusted()
		if over { // if it were renewed now, it would keep others out while nobody works
			k.dropLate(l)
		}
		return over
	})
	patience := time.Hour // a statement for long leases must not keep the short ones waiting
	for _, l := range all {
		patience = min(patience, lease.RenewEvery(l.Lock)/2)
	}
	for _, leases := range groupByLock(all) {
		lock, sent := leases[0].Lock, time.Now()
		statement, cancel := context.WithTimeout(ctx, patience)
		names, owners := namesAndOwners(leases)
		kept, err := k.leases.KeepLeases(statement, names, owners, int64(lock/time.Second))
		cancel()
		if ctx.Err() == nil {
			k.onRenewal(err)
		}
		for _, l := range leases {
			switch {
			case l.ctx.Err() != nil: // the lease ended while the statement was under way
				k.dropLate(l)
			case err != nil:
				l.renewAt = time.Now().Add(retryAfter)
			case slices.ContainsFunc(kept, l.named):
				l.trustUntil(lease.TrustedUntil(sent, lock))
				l.renewAt, l.expires = sent.Add(lease.RenewEvery(lock)), sent.Add(lock)
			default:
				k.drop(l)
				l.end(ErrLost)
			}
		}
	}
}

// dropLate drops a lease whose context or trust has ended, and has its row given back. A renewal that came too late, or
// whose answer did not come, may have taken effect, and others would then wait until the lease expires once more. The
// row is given back when it would have expired without that renewal, because work that was under way may need that
// time. If the lease was released, it is given back at once.
func (k *Keeper) dropLate(l *Lease) {
	k.drop(l)
	l.renewAt = l.expires
	if errors.Is(context.Cause(l.ctx), ErrReleased) {
		l.renewAt = time.Now()
	}
	k.late = append(k.late, l)
}

func (k *Keeper) giveBackLate(ctx context.Context) {
	statement, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	k.late = slices.DeleteFunc(k.late, func(l *Lease) bool {
		due := !time.Now().Before(l.renewAt)
		if due {
			k.leases.ReleaseLease(statement, l.Name, l.owner, l.MinLock) // if this fails, the lease expires by itself
		}
		return due
	})
}

func (k *Keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.held), func(a, b *Lease) int { return cmp.Compare(a.Name, b.Name) })
}

// groupByLock makes a group for each statement. A statement writes only one length of a lease and, if it takes leases,
// only one holder. The shortest leases come first.
func groupByLock[L interface {
	writes() (time.Duration, string)
}](list []L) (groups [][]L) {
	compare := func(a, b L) int {
		lockA, holderA := a.writes()
		lockB, holderB := b.writes()
		return cmp.Or(cmp.Compare(lockA, lockB), cmp.Compare(holderA, holderB))
	}
	list = slices.SortedStableFunc(slices.Values(list), compare)
	for len(list) > 0 {
		n := 1
		for n < len(list) && compare(list[n], list[0]) == 0 {
			n++
		}
		groups, list = append(groups, list[:n:n]), list[n:]
	}
	return groups
}

func (w Want) writes() (lock time.Duration, holder string) { return w.Lock, w.Holder }

// writes leaves the holder out: a statement renews leases of all holders.
func (l *Lease) writes() (lock time.Duration, holder string) { return l.Lock, "" }

func namesAndOwners(leases []*Lease) (names, owners []string) {
	for _, l := range leases {
		names = append(names, l.Name)
		if !slices.Contains(owners, l.owner) {
			owners = append(owners, l.owner)
		}
	}
	return names, owners
}
