package cluster

import (
	"math/rand/v2"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
)

const (
	LookEvery = 500 * time.Millisecond // between looks at the leases
	lookSoon  = 20 * time.Millisecond  // while a lease is about to change hands
	soonMax   = 10 * time.Second       // if it has not changed hands by then, whoever has it may be frozen, or what is written has no effect
	lookFirst = 100 * time.Millisecond // for arriveMax after the start, if others are there, and while an instance is about to be buried as dead
	askLasts  = time.Second            // then the asker asks again, if it still wants the lease
	leaveMax  = time.Second            // how long Stop waits for others to ask for the leases; until then, jobs still start here
	arriveMax = time.Second            // how long another instance may be stopping that did not see this one come

	// soonOver is how long nothing is about to change hands until that is over: whoever asks in vain asks again within that time. In some
	// databases, an ask lasts for half a second longer.
	soonOver = 2*askLasts + LookEvery
)

// pace says when the next look is to come.
type pace struct {
	began      time.Time
	chance     *rand.Rand
	dividing   bool      // a type is being divided anew: the next step is near
	away       bool      // a lease of this instance is to be handed over
	company    bool      // the last look showed other instances, even if they are about to stop
	askedAt    time.Time // when this instance last asked for a lease
	castAt     time.Time // when a type last got another configuration: its lease is about to come free
	leftAt     time.Time // when it was first seen that Stop was called
	drainAt    time.Time // when it was first seen that this instance is drained; zero: it is not
	soonSince  time.Time // a lease has been about to change hands since then; zero: none is
	soonAt     time.Time // when that was seen last
	succession time.Time // until then, an instance is about to bury the one in whose place it was started
	expires    time.Time // when the first lease of another instance does, as it looks now

	asked []keeper.Asked  // what this instance has asked for, and not got yet
	open  map[string]open // since when a lease has been seen free, or to be handed over
}

// open is a lease that waits for somebody to take it, or to ask for it.
type open struct {
	free  bool
	since time.Time
}

func newPace() pace {
	return pace{began: time.Now(), chance: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)), open: map[string]open{}}
}

// wait is how long until the next look. Instances that started together need not look together.
func (p *pace) wait() time.Duration {
	lately := func(at time.Time, span time.Duration) bool { return time.Since(at) < span }
	soon := p.dividing || p.away || lately(p.leftAt, leaveMax) || lately(p.drainAt, leaveMax) ||
		lately(p.askedAt, askLasts) || lately(p.castAt, askLasts)
	if !lately(p.soonAt, soonOver) {
		p.soonSince = time.Time{}
	}
	if soon {
		if p.soonAt = time.Now(); p.soonSince.IsZero() {
			p.soonSince = p.soonAt
		}
		if lately(p.soonSince, soonMax) {
			return lookSoon
		}
	}
	if p.company && lately(p.began, arriveMax) || time.Now().Before(p.succession) {
		return lookFirst
	}
	wait := LookEvery*3/4 + time.Duration(p.chance.Int64N(int64(LookEvery/4)))
	if left := time.Until(p.expires); left > 0 { // a holder that lives renews its lease long before
		const little = 2 * time.Millisecond
		wait = min(wait, left+little)
	}
	return wait
}
