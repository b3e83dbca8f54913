package deliver

import (
	"math/bits"
	"time"
)

const (
	deferMin = time.Second // the table counts whole seconds
	deferMax = 10 * time.Minute
)

// queueTail is where the next task that is put off comes in. Each one gets a moment of its own, as far apart as the destination is
// expected to work, so that they do not all come back at once to be put off again.
type queueTail struct{ next time.Time }

// put returns how long a task is to wait: at least until opens, then until its turn. Rate is how many tasks a second are expected at a
// time after opens.
func (q *queueTail) put(now, opens time.Time, rate func(after time.Duration) float64) time.Duration {
	opens = later(opens, now)
	if q.next.Before(opens) || q.next.Sub(opens) > deferMax { // round again: so none waits longer, and each second gets as many as another
		q.next = opens
	}
	turn := q.next
	q.next = turn.Add(interval(rate(turn.Sub(opens))))
	return coarse(turn.Sub(now))
}

// coarse rounds a wait up to whole seconds that differ in their first four binary digits only: outcomes with equal waits settle in one
// statement, and from any wait to its double there are at most eight others.
func coarse(wait time.Duration) time.Duration {
	seconds := uint64(max(wait, deferMin)+time.Second-1) / uint64(time.Second)
	if drop := bits.Len64(seconds) - 4; drop > 0 {
		seconds = (seconds + 1<<drop - 1) >> drop << drop
	}
	return time.Duration(seconds) * time.Second
}
