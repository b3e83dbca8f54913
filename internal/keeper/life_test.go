package keeper_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/simulator"
	"github.com/create-info/persistent-queue/internal/store"
)

const lock = 30 * time.Second

// process is a process with a keeper, on a table that it shares with others.
type process struct {
	*keeper.Keeper
	*way
	heard atomic.Int64 // of its burial
	dead  atomic.Bool  // its connection for beats is
	shut  atomic.Bool  // the server refuses it
	end   context.CancelFunc
}

// way is a process's way to the table.
type way struct {
	*simulator.Table
	mute   atomic.Bool  // beats have no answer, and no effect
	cut    atomic.Bool  // beats are refused
	slow   atomic.Int64 // nanoseconds that answers to beats take
	cuts   atomic.Int64 // beats that were given up
	locked atomic.Bool  // copies are not written: somebody has locked the rows

	turn   chan struct{}  // statements about leases share a connection
	late   atomic.Int32   // renewals that have waited for it in vain
	tries  atomic.Int32   // of beats
	looks  atomic.Int32   // at some leases
	looked atomic.Int64   // nanoseconds that such a look takes
	dies   [2]atomic.Bool // the connection for beats, or of the leases, has no answer any more; whoever gives a statement up gets another one

	missed  sync.Mutex
	missing map[string]missed // verbs, see miss
	takes   atomic.Int64      // nanoseconds that an answer to one of these takes
}

// leases are what statements about leases go to.
type leases struct{ *way }

// beats go through another connection.
type beats struct {
	*way
	dead *atomic.Bool // it does not answer
	shut *atomic.Bool // it is refused
}

func (b beats) Beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (bool, error) {
	if b.shut.Load() {
		return false, errMute
	}
	if b.dead.Load() || b.dies[0].Load() {
		<-ctx.Done()
		b.dies[0].Store(false)
		return false, errMute
	}
	return b.beat(ctx, name, owner, number, counts, lockSeconds)
}

var errMute = errors.New("no answer")

func (w *way) beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (bool, error) {
	w.tries.Add(1)
	if w.cut.Load() {
		return false, errMute
	}
	if w.mute.Load() {
		<-ctx.Done()
		return false, errMute
	}
	alive, err := w.Table.Beat(ctx, name, owner, number, counts, lockSeconds)
	select {
	case <-time.After(time.Duration(w.slow.Load())):
		return alive, err
	case <-ctx.Done():
		w.cuts.Add(1)
		return false, errMute
	}
}

// enter waits for the connection of the leases, and for its death.
func (l leases) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, errMute
	}
	if l.dies[1].Load() {
		<-ctx.Done()
		l.dies[1].Store(false)
		<-l.turn
		return nil, errMute
	}
	return func() { <-l.turn }, nil
}

func (l leases) Beat(ctx context.Context, name, owner string, number, counts, lockSeconds int64) (bool, error) {
	leave, err := l.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	return l.beat(ctx, name, owner, number, counts, lockSeconds)
}

func (l leases) KeepLeases(ctx context.Context, names, owners []string, lockSeconds int64, running map[string]int) (map[string]time.Duration, error) {
	leave, err := l.enter(ctx)
	if err != nil {
		l.late.Add(1)
		return nil, err
	}
	defer leave()
	return l.Table.KeepLeases(ctx, names, owners, lockSeconds, running)
}

func (l leases) SeeLeases(ctx context.Context, names []string) ([]store.Seen, error) {
	leave, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if !slices.ContainsFunc(names, func(name string) bool { _, is := share.ParseLife(name); return is }) { // a beat has no answer
		l.looks.Add(1)
	}
	time.Sleep(time.Duration(l.looked.Load()))
	return l.Table.SeeLeases(ctx, names)
}

func (l leases) CopyLeases(ctx context.Context, copies []store.Copy) error {
	if l.locked.Load() {
		return nil
	}
	return l.Table.CopyLeases(ctx, copies)
}

