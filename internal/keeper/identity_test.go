package keeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/witness"
)

var pod = share.Identity("shop", "pod-1/worker")

// succession is what a process finds out about earlier processes with its identity.
type succession struct {
	buried, alive int
	took          time.Duration
	err           error
}

// succeed has a process look who had its identity, and watch them.
func (p *process) succeed(w *world) (s succession) {
	w.Helper()
	fleet, err := p.Look(w.Context(), share.Prefixes)
	if err != nil {
		w.Fatal(err)
	}
	began := time.Now()
	s.err = p.Succeed(w.Context(), p.Predecessors(fleet.Leases), fleet.Leases, func(_ string, buried bool) {
		if buried {
			s.buried++
		} else {
			s.alive++
		}
	})
	s.took = time.Since(began)
	return s
}

func (w *world) runAs(id, identity string) *process {
	p := w.run(id)
	p.Identify(identity)
	return p
}

func TestWhatTheEarlierProcessOfAnIdentityHadEndsSoonAfterARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.runAs("a", pod)
		for _, name := range []string{"job-7", "job-8"} {
			if x.take(w, name, lock) == nil {
				w.Fatal("not taken")
			}
		}
		moved := x.take(w, "job-9", lock)
		rest := share.Remains("job-9", moved.Term)
		if err := x.Move(w.Context(), moved, rest, 1, 0); err != nil {
			w.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		x.end()
		y := w.runAs("b", pod)
		s := y.succeed(w)
		w.expect(s.err == nil && s.buried == 1 && s.alive == 0, "%+v", s)
		w.expect(s.took >= 1200*time.Millisecond && s.took < 1500*time.Millisecond, "it took %v", s.took)
		y.look(w)
		rows, err := w.table.SeeLeases(w.Context(), []string{"job-7", "job-8", rest, share.Remains("job-7", 1)})
		w.expect(err == nil && len(rows) == 3, "%v, %v", rows, err)
		for _, row := range rows {
			w.expect(row.Free, "%s is held", row.Name)
		}
		w.expect(y.take(w, "job-7", lock) != nil && y.take(w, "job-8", lock) != nil, "the leases are not taken")
		again := y.succeed(w)
		w.expect(again.buried == 0 && again.took == 0, "it is watched again: %+v", again)
	})
}

func TestWhoeverHasAnotherIdentityOrNoneIsNotWatched(t *testing.T) {
	for name, of := range map[string]string{"another": share.Identity("shop", "pod-2/worker"), "another service's": share.Identity("mail", "pod-1/worker"), "none": ""} {
		inWorld(t, func(w *world) {
			x := w.runAs("a", of)
			x.take(w, "job-7", lock)
			x.end()
			s := w.runAs("b", pod).succeed(w)
			w.expect(s == succession{}, "%s: %+v", name, s)
			s = w.runAs("c", "").succeed(w)
			w.expect(s == succession{}, "%s, without one: %+v", name, s)
		})
	}
}

func TestWhoeverLivesWithTheSameIdentityIsLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.runAs("a", pod)
		held := x.take(w, "job-7", lock)
		s := w.runAs("b", pod).succeed(w)
		w.expect(s.err == nil && s.buried == 0 && s.alive == 1 && s.took < 3*time.Second, "%+v", s)
		time.Sleep(time.Minute)
		w.expect(held.MayStart() && x.heard.Load() == 0, "it is buried")
	})
}

// A beat that was under way when the process was killed is not a sign of life.
func TestABeatOfTheDeadThatArrivesLateIsNoLife(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.runAs("a", pod)
		x.take(w, "job-7", lock)
		x.end()
		fleet, _ := x.Look(w.Context(), share.Prefixes)
		var owner string
		for _, row := range fleet.Leases {
			if row.Name == share.Life(x.ID()) {
				owner = row.Owner
			}
		}
		time.AfterFunc(300*time.Millisecond, func() { w.table.Beat(w.Context(), share.Life(x.ID()), owner, 1000, 2500, 30) })
		s := w.runAs("b", pod).succeed(w)
		w.expect(s.err == nil && s.buried == 1 && s.took > 1400*time.Millisecond && s.took < 2*time.Second, "%+v", s)
	})
}

// Behind a standstill, all beats look old.
func TestAStandstillOfTheDatabaseIsNoSilence(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.runAs("a", pod), w.runAs("b", pod)
		held := x.take(w, "job-7", lock)
		x.mute.Store(true)
		y.mute.Store(true)
		time.AfterFunc(6*time.Second, func() {
			x.mute.Store(false)
			y.mute.Store(false)
		})
		s := y.succeed(w)
		w.expect(s.err == nil && s.buried == 0 && s.alive == 1, "%+v", s)
		w.expect(x.heard.Load() == 0 && held.MayStart(), "it is buried")
	})
}

