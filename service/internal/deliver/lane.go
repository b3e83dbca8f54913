package deliver

import "time"

// origin is what all lanes to one scheme, host and port have in common: whether connections can be made.
type origin struct {
	name    string
	lanes   int // of it that are remembered
	breaker breaker
	start   slowStart
}

// lane is what one topic sends to one origin. Its methods are functions of what it is and now; [lanes] has the lock.
type lane struct {
	key    laneKey
	origin *origin
	limits Limits

	breaker breaker // of the answers
	start   slowStart
	places  limit
	pace    pace
	speed   speed
	tail    queueTail

	inFlight int
	queue    []*waiter // callers who wait for a place, the first in front
	paused   paused
	used     time.Time
	last     lastFailure
}

// paused says which pause the receiver asked for.
type paused struct {
	until  time.Time
	asked  time.Time // last
	inARow int       // how many it asked for
}

// lastFailure is what the last call told that failed.
type lastFailure struct {
	code   Code
	detail string
}

type laneKey struct{ topic, origin string }

func newLane(key laneKey, o *origin) *lane {
	return &lane{key: key, origin: o, places: newLimit(inFlightDefault)}
}

// bound takes over the limits of a call. They change if the topic's configuration does.
func (l *lane) bound(limits Limits) {
	if l.limits == limits {
		return
	}
	l.limits = limits
	most := limits.InFlight
	if most <= 0 {
		most = inFlightDefault
	}
	l.places.bound(most)
}

// holdMax is how long a call waits in its worker for its turn. A longer wait would keep the worker from tasks of other destinations.
const holdMax = 50 * time.Millisecond

// answer says whether a call may go out.
type answer struct {
	why   Code          // it may not; empty: it may
	after time.Duration // if it may: in this time, at most holdMax
	opens time.Time     // if it may not: when the destination takes calls again; zero: it does now
	queue bool          // if it may not: a place is likely to be free within holdMax
}

// admit says whether one more call may go out.
func (l *lane) admit(now time.Time) answer {
	if opens, open := l.origin.breaker.opens(now); open {
		return answer{why: CodeBreakerOpen, opens: opens}
	}
	if opens, open := l.breaker.opens(now); open {
		return answer{why: CodeBreakerOpen, opens: opens}
	}
	if l.paused.until.After(now) {
		return answer{why: CodeRateLimited, opens: l.paused.until}
	}
	if l.inFlight >= l.places.now && !l.breaker.open { // a probe may go out beside calls that hang
		return answer{why: CodeBusy, queue: l.turnComes(now)}
	}
	wait := max(l.origin.start.wait(now), l.start.wait(now), l.pace.wait(l.limits, now))
	if wait > holdMax {
		return answer{why: CodeRate}
	}
	return answer{after: wait}
}

// turnComes reports whether one more in the queue is likely to get a place within holdMax.
func (l *lane) turnComes(now time.Time) bool {
	return float64(len(l.queue)+1) <= l.speed.perSecond(l.places.now, now)*holdMax.Seconds()
}

// ticket lets one call go out.
type ticket struct {
	lane                     *lane
	began                    time.Time
	originEpoch, laneEpoch   uint32
	probesOrigin, probesLane bool
}

// take lets a call go out that admit allowed.
func (l *lane) take(now time.Time) ticket {
	l.speed.begin(l.inFlight, now)
	l.inFlight++
	l.origin.start.take(now)
	l.start.take(now)
	l.pace.take(l.limits, now)
	t := ticket{lane: l, began: now, originEpoch: l.origin.breaker.epoch, laneEpoch: l.breaker.epoch,
		probesOrigin: l.origin.breaker.open, probesLane: l.breaker.open}
	l.origin.breaker.probing, l.breaker.probing = t.probesOrigin, t.probesLane
	return t
}

// finish gives the place back and learns from what became of the call.
func (l *lane) finish(t ticket, v verdict, now time.Time) {
	if v.overload {
		l.places.cut(t.began, now)
	} else if v.status == success {
		l.places.grow(l.inFlight)
	}
	if v.status == failure || v.connection == failure {
		l.last = lastFailure{v.code, v.detail}
	}
	l.inFlight--
	if v.outcome.IsAttempt() {
		l.speed.end(now.Sub(t.began), now)
	}
	if v.pause {
		l.pause(t.began, v.wait, now)
	} else if v.status == success {
		l.paused.inARow = 0
	}
	if o := l.origin; o.breaker.record(v.connection, v.code, t.originEpoch, t.probesOrigin, now) && !o.breaker.open {
		o.start.begin(now)
	}
	if l.breaker.record(v.status, v.code, t.laneEpoch, t.probesLane, now) {
		l.places.restart()
		if !l.breaker.open {
			l.start.begin(now)
		}
	}
}

// pause keeps calls back for as long as the receiver asks. If it does not say for how long, its pauses double.
func (l *lane) pause(began time.Time, wait time.Duration, now time.Time) {
	if !began.Before(l.paused.asked) {
		l.paused.asked, l.paused.inARow = now, l.paused.inARow+1
	}
	if wait == 0 {
		wait = min(openFirst<<min(max(l.paused.inARow-1, 0), 10), openMax)
	}
	if until := now.Add(wait); until.After(l.paused.until) {
		l.paused.until = until
		l.start.begin(until)
	}
}

// putOff returns how long a task is to wait that got no place.
func (l *lane) putOff(a answer, now time.Time) time.Duration {
	most := float64(afterOutage)
	if l.limits.PerSecond > 0 {
		most = min(most, l.limits.PerSecond)
	}
	if !a.opens.IsZero() {
		start := slowStart{since: a.opens}
		return l.tail.putFar(now, a.opens, func(after time.Duration) float64 { return min(start.rate(a.opens.Add(after)), most) })
	}
	rate := l.speed.perSecond(l.places.now, now) * earlyBy
	for _, s := range []slowStart{l.start, l.origin.start} {
		if s.isOn(now) {
			rate = s.rate(now) // the places grow with it
		}
	}
	if l.limits.PerSecond > 0 {
		rate = min(rate, l.limits.PerSecond)
	}
	return l.tail.putNear(now, max(rate, 1))
}

const (
	// afterOutage is how many tasks a second are expected to be called after an outage, at most.
	afterOutage = 1000
	// earlyBy makes tasks come back a little too early: better a task waits than a place is empty.
	earlyBy = 1.25
)

// isQuiet reports whether the lane may be forgotten.
func (l *lane) isQuiet() bool { return l.inFlight == 0 && len(l.queue) == 0 }