// world is a table of leases, and the processes on it.
type world struct {
	*testing.T
	table *simulator.Table
	ahead atomic.Int64 // nanoseconds by which the database's clock is ahead
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		w.table = simulator.NewTable(func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) })
		test(w)
	})
}

func (w *world) way() *way { return &way{Table: w.table, turn: make(chan struct{}, 1)} }

// run runs a process whose keeper has an id.
func (w *world) run(id string) *process {
	ctx, end := context.WithCancel(w.Context())
	p := &process{way: w.way(), end: end}
	p.Keeper = keeper.New(w.Context(), leases{p.way}, "shop@"+id+"/1", id+"00000000000", func(error) {})
	p.BeatThrough(beats{p.way, &p.dead, &p.shut}, func(error) {}, func() { p.heard.Add(1) })
	ended := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(ended)
	}()
	w.Cleanup(func() {
		end()
		<-ended
	})
	return p
}

// take has a process take a lease of a job type, or none.
func (p *process) take(w *world, name string, lock time.Duration) *keeper.Lease {
	w.Helper()
	if err := p.Rise(w.Context()); err != nil {
		w.Fatal(err)
	}
	taken, err := p.Take(w.Context(), []keeper.Want{{Name: name, Lock: lock, Governed: true}})
	if err != nil {
		w.Fatal(err)
	}
	if len(taken) == 0 {
		return nil
	}
	w.Cleanup(func() { p.Release(context.WithoutCancel(w.Context()), taken[0]) })
	return taken[0]
}

// look looks, and does what the coordinator does about those that are not heard of. It returns who was buried.
func (p *process) look(w *world) (buried []keeper.Burial) {
	w.Helper()
	for range 3 {
		fleet, err := p.Look(w.Context(), share.Prefixes)
		var some []keeper.Burial
		if err == nil {
			some, err = p.Bury(w.Context(), fleet.Leases)
		}
		again := len(some) > 0
		if err == nil && !again {
			again, err = p.Evict(w.Context(), fleet.Leases)
		}
		if err != nil {
			w.Fatal(err)
		}
		if buried = append(buried, some...); !again {
			break
		}
	}
	return buried
}

// watch looks twice a second for a while, and returns when somebody was buried first; 0: nobody was.
func (p *process) watch(w *world, for_ time.Duration) (first time.Duration) {
	w.Helper()
	for began := time.Now(); time.Since(began) < for_; time.Sleep(450 * time.Millisecond) {
		if len(p.look(w)) > 0 && first == 0 {
			first = time.Since(began)
		}
	}
	return first
}

func (w *world) expect(is bool, what string, args ...any) {
	w.Helper()
	if !is {
		w.Errorf(what, args...)
	}
}

func TestWhoeverIsNotHeardOfIsBuriedAndWhatItMayRunKeepsItsTerm(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		w.expect(y.watch(w, 10*time.Second) == 0, "somebody was buried, and all are alive")
		before, _ := w.table.Lease("job-1")
		x.end() // it is killed, or frozen
		began, may := time.Now(), l.MayStart()
		for len(y.look(w)) == 0 && time.Since(began) < lock {
			time.Sleep(450 * time.Millisecond)
			may = l.MayStart()
		}
		w.expect(time.Since(began) <= 3200*time.Millisecond, "buried after %v", time.Since(began))
		w.expect(!may && l.Trusted(), "when it was buried, jobs might start: %v, and the lease was trusted: %v", may, l.Trusted())
		rest, there := w.table.Lease(share.Remains("job-1", l.Term))
		w.expect(there && rest.Owner == l.Owner() && rest.Term == l.Term && rest.Until == before.Until, "the rest is %+v, of %+v", rest, before)
		next := y.take(w, "job-1", lock)
		w.expect(next != nil && next.MayStart() && next.Term > l.Term, "nobody can take it")
		w.expect(l.Context().Err() == nil, "what runs under it was cut off")
	})
}

