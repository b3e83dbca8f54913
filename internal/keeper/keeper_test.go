package keeper

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/store"
)

const lock = 9 * time.Second // renewed every three

var errAway = errors.New("connection refused")

func expectLost(t *testing.T, l *Lease) {
	t.Helper()
	synctest.Wait()
	if l.Trusted() || !errors.Is(context.Cause(l.Context()), ErrLost) {
		t.Errorf("trusted %v, cause %v; want it lost", l.Trusted(), context.Cause(l.Context()))
	}
}

func expectHeld(t *testing.T, l *Lease) {
	t.Helper()
	synctest.Wait()
	if !l.Trusted() || l.Context().Err() != nil {
		t.Errorf("trusted %v, cause %v; want it held", l.Trusted(), context.Cause(l.Context()))
	}
}

func expectFailures(t *testing.T, f *fake, n int) {
	t.Helper()
	if got := f.failures(); len(got) != n {
		t.Errorf("heard of %d failed renewals, want %d: %v", len(got), n, got)
	}
}

func TestARenewedLeaseIsTrustedOn(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		time.Sleep(time.Hour)
		expectHeld(t, l)
		expectFailures(t, f, 0)
		if n := len(f.statements(keep)); n != int(time.Hour/(lock/3)) {
			t.Errorf("renewed %d times in an hour", n)
		}
	})
}

func TestTrustEndsByItselfWhenRenewalsFail(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		taken := time.Now()
		f.alwaysSays(keep, answer{err: errAway})
		l := f.takeIt(t)
		trust := lease.TrustedUntil(taken, lock).Sub(taken)

		time.Sleep(trust - time.Nanosecond)
		expectHeld(t, l)
		time.Sleep(time.Nanosecond)
		expectLost(t, l)
		heard := f.failures()
		if len(heard) < 10 || !errors.Is(heard[0], errAway) {
			t.Errorf("heard of %d failed renewals: %v", len(heard), heard)
		}
		time.Sleep(time.Hour)
		if more := len(f.failures()) - len(heard); more > 1 {
			t.Errorf("renewed %d times after trust had ended", more)
		}
	})
}

func TestARenewalAfterTwoFailuresSavesTheLease(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(keep, answer{err: errAway}, answer{err: errAway})
		l := f.takeIt(t)
		time.Sleep(2 * lock)
		expectHeld(t, l)
		expectFailures(t, f, 2)
	})
}

func TestTrustIsCountedFromTheSendingOfTheStatement(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		taken := time.Now()
		f.says(keep, answer{changed: 1, takes: time.Second})
		f.alwaysSays(keep, answer{err: errAway})
		l := f.takeIt(t)
		<-l.Context().Done()
		if got, want := time.Now(), lease.TrustedUntil(taken.Add(lock/3), lock); !got.Equal(want) {
			t.Errorf("trust ended %v after the taking, want %v", got.Sub(taken), want.Sub(taken))
		}
	})
}

func TestARenewalThatHangsIsGivenUpInTimeForAnother(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(keep, answer{takes: time.Hour})
		l := f.takeIt(t)
		time.Sleep(2 * lock)
		expectHeld(t, l)
		expectFailures(t, f, 1)
	})
}

func TestALeaseWhoseRenewalComesBackTooLateStaysLost(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		f.alwaysSays(keep, answer{err: errAway})
		<-l.Context().Done()
		f.alwaysSays(keep, answer{changed: 1})
		time.Sleep(lock)
		expectLost(t, l)
	})
}

func TestALeaseThatIsRenewedAfterTrustHasEndedIsGivenBack(t *testing.T) {
	for name, late := range map[string]answer{
		"the renewal went through":              {changed: 1, takes: 300 * time.Millisecond},
		"what came of it is unknown":            {err: errAway, takes: 300 * time.Millisecond},
		"what came of all before it is unknown": {err: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			withKeeper(t, func(t *testing.T, f *fake) {
				taken := time.Now()
				f.alwaysSays(keep, answer{err: errAway})
				l := f.takeIt(t)
				time.Sleep(lease.TrustedUntil(taken, lock).Sub(taken) - 150*time.Millisecond)
				f.alwaysSays(keep, late) // the database is back, and slow
				time.Sleep(2 * lock)
				expectLost(t, l)
				back := f.statements(release)
				if len(back) != 1 {
					t.Fatalf("given back %d times, want once: the row is taken for %v more, and nobody works", len(back), lock)
				}
				// No earlier than the row would have expired: work that was under way has this time.
				if back[0].at < lock || back[0].at > lock+time.Second || back[0].args[1] != l.owner {
					t.Errorf("taken at 0 for %v, given back %+v", lock, back[0])
				}
			})
		})
	}
}

