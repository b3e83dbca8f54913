package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/witness"
)

// An instance may say which pod or unit it is. If it is started again, its process of before is gone, by contract: so whoever comes next need not
// leave alone what that has begun. It watches the life that the earlier instance has left behind, and buries it as dead.
//
//	earlier   beats ╵         ╵   ✕ killed
//	this one                         started ├── 1.2 s of silence ──┤ dead: its leases and rests end, and its jobs run again
//
// If the earlier one does say that it lives, two processes have one identity, and it is an instance like all others.
const (
	silentFor = 1200 * time.Millisecond // a beat is missing
	anewMost  = 30
	succeeds  = 4 * time.Second // from when two lives of an identity are seen, until the earlier one is buried
	watchMost = 8               // earlier instances that are watched: more are there only if restarts follow each other within a lease
)

// Identify has the keeper say which identity its instance has, a [share.Identity]. It is to be called before anything else.
func (k *Keeper) Identify(identity string) { k.identity = identity }

// ownerOfLife is the owner of a life.
func (k *Keeper) ownerOfLife() string {
	if k.identity == "" {
		return k.owner("", k.longest(), false)
	}
	return k.owner(share.Identified(cut(k.holder, holderMost-len(share.Identified("", k.identity))), k.identity), k.longest(), false)
}

// Predecessors are the lives of earlier instances with this one's identity, as a look has shown them, which nobody has found dead.
func (k *Keeper) Predecessors(seen []store.Seen) (lives []store.Seen) {
	if k.identity == "" || k.pulse.beats == nil {
		return nil
	}
	for i := range seen {
		row := &seen[i]
		id, is := share.ParseLife(row.Name)
		if is && !row.Free && row.Running > store.Dead && id != k.id && share.IdentityOf(row.Owner) == k.identity && len(lives) < watchMost {
			lives = append(lives, *row)
		}
	}
	return lives
}

// Succeed watches lives until it knows whether each is silent. It buries the silent ones, and tells what it found out about each. Seen is the
// look that has shown these lives.
func (k *Keeper) Succeed(ctx context.Context, lives []store.Seen, seen []store.Seen, told func(who string, buried bool)) error {
	id := sha256.Sum256([]byte("witness of " + k.id))
	of := hex.EncodeToString(id[:6])
	w := &witness.Witness{Table: k.leases, Name: share.Life(of), Lapses: anewMost,
		Owner: cut(k.holder, holderMost) + "#" + of + "." + share.Taking(1, beatCounts)}
	var failed error
	err := w.Watch(ctx, lives, func(life store.Seen) time.Duration {
		slow := (time.Duration(life.Running)*time.Millisecond - beatCounts) / 3 // its answers take no longer, see pulse.counts
		return silentFor + min(max(0, slow), promptly)                          // a look counts only if its answer takes no longer
	}, func(life store.Seen, v witness.Verdict) {
		who, _ := share.ParseLife(life.Name)
		switch v {
		case witness.Lives:
			told(nameOf(life.Owner, who), false)
		case witness.Silent:
			buried, err := k.buryDead(ctx, life, lastsFor(who, seen))
			if err != nil {
				failed = err
			}
			if buried {
				told(nameOf(life.Owner, who), true)
			}
		case witness.Gone:
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// buryDead buries an instance as dead, and tries for as long as its leases last: nobody else says that it is dead, and what it ran would wait until
// they end. If it was alive after all, its next beat has changed the term.
func (k *Keeper) buryDead(ctx context.Context, life store.Seen, lasts int64) (buried bool, err error) {
	limited, cancel := context.WithTimeout(ctx, max(succeeds, time.Duration(lasts)*time.Second))
	defer cancel()
	err = ground.Retry(limited, ground.Backoff{}, func() (err error) {
		statement, cancel := context.WithTimeout(limited, promptly)
		defer cancel()
		buried, err = k.leases.BuryDead(statement, life.Name, life.Owner, life.Term, lasts, true)
		return err
	})
	return buried, err
}

// heedSuccessions notes when a look first shows two lives of one identity: one of them is to be buried soon, and what it had is to be shared out.
func (k *Keeper) heedSuccessions(seen []store.Seen, at time.Time) {
	lives, since := map[string]int{}, map[string]time.Time{}
	for i := range seen {
		row := &seen[i]
		identity := share.IdentityOf(row.Owner)
		if _, is := share.ParseLife(row.Name); !is || row.Free || row.Running <= store.Dead || identity == "" {
			continue
		}
		if lives[identity]++; lives[identity] < 2 {
			continue
		}
		if since[identity] = at; !k.successions[identity].IsZero() {
			since[identity] = k.successions[identity]
		}
	}
	k.successions = since
}

// Succession is until when an instance is about to bury the one in whose place it was started; zero: none is.
func (k *Keeper) Succession() (until time.Time) {
	for _, since := range k.successions {
		if ends := since.Add(succeeds); ends.After(until) {
			until = ends
		}
	}
	return until
}