// Whoever is to read it later has to know who it was, by whom, and since when nobody had heard of it.
func TestABurialNamesWhoItWasAndWhenItWasHeardOfLast(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		y.watch(w, 5*time.Second)
		c := y.Census()
		w.expect(c.Lives && c.SinceBeat <= 1100*time.Millisecond && c.Heard == 2 && c.Silent+c.Buried == 0 && c.Burials+c.Died == 0, "all are alive: %+v", c)
		x.end()
		began, silent := time.Now(), 0
		last, _ := w.table.Lease(share.Life(x.ID()))
		var buried []keeper.Burial
		for len(buried) == 0 && time.Since(began) < lock {
			time.Sleep(450 * time.Millisecond)
			buried = y.look(w)
			silent = max(silent, y.Census().Silent)
		}
		if len(buried) != 1 {
			w.Fatalf("%+v", buried)
		}
		b := buried[0]
		w.expect(b.Life == share.Life(x.ID()) && share.OwnerOf(b.Owner).Instance == x.ID() && share.OwnerOf(b.By).Instance == y.ID(), "the burial is %+v", b)
		w.expect(b.Term == last.Term && b.Beat == last.Term-int64(last.Running) && last.Running == 2500, "the burial is %+v, of %+v", b, last)
		now, _ := w.table.Lease(share.Life(x.ID()))
		w.expect(now.Since >= last.Term/1000 && now.Since > last.Since, "it was buried at %d, and its last beat counted until %d", now.Since, last.Term)
		y.look(w)
		c = y.Census()
		w.expect(silent == 1 && c.Heard == 1 && c.Silent == 0 && c.Buried == 1 && c.Burials == 1 && c.Died == 0, "silent were %d; then %+v", silent, c)
		w.expect(l.Context().Err() == nil && x.Census().Died == 0, "it cannot know: %+v", x.Census())
	})
}

// A process that looks, and has no lease, begins to say that it lives when it misses somebody.
func TestWhoeverHasNoLeaseBuriesTooAndSaysNothingUntilThen(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		x.take(w, "job-1", lock)
		y.watch(w, 5*time.Second)
		w.expect(!y.Lives(), "it says that it lives, though it has no lease")
		x.end()
		at := y.watch(w, 5*time.Second)
		w.expect(at > 0 && at <= 3500*time.Millisecond, "buried after %v", at)
	})
}

func TestNobodyIsBuriedByWhoeverCannotWriteEither(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		time.Sleep(5 * time.Second)
		for n := range 80 {
			x.mute.Store(true)
			time.Sleep(time.Duration(n%8) * 150 * time.Millisecond) // so they try again at other moments
			y.mute.Store(true)
			w.expect(y.watch(w, 2*time.Second+time.Duration(n)*50*time.Millisecond) == 0, "buried, while nobody could write")
			y.mute.Store(false)
			w.expect(y.watch(w, time.Duration(n%4)*400*time.Millisecond) == 0, "buried as soon as one could write again")
			x.mute.Store(false)
			w.expect(y.watch(w, 5*time.Second) == 0, "buried, and the other one had no time to be heard of")
		}
		w.expect(l.MayStart(), "it may start nothing")
		for n := range 40 {
			time.Sleep(time.Duration(n) * 70 * time.Millisecond)
			x.cut.Store(true)
			y.cut.Store(true)
			w.expect(y.watch(w, 5*time.Second) == 0, "buried, while both were refused")
			y.cut.Store(false)
			w.expect(y.watch(w, 1700*time.Millisecond) == 0, "buried as soon as one is not refused any more")
			x.cut.Store(false)
			w.expect(y.watch(w, 5*time.Second) == 0, "buried, and it is alive")
		}
	})
}