func TestWhoeverIsDeadBehindAStandstillIsFoundWhenThatIsOver(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.runAs("a", pod), w.runAs("b", pod)
		x.take(w, "job-7", lock)
		x.end()
		y.mute.Store(true)
		time.AfterFunc(6*time.Second, func() { y.mute.Store(false) })
		s := y.succeed(w)
		w.expect(s.err == nil && s.buried == 1 && s.took > 9*time.Second && s.took < 11*time.Second, "%+v", s)
	})
}

func TestNobodyWaitsForEverForADatabaseThatDoesNotAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.runAs("a", pod), w.runAs("b", pod)
		x.take(w, "job-7", lock)
		x.end()
		y.mute.Store(true)
		s := y.succeed(w)
		w.expect(errors.Is(s.err, witness.ErrUnanswered) && s.buried == 0 && s.took < time.Minute, "%+v", s)
	})
}

// Then its outcomes do not count, and its handlers hear of it.
func TestWhoeverIsSaidToBeDeadAndIsNotLosesItsLeases(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.runAs("a", pod)
		held := x.take(w, "job-7", lock)
		moved := x.take(w, "job-8", lock)
		rest := share.Remains("job-8", moved.Term)
		if err := x.Move(w.Context(), moved, rest, 1, 0); err != nil {
			w.Fatal(err)
		}
		life, _ := w.table.Lease(share.Life(x.ID()))
		if is, err := w.table.BuryDead(w.Context(), share.Life(x.ID()), life.Owner, life.Term, 30, true); !is || err != nil {
			w.Fatal(is, err)
		}
		x.look(w)
		for _, l := range []*keeper.Lease{held, moved} {
			w.expect(errors.Is(context.Cause(l.Context()), keeper.ErrLost), "it is %v", context.Cause(l.Context()))
		}
		w.expect(!held.MayStart(), "it may start")
		rows, err := w.table.SeeLeases(w.Context(), []string{"job-7", rest})
		w.expect(err == nil && len(rows) == 2 && rows[0].Free && rows[1].Free, "%v, %v", rows, err)
	})
}

// Others have buried it, and have copied what it ran; when its process is known to be gone, that ends, too.
func TestTheRestsOfTheDeadEndWhoeverHasBuriedThem(t *testing.T) {
	inWorld(t, func(w *world) {
		x, z := w.runAs("a", pod), w.run("c")
		l := x.take(w, "job-7", lock)
		z.take(w, "job-8", lock)
		x.end()
		w.expect(z.watch(w, 5*time.Second) > 0, "it is not buried")
		rest, _ := w.table.Lease(share.Remains("job-7", l.Term))
		w.expect(rest.Until > time.Now().Unix(), "nothing may run")
		s := w.runAs("b", pod).succeed(w)
		w.expect(s.buried == 1, "%+v", s)
		z.look(w)
		rest, _ = w.table.Lease(share.Remains("job-7", l.Term))
		life, _ := w.table.Lease(share.Life(x.ID()))
		w.expect(rest.Until <= time.Now().Unix() && life.Running == store.Dead, "%+v, %+v", rest, life)
	})
}

// The others look more often while an instance is about to bury the one in whose place it was started: what is free then is for them, too.
func TestOthersExpectABurialFromTheRestartOnUntilItIsDone(t *testing.T) {
	inWorld(t, func(w *world) {
		x, z := w.runAs("a", pod), w.run("c")
		x.take(w, "job-7", lock)
		z.take(w, "job-8", lock)
		z.look(w)
		w.expect(z.Succession().IsZero(), "nobody was started again, and a burial is expected")
		x.end()
		y := w.runAs("b", pod)
		if err := y.Rise(w.Context()); err != nil {
			w.Fatal(err)
		}
		z.look(w)
		first := z.Succession()
		w.expect(time.Until(first) > 2*time.Second, "it is expected for %v", time.Until(first))
		time.Sleep(300 * time.Millisecond)
		z.look(w)
		w.expect(z.Succession().Equal(first), "it is expected for longer")
		s := y.succeed(w)
		w.expect(s.buried == 1, "%+v", s)
		z.look(w)
		w.expect(z.Succession().IsZero(), "it is done, and is expected")
	})
}

// Its beats may come late by as much as its answers take. Whoever was buried alive says that its beats count for far longer.
func TestTheSlowerTheAnswersAreTheLongerASilenceHasToBe(t *testing.T) {
	for counts, want := range map[int64]time.Duration{2500: 1200 * time.Millisecond, 4000: 1700 * time.Millisecond, 11_000: 2200 * time.Millisecond} {
		inWorld(t, func(w *world) {
			x := w.runAs("a", pod)
			x.take(w, "job-7", lock)
			x.end()
			life, _ := w.table.Lease(share.Life(x.ID()))
			w.expect(w.table.Rise(w.Context(), share.Life(x.ID()), life.Owner, 1000, counts, 30) == nil, "it has not risen")
			s := w.runAs("b", pod).succeed(w)
			w.expect(s.buried == 1 && s.took >= want && s.took < want+100*time.Millisecond, "%d ms: %+v", counts, s)
		})
	}
}
