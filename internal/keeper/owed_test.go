package keeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
)

// missed is how a statement is missed.
type missed int

const (
	refused    missed = iota + 1 // it has no effect
	unanswered                   // it takes effect, and nobody hears of that
)

var errMissed = errors.New("the answer was lost")

// miss has a verb's statements missed from now on.
func (w *way) miss(how missed, verbs ...string) {
	w.missed.Lock()
	defer w.missed.Unlock()
	w.missing = map[string]missed{}
	for _, verb := range verbs {
		w.missing[verb] = how
	}
}

func (w *way) through(verb string, send func() error) error {
	w.missed.Lock()
	how := w.missing[verb]
	w.missed.Unlock()
	time.Sleep(time.Duration(w.takes.Load()))
	if how == refused {
		return errMissed
	}
	if err := send(); err != nil || how == 0 {
		return err
	}
	return errMissed
}

func (l leases) MoveLease(ctx context.Context, name, owner string, term, layout, lockSeconds int64, running int) error {
	return l.through("move", func() error { return l.Table.MoveLease(ctx, name, owner, term, layout, lockSeconds, running) })
}

func (l leases) ReleaseLease(ctx context.Context, name, owner string, minLock time.Duration) (ours bool, err error) {
	err = l.through("release", func() (err error) {
		ours, err = l.Table.ReleaseLease(ctx, name, owner, minLock)
		return err
	})
	return ours, err
}

func (l leases) CloseLease(ctx context.Context, name, owner string, layout int64) error {
	return l.through("close", func() error { return l.Table.CloseLease(ctx, name, owner, layout) })
}

func (l leases) LayDown(ctx context.Context, name, owner string) error {
	return l.through("lay down", func() error { return l.Table.LayDown(ctx, name, owner) })
}

func (l leases) DropLease(ctx context.Context, name, owner string) error {
	return l.through("drop", func() error { return l.Table.DropLease(ctx, name, owner) })
}

func (b beats) Rise(ctx context.Context, name, owner string, number, counts, lockSeconds int64) error {
	return b.through("rise", func() error { return b.Table.Rise(ctx, name, owner, number, counts, lockSeconds) })
}

func (l leases) Rise(ctx context.Context, name, owner string, number, counts, lockSeconds int64) error {
	return beats{way: l.way}.Rise(ctx, name, owner, number, counts, lockSeconds)
}

func (l leases) BuryDead(ctx context.Context, name, owner string, term, seconds int64, unexpired bool) (buried bool, err error) {
	err = l.through("bury dead", func() (err error) {
		buried, err = l.Table.BuryDead(ctx, name, owner, term, seconds, unexpired)
		return err
	})
	return buried, err
}

// endStrays looks, and gives back what the coordinator would have given back.
// It returns which leases are free then.
func (p *process) endStrays(w *world) (free map[string]bool) {
	w.Helper()
	fleet, err := p.Look(w.Context(), share.Prefixes)
	if err == nil {
		err = p.EndStrays(w.Context(), fleet.Leases)
	}
	if err != nil {
		w.Fatal(err)
	}
	free = map[string]bool{}
	for _, row := range fleet.Leases {
		free[row.Name] = row.Free
	}
	return free
}

// expectFree expects the name of a lease to be free, and its rest to be there or not.
func (w *world) expectFree(l *keeper.Lease, rest bool, when string) {
	w.Helper()
	name, there := w.table.Lease(l.Want.Name)
	w.expect(there && name.Until <= time.Now().Unix(), "%s: the name of the lease is held for %d s more", when, name.Until-time.Now().Unix())
	row, _ := w.table.Lease(share.Remains(l.Want.Name, l.Term))
	w.expect(row.Until > time.Now().Unix() == rest, "%s: its rest is %+v", when, row)
}

// halfMoved is a lease whose rest is written, and whose name was not given away.
func (p *process) halfMoved(w *world, later int64) *keeper.Lease {
	w.Helper()
	l := p.take(w, "job-1", lock)
	p.miss(refused, "release", "close")
	if p.Move(w.Context(), l, share.Remains(l.Want.Name, l.Term), 3, later) == nil {
		w.Fatal("its name was given away")
	}
	return l
}

