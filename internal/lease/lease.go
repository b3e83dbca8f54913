// Package lease is the arithmetic of trust: for how long a process may believe that it still holds a lease. It takes
// values and moments and returns moments; it needs no SQL and starts no goroutine.
//
//	sent          the database writes lock_until = its clock, rounded to a second, + lock
//	│ ├─ answer received: held
//	├─┴───────── RenewEvery ─┤ next renewal is sent
//	├──────────────────────────────── TrustedUntil ─┤ we stop
//	│                                               ├─ margin ─┼─ rounding ─┤
//	│                                                                       └ the earliest moment at which somebody
//	│                                                                         else can take the lease
//
// The database's clock decides when a lease has expired. Our clock only measures a span that begins before the statement
// left. The database wrote lock_until no earlier than that, so the span cannot be too long, whatever the network did. A
// process that was frozen finds its trust gone when it wakes. If the whole machine was suspended, it may not: on Linux, the monotonic clock
// stands still meanwhile. Then the next look at the leases, mostly within half a second, shows that somebody else has it.
package lease

import "time"

const (
	// DefaultLock is how long a lease lasts without renewal, unless the configuration says otherwise.
	DefaultLock = 10 * time.Second
	// ShortestLock is the shortest lease. In a shorter one, rounding and margin would leave no time to work.
	ShortestLock = 2 * time.Second

	// rounding is the most by which lock_until can be too early, since most databases keep it in whole seconds.
	rounding = 500 * time.Millisecond
)

// TrustedUntil returns when trust in a lease ends, if the statement that took or renewed it was sent at that moment.
func TrustedUntil(sent time.Time, lock time.Duration) time.Time {
	return sent.Add(lock - rounding - margin(lock))
}

// FreeAt returns when a lease has ended whose trust ends at a moment, unless it is renewed before.
func FreeAt(trustedUntil time.Time, lock time.Duration) time.Time {
	return trustedUntil.Add(rounding + margin(lock))
}

// RenewEvery returns how often a lease is renewed. It is a third of its length, so two renewals may fail before trust
// ends.
func RenewEvery(lock time.Duration) time.Duration { return lock / 3 }

// margin covers what our clock cannot measure: a drift between the two clocks, and the time between the question "do I
// still trust it?" and the act.
func margin(lock time.Duration) time.Duration { return lock / 10 }