func TestALeaseThatIsRenewedAfterItsReleaseIsReleasedAgain(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		f.alwaysSays(keep, answer{changed: 1, takes: 300 * time.Millisecond})
		time.Sleep(lease.RenewEvery(lock) + 100*time.Millisecond)
		f.Release(t.Context(), l)
		time.Sleep(time.Second)
		if n := len(f.statements(release)); n != 2 {
			t.Errorf("released %d times; the renewal may have come after the first", n)
		}
	})
}

func TestWhenARenewalChangesFewerRowsTheReadBackDecides(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer [][]driver.Value
		expect func(*testing.T, *Lease)
	}{
		{"still ours", [][]driver.Value{{"job-1", int64(9), int64(0)}}, expectHeld},
		{"still ours, in the case that MySQL does not tell apart", [][]driver.Value{{"JOB-1", int64(9), int64(0)}}, expectHeld},
		{"somebody else has it", nil, expectLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			withKeeper(t, func(t *testing.T, f *fake) {
				f.says(keep, answer{changed: 0})
				f.says(readKeep, answer{rows: c.answer})
				l := f.takeIt(t)
				time.Sleep(lock / 3)
				c.expect(t, l)
				expectFailures(t, f, 0) // an answer is no failure
			})
		})
	}
}

// A lease whose row is locked is held, and is not renewed: its owner must go on trusting it for only as long as the last renewal says.
func TestALockedLeaseIsTrustedAsLongAsItsLastRenewalSays(t *testing.T) {
	for name, c := range map[string]struct {
		locked time.Duration
		lost   bool
	}{
		"for long":           {time.Hour, true},
		"until it is let go": {time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			withKeeper(t, func(t *testing.T, f *fake) {
				taken := time.Now()
				f.alwaysSays(keep, answer{changed: 0})
				one := f.hold(Want{Name: "job-1", Lock: lock}, 1, f.owner("", lock, false), taken)
				two := f.hold(Want{Name: "job-2", Lock: lock}, 1, f.owner("", lock, false), taken)
				go func() {
					for trying := true; trying; time.Sleep(time.Millisecond) {
						// The row of job-1 is as it was at the taking, unless it was let go; that of job-2 has been renewed.
						now, until := time.Since(taken).Milliseconds(), int64(lock/time.Second)
						if trying = time.Since(taken) < 2*lock; time.Since(taken) > lock/3+c.locked {
							until = (now + lock.Milliseconds()) / 1000
						}
						f.alwaysSays(readKeep, answer{rows: [][]driver.Value{{"job-1", until, now}, {"job-2", (now + lock.Milliseconds()) / 1000, now}}})
					}
				}()
				time.Sleep(lease.TrustedUntil(taken, lock).Sub(taken) - time.Millisecond)
				expectHeld(t, one)
				if n := len(f.statements(keep)); c.lost && n < 5 {
					t.Errorf("tried %d times", n)
				}
				time.Sleep(10 * time.Millisecond)
				if c.lost {
					expectLost(t, one)
				} else {
					expectHeld(t, one)
				}
				expectHeld(t, two)
				time.Sleep(2 * lock) // until the other goroutine has ended
			})
		})
	}
}

func TestALostLeaseTakesNoOtherWithIt(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		one := f.hold(Want{Name: "job-1", Lock: lock}, 1, f.owner("", lock, false), time.Now())
		two := f.hold(Want{Name: "job-2", Lock: lock}, 1, f.owner("", lock, false), time.Now())
		f.says(keep, answer{changed: 1})
		f.says(readKeep, answer{rows: [][]driver.Value{{"job-2", int64(9), int64(0)}}})
		time.Sleep(lock / 3)
		expectLost(t, one)
		expectHeld(t, two)
	})
}

// seenSo is a table in which a look sees one lease like this.
type seenSo struct {
	Leases
	row store.Seen
}

func (s seenSo) Fleet(context.Context, []string) (store.Fleet, error) {
	return store.Fleet{Leases: []store.Seen{s.row}}, nil
}