func TestALeaseThatIsMovedHalfGivesItsNameBackWhenItEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		later  int64
		ends   func(p *process, ctx context.Context, l *keeper.Lease) error
		layout int64 // of the name then; 0: it is not there
	}{
		{"released", 0, func(p *process, ctx context.Context, l *keeper.Lease) error {
			_, err := p.Release(ctx, l)
			return err
		}, 1},
		{"closed", 1026, func(p *process, ctx context.Context, l *keeper.Lease) error { return p.Close(ctx, l, 1026) }, -1026},
		{"laid down", 0, func(p *process, ctx context.Context, l *keeper.Lease) error { return p.LayDown(ctx, l) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				x := w.run("a")
				l := x.halfMoved(w, c.later)
				x.miss(0)
				if err := c.ends(x, w.Context(), l); err != nil || x.OwesName() {
					w.Fatal(err, x.OwesName())
				}
				name, there := w.table.Lease("job-1")
				w.expect(there == (c.layout != 0) && name.Layout == c.layout, "its name is there: %v, %+v", there, name)
				if c.layout == 1 {
					w.expectFree(l, false, "nothing runs any more")
					w.expect(w.run("b").take(w, "job-1", lock) != nil, "nobody can take it")
				}
				_, there = w.table.Lease(share.Remains("job-1", l.Term))
				w.expect(!there, "its rest is there still")
			})
		})
	}
}

func TestALookGivesTheNameOfALeaseAwayThatIsMovedHalf(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.halfMoved(w, 0)
		x.miss(0)
		w.expect(x.OwesName(), "it does not know that it owes the name")
		x.endStrays(w)
		w.expectFree(l, true, "what runs, runs on")
		w.expect(l.Trusted() && l.Context().Err() == nil, "what runs was cut off")
		x.endStrays(w)
		time.Sleep(3 * time.Second)
		x.endStrays(w)
		next := y.take(w, "job-1", lock)
		w.expect(!x.OwesName() && next != nil, "it owes the name still: %v", x.OwesName())
	})
}

// Whether the answers or the statements were lost: nothing runs any more, and the database answers again a moment later.
func TestWhatCouldNotBeGivenBackIsGivenBackByTheNextLook(t *testing.T) {
	for name, how := range map[string]missed{"refused": refused, "unanswered": unanswered} {
		for _, moves := range []missed{0, refused, unanswered} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					x := w.run("a")
					l := x.take(w, "job-1", lock)
					if moves != 0 {
						x.miss(moves, "move")
						if x.Move(w.Context(), l, share.Remains("job-1", l.Term), 3, 0) == nil {
							w.Fatal("it was moved")
						}
					}
					x.miss(how, "release", "drop")
					if _, err := x.Release(w.Context(), l); err == nil {
						w.Fatal("it was given back")
					}
					x.miss(0)
					time.Sleep(500 * time.Millisecond)
					x.endStrays(w)
					w.expectFree(l, false, "the database answers again")
					w.expect(!x.OwesName() || how == unanswered, "it owes the name still")
					time.Sleep(3 * time.Second)
					x.endStrays(w)
					w.expect(!x.OwesName(), "it owes the name still")
				})
			})
		}
	}
}

func TestALeaseThatCouldNotBeClosedOrLaidDownIsFreeAtTheNextLook(t *testing.T) {
	for name, end := range map[string]func(p *process, ctx context.Context, l *keeper.Lease) error{
		"close":    func(p *process, ctx context.Context, l *keeper.Lease) error { return p.Close(ctx, l, 1026) },
		"lay down": func(p *process, ctx context.Context, l *keeper.Lease) error { return p.LayDown(ctx, l) },
	} {
		for _, how := range []missed{refused, unanswered} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					x := w.run("a")
					l := x.take(w, "job-1", lock)
					x.miss(how, name)
					if end(x, w.Context(), l) == nil {
						w.Fatal("it has ended")
					}
					x.miss(0)
					time.Sleep(3 * time.Second)
					free := x.endStrays(w)
					w.expect(free["job-1"] == (how == refused), "it is free: %v", free["job-1"])
					w.expect(!x.OwesName(), "it owes the name still")
				})
			})
		}
	}
}

func TestALeaseThatWaitsForItsTurnInVainIsGivenBackByTheNextLook(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		l := x.halfMoved(w, 0)
		x.miss(0)
		over, cancel := context.WithCancel(w.Context())
		cancel()
		x.Release(over, l)
		x.endStrays(w)
		w.expectFree(l, false, "a look has come")
	})
}

