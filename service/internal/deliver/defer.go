package deliver

import (
	"math/bits"
	"time"
)

const (
	deferMin  = 50 * time.Millisecond
	deferFine = 3 * time.Second // up to here the engine keeps a task in memory, and to the millisecond; then the table's whole seconds count
	deferMax  = 10 * time.Minute
)

// queueTail is where the next task that is put off comes in. Each one gets a moment of its own, as far apart as the destination is
// expected to work: so they do not all come back at once to be put off again, and the destination is kept busy.
//
// Far moments are in steps of seconds, so many tasks come back in each. They find the near tail, which has fine steps.
type queueTail struct{ near, far time.Time }

// putNear returns how long a task is to wait for a destination that works, at this rate of tasks a second.
func (q *queueTail) putNear(now time.Time, perSecond float64) time.Duration {
	if q.near = later(q.near, now); q.near.Sub(now) > deferFine {
		return q.putFar(now, now.Add(deferFine), func(time.Duration) float64 { return perSecond })
	}
	wait := q.near.Sub(now)
	q.near = q.near.Add(interval(perSecond))
	return inSteps(wait)
}

// putFar returns how long a task is to wait until opens, and then for its turn. Rate is how many tasks a second are expected at a time after
// opens.
func (q *queueTail) putFar(now, opens time.Time, rate func(after time.Duration) float64) time.Duration {
	if q.far.Before(opens) || q.far.Sub(opens) > deferMax { // round again: so none waits longer, and each second gets as many as another
		q.far = opens
	}
	after := q.far.Sub(opens)
	q.far = q.far.Add(interval(rate(after)))
	return inSteps(opens.Add(coarse(after)).Sub(now))
}

// coarse rounds a time up to steps of which only the first four binary digits count: outcomes with equal waits settle in one statement.
// From any time to its double there are at most eight others.
func coarse(d time.Duration) time.Duration {
	steps := uint64((d + deferMin - 1) / deferMin)
	if drop := bits.Len64(steps) - 4; drop > 0 {
		steps = (steps + 1<<drop - 1) >> drop << drop
	}
	return time.Duration(steps) * deferMin
}

// inSteps rounds up to what the engine can tell apart.
func inSteps(d time.Duration) time.Duration {
	if d > deferFine {
		return wholeSeconds(d)
	}
	return max((d + deferMin - 1).Truncate(deferMin), deferMin)
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
