package deliver

import (
	"math/rand/v2"
	"time"
)

const (
	bucketLength = 10 * time.Second
	bucketsKept  = 6

	openInARow = 5  // failures, with no success among all that is remembered
	openOfMin  = 10 // calls, of which half failed

	openFirst = 5 * time.Second // doubles with each time that the breaker opens again
	openMax   = 5 * time.Minute
	openLess  = 4 // up to a quarter less, at random: else a retry after five minutes would be the probe each time
)

// breaker says whether calls go out at all. It is closed as long as they succeed. If too many fail, it opens for a while; then one call,
// the probe, finds out whether it closes.
type breaker struct {
	open    bool
	until   time.Time // if open: when a probe may go out
	probing bool      // it is out
	why     Code      // the last failure's

	times  int       // that it opened, without being closed for long between
	closed time.Time // when it last closed
	epoch  uint32    // counts openings and closings: what began in another epoch tells nothing about this one

	row     int // failures since the last success
	buckets [bucketsKept]tally
	newest  int64 // the number of the last bucket written
}

type tally struct{ good, bad int32 }

// opens returns when the next call may go out, if none may now.
func (b *breaker) opens(now time.Time) (at time.Time, open bool) {
	switch {
	case !b.open:
		return time.Time{}, false
	case b.until.After(now):
		return b.until, true
	case b.probing:
		return now.Add(openFirst), true
	}
	return time.Time{}, false
}

// record counts what a call told that began in an epoch. It returns true if the breaker opened or closed, also if it opened anew.
func (b *breaker) record(c charge, why Code, epoch uint32, probe bool, now time.Time) (changed bool) {
	if epoch != b.epoch {
		return false
	}
	if probe {
		b.probing = false
	}
	if c == neutral {
		return false
	}
	bucket := b.bucket(now)
	if c == success {
		b.row = 0
		bucket.good++
		if b.open {
			b.close(now)
			return true
		}
		return false
	}
	b.row++
	bucket.bad++
	if b.open || b.isBad(now) {
		b.why = why
		b.trip(now)
		return true
	}
	return false
}

// isBad reports whether enough calls failed for the breaker to open.
func (b *breaker) isBad(now time.Time) bool {
	var sum tally
	oldest := bucketOf(now) - bucketsKept + 1
	for i, t := range b.buckets {
		if b.numberOf(i) >= oldest {
			sum.good, sum.bad = sum.good+t.good, sum.bad+t.bad
		}
	}
	return b.row >= openInARow && sum.good == 0 || sum.good+sum.bad >= openOfMin && sum.bad >= sum.good
}

func (b *breaker) trip(now time.Time) {
	if !b.open && now.Sub(b.closed) > openMax {
		b.times = 0
	}
	length := min(openFirst<<min(b.times, 10), openMax)
	b.until = now.Add(length - rand.N(length/openLess))
	b.open, b.probing, b.times = true, false, b.times+1
	b.epoch++
}

func (b *breaker) close(now time.Time) {
	*b = breaker{times: b.times, closed: now, epoch: b.epoch + 1}
}

// bucket is the one of now, emptied if it was last used in another round.
func (b *breaker) bucket(now time.Time) *tally {
	number := bucketOf(now)
	if number-b.newest >= bucketsKept {
		b.buckets = [bucketsKept]tally{}
		b.newest = number
	}
	for b.newest < number {
		b.newest++
		b.buckets[b.newest%bucketsKept] = tally{}
	}
	return &b.buckets[number%bucketsKept]
}

// numberOf is the number of the bucket in a place.
func (b *breaker) numberOf(place int) int64 {
	back := (b.newest - int64(place)) % bucketsKept
	return b.newest - back
}

func bucketOf(now time.Time) int64 { return now.Unix() / int64(bucketLength/time.Second) }
