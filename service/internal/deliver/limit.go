package deliver

import "time"

const (
	inFlightDefault = 64 // the largest limit, see Limits
	inFlightStart   = 32
)

// limit is how many calls run at a time. It grows by one whenever as many calls as it allows have succeeded, and is halved when the
// destination is overloaded, as TCP does. After a breaker has closed it begins at one, and grows by one with each success.
type limit struct {
	now    int
	fast   int       // up to here it grows with each success
	count  int       // successes since it last grew
	cutAt  time.Time // what began before then tells nothing about the limit of now
	topped int       // the most that is allowed
}

func newLimit(most int) limit { return limit{now: min(inFlightStart, most), topped: most} }

// bound sets the most that is allowed.
func (l *limit) bound(most int) {
	if l.topped != most {
		l.topped = most
		l.now, l.fast = min(l.now, most), min(l.fast, most)
	}
}

// restart begins at one, and remembers how far it may grow fast.
func (l *limit) restart() { l.fast, l.now, l.count = max(l.now, l.fast, 2), 1, 0 }

// grow counts a success of a call, while inFlight calls ran. A limit that nobody needs does not grow.
func (l *limit) grow(inFlight int) {
	if l.now >= l.topped || inFlight*2 < l.now {
		return
	}
	if l.count++; l.now < l.fast || l.count >= l.now {
		l.now, l.count = l.now+1, 0
	}
}

// cut halves the limit, once for all calls that ran at the same time.
func (l *limit) cut(began, now time.Time) {
	if began.Before(l.cutAt) {
		return
	}
	l.cutAt, l.now, l.fast, l.count = now, max(1, l.now/2), 0, 0
}
