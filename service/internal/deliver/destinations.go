package deliver

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Destination is what is known of a destination: of an origin, with an empty Topic, or of what one topic sends there.
type Destination struct {
	Origin string // such as https://shop.example:8443
	Topic  string // empty: what all topics have in common, that is whether connections can be made
	State  DestinationState
	// OpenUntil is when the next call may go out, if State is Open or Paused.
	OpenUntil time.Time
	// Why is the last failure's code, if a breaker is open.
	Why      Code
	InFlight int
	Waiting  int           // calls that wait in their workers for a place
	Limit    int           // how many calls may run at a time now; 0 for an origin
	Took     time.Duration // how long calls take, about
	LastUsed time.Time
}

// DestinationState says whether calls go to a destination.
type DestinationState string

const (
	Healthy  DestinationState = "healthy"
	Starting DestinationState = "starting" // it has just come back: the rate doubles each second
	Probing  DestinationState = "probing"  // one call finds out, or is to find out, whether it has come back
	Open     DestinationState = "open"     // the breaker is open: no call goes out
	Paused   DestinationState = "paused"   // the receiver asked for a pause
)

// Destinations returns what is known of the destinations of topics, not more of them than asked: first come the destinations that get no calls, and
// then the busiest ones. Seen says which topics are meant; nil: all. The topic of an origin is empty. A destination that has not been used for a
// quarter of an hour is forgotten.
func (d *Deliverer) Destinations(seen func(topic string) bool, most int) []Destination {
	all := d.lanes.destinations(time.Now())
	if seen != nil {
		all = slices.DeleteFunc(all, func(d Destination) bool { return !seen(d.Topic) })
	}
	slices.SortFunc(all, func(a, b Destination) int {
		return cmp.Or(cmp.Compare(a.State.rank(), b.State.rank()), cmp.Compare(b.InFlight, a.InFlight), cmp.Compare(b.Waiting, a.Waiting),
			cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Topic, b.Topic))
	})
	return all[:min(len(all), max(most, 0))]
}

func (s DestinationState) rank() int {
	return slices.Index([]DestinationState{Open, Probing, Paused, Starting, Healthy}, s)
}

func (s *lanes) destinations(now time.Time) []Destination {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Destination, 0, len(s.origins)+s.recent.Len())
	for _, o := range s.origins {
		all = append(all, o.describe(now))
	}
	for e := s.recent.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*lane).describe(now))
	}
	return all
}

func (o *origin) describe(now time.Time) Destination {
	d := Destination{Origin: o.name, State: stateOf(&o.breaker, &o.start, now)}
	d.blame(&o.breaker)
	return d
}

func (l *lane) describe(now time.Time) Destination {
	d := Destination{Origin: l.key.origin, Topic: l.key.topic, State: stateOf(&l.breaker, &l.start, now), InFlight: l.inFlight,
		Waiting: len(l.queue), Limit: l.places.now, Took: l.speed.took, LastUsed: l.used}
	if l.paused.until.After(now) {
		d.State, d.OpenUntil = Paused, l.paused.until
	}
	d.blame(&l.breaker)
	return d
}

// blame says until when a breaker is open, and why.
func (d *Destination) blame(b *breaker) {
	if b.open {
		d.Why = b.why
		d.OpenUntil = later(b.until, d.OpenUntil)
	}
}

// blame says what keeps a call back, and until when that is so at least, if it is known: which breaker is open and why, or what the receiver
// asked for.
func (s *lanes) blame(key laneKey, why Code, now time.Time) (detail string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		return details[why], time.Time{}
	}
	l := e.Value.(*lane)
	switch {
	case why == CodeBreakerOpen && l.origin.breaker.open:
		return fmt.Sprintf("destination %s is broken: %s", key.origin, failedBy(l.origin.breaker.why, l.last)), l.origin.breaker.until
	case why == CodeBreakerOpen && l.breaker.open:
		return fmt.Sprintf("destination %s is broken: %s", key.origin, failedBy(l.breaker.why, l.last)), l.breaker.until
	case why == CodeRateLimited && l.paused.until.After(now):
		return fmt.Sprintf("destination %s asked for a pause", key.origin), l.paused.until
	}
	return fmt.Sprintf("destination %s: %s", key.origin, details[why]), time.Time{}
}

// failedBy is the last failure in a sentence, if it has the code for which a breaker opened.
func failedBy(why Code, last lastFailure) string {
	if last.code == why {
		return last.detail
	}
	return cmp.Or(details[why], string(why))
}

func stateOf(b *breaker, s *slowStart, now time.Time) DestinationState {
	switch {
	case b.open && b.until.After(now):
		return Open
	case b.open:
		return Probing
	case s.isOn(now):
		return Starting
	}
	return Healthy
}