// A beat that is refused has no answer, either, though whoever sends it knows that at once.
func TestWhoeverIsRefusedBuriesNobodyFromThenOn(t *testing.T) {
	for n := range 10 {
		inWorld(t, func(w *world) {
			x, y := w.run("a"), w.run("b")
			x.take(w, "job-1", lock)
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
			y.take(w, "job-2", lock)
			time.Sleep(50 * time.Millisecond)
			for range 100 {
				y.look(w)
				time.Sleep(50 * time.Millisecond)
			}
			x.cut.Store(true)
			y.cut.Store(true)
			for range 100 {
				w.expect(len(y.look(w)) == 0, "its beats come %d ms later: it has buried somebody, while both were refused", 100*n)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

// A beat that comes later than the burial does not find the row. The process may have leases again, and starts nothing under the old ones.
func TestWhoeverWasBuriedAliveStartsNothingUnderItsEarlierLeases(t *testing.T) {
	t.Run("a look shows it", func(t *testing.T) { buriedAlive(t, true) })
	t.Run("a renewal says it", func(t *testing.T) { buriedAlive(t, false) })
}

func buriedAlive(t *testing.T, looks bool) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		time.Sleep(3 * time.Second)
		x.mute.Store(true)
		w.expect(y.watch(w, 5*time.Second) > 0, "it was not buried")
		y.take(w, "job-1", lock)
		if looks {
			x.look(w)
		}
		w.expect(l.Context().Err() == nil, "what runs under it was cut off")
		x.mute.Store(false)
		time.Sleep(2 * time.Second)
		w.expect(x.heard.Load() == 1 && l.Over() && !l.MayStart() && !x.Lives(), "it has not heard of its burial")
		again := x.take(w, "job-3", lock)
		time.Sleep(3 * time.Second)
		w.expect(again.MayStart() && !l.MayStart(), "jobs may start under the new lease: %v, and under the old: %v", again.MayStart(), l.MayStart())
		time.Sleep(lock)
		w.expect(l.Context().Err() == nil, "what runs under the earlier lease was cut off")
		rest, there := w.table.Lease(share.Remains("job-1", l.Term))
		w.expect(there && rest.Until > time.Now().Unix(), "the rest is not renewed: %+v", rest)
		x.Release(w.Context(), l)
		_, there = w.table.Lease(share.Remains("job-1", l.Term))
		w.expect(!there, "the rest is there, and nothing runs")
		now, _ := w.table.Lease("job-3")
		y.look(w)
		still, _ := w.table.Lease("job-3")
		w.expect(still == now, "a lease of the new life was taken from it: %+v", still)
	})
}

// Nobody knows whether a renewal came before the burial, unless a beat that was sent later has found the row.
func TestARenewalCountsOnlyOfWhoeverIsHeardOf(t *testing.T) {
	for _, heardAgain := range []bool{false, true} {
		inWorld(t, func(w *world) {
			x := w.run("a")
			l := x.take(w, "job-1", lock)
			time.Sleep(500 * time.Millisecond)
			x.mute.Store(true)
			time.Sleep(24 * time.Second) // then a beat that is under way may be lost
			lease, _ := w.table.Lease("job-1")
			w.expect(l.Context().Err() == nil && lease.Until >= time.Now().Add(lock/2).Unix(), "it was lost too soon, or not renewed: %+v", lease)
			x.mute.Store(!heardAgain)
			time.Sleep(11 * time.Second)
			w.expect((l.Context().Err() == nil) == heardAgain, "heard of again: %v, and trusted: %v", heardAgain, l.Trusted())
		})
	}
}

// Whoever stops then puts off what its handlers may still run until the lease has ended.
func TestALeaseMayLastAsLongAsARenewalThatDoesNotCountHasWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		l := x.take(w, "job-1", lock)
		time.Sleep(500 * time.Millisecond)
		x.mute.Store(true)
		time.Sleep(12 * time.Second)
		row, _ := w.table.Lease("job-1")
		w.expect(!time.Now().Add(l.FreeIn()).Before(time.Unix(row.Until, 0)), "it is to last for %v, and the row until %v", l.FreeIn(), time.Unix(row.Until, 0))
	})
}