// Somebody has broken the lease, and its next renewal is far away.
func TestALookShowsThatALeaseIsLost(t *testing.T) {
	for what, c := range map[string]struct {
		row  func(l *Lease) store.Seen
		age  time.Duration
		lost bool
	}{
		"it is ours":     {func(l *Lease) store.Seen { return store.Seen{Name: l.Want.Name, Owner: l.owner} }, showsWithin, false},
		"it is free":     {func(l *Lease) store.Seen { return store.Seen{Name: l.Want.Name, Owner: l.owner, Free: true} }, showsWithin, true},
		"another has it": {func(l *Lease) store.Seen { return store.Seen{Name: l.Want.Name, Owner: "shop@other/1#b1"} }, showsWithin, true},
		"it is free, by a node that may be behind": {func(l *Lease) store.Seen { return store.Seen{Name: l.Want.Name, Free: true} }, showsWithin - 1, false},
	} {
		withKeeper(t, func(t *testing.T, f *fake) {
			l := f.takeIt(t)
			time.Sleep(c.age)
			f.Keeper.leases = seenSo{f.Keeper.leases, c.row(l)}
			if _, err := f.Look(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); (context.Cause(l.Context()) == ErrLost) != c.lost || l.Trusted() == c.lost {
				t.Errorf("%s: trusted %v, cause %v", what, l.Trusted(), context.Cause(l.Context()))
			}
		})
	}
}

func TestAReadBackThatFailsLosesNothingYet(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(keep, answer{changed: 0})
		f.says(readKeep, answer{err: errAway})
		l := f.takeIt(t)
		time.Sleep(2 * lock)
		expectHeld(t, l)
		expectFailures(t, f, 1)
	})
}

func TestLeasesOfOneLengthAreRenewedInOneStatement(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.alwaysSays(keep, answer{changed: 3})
		for _, name := range []string{"job-1", "job-2", "job-3"} {
			f.hold(Want{Name: name, Lock: lock}, 1, f.owner("", lock, false), time.Now())
		}
		time.Sleep(lock)
		synctest.Wait()
		renewals := f.statements(keep)
		if len(renewals) != 3 || len(renewals[0].args) != 6 {
			t.Errorf("%d statements in three turns: %v", len(renewals), renewals)
		}
	})
}

func TestALeaseKnowsWhoHeldItUnderTheTermBefore(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		if before, earlier := l.HeldBefore(40), l.HeldBefore(39); before != "shop@old/1" || earlier != "holder of term 39" {
			t.Errorf("%q, %q", before, earlier)
		}
	})
}

func TestALeaseThatSomebodyHoldsIsOnlyLookedAt(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(see, answer{rows: [][]driver.Value{{"job-1", int64(0), "", int64(0), int64(0), int64(100), int64(95)}}})
		if taken, err := f.Take(t.Context(), wanted); len(taken) > 0 || err != nil {
			t.Errorf("%v, %v", taken, err)
		}
		if len(f.statements(take))+len(f.statements(makeRow)) > 0 {
			t.Error("wrote something")
		}
	})
}

func TestALeaseThatHasNoRowYetGetsOne(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(see, answer{})
		f.takeIt(t)
		if rows := f.statements(makeRow); len(rows) != 1 || !slices.Equal(rows[0].args, []string{"job-1"}) {
			t.Errorf("%v", rows)
		}
	})
}

func TestWhoComesLateForALeaseHasNotTakenIt(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(take, answer{changed: 0})
		f.says(readTake, answer{})
		if taken, err := f.Take(t.Context(), wanted); len(taken) > 0 || err != nil {
			t.Errorf("%v, %v", taken, err)
		}
	})
}

func TestATakingOfUnknownOutcomeIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		unknown func(f *fake)
	}{
		{"sent and not answered", func(f *fake) { f.says(take, answer{err: errAway}) }},
		{"the read-back failed", func(f *fake) { f.says(readTake, answer{err: errAway}) }},
		{"it hung until the caller's patience ended", func(f *fake) { f.says(take, answer{takes: time.Hour}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			withKeeper(t, func(t *testing.T, f *fake) {
				c.unknown(f)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				two := append(slices.Clone(wanted), Want{Name: "job-2", Lock: lock})
				if taken, err := f.Take(ctx, two); err == nil || len(taken)+len(f.all()) > 0 {
					t.Errorf("%v, %v", taken, err)
				}
				owner := f.statements(take)[0].args[2] // behind the names
				if back := f.statements(abandon); len(back) != 1 || !slices.Equal(back[0].args, []string{"job-1", "job-2", owner}) {
					t.Errorf("taken by %s, given back: %v", owner, back)
				}
			})
		})
	}
}

