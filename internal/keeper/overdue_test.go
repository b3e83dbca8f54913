package keeper

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestALeaseEndsAtTheLatestWhenItsHolderCannotTrustItAnymore(t *testing.T) {
	const day = 24 * 60 * 60
	k := &Keeper{id: "0123456789ab"}
	owner, another := k.owner("shop@web-1/17", 10*time.Second, false), k.owner("shop@web-1/17", 10*time.Second, false)
	began := time.Now()
	row := func(owner string, until int64, left float64) store.Seen {
		return store.Seen{Name: "job-1", Owner: owner, Until: until, Left: left, Layout: 1}
	}
	type look struct {
		after time.Duration
		row   store.Seen
	}
	for what, c := range map[string]struct {
		looks []look
		gone  bool
	}{
		"a day ahead, for longer than it is trusted":       {[]look{{0, row(owner, 5, day)}, {6 * time.Second, row(owner, 5, day-6)}, {12 * time.Second, row(owner, 5, day-12)}}, true},
		"a day ahead, not long enough":                     {[]look{{0, row(owner, 5, day)}, {11 * time.Second, row(owner, 5, day-11)}}, false},
		"seen for the first time":                          {[]look{{time.Hour, row(owner, 5, day)}}, false},
		"it was renewed":                                   {[]look{{0, row(owner, 5, day)}, {12 * time.Second, row(owner, 6, day)}}, false},
		"somebody else has taken it":                       {[]look{{0, row(owner, 5, day)}, {12 * time.Second, row(another, 5, day)}}, false},
		"the clock went on, and back":                      {[]look{{0, row(owner, 5, day)}, {6 * time.Second, row(owner, 5, 3)}, {12 * time.Second, row(owner, 5, day)}}, false},
		"it lasts as long as it may":                       {[]look{{0, row(owner, 5, 10)}, {time.Hour, row(owner, 5, 10)}}, false},
		"an older version has taken it":                    {[]look{{0, row("shop@web-1/17#0123456789ab.17", 5, day)}, {time.Hour, row("shop@web-1/17#0123456789ab.17", 5, day)}}, false},
		"somebody at a prompt has taken it":                {[]look{{0, row("me", 5, day)}, {time.Hour, row("me", 5, day)}}, false},
		"it is closed until a layout opens":                {[]look{{0, store.Seen{Name: "job-1", Owner: owner, Until: 5, Left: day, Layout: -1}}, {time.Hour, store.Seen{Name: "job-1", Owner: owner, Until: 5, Left: day, Layout: -1}}}, false},
		"it is free":                                       {[]look{{0, row(owner, 5, day)}, {time.Hour, store.Seen{Name: "job-1", Owner: owner, Free: true}}}, false},
		"it was given back and is to last for two minutes": {[]look{{0, row(k.owner("x", Want{Lock: 10 * time.Second, MinLock: 2 * time.Minute}.length(), false), 5, day)}, {time.Minute, row(k.owner("x", Want{}.length(), false), 5, day)}}, false},
	} {
		var o Overdue
		var gone []int
		for _, l := range c.looks {
			gone = o.find([]store.Seen{l.row}, began.Add(l.after))
		}
		if (len(gone) > 0) != c.gone {
			t.Errorf("%s: gone %v, want %v", what, gone, c.gone)
		}
	}
}

// Its owner trusted it for as long as the longest lease that it had when it rose, and that was none.
func TestALifeThatIsOverStaysForAsLongAsWhoeverHasBuriedItSays(t *testing.T) {
	k := &Keeper{id: "0123456789ab"}
	for running, want := range map[int]bool{store.Buried: false, store.Dead: false, 2500: true} {
		var o Overdue
		row := store.Seen{Name: "live-0123456789ab", Owner: k.owner("shop@web-1/17", 10*time.Second, false), Until: 5, Left: 30, Layout: 1, Running: running}
		began := time.Now()
		o.find([]store.Seen{row}, began)
		if gone := len(o.find([]store.Seen{row}, began.Add(12*time.Second))) > 0; gone != want {
			t.Errorf("running %d: ended: %v", running, gone)
		}
	}
}

func TestAnOwnerSaysForHowLongItTrustsALease(t *testing.T) {
	k := &Keeper{id: "0123456789ab"}
	for _, length := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, 24*time.Hour + time.Second} {
		for range 12 {
			if owner := k.owner("shop@web-1/17", length, false); lengthOf(owner) != length {
				t.Errorf("%s: %v, want %v", owner, lengthOf(owner), length)
			}
		}
	}
	for _, owner := range []string{"", "x", "x#0123456789ab.1", "x#0123456789ab.1234567", "x#0123456789ab.0", "x#0123456789ab.012345", "me.0", "a.b.0xxxxxxxx"} {
		if length := lengthOf(owner); length != 0 {
			t.Errorf("%q: %v, and it does not say", owner, length)
		}
	}
}