func TestALeaseIsFreeOnlyWhenALookHasShownItsCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		x.end()
		y.locked.Store(true)
		w.expect(y.watch(w, 5*time.Second) > 0, "it was not buried")
		w.expect(y.take(w, "job-1", lock) == nil, "it is free, and no row says what may still run")
		y.locked.Store(false)
		y.look(w)
		w.expect(y.take(w, "job-1", lock) != nil, "it is not free")
	})
}

// A step of the database's clock makes every beat look old. Those of whoever is alive are not.
func TestAStepOfTheDatabasesClockBuriesNobody(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		inWorld(t, func(w *world) {
			x, y := w.run("a"), w.run("b")
			x.take(w, "job-1", 2*time.Hour)
			y.take(w, "job-2", 2*time.Hour)
			w.expect(y.watch(w, 3300*time.Millisecond) == 0, "somebody was buried")
			w.ahead.Store(int64(by))
			w.expect(y.watch(w, 5*time.Second) == 0, "somebody was buried who is alive")
		})
	}
}

// A beat may have taken effect when it was sent.
func TestABeatCountsFromItsSendingOn(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		l := x.take(w, "job-1", lock)
		x.slow.Store(int64(400 * time.Millisecond))
		time.Sleep(5 * time.Second)
		for range 30 {
			row, _ := w.table.Lease(share.Life(x.ID()))
			w.expect(time.Now().Add(l.StartsFor()).UnixMilli() < row.Term, "jobs start for %v, and the beat counts until %d", l.StartsFor(), row.Term)
			time.Sleep(97 * time.Millisecond)
		}
	})
}

// A connection broke, and a proxy had the statement still. It counts for less than the one that was answered since.
func TestABeatThatArrivesLateChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		x.take(w, "job-1", lock)
		row, _ := w.table.Lease(share.Life(x.ID()))
		later, errLater := w.table.Beat(w.Context(), share.Life(x.ID()), row.Owner, row.Layout+2, 8000, 30)
		before, _ := w.table.Lease(share.Life(x.ID()))
		late, errLate := w.table.Beat(w.Context(), share.Life(x.ID()), row.Owner, row.Layout+1, 2500, 30)
		again, errAgain := w.table.Beat(w.Context(), share.Life(x.ID()), row.Owner, row.Layout+2, 8000, 30)
		now, _ := w.table.Lease(share.Life(x.ID()))
		w.expect(later && !late && again && now == before, "later %v, late %v, again %v; the row is %+v", later, late, again, now)
		w.expect(errors.Join(errLater, errLate, errAgain) == nil, "%v, %v, %v", errLater, errLate, errAgain)
	})
}

// Whoever gives a lease away makes the row first, and writes it then.
func TestARestThatIsNobodysIsNotTakenForACopy(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		rest := share.Remains("job-1", l.Term)
		if err := w.table.MakeLeases(w.Context(), []string{rest}); err != nil {
			t.Fatal(err)
		}
		x.end()
		y.watch(w, 5*time.Second)
		row, _ := w.table.Lease(rest)
		w.expect(row.Owner == l.Owner() && row.Until > time.Now().Unix(), "the rest is %+v", row)
		w.expect(y.take(w, "job-1", lock) != nil, "the lease is not free")
	})
}

// Nobody has taken its leases yet when it is there again.
func TestTheLeasesOfAnEarlierLifeAreTakenFromWhoeverIsAliveAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		time.Sleep(2 * time.Second)
		x.mute.Store(true)
		y.locked.Store(true)
		w.expect(y.watch(w, 5*time.Second) > 0, "it was not buried")
		x.mute.Store(false)
		time.Sleep(3 * time.Second)
		x.take(w, "job-3", lock)
		w.expect(x.Lives() && l.Over(), "it does not live again")
		y.locked.Store(false)
		y.look(w)
		w.expect(y.take(w, "job-1", lock) != nil, "its lease was not taken")
		w.expect(y.take(w, "job-3", lock) == nil, "its new lease was taken")
	})
}