// A proxy has held the statement, or the server stood still. What gave the lease back came before it, or found no server.
func TestATakingThatIsCarriedOutAfterItsSenderGaveItUpIsGivenBackByTheNextLook(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(take, answer{err: errAway})
		if _, err := f.Take(t.Context(), wanted); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		owner := f.statements(take)[0].args[1]
		seen := func(owner string) answer {
			return answer{rows: [][]driver.Value{{"job-1", int64(0), owner, int64(41), int64(0), int64(130), int64(100)}}}
		}
		f.says(see, seen("shop@host/1#a1b2c3d4e5f6.7")) // another taking of this keeper's: somebody works under it
		if taken, err := f.Take(t.Context(), wanted); err != nil || len(taken)+len(f.statements(release)) > 0 {
			t.Fatalf("%v, %v, given back: %v", taken, err, f.statements(release))
		}
		f.says(see, seen(owner), seen(owner))
		f.says(release, answer{changed: 0}) // somebody has locked the row
		f.says(readRelease, answer{rows: [][]driver.Value{{int64(1)}}})
		if taken, err := f.Take(t.Context(), wanted); err != nil || len(taken) > 0 {
			t.Fatalf("%v, %v", taken, err)
		}
		taken, err := f.Take(t.Context(), wanted)
		if back := f.statements(release); err != nil || len(taken) != 1 || len(back) != 2 || !slices.Equal(back[1].args, []string{"job-1", owner}) {
			t.Errorf("%v, %v, given back: %v", taken, err, back)
		}
	})
}

func TestGivingBackATakingOfUnknownOutcomeTakesNoLongerThanASecond(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(take, answer{err: errAway})
		f.says(abandon, answer{takes: time.Hour})
		began := time.Now()
		if _, err := f.Take(t.Context(), wanted); !errors.Is(err, errAway) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestAReleasedLeaseIsNeitherTrustedNorRenewed(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		if ours, err := f.Release(t.Context(), l); !ours || err != nil {
			t.Fatal(ours, err)
		}
		if l.Trusted() || !errors.Is(context.Cause(l.Context()), ErrReleased) {
			t.Errorf("trusted %v, cause %v", l.Trusted(), context.Cause(l.Context()))
		}
		time.Sleep(time.Hour)
		if n := len(f.statements(keep)); n > 0 {
			t.Errorf("renewed %d times", n)
		}
	})
}

func TestAtMostSixteenLeasesAreGivenBackAtATime(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.alwaysSays(release, answer{changed: 1, takes: time.Second})
		began := time.Now()
		var released sync.WaitGroup
		for range 2*partingMost + 1 {
			l := f.hold(wanted[0], 41, "shop@host/1#a1", time.Now())
			released.Go(func() {
				if ours, err := f.Release(t.Context(), l); !ours || err != nil {
					t.Error(ours, err)
				}
			})
			synctest.Wait()
			if l.Trusted() {
				t.Error("a lease is trusted that waits to be given back")
			}
		}
		released.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range partingMost {
			f.turns <- struct{}{}
		}
		if _, err := f.Release(ctx, f.hold(wanted[0], 42, "shop@host/1#a1", time.Now())); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := len(f.statements(release)); n != 2*partingMost+1 {
			t.Errorf("%d statements", n)
		}
	})
}

func TestALeaseThatCouldNotBeReleasedIsNotTrustedEither(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(release, answer{err: errAway})
		l := f.takeIt(t)
		if _, err := f.Release(t.Context(), l); !errors.Is(err, errAway) || l.Trusted() {
			t.Errorf("trusted %v, %v", l.Trusted(), err)
		}
	})
}

func TestAReleaseThatChangesNothingAsksWhoseTheLeaseIs(t *testing.T) {
	for _, rows := range [][][]driver.Value{nil, {{int64(0)}}} {
		withKeeper(t, func(t *testing.T, f *fake) {
			f.says(release, answer{changed: 0})
			f.says(readRelease, answer{rows: rows})
			if ours, err := f.Release(t.Context(), f.takeIt(t)); ours != (len(rows) > 0) || err != nil {
				t.Errorf("%d rows are ours: %v, %v", len(rows), ours, err)
			}
		})
	}
}

