package deliver

import (
	"math"
	"time"
)

// throughputSpan is for how long a call counts, about.
const throughputSpan = 5 * time.Second

// throughput estimates how many calls come back per second.
type throughput struct {
	rate float64
	at   time.Time
}

func (t *throughput) count(now time.Time) {
	t.rate, t.at = t.perSecond(now)+1/throughputSpan.Seconds(), now
}

func (t *throughput) perSecond(now time.Time) float64 {
	if t.rate == 0 {
		return 0
	}
	return t.rate * math.Exp(-now.Sub(t.at).Seconds()/throughputSpan.Seconds())
}
