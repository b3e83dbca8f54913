package keeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	gapMost   = 600 * time.Millisecond  // of the time between two looks, what counts: whoever was frozen in between has seen nothing
	suspectIn = 1200 * time.Millisecond // a beat is missing, mostly
)

// unheard is an instance from which there was no beat for a while. The clock that counts is this process's: the database's may be set.
type unheard struct {
	owner   string
	term    int64
	lasts   time.Duration // a beat of its
	counted time.Duration
	at      time.Time // when it was looked at last
}

// silence is what a keeper knows of the lives of others, by their instances. Only looks use it.
type silence struct{ of map[string]unheard }

// heed notes what a look has shown that was answered at a moment. Late: own beats were not answered promptly, so nobody else's may have been.
func (s *silence) heed(me string, seen []store.Seen, at time.Time, late bool) {
	now := map[string]unheard{}
	for i := range seen {
		row := &seen[i]
		id, is := share.ParseLife(row.Name)
		if !is || row.Free || row.Running < 0 || id == me {
			continue
		}
		next := unheard{owner: row.Owner, term: row.Term, at: at, lasts: max(beatCounts, time.Duration(row.Running)*time.Millisecond)}
		if was, known := s.of[id]; known && was.owner == row.Owner && was.term == row.Term && !late {
			next.counted = was.counted + min(at.Sub(was.at), gapMost)
		}
		now[id] = next
	}
	s.of = now
}

// Silent is when the first of the others is to be buried if nobody hears of it until then; false: all have been heard of a moment ago.
func (k *Keeper) Silent() (in time.Duration, any bool) {
	for _, u := range k.silence.of {
		if left := u.lasts - u.counted - time.Since(u.at); u.counted >= suspectIn && (!any || left < in) {
			in, any = left, true
		}
	}
	return in, any
}

// Burial says that this instance has buried another one.
type Burial struct {
	Life, Owner string // the row, and whose life it was
	Term        int64  // of the row: until when the last beat counted, in unix milliseconds of the database's clock
	Beat        int64  // when that beat came, the same
	By          string // the owner of this instance's own life
}

// Bury heeds what a look has shown of the lives of others. It buries an instance if its last beat counts no more, by this process's clock as well as
// by the database's, and if this instance's own beats are answered: otherwise the table cannot be written, and nobody can be heard of. It returns
// whom it has buried; then another look shows what they had.
func (k *Keeper) Bury(ctx context.Context, seen []store.Seen) (buried []Burial, err error) {
	now := time.Now()
	prompt, late := k.pulse.promptFor(now)
	k.silence.heed(k.id, seen, now, late)
	k.census.count(seen, &k.silence)
	k.heedSuccessions(seen, now)
	if k.pulse.beats == nil {
		return nil, nil
	}
	if _, any := k.Silent(); any {
		if err := k.Rise(ctx); err != nil {
			k.silence.of = nil // the others cannot write either, perhaps
			return nil, err
		}
	}
	for i := range seen {
		row := &seen[i]
		id, _ := share.ParseLife(row.Name)
		u, known := k.silence.of[id]
		if !known || row.Free || u.counted < u.lasts || prompt < suspectIn {
			continue
		}
		is, err := k.leases.Bury(ctx, row.Name, u.owner, u.term, lastsFor(id, seen))
		if err != nil {
			return buried, err
		}
		delete(k.silence.of, id)
		if is {
			k.census.burials.Add(1)
			b := Burial{Life: row.Name, Owner: u.owner, Term: u.term, Beat: u.term - int64(row.Running)}
			if mine := k.pulse.now.Load(); mine != nil { // a stop may have ended it
				b.By = mine.owner
			}
			buried = append(buried, b)
		}
	}
	return buried, nil
}

// nameOf is what people read of an instance.
func nameOf(owner, instance string) string {
	return fmt.Sprintf("%s (%s)", share.Readable(owner), instance)
}

