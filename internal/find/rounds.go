package find

import (
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// Now and then, a round goes over the abandoned rows of its lane, too: there may be later ones among them, and in an ordered type all jobs of a
// key wait for such a row. Few abandoned rows cost next to nothing, so it goes over ten a second on average, but over any number in ten minutes.
const (
	wholeEvery = 10 * time.Minute
	perSkipped = 100 * time.Millisecond
)

// round is one way through a lane, mostly from behind its abandoned rows.
type round struct {
	head, at store.Place
	skips    int           // abandoned rows before the head, when they were counted
	whole    time.Time     // when it last began with the first row of the lane
	ended    time.Time     // zero: not yet
	took     time.Duration // by its statements
	skipped  *skipping     // nil: the type is not fair by group
}

func roundFrom(head store.Place) round { return round{head: head, at: head, whole: time.Now()} }

// again begins the next round of the lane.
func (r *round) again(now time.Time) {
	*r = round{head: r.head, at: r.head, skips: r.skips, whole: r.whole, skipped: r.skipped}
	if r.skipped != nil {
		r.skipped = newSkipping()
	}
	if now.Sub(r.whole) >= min(wholeEvery, time.Duration(r.skips)*perSkipped) {
		r.at, r.whole = firstOf(r.head.Lane), now
	}
}

// firstOf is the place before all rows of a lane.
func firstOf(lane store.Lane) store.Place { return store.Place{Lane: lane, StartTime: 1} }

func (r *round) done() bool { return !r.ended.IsZero() }

// nextAt returns the time at which the next round of the lane begins. The loader rests before it, longer after a long round, so
// that it does other work too. The rest begins when the round ends: the last rows of a long backlog still wait in memory then,
// and an earlier round would read them all again.
func (r *round) nextAt() time.Time { return r.ended.Add(restAfter(r.took)) }

// unfinished begins the rounds anew whose rest is over. It returns the rounds that have more to load, and when the next one
// begins.
func unfinished(rounds []round, now time.Time) (todo []*round, next time.Time) {
	next = now.Add(SweepEvery)
	for i := range rounds {
		r := &rounds[i]
		if r.done() && !now.Before(r.nextAt()) {
			r.again(now)
		}
		if !r.done() {
			todo = append(todo, r)
		} else if r.nextAt().Before(next) {
			next = r.nextAt()
		}
	}
	return todo, next
}

func restart(rounds []round) []round {
	for i := range rounds {
		rounds[i].again(time.Now())
	}
	return rounds
}
