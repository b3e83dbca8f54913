package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// The holder of a lease that this instance asks for may be frozen, and its lease may last for a day. A statement may say that it has changed
// what is the same at the next look, if reads go to a replica.
func TestWhatDoesNotChangeHandsIsNotLookedAtMoreOftenForEver(t *testing.T) {
	for what, soon := range map[string]func(*pace){
		"a type is being divided": func(p *pace) { p.dividing = true },
		"it asks again and again": func(p *pace) { p.askedAt = time.Now() },
		"it asks, and asks last longer": func(p *pace) {
			if time.Since(p.askedAt) > askLasts+LookEvery { // MySQL and MariaDB keep whole seconds
				p.askedAt = time.Now()
			}
		},
		"a lease is to be handed over":   func(p *pace) { p.away = true },
		"nothing is about to be changed": func(*pace) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPace()
			looks := func(span time.Duration) (n int) {
				for began := time.Now(); time.Since(began) < span; n++ {
					soon(&p)
					time.Sleep(p.wait())
				}
				return n
			}
			const often = int(time.Second / lookSoon)
			if n := looks(time.Second); (n >= often) == (what == "nothing is about to be changed") {
				t.Errorf("%s: %d looks in the first second", what, n)
			}
			if looks(soonMax); looks(time.Minute) > 60*4 {
				t.Errorf("%s: more than four looks a second", what)
			}
			soon = func(*pace) {}
			p.dividing, p.away, p.askedAt = false, false, time.Time{}
			looks(soonOver + LookEvery)
			if p.dividing = true; looks(time.Second) < often {
				t.Errorf("%s: the next change is not looked at soon", what)
			}
		})
	}
}

// What a dead process ran may run again from the end of its lease or its rest on, and not half a second later.
func TestALookComesRightBehindTheEndOfWhatOthersHave(t *testing.T) {
	const soonest = 200 * time.Millisecond
	c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 3, MinLockSecond: 1})
	for _, row := range []struct {
		store.Seen
		soon bool
	}{
		{store.Seen{Name: "job-3", Left: .2}, true},
		{store.Seen{Name: "job-3", Left: .2, Free: true}, false},
		{store.Seen{Name: "job-4", Left: .2}, false},
		{store.Seen{Name: "rest-3-16", Left: .2}, true},
		{store.Seen{Name: "rest-3/1-16", Left: .2}, true},
		{store.Seen{Name: "rest-3-16", Left: .2, Free: true}, false},
		{store.Seen{Name: "rest-4-16", Left: .2}, false},
		{store.Seen{Name: "at-1f2e", Left: .2}, false},
	} {
		c.heedExpiry([]store.Seen{{Name: "job-3", Left: 8}, row.Seen, {Name: "rest-3-15", Left: 9}})
		if soon := time.Until(c.pace.expires) <= soonest; soon != row.soon {
			t.Errorf("%+v: the next look comes right behind its end: %v", row.Seen, soon)
		}
	}
}

// An instance is about to bury the one in whose place it was started: some of what that had is to come here.
func TestLooksComeOftenWhileABurialIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		time.Sleep(arriveMax)
		p.succession = time.Now().Add(time.Second)
		if wait := p.wait(); wait > lookFirst {
			t.Errorf("the next look comes after %v", wait)
		}
		time.Sleep(time.Second)
		if wait := p.wait(); wait < LookEvery/2 {
			t.Errorf("it is over, and the next look comes after %v", wait)
		}
	})
}
