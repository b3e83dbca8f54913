package simulator

import (
	"context"
	"time"
)

// lag is that the database answers everybody late for a while: each statement arrives later, and so does its answer.
type lag struct {
	until        time.Time
	takes, login time.Duration // from a statement to its answer, and to open a connection
}

// answerSlowly has all answers take longer for a while. A statement may have two, of which the first one is to its preparation.
func (w *world) answerSlowly(for_, answer time.Duration, prepared bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.saw["slow answers"]++
	w.judge.disturb(for_)
	l := &lag{time.Now().Add(for_), answer, login * answer}
	if prepared {
		l.takes *= 2
	}
	w.lag.Store(l)
}

// answersTake is how long an answer takes now, besides the weather, and how long a login.
func (w *world) answersTake() (takes, login time.Duration) {
	if l := w.lag.Load(); l != nil && time.Now().Before(l.until) {
		return l.takes, l.login
	}
	return 0, 0
}

// answeredSlowly reports whether answers have taken long since a moment: a short lease is not taken then, since its look is cut off before.
func (w *world) answeredSlowly(since time.Time) bool {
	l := w.lag.Load()
	return l != nil && l.until.After(since)
}

// reserved are the connections that statements about leases, and beats, have for themselves. Each runs one statement at a time.
type reserved int

const (
	forLeases reserved = iota
	forBeats
	reserveds
)

// login is how many answers it takes to open a connection: three to six, by the database and what is to be said first.
const login = 6

// session is a reserved connection. Whoever gives a statement up closes it. It is opened anew for the next statement, and goes on to be opened if
// that is given up, too. A statement is not sent that is given up before the answer comes, if that takes as long as the last one did. Only while
// answers are slow does that take time.
type session struct {
	turn   chan struct{}
	closed bool
	opens  time.Time // when it is there again; zero: nobody has asked for it
	takes  time.Duration
}

// reservedFor is the connection of a statement; nil: it is the pool's.
func (l *link) reservedFor(v verb) *session {
	switch {
	case v == rise || v == beat:
		return &l.sessions[forBeats]
	case v.aboutLeases():
		return &l.sessions[forLeases]
	}
	return nil
}

// enter waits until the connection is a statement's. Leave is told whether the statement was given up.
func (l *link) enter(ctx context.Context, v verb) (leave func(gaveUp bool), err error) {
	s := l.reservedFor(v)
	if s == nil {
		return func(bool) {}, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	leave = func(gaveUp bool) {
		takes, _ := l.world.answersTake()
		if s.closed = s.closed || gaveUp && takes > 0; !s.closed {
			s.takes = takes
		}
		<-s.turn
	}
	if s.closed {
		takes, login := l.world.answersTake()
		if s.opens.IsZero() {
			s.opens = time.Now().Add(login)
		}
		if !l.await(ctx, s.opens, false) {
			leave(false)
			return nil, l.gaveUp(ctx)
		}
		s.closed, s.opens, s.takes = false, time.Time{}, takes
	}
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < s.takes {
		s.takes /= 2
		<-s.turn
		return nil, context.DeadlineExceeded
	}
	return leave, nil
}

// drawSlow draws that all answers take long for a while, from dice of its own: in rough worlds with long leases, beside whatever else goes wrong.
func (p *plan) drawSlow(d *dice) {
	if !p.lives || p.weather.gentle || p.weather.slowTables() || d.chance(600) {
		return
	}
	p.weather.lagging = true
	at, for_ := d.between(time.Second, p.calmAt), d.between(3*time.Second, 30*time.Second)
	answer, prepared := d.between(100*time.Millisecond, 1500*time.Millisecond), d.chance(300)
	if !p.weather.stepped { // whoever sees that the clock was set back has to be there
		p.calmAt = max(p.calmAt, at+for_)
	}
	p.at(at, func(w *world) { w.strikeSlowly(for_, answer, prepared) }, "answers take %v for %v, statements are prepared: %v", answer, for_, prepared)
}

// strikeSlowly has all answers take longer than leases may bear.
func (w *world) strikeSlowly(for_, answer time.Duration, prepared bool) {
	w.answerSlowly(for_, answer, prepared)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.instances {
		i.hit()
	}
}