// A firewall has dropped it, or the server refuses it. The connection of the leases is well.
func TestBeatsGoThroughTheConnectionOfTheLeasesIfTheirOwnIsDead(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		time.Sleep(3 * time.Second)
		x.dead.Store(true)
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
			if !l.MayStart() {
				t.Fatalf("no job may start %v after its connection for beats has died", time.Since(began))
			}
		}
		w.expect(y.watch(w, 10*time.Second) == 0, "somebody was buried who is alive")
	})
}

// Somebody has locked the row of its life, or the server answers no beats. The connection of the leases is tried, too, and not for long.
func TestBeatsWithoutAnAnswerKeepNoRenewalWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		x.take(w, "job-1", keeper.ShortestGoverned)
		for range 10 {
			x.mute.Store(true)
			time.Sleep(2900 * time.Millisecond)
			x.mute.Store(false)
			time.Sleep(1300 * time.Millisecond)
		}
		x.shut.Store(true) // so a beat goes through the connection of the leases at once, and could stay there for longer
		for n := range 20 {
			x.mute.Store(true)
			time.Sleep(2900*time.Millisecond + time.Duration(n%8)*150*time.Millisecond)
			x.mute.Store(false)
			time.Sleep(1300 * time.Millisecond)
		}
		w.expect(x.late.Load() == 0, "%d renewals have waited in vain for the connection of the leases", x.late.Load())
	})
}

// A firewall has forgotten both connections. The look whether the database is slow has no answer, either, and a renewal waits for it.
func TestALookWhetherTheDatabaseIsSlowCostsNoLease(t *testing.T) {
	for n := range 40 {
		inWorld(t, func(w *world) {
			x := w.run("a")
			l := x.take(w, "job-1", keeper.ShortestGoverned)
			time.Sleep(5*time.Second + time.Duration(n)*50*time.Millisecond)
			x.dies[0].Store(true)
			x.dies[1].Store(true)
			time.Sleep(15 * time.Second)
			w.expect(l.Trusted() && l.MayStart(), "after %d ms: the lease is trusted: %v, jobs may start: %v", 5000+50*n, l.Trusted(), l.MayStart())
		})
	}
}

// Whoever gives a beat up loses the connection, and needs many answers for another one.
func TestNoBeatIsGivenUpBecauseTheDatabaseAnswersSlowly(t *testing.T) {
	for _, takes := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second} {
		inWorld(t, func(w *world) {
			x, y := w.run("a"), w.run("b")
			l := x.take(w, "job-1", lock)
			y.take(w, "job-2", lock)
			time.Sleep(3 * time.Second)
			for _, p := range []*process{x, y} {
				p.slow.Store(int64(takes))
				p.looked.Store(int64(takes))
			}
			may, all := 0, 0
			for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
				if y.look(w); time.Since(began) < 2*takes {
					continue
				}
				if all++; l.StartsFor() >= takes { // a mark has to be answered, too
					may++
				}
			}
			// The first beat waits for 1.2 s.
			w.expect(x.cuts.Load() <= int64(takes/(1250*time.Millisecond)), "answers take %v: %d beats were given up", takes, x.cuts.Load())
			w.expect(may >= all*9/10, "answers take %v: jobs may start in %d of %d moments", takes, may, all)
			w.expect(x.heard.Load()+y.heard.Load() == 0, "answers take %v: somebody was buried who is alive", takes)
		})
	}
}

// There may be thousands of instances.
func TestAServerThatRefusesAllIsAskedAFewTimesASecondWhetherAnInstanceLives(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		x.take(w, "job-1", lock)
		x.cut.Store(true)
		time.Sleep(3 * time.Second)
		before := x.tries.Load()
		time.Sleep(10 * time.Second)
		tries := x.tries.Load() - before
		w.expect(tries > 0 && tries <= 50, "%d tries in ten seconds", tries)
	})
}