// The statements about leases share a connection.
func TestALeaseWhoseRowIsLockedIsGivenBackWhenItIsFreeAndHoldsUpNoRenewal(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		f.says(release, answer{changed: 0}, answer{changed: 0})
		f.says(readRelease, answer{rows: [][]driver.Value{{int64(1)}}}, answer{rows: [][]driver.Value{{int64(1)}}})
		began := time.Now()
		if ours, err := f.Release(t.Context(), l); !ours || err != nil {
			t.Error(ours, err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > time.Second {
			t.Errorf("it took %v", took)
		}
		f.alwaysSays(release, answer{changed: 0})
		f.alwaysSays(readRelease, answer{rows: [][]driver.Value{{int64(1)}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Release(ctx, f.takeIt(t)); !errors.Is(err, store.ErrLocked) && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestALeaseThatWasTakenAndIsNotSeenIsGivenBackWithAnError(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(readTake, answer{})
		taken, err := f.Take(t.Context(), wanted)
		if len(taken) > 0 || err == nil || !strings.Contains(err.Error(), "reads seem to go to a replica") {
			t.Errorf("%d taken, %v", len(taken), err)
		}
		if n := len(f.statements(abandon)); n != 1 {
			t.Errorf("given back %d times", n)
		}
	})
}

func TestALeaseThatExpiredBeforeItWasSeenIsSomebodyElsesAndNoError(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.says(readTake, answer{takes: wanted[0].Lock})
		if taken, err := f.Take(t.Context(), wanted); len(taken) > 0 || err != nil {
			t.Errorf("%d taken, %v", len(taken), err)
		}
	})
}

func TestARenewalThatIsNotSeenIsAnErrorAndCostsNoLease(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		other := f.hold(Want{Name: "job-2", Lock: l.Want.Lock}, 1, "me", time.Now())
		f.says(keep, answer{changed: 1})
		f.says(readKeep, answer{})
		f.alwaysSays(keep, answer{changed: 2})
		time.Sleep(2 * l.Want.Lock)
		if !l.Trusted() || !other.Trusted() || len(f.failures()) != 1 || !strings.Contains(f.failures()[0].Error(), "reads seem to go to a replica") {
			t.Errorf("trusted %v and %v, heard %v", l.Trusted(), other.Trusted(), f.failures())
		}
	})
}

func TestTheEndOfTheParentEndsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithCancel(t.Context())
		l := New(parent, nil, "shop", NewID(), nil).hold(wanted[0], 1, "me", time.Now())
		expectHeld(t, l)
		if stop(); l.Trusted() {
			t.Error("trusted after its parent has ended")
		}
		l.end(ErrReleased)
	})
}

func TestALeaseWhoseTakingTookTooLongIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now()
		time.Sleep(lock)
		expectLost(t, New(t.Context(), nil, "shop", NewID(), nil).hold(wanted[0], 1, "me", sent))
	})
}

func TestEveryTakingHasAnOwnerOfItsOwnThatFitsTheColumn(t *testing.T) {
	for _, holder := range []string{Holder("shop"), strings.Repeat("é", 300)} {
		k := &Keeper{holder: holder, id: NewID()}
		var owners []string
		for range 100 {
			owner := k.owner("", lock, false)
			if n := utf8.RuneCountInString(owner); n > 255 {
				t.Errorf("%d characters; locked_by holds 255", n)
			}
			if readable, _, _ := strings.Cut(owner, "#"); !strings.HasPrefix(holder, readable) || readable == "" {
				t.Errorf("%q does not say who holds it", owner)
			}
			owners = append(owners, owner)
		}
		slices.Sort(owners)
		if len(slices.Compact(owners)) != 100 {
			t.Error("an owner came twice")
		}
	}
}

func TestALeaseWhoseTrustHasEndedIsNotRenewed(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		f.alwaysSays(keep, answer{err: errAway})
		l := f.takeIt(t)
		<-l.Context().Done()
		f.alwaysSays(keep, answer{changed: 1}) // the database is back
		before := len(f.statements(keep))
		time.Sleep(lock)
		if n := len(f.statements(keep)) - before; n > 0 {
			t.Errorf("renewed %d times after trust had ended: the row is taken for %v more, and nobody works", n, lock)
		}
	})
}
