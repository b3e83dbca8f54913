package queue_job

import (
	"math/rand/v2"
	"time"
)

// Unlimited, as a number of retries, sets no limit: in [Config.MaxRetries] and [WithMaxRetries].
const Unlimited = -1

// RetryTiming returns the wait before a job is retried. The argument retries counts the retries before this one, so it
// is 0 at first; err is what the handler returned. The function may be called from many goroutines at a time. A wait
// below 0 means 0, and a wait above ten years means ten years. If the function panics, the wait is [Config.WaitTime].
//
// At its start, a Runner also calls it with a nil error, three times for each of the first twenty retries, to show the waits to
// operators ([Type.RetryWaits]).
//
// Outcomes of jobs that wait equally long are written in one statement. If your waits vary by chance, let them vary in
// steps.
type RetryTiming func(retries int, err error) time.Duration

// Waits returns a timing that takes its waits from a list: the first before the first retry, the second before the
// second, and so on. The last wait is used for all further retries.
//
//	RetryTiming: queue_job.Waits(5*time.Second, 15*time.Second, 30*time.Second, 3*time.Minute, time.Hour, 2*time.Hour)
func Waits(first time.Duration, others ...time.Duration) RetryTiming {
	waits := append([]time.Duration{first}, others...)
	return func(retries int, _ error) time.Duration {
		return waits[min(max(0, retries), len(waits)-1)]
	}
}

// Exponential returns a timing that waits up to first before the first retry, and up to twice as long before each
// further one, but never more than most. Each wait is shortened by chance, by up to a half, so that jobs that failed
// together do not come back together.
func Exponential(first, most time.Duration) RetryTiming {
	const steps = 16 // different waits: jobs that wait equally long are written together
	most = max(0, most)
	first = min(max(0, first), most)
	return func(retries int, _ error) time.Duration {
		longest := first
		for range retries {
			if longest == 0 || longest > most/2 {
				longest = min(longest, 1) * most // 0 stays 0 when it is doubled
				break
			}
			longest *= 2
		}
		return longest - longest/(2*steps)*time.Duration(rand.IntN(steps))
	}
}
