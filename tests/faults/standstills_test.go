package faults

import (
	"context"
	"sync"
	"testing"
	"time"
)

// machine is the one on which all trials run.
var machine standstills

// standstills are the spans in which this process, which only wanted to look at the clock again, got no time to. It is
// frozen by nobody, so nothing else ran either: a machine that others share stands still for some seconds now and then.
type standstills struct {
	mu    sync.Mutex
	last  time.Time // look at the clock
	spans []window
}

// window is a span of time in which something is measured.
type window struct{ from, to time.Time }

func (w window) has(at time.Time) bool { return at.After(w.from) && at.Before(w.to) }

// watch looks at the clock until it is stopped.
func (s *standstills) watch() (stop func()) {
	s.look(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { every(ctx, pulsePace, func() { s.look(time.Now()) }) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// look notes a standstill if the look before was two paces ago or more.
func (s *standstills) look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) >= 2*pulsePace {
		s.spans = append(s.spans, window{s.last, now})
	}
	s.last = now
}

// most is for how long the machine stood still at most within something that took so long, at any time in the window. On a
// machine that does not stand still, that is 0.
func (s *standstills) most(in window, took time.Duration) (most time.Duration) {
	s.look(time.Now()) // whoever asks may have woken first
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, first := range s.spans {
		if !first.to.After(in.from) {
			continue
		}
		stood := time.Duration(0)
		for _, next := range s.spans[i:] {
			if next.from.After(first.to.Add(took)) || !next.from.Before(in.to) {
				break
			}
			stood += next.to.Sub(next.from)
		}
		most = max(most, stood)
	}
	return most
}

func TestOnlyStandstillsOfTheTimeThatIsMeasuredCount(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var s standstills
	for _, ms := range []int{0, 50, 140, 190, 2190, 2240, 2540, 2590, 8590} { // still from 190 for 2 s, from 2240 for 300 ms, from 2590 for 6 s
		s.look(at(ms))
	}
	s.last = time.Now()
	for _, c := range []struct{ from, to, took, want int }{
		{0, 190, 10_000, 0},
		{0, 1000, 10, 2000},
		{1000, 2300, 10, 2000},    // either, but both are too far apart for it
		{1000, 2300, 100, 2300},   // both
		{2200, 2580, 400, 300},    // neither what was before nor what came after
		{2540, 2590, 50, 0},       // between two
		{0, 20_000, 10_000, 8300}, // all
		{9000, 20_000, 11_000, 0}, // later
		{3000, 20_000, 100, 6000}, // it had begun before
		{0, 20_000, 49, 6000},     // the longest
	} {
		if got := s.most(window{at(c.from), at(c.to)}, time.Duration(c.took)*time.Millisecond); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d ms, what took %d ms: %v, want %d ms", c.from, c.to, c.took, got, c.want)
		}
	}
}
