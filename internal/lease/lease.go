// Package lease is the arithmetic of trust: for how long a process may believe that it still holds a lease. Values and
// moments in, moments out; no SQL and no goroutine.
//
//	sent          the database writes lock_until = its clock, rounded to a second, + lock
//	│ ├─ answer received: held
//	├─┴───────── renewEvery ─┤ next renewal is sent
//	├──────────────────────────────── TrustedUntil ─┤ we stop
//	│                                               ├─ margin ─┼─ rounding ─┤
//	│                                                                       └ the earliest moment at which somebody
//	│                                                                         else can take the lease
//
// The database's clock decides when a lease has expired. Ours only measures a span, from the moment before the
// statement left: the database wrote lock_until no earlier than that, so the span cannot be too long, whatever the
// network did. A process that is frozen wakes to find its trust gone.
package lease

import "time"

const (
	// DefaultLock is how long a lease lasts without renewal, unless the configuration says otherwise.
	DefaultLock = 10 * time.Second
	// ShortestLock is the shortest lease there is: below it, rounding and margin would leave no time to work.
	ShortestLock = 2 * time.Second

	// rounding is the most by which lock_until, whole seconds in the table, can be early.
	rounding = 500 * time.Millisecond
)

// TrustedUntil is when trust ends in a lease whose taking or renewal was sent at that moment and succeeded.
func TrustedUntil(sent time.Time, lock time.Duration) time.Time {
	return sent.Add(lock - rounding - margin(lock))
}

// RenewEvery is how often a lease is renewed: two renewals may fail before trust ends.
func RenewEvery(lock time.Duration) time.Duration { return lock / 3 }

// margin is left for what no clock of ours can see: a drift between the two clocks, and the time between asking
// "do I still trust it?" and acting.
func margin(lock time.Duration) time.Duration { return lock / 10 }
