// Package witness says whether instances live of which somebody says that their processes are gone.
//
// All beats look old when the database has stood still, so silence counts only as far as the witness itself could have been heard: it writes into
// a life of its own, as instances do, and then reads. What it sees counts if it was answered promptly. If it was not, it begins to count anew, a
// limited number of times, and waits for longer.
//
//	it writes and reads  ╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵ ─────── lapse ───────╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵ ╵
//	an instance beats    ╵   ✕
//	its silence              ├───────────┤                    ├───────────────────────┤ long enough
//
// One change proves nothing: a statement of the dead may arrive late. Two do.
package witness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

const (
	every    = 200 * time.Millisecond
	gapMost  = 600 * time.Millisecond  // of the time between two looks, what counts: whoever was frozen in between has seen nothing
	longer   = 2 * time.Second         // behind a lapse: an instance waits for the answer to a beat that was lost, see package keeper
	promptly = time.Second             // for an answer that counts, as in package keeper
	counts   = 2500 * time.Millisecond // how long the witness's own beats count; no job starts on them
	lasts    = 2                       // seconds that the row of the witness is there, if nobody deletes it: nobody need bury it
	made     = 1                       // the number of the beat in a row that was just made
	proof    = 2                       // changes that show that an instance lives
)

// Table is what a witness reads and writes. *store.Store has it; its methods carry the contracts.
type Table interface {
	Rise(ctx context.Context, name, owner string, number, counts, lockSeconds int64) error
	Beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (alive bool, err error)
	SeeLeases(ctx context.Context, names []string) ([]store.Seen, error)
	DropLease(ctx context.Context, name, owner string) error
}

// ErrUnanswered is the cause of an error if the database does not answer promptly, so nothing is known of the instances.
var ErrUnanswered = errors.New("the database does not answer within a second, so silence proves nothing")

// Witness is a life of its own, under a name that nobody else has.
type Witness struct {
	Table       Table
	Name, Owner string
	Lapses      int   // how often it begins to count anew
	number      int64 // of the last beat
}

// Verdict is what is known of an instance.
type Verdict int

const (
	Silent Verdict = iota // its last beat has not changed for as long as was asked
	Lives                 // it has said that it lives
	Gone                  // its row is no more, or says that it is dead
)

// watched is an instance that a witness watches.
type watched struct {
	store.Seen // its row, as it was seen last
	counted    time.Duration
	changes    int
}

// Watch watches lives, which a look has shown, until it knows of each whether it lives, and says so once for each. Enough says how long a
// silence of an instance is long enough.
func (w *Witness) Watch(ctx context.Context, lives []store.Seen, enough func(store.Seen) time.Duration, decided func(store.Seen, Verdict)) error {
	left := make([]*watched, len(lives))
	for i, life := range lives {
		left[i] = &watched{Seen: life}
	}
	defer w.leave(ctx)
	var last time.Time // when the last look was answered, if it counts; zero: it does not
	for lapses := 0; len(left) > 0; {
		sent := time.Now()
		seen, err := w.look(ctx, left)
		now := time.Now()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || now.Sub(sent) > promptly {
			if lapses++; lapses > w.Lapses {
				return lapse(err)
			}
			for _, of := range left {
				of.counted = 0
			}
			last = time.Time{}
		} else {
			longEnough := enough
			if lapses > 0 {
				longEnough = func(life store.Seen) time.Duration { return enough(life) + longer }
			}
			left = heed(left, seen, sinceLast(last, now), longEnough, decided)
			last = now
		}
		if len(left) > 0 && !sleep(ctx, soonest(left, enough)) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// soonest is when to look next: the verdict on an instance that is silent long enough need not wait for the next turn.
func soonest(left []*watched, enough func(store.Seen) time.Duration) time.Duration {
	next := every
	for _, of := range left {
		if rest := enough(of.Seen) - of.counted; rest > 0 {
			next = min(next, rest)
		}
	}
	return next
}

func lapse(err error) error {
	if err == nil {
		return ErrUnanswered
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// sinceLast is what counts of the time since the last look.
func sinceLast(last, now time.Time) time.Duration {
	if last.IsZero() {
		return 0
	}
	return min(now.Sub(last), gapMost)
}

// look writes, and then reads: what it reads was there when the table could be written.
func (w *Witness) look(ctx context.Context, left []*watched) (map[string]store.Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, promptly)
	defer cancel()
	alive, err := false, error(nil)
	if w.number = max(w.number, made) + 1; w.number > made+1 {
		alive, err = w.Table.Beat(ctx, w.Name, w.Owner, w.number, counts.Milliseconds(), lasts)
	}
	if err == nil && !alive { // it is the first one, or somebody has deleted the row, since it had ended
		err = w.Table.Rise(ctx, w.Name, w.Owner, w.number, counts.Milliseconds(), lasts)
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, len(left))
	for i, of := range left {
		names[i] = of.Name
	}
	rows, err := w.Table.SeeLeases(ctx, names)
	seen := map[string]store.Seen{}
	for _, row := range rows {
		seen[row.Name] = row
	}
	return seen, err
}

// heed notes what a look has shown, and returns what is not decided.
func heed(left []*watched, seen map[string]store.Seen, since time.Duration, enough func(store.Seen) time.Duration,
	decided func(store.Seen, Verdict)) (undecided []*watched) {
	for _, of := range left {
		row, there := seen[of.Name]
		if !there || row.Free || row.Running <= store.Dead {
			decided(of.Seen, Gone)
			continue
		}
		changed := row.Owner != of.Owner || row.Term != of.Term
		of.Seen = row
		switch {
		case changed:
			if of.changes++; of.changes >= proof {
				decided(of.Seen, Lives)
				continue
			}
			of.counted = 0
		default:
			if of.counted += since; of.counted >= enough(of.Seen) {
				decided(of.Seen, Silent)
				continue
			}
		}
		undecided = append(undecided, of)
	}
	return undecided
}

// leave deletes the row of the witness, also if ctx has ended.
func (w *Witness) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), promptly)
	defer cancel()
	w.Table.DropLease(ctx, w.Name, w.Owner) // if that fails, it ends by itself
}

func sleep(ctx context.Context, for_ time.Duration) bool {
	timer := time.NewTimer(for_)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