// A process may have hundreds of leases when it hears of its burial, and others that it has to renew.
func TestOneLookTellsOfAllLeasesThatOthersHaveTakenWhatBecomesOfThem(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		var had []*keeper.Lease
		for n := range 20 {
			had = append(had, x.take(w, share.TypeLease(int32(n)), lock))
		}
		y.take(w, "job-100", lock)
		time.Sleep(3 * time.Second)
		x.mute.Store(true)
		w.expect(y.watch(w, 5*time.Second) > 0, "it was not buried")
		before := x.looks.Load()
		x.looked.Store(int64(900 * time.Millisecond))
		x.mute.Store(false)
		time.Sleep(lock)
		x.looked.Store(0)
		w.expect(x.looks.Load() == before+1, "%d looks", x.looks.Load()-before)
		for _, l := range had {
			w.expect(l.Context().Err() == nil && !l.MayStart(), "of %s, it was cut off what runs: %v", l.Want.Name, context.Cause(l.Context()))
		}
	})
}

// Nobody knows whether the move of a lease that failed has written the rest. That is no sign of a burial.
func TestWhoeverBreaksALeaseEndsItAlsoIfThereIsARest(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		l, other := x.take(w, "job-1", lock), x.take(w, "job-2", lock)
		time.Sleep(2 * time.Second)
		if err := w.table.CopyLeases(w.Context(), []store.Copy{copyOf(w, l)}); err != nil {
			t.Fatal(err)
		}
		w.expect(w.table.Break("job-1", l.Owner(), time.Now().Unix()), "it was not broken")
		x.look(w)
		w.expect(errors.Is(context.Cause(l.Context()), keeper.ErrLost), "what runs runs on")
		w.expect(other.MayStart() && x.Lives() && x.heard.Load() == 0, "it takes that for its burial")
	})
}

// copyOf is what others make of a lease that they have seen.
func copyOf(w *world, l *keeper.Lease) store.Copy {
	row, _ := w.table.Lease(l.Want.Name)
	seen := store.Seen{Name: l.Want.Name, Owner: l.Owner(), Term: l.Term, Running: 3, Layout: 1, Until: row.Until * 1e6}
	return store.Copy{Seen: seen, Rest: share.Remains(l.Want.Name, l.Term)}
}

// The look that has shown the lease was before that.
func TestARestThatIsWrittenWhenNothingRunsAnyMoreIsTakenBack(t *testing.T) {
	t.Run("its holder knows that it was buried", func(t *testing.T) { restTakenBack(t, true) })
	t.Run("its holder has not heard of it yet", func(t *testing.T) { restTakenBack(t, false) })
}

func restTakenBack(t *testing.T, hears bool) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", lock)
		y.take(w, "job-2", lock)
		time.Sleep(2 * time.Second)
		x.mute.Store(true)
		y.locked.Store(true)
		w.expect(y.watch(w, 5*time.Second) > 0, "it was not buried")
		x.mute.Store(!hears)
		time.Sleep(3 * time.Second)
		w.expect(x.Lives() != hears, "it knows of its burial: %v", !x.Lives())
		late := copyOf(w, l)
		x.Release(w.Context(), l)
		if err := w.table.CopyLeases(w.Context(), []store.Copy{late}); err != nil {
			t.Fatal(err)
		}
		fleet, err := x.Look(w.Context(), share.Prefixes)
		if err == nil {
			err = x.EndStrays(w.Context(), fleet.Leases)
		}
		_, there := w.table.Lease(late.Rest)
		w.expect(err == nil && !there, "it is there for as long as the lease was, and others count what it says: %v", err)
	})
}

