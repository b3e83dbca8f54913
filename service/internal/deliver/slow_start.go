package deliver

import "time"

const (
	slowStartRate   = 32 // calls in the first second
	slowStartLength = 10 // seconds; the rate doubles with each
)

// slowStart spreads the calls to a destination that has just come back, so that what has piled up does not fall on it at once.
type slowStart struct {
	since time.Time
	next  time.Time // when the next call may start
}

func (s *slowStart) begin(at time.Time) {
	*s = slowStart{since: at, next: at.Add(time.Second / slowStartRate)}
}

func (s *slowStart) isOn(now time.Time) bool { return now.Sub(s.since) < slowStartLength*time.Second }

// wait is how long the next call has to wait for its turn.
func (s *slowStart) wait(now time.Time) time.Duration {
	if !s.isOn(now) {
		return 0
	}
	return max(0, s.next.Sub(now))
}

// take gives the next turn away.
func (s *slowStart) take(now time.Time) {
	if !s.isOn(now) {
		return
	}
	turn := later(s.next, now)
	s.next = turn.Add(interval(s.rate(turn)))
}

// rate is how many calls a second may start at a moment.
func (s *slowStart) rate(at time.Time) float64 {
	second := int(at.Sub(s.since) / time.Second)
	return float64(int(slowStartRate) << min(max(second, 0), slowStartLength))
}

func interval(perSecond float64) time.Duration {
	return time.Duration(float64(time.Second) / perSecond)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
