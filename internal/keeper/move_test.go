package keeper

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
)

func TestALeaseThatIsMovedLivesOnUnderItsNewName(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		if err := f.Move(t.Context(), l, "rest-1-41", 3, 0); err != nil {
			t.Fatal(err)
		}
		expectHeld(t, l)
		if moved := f.statements(move); len(moved) != 1 || !slices.Equal(moved[0].args, []string{"41", "1", l.owner, "3", "rest-1-41", l.owner}) {
			t.Errorf("%v", moved)
		}
		if released := f.statements(release); len(released) != 1 || released[0].args[0] != "job-1" {
			t.Errorf("its name was not given away: %v", released)
		}
		time.Sleep(lock)
		expectHeld(t, l)
		for _, s := range f.statements(keep) {
			if !slices.Contains(s.args, "rest-1-41") || slices.Contains(s.args, "job-1") {
				t.Errorf("renews %v", s.args)
			}
		}
		if _, err := f.Release(t.Context(), l); err != nil || len(f.statements(release)) != 1 {
			t.Errorf("%v; the lease job-1 is somebody else's by now", err)
		}
		if dropped := f.statements(dropRow); len(dropped) != 1 || dropped[0].args[0] != "rest-1-41" {
			t.Errorf("its row was not deleted: %v", dropped)
		}
	})
}

func TestALeaseThatCannotBeMovedIsAsBefore(t *testing.T) {
	for _, failing := range []kind{makeRow, move} {
		t.Run(string(failing), func(t *testing.T) {
			withKeeper(t, func(t *testing.T, f *fake) {
				l := f.takeIt(t)
				f.says(failing, answer{err: errAway})
				if f.Move(t.Context(), l, "rest-1-41", 3, 0) == nil || len(f.statements(release)) != 0 {
					t.Fatal("it was given away, and nothing says what still runs")
				}
				time.Sleep(2 * lock)
				expectHeld(t, l)
				if args := f.statements(keep)[1].args; !slices.Contains(args, "job-1") {
					t.Errorf("renews %v", args)
				}
			})
		})
	}
}

// Its outcome is unknown: the row may say that jobs run on. They have ended, and the next holder would leave workers to them until that row
// has expired.
func TestAMoveThatMayHaveHappenedLeavesNoRowBehind(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		f.says(move, answer{err: errAway})
		if f.Move(t.Context(), l, "rest-1-41", 3, 0) == nil {
			t.Fatal("it was moved")
		}
		if _, err := f.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		dropped, released := f.statements(dropRow), f.statements(release)
		if len(dropped) != 1 || dropped[0].args[0] != "rest-1-41" || len(released) != 1 || released[0].args[0] != "job-1" {
			t.Errorf("dropped %v, released %v", dropped, released)
		}
	})
}

// A renewal that names the old row is under way while the lease is moved. It does not find that row any more.
func TestARenewalThatMissesAMovedLeaseCostsNothing(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		f.says(keep, answer{changed: 0, takes: time.Second})
		f.says(readKeep, answer{})
		time.Sleep(lock/3 + time.Millisecond)
		if err := f.Move(t.Context(), l, "rest-1-41", 3, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lock/3 - 10*time.Millisecond)
		if n := len(f.statements(keep)); n != 1 {
			t.Errorf("%d renewals, want 1: the move has renewed it", n)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		expectHeld(t, l)
		expectFailures(t, f, 0)
	})
}

func TestALeaseThatWasLostMeanwhileIsNotMoved(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		l := f.takeIt(t)
		f.drop(l)
		if err := f.Move(t.Context(), l, "rest-1-41", 3, 0); err != nil {
			t.Fatal(err)
		}
		if len(f.statements(release)) != 0 || len(f.statements(dropRow)) != 1 {
			t.Error("it was given away")
		}
		l.end(ErrLost)
	})
}

func TestARenewalWritesWhatRunsIfThatHasChanged(t *testing.T) {
	withKeeper(t, func(t *testing.T, f *fake) {
		var runs atomic.Int64
		taken, err := f.Take(t.Context(), []Want{{Name: "job-1", Lock: lock, Running: func(*Lease) int { return int(runs.Load()) }}})
		if err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		l := taken[0]
		awaitRenewal := func() []string {
			before := len(f.statements(keep))
			time.Sleep(lock / 3)
			synctest.Wait()
			if sent := f.statements(keep); len(sent) == before+1 {
				return sent[before].args
			}
			t.Fatal("not renewed once")
			return nil
		}
		expect := func(when string, numbers ...string) {
			t.Helper()
			if got := awaitRenewal(); !slices.Equal(got, append(append([]string{"job-1"}, numbers...), l.owner)) {
				t.Errorf("%s: sent with %v", when, got)
			}
		}
		time.Sleep(time.Millisecond)
		expect("nothing runs")
		runs.Store(3)
		expect("three run", "job-1", "3")
		expect("three run still")
		runs.Store(0)
		f.says(keep, answer{err: errAway})
		expect("all have ended, and the statement fails", "job-1", "0")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if sent := f.statements(keep); !slices.Equal(sent[len(sent)-1].args, []string{"job-1", "job-1", "0", l.owner}) {
			t.Errorf("after the failure: sent with %v", sent[len(sent)-1].args)
		}
		expect("it is written")
		if err := f.Move(t.Context(), l, "rest-1-41", 2, 0); err != nil {
			t.Fatal(err)
		}
		runs.Store(2)
		if got := awaitRenewal(); !slices.Equal(got, []string{"rest-1-41", l.owner}) {
			t.Errorf("moved: sent with %v", got)
		}
	})
}

func TestAnOwnerSaysWhichServiceAndWhichKeeper(t *testing.T) {
	k := &Keeper{id: "0123456789ab"}
	for _, c := range []struct {
		text string
		want share.Owner
	}{
		{k.owner("shop@web-1/17", lock, false), share.Owner{Service: "shop", Host: "web-1", Process: 17, Instance: k.id}},
		{k.owner("a@b@host/1", lock, true), share.Owner{Service: "a@b", Host: "host", Process: 1, Instance: k.id}},
		{k.owner(Holder("a/b"), lock, true), share.Owner{Service: "a/b", Host: hostname(t), Process: os.Getpid(), Instance: k.id}},
		{k.owner(strings.Repeat("x", 300), lock, false), share.Owner{Service: strings.Repeat("x", 220), Instance: k.id}},
		{"shop@host/1#0123456789ab", share.Owner{}}, // an older version
		{"somebody", share.Owner{}},
		{"", share.Owner{}},
	} {
		if got := share.OwnerOf(c.text); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.text, got, c.want)
		}
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return host
}