// The burial names the beat that nobody has seen a later one of. Another may have come since.
func TestABurialThatComesBehindABeatDoesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		x := w.run("a")
		x.take(w, "job-1", lock)
		name := share.Life(x.ID())
		was, _ := w.table.Lease(name)
		time.Sleep(1500 * time.Millisecond)
		now, _ := w.table.Lease(name)
		is, err := w.table.Bury(w.Context(), name, now.Owner, now.Term, 1)
		w.expect(err == nil && !is, "buried, and the beat counts still: %v, %v", is, err)
		w.ahead.Store(int64(time.Hour))
		is, err = w.table.Bury(w.Context(), name, was.Owner, was.Term, 1)
		w.expect(err == nil && !is, "buried: %v, %v", is, err)
		is, err = w.table.Bury(w.Context(), name, now.Owner, now.Term, 1)
		alive, errBeat := w.table.Beat(w.Context(), name, now.Owner, now.Layout+1, 2500, 10)
		w.expect(err == nil && is && errBeat == nil && !alive, "buried: %v, %v, and alive: %v, %v", is, err, alive, errBeat)
	})
}

func TestAShortLeaseHasOneEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		l := x.take(w, "job-1", 3*time.Second)
		x.take(w, "job-3", lock)
		y.take(w, "job-2", lock)
		time.Sleep(5 * time.Second)
		x.mute.Store(true)
		y.watch(w, 5*time.Second)
		w.expect(x.heard.Load() == 0 || l.MayStart(), "it is governed by beats")
		lease, _ := w.table.Lease("job-1")
		w.expect(lease.Owner == l.Owner() && lease.Until > time.Now().Unix(), "it was taken from its holder: %+v", lease)
	})
}

// Nobody else gets it for so long, whatever becomes of its holder.
func TestALeaseThatStaysTakenForATimeHasOneEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		x, y := w.run("a"), w.run("b")
		if err := x.Rise(w.Context()); err != nil {
			t.Fatal(err)
		}
		wants := []keeper.Want{{Name: "job-1", Lock: lock, MinLock: 20 * time.Second, Governed: true}, {Name: "job-3", Lock: lock, Governed: true}}
		taken, err := x.Take(w.Context(), wants)
		if err != nil || len(taken) != 2 {
			t.Fatal(taken, err)
		}
		y.take(w, "job-2", lock)
		x.end()
		w.expect(y.watch(w, 5*time.Second) > 0, "it was not buried")
		w.expect(y.take(w, "job-1", lock) == nil, "it was taken from its holder too soon")
		w.expect(y.take(w, "job-3", lock) != nil, "the other one was not taken")
		for _, l := range taken {
			x.Release(w.Context(), l)
		}
	})
}

// What a process without a connection for beats has is its own until it expires; and it takes part in what becomes of the leases of others.
func TestAnInstanceThatSaysNothingIsNeverBuriedAndBuriesNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, end := context.WithCancel(w.Context())
		older := &process{way: w.way()}
		older.Keeper = keeper.New(w.Context(), leases{older.way}, "shop@old/1", "000000000000", func(error) {})
		taken, err := older.Take(ctx, []keeper.Want{{Name: "job-1", Lock: lock, Governed: true}})
		if err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		w.expect(taken[0].MayStart(), "jobs may not start")
		x := w.run("a")
		x.take(w, "job-2", lock)
		w.expect(x.watch(w, 5*time.Second) == 0, "it was buried")
		x.end()
		w.expect(older.watch(w, 5*time.Second) == 0, "it has buried another")
		row, _ := w.table.Lease(share.Life(x.ID()))
		if buried, err := w.table.Bury(ctx, share.Life(x.ID()), row.Owner, row.Term, 30); err != nil || !buried {
			t.Fatal(buried, err)
		}
		older.look(w)
		taken, err = older.Take(ctx, []keeper.Want{{Name: "job-2", Lock: lock, Governed: true}})
		w.expect(err == nil && len(taken) == 1, "%v, %v", taken, err)
		end()
		for _, l := range slices.Concat(taken) {
			older.Release(context.WithoutCancel(ctx), l)
		}
	})
}