func TestANameThatSomebodyElseHasByThenIsNotGivenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.halfMoved(w, 0)
		x.miss(0)
		time.Sleep(lock + time.Second) // it has expired
		next := y.take(w, "job-1", lock)
		if next == nil || !l.Trusted() {
			w.Fatal(next, l.Trusted())
		}
		before, _ := w.table.Lease("job-1")
		w.expect(!x.endStrays(w)["job-1"], "the look says that it is free")
		x.Release(w.Context(), l)
		x.endStrays(w)
		after, _ := w.table.Lease("job-1")
		w.expect(before == after && before.Owner == next.Owner() && next.Trusted(), "%+v has become %+v", before, after)
	})
}

// If a transaction has locked the row of a rest, its deletion waits, and so would each look, which takes leases.
func TestARowThatCannotBeDeletedEndsNoLook(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		l := x.take(w, "job-1", lock)
		if err := x.Move(w.Context(), l, share.Remains("job-1", l.Term), 3, 0); err != nil {
			w.Fatal(err)
		}
		x.miss(refused, "drop")
		x.Release(w.Context(), l)
		for range 5 {
			x.endStrays(w)
		}
		x.miss(0)
		time.Sleep(3 * time.Second)
		x.endStrays(w)
		w.expectFree(l, false, "the row can be deleted")
	})
}

// A look also takes what is free, and its time is limited.
func TestWhatIsOwedTakesHalfOfALookAtMost(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		var leases []*keeper.Lease
		for n := range 10 {
			leases = append(leases, x.take(w, share.TypeLease(int32(n+1)), lock))
		}
		x.miss(refused, "release")
		for _, l := range leases {
			x.Release(w.Context(), l)
		}
		x.miss(0)
		x.takes.Store(int64(200 * time.Millisecond))
		for range 4 {
			began := time.Now()
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			fleet, err := x.Look(ctx, share.Prefixes)
			if err == nil {
				err = x.EndStrays(ctx, fleet.Leases)
			}
			cancel()
			w.expect(err == nil && time.Since(began) <= 600*time.Millisecond, "it took %v: %v", time.Since(began), err)
		}
		for _, l := range leases {
			w.expectFree(l, false, "four looks have come")
		}
		w.expect(!x.OwesName(), "it owes names still")
	})
}

// Otherwise the others would say that they have buried an instance that is well.
func TestALifeThatCouldNotBeEndedIsEndedByTheNextLook(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		y.watch(w, 3*time.Second)
		if _, err := x.Release(w.Context(), l); err != nil {
			w.Fatal(err)
		}
		x.miss(refused, "drop")
		if x.Depart(w.Context()) == nil {
			w.Fatal("its life has ended")
		}
		x.miss(0)
		x.endStrays(w)
		w.expect(y.watch(w, 10*time.Second) == 0, "it was buried")
	})
}

// The same, if nobody heard that the life has begun.
func TestALifeThatBeginsWhenItsSenderHasGivenItUpIsEndedByTheNextLook(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		y.take(w, "job-2", lock)
		y.watch(w, 3*time.Second)
		x.miss(unanswered, "rise")
		if x.Rise(w.Context()) == nil {
			w.Fatal("it has heard that its life has begun")
		}
		x.miss(0)
		row, there := w.table.Lease(share.Life(x.ID()))
		w.expect(there && row.Until > time.Now().Unix(), "no life has begun")
		x.endStrays(w)
		w.expect(y.watch(w, 10*time.Second) == 0, "it was buried")
	})
}

// Nobody else says that it is dead, so what it ran would wait until its leases have ended, half a minute here.
func TestABurialOfADeadPredecessorThatIsMissedIsTriedAgain(t *testing.T) {
	for name, how := range map[string]missed{"refused": refused, "unanswered": unanswered} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				x, y := w.runAs("a", pod), w.runAs("b", pod)
				l := x.take(w, "job-7", lock)
				time.Sleep(3 * time.Second)
				x.end()
				y.miss(how, "bury dead")
				defer time.AfterFunc(6*time.Second, func() { y.miss(0) }).Stop()
				s := y.succeed(w)
				w.expect(s.err == nil && s.took < 8*time.Second, "%+v", s)
				y.look(w)
				rest, there := w.table.Lease(share.Remains("job-7", l.Term))
				w.expectFree(l, false, "it is dead")
				w.expect(!there, "what it ran is left alone: %+v", rest)
			})
		})
	}
}