// lastsFor is how many seconds it takes until the last lease of an instance has ended.
func lastsFor(instance string, seen []store.Seen) (seconds int64) {
	for i := range seen {
		if row := &seen[i]; !row.Free && row.Layout >= 0 && share.OwnerOf(row.Owner).Instance == instance {
			seconds = max(seconds, int64(row.Left)+1)
		}
	}
	return seconds
}

// Evict takes the leases that a look has shown from instances that are buried, and from earlier lives of others: what may still run under them
// gets a row of its own, with the same owner, term and end, and their names are free. A lease is freed only if a look has shown that row. It
// returns whether it has written such rows; then another look shows them. Of the dead, all ends at once. Whoever does the same at the same time
// does no harm.
func (k *Keeper) Evict(ctx context.Context, seen []store.Seen) (copied bool, err error) {
	gone := k.gone(seen)
	if len(gone) == 0 {
		return false, nil
	}
	var copies []store.Copy
	var names, owners []string
	free := func(row *store.Seen) {
		names = append(names, row.Name)
		if !slices.Contains(owners, row.Owner) {
			owners = append(owners, row.Owner)
		}
	}
	for i := range seen {
		row := &seen[i]
		switch gone.take(row) {
		case leave:
		case end:
			free(row)
		case leaveRest:
			rest := share.Remains(row.Name, row.Term)
			if slices.ContainsFunc(seen, func(other store.Seen) bool { return other.Name == rest && other.Owner == row.Owner }) {
				free(row)
			} else {
				copies = append(copies, store.Copy{Seen: *row, Rest: rest})
			}
		}
	}
	if len(copies) > 0 {
		if err := k.leases.CopyLeases(ctx, copies); err != nil {
			return false, err
		}
	}
	if len(names) > 0 {
		if err := k.leases.FreeLeases(ctx, names, owners); err != nil {
			return false, err
		}
		for i := range seen {
			if row := &seen[i]; slices.Contains(names, row.Name) {
				row.Free, row.Left = true, 0
			}
		}
	}
	return len(copies) > 0, nil
}

// lives are the takings that began the lives of instances, by the instances. Leases of earlier takings are taken from them; if a life is over, all
// are; and if the process is dead, all ends.
type lives map[string]int64

const (
	over = 1<<63 - 2
	dead = 1<<63 - 1
)

func (k *Keeper) gone(seen []store.Seen) (gone lives) {
	for i := range seen {
		row := &seen[i]
		id, is := share.ParseLife(row.Name)
		if !is || row.Free {
			continue
		}
		if gone == nil {
			gone = lives{}
		}
		n, _, _ := share.TakingOf(row.Owner)
		if gone[id] = n; row.Running > store.Buried {
			continue
		}
		if gone[id] = over; row.Running <= store.Dead {
			gone[id] = dead
		}
		if f := k.pulse.now.Load(); f != nil && row.Owner == f.owner {
			k.end(f)
		}
		if id == k.id && gone[id] == dead {
			k.loseLife()
		}
	}
	return gone
}

// loseLife ends the leases of lives that are over: somebody has said that this process is gone, and others run what it runs.
func (k *Keeper) loseLife() {
	for _, l := range k.all() {
		if l.starts.life != nil && l.starts.life.over.Load() {
			k.drop(l)
			l.end(ErrLost)
		}
	}
}

// taken is what becomes of a row when its owner's lease is taken from it.
type taken int

const (
	leave     taken = iota // it stays as it is
	leaveRest              // it is freed when what may run under it has a row of its own
	end                    // nothing runs under it
)

// take is what becomes of a row.
func (g lives) take(row *store.Seen) taken {
	id := share.OwnerOf(row.Owner).Instance
	began, is := g[id]
	if !is || row.Free || row.Layout < 0 {
		return leave
	}
	if began == dead && share.EndsWithProcess(id, row.Name, row.Owner) {
		return end
	}
	n, _, governed := share.TakingOf(row.Owner)
	if _, _, ofType := share.ParseType(row.Name); ofType && governed && n < began {
		return leaveRest
	}
	return leave
}
