package queuetest

import (
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// rates has what is left of the rate of each key. Its times are those that the test has added.
type rates struct {
	types map[int32]keyRate // that have RatePerKey
	left  map[ratedKey]*allowance
}

type keyRate struct{ perSecond, burst float64 }

type ratedKey struct {
	jobType int32
	key     string
}

// allowance is how many jobs of a key may start. What has gathered is BurstPerKey at most; what comes while the time is moved on may start
// besides, as it would have, one job after the other.
type allowance struct {
	starts float64
	at     time.Duration // when it was so
}

func newRates() rates { return rates{map[int32]keyRate{}, map[ratedKey]*allowance{}} }

// add has a type's keys start at its rate. The configuration has its defaults.
func (r *rates) add(cfg queue_job.Config) {
	if cfg.RatePerKey > 0 {
		r.types[cfg.JobType] = keyRate{cfg.RatePerKey, float64(cfg.BurstPerKey)}
	}
}

// of is what a row's key has left; nil: it has no rate.
func (r *rates) of(row *store.Row, now time.Duration) *allowance {
	rate, rated := r.types[row.JobType]
	if !rated || row.Group() == "" {
		return nil
	}
	key := ratedKey{row.JobType, strings.TrimRight(row.Group(), " ")}
	a := r.left[key]
	if a == nil {
		a = &allowance{rate.burst, now}
		r.left[key] = a
	}
	if now > a.at {
		a.starts, a.at = min(rate.burst, a.starts)+rate.perSecond*(now-a.at).Seconds(), now
	}
	return a
}

// mayStart returns a function that reports whether a row's key has a start left for it, beside the rows for which it said so before.
func (r *rates) mayStart(now time.Duration) func(*store.Row) bool {
	const rounding = 1e-9
	start := map[*allowance]float64{}
	return func(row *store.Row) bool {
		a := r.of(row, now)
		if a == nil {
			return true
		}
		if a.starts-start[a] < 1-rounding {
			return false
		}
		start[a]++
		return true
	}
}

// spend notes that a row has started.
func (r *rates) spend(row *store.Row, now time.Duration) {
	if a := r.of(row, now); a != nil {
		a.starts--
	}
}
