package deliver

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	lanesMax   = 100_000
	lanesAfter = 15 * time.Minute // a lane that was not used for this long is forgotten: longer than any task is put off but by Retry-After
)

// lanes keeps the lanes apart, and counts the calls of all together.
type lanes struct {
	mu       sync.Mutex
	byKey    map[laneKey]*list.Element // of *lane
	origins  map[string]*origin
	recent   *list.List // the lane used last in front
	most     int        // lanes that are remembered
	places   int        // calls that may run at a time
	inFlight int
	closed   bool
	empty    *sync.Cond // inFlight became 0
}

func newLanes(places int) *lanes {
	s := &lanes{byKey: map[laneKey]*list.Element{}, origins: map[string]*origin{}, recent: list.New(), most: lanesMax, places: places}
	s.empty = sync.NewCond(&s.mu)
	return s
}

// waiter waits in the queue of a lane.
type waiter struct {
	lane *lane
	turn chan turn
}

// turn is a ticket, and how long to wait before the call goes out.
type turn struct {
	ticket ticket
	after  time.Duration
}

// enter returns a ticket, after about holdMax at most. If the call may not go out, it returns why, and how long the task is to wait.
func (s *lanes) enter(ctx context.Context, key laneKey, limits Limits) (t ticket, why Code, wait time.Duration) {
	got, w, why, wait := s.ask(key, limits, time.Now())
	if w != nil {
		got, why, wait = s.await(ctx, w)
	}
	if why != "" {
		return ticket{}, why, wait
	}
	if got.after > 0 && !sleep(ctx, got.after) {
		s.leave(got.ticket, verdict{outcome: Aborted})
		return ticket{}, CodeStopped, 0
	}
	return got.ticket, "", 0
}

// ask returns a turn, a waiter for it, or why there is none.
func (s *lanes) ask(key laneKey, limits Limits, now time.Time) (got turn, w *waiter, why Code, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return turn{}, nil, CodeStopped, 0
	}
	l := s.lane(key, now)
	l.bound(limits)
	switch a := s.admit(l, now); {
	case a.why == "":
		return s.take(l, a, now), nil, "", 0
	case a.queue:
		w = &waiter{l, make(chan turn, 1)}
		l.queue = append(l.queue, w)
		return turn{}, w, "", 0
	default:
		return turn{}, nil, a.why, l.putOff(a, now)
	}
}

// admit asks the lane, behind the callers who wait already, and the limit of all lanes together.
func (s *lanes) admit(l *lane, now time.Time) answer {
	a := l.admit(now)
	switch {
	case a.why != "":
		return a
	case len(l.queue) > 0:
		return answer{why: CodeBusy, queue: l.turnComes(now)}
	case s.inFlight >= s.places:
		return answer{why: CodeLocal}
	}
	return a
}

func (s *lanes) take(l *lane, a answer, now time.Time) turn {
	s.inFlight++
	return turn{l.take(now), a.after}
}

// await waits for the turn of a waiter, for holdMax.
func (s *lanes) await(ctx context.Context, w *waiter) (got turn, why Code, wait time.Duration) {
	timer := time.NewTimer(holdMax)
	defer timer.Stop()
	select {
	case got := <-w.turn:
		return got, "", 0
	case <-timer.C:
		why = CodeBusy
	case <-ctx.Done():
		why = CodeStopped
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case got := <-w.turn: // it came at the same moment
		return got, "", 0
	default:
	}
	l, now := w.lane, time.Now()
	l.queue = slices.DeleteFunc(l.queue, func(other *waiter) bool { return other == w })
	if why == CodeStopped {
		return turn{}, why, 0
	}
	a := l.admit(now)
	if a.why == "" {
		a.why = why
	}
	return turn{}, a.why, l.putOff(a, now)
}

// leave gives a ticket back, and the place to the next in the queue. It returns how long the task is to wait, if the receiver put it off,
// and the destinations whose breakers changed.
func (s *lanes) leave(t ticket, v verdict) (wait time.Duration, changed []Destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, l := time.Now(), t.lane
	originEpoch, laneEpoch := l.origin.breaker.epoch, l.breaker.epoch
	s.inFlight--
	l.finish(t, v, now)
	s.serve(l, now)
	if s.inFlight == 0 {
		s.empty.Broadcast()
	}
	if v.outcome == Deferred {
		wait = l.putOff(l.admit(now), now)
	}
	if l.origin.breaker.epoch != originEpoch {
		changed = append(changed, l.origin.describe(now))
	}
	if l.breaker.epoch != laneEpoch {
		changed = append(changed, l.describe(now))
	}
	return wait, changed
}

// serve gives the places of a lane to the callers who wait.
func (s *lanes) serve(l *lane, now time.Time) {
	for len(l.queue) > 0 && s.inFlight < s.places && !s.closed {
		a := l.admit(now)
		if a.why != "" {
			return
		}
		l.queue[0].turn <- s.take(l, a, now)
		l.queue = l.queue[1:]
	}
}

// close lets no more calls out.
func (s *lanes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// running is how many calls run.
func (s *lanes) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// end returns when no call runs.
func (s *lanes) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.inFlight > 0 {
		s.empty.Wait()
	}
}

// lane finds a lane, or begins one.
func (s *lanes) lane(key laneKey, now time.Time) *lane {
	if e, found := s.byKey[key]; found {
		s.recent.MoveToFront(e)
		l := e.Value.(*lane)
		l.used = now
		return l
	}
	o := s.origins[key.origin]
	if o == nil {
		o = &origin{name: key.origin}
		s.origins[key.origin] = o
	}
	o.lanes++
	l := newLane(key, o)
	l.used = now
	s.byKey[key] = s.recent.PushFront(l)
	if s.recent.Len() > s.most {
		s.forgetOne()
	}
	return l
}

// forgetOne makes room. A lane with calls stays, so there may be a few more than the limit: not more than calls.
func (s *lanes) forgetOne() {
	for e := s.recent.Back(); e != nil; e = e.Prev() {
		if e.Value.(*lane).isQuiet() {
			s.forget(e)
			return
		}
	}
}

func (s *lanes) forget(e *list.Element) {
	l := s.recent.Remove(e).(*lane)
	delete(s.byKey, l.key)
	if l.origin.lanes--; l.origin.lanes == 0 {
		delete(s.origins, l.key.origin)
	}
}

// tidy forgets what was not used for long.
func (s *lanes) tidy(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.recent.Back(); e != nil; {
		l, before := e.Value.(*lane), e.Prev()
		if now.Sub(later(l.used, l.paused.until)) < lanesAfter {
			if l.used.After(l.paused.until) { // those in front were used later
				return
			}
		} else if l.isQuiet() {
			s.forget(e)
		}
		e = before
	}
}

// sleep waits, and reports whether it did to the end.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
