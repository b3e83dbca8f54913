package deliver

import "time"

// pace holds calls to a rate, with bursts after a quiet time: it knows when, at that rate, the next call would come.
type pace struct{ next time.Time }

// wait is how long the next call has to wait.
func (p *pace) wait(limits Limits, now time.Time) time.Duration {
	if limits.PerSecond <= 0 {
		return 0
	}
	ahead := time.Duration(max(limits.Burst, 1)-1) * interval(limits.PerSecond)
	return max(0, p.next.Sub(now)-ahead)
}

func (p *pace) take(limits Limits, now time.Time) {
	if limits.PerSecond > 0 {
		p.next = later(p.next, now).Add(interval(limits.PerSecond))
	}
}
