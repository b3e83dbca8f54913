package simulator

import (
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Types that start the jobs of each key at a rate.

// keyRated reports whether types of a world may have such a rate. It is one world of 29, so that the others stay as they were before; among
// these are the seeds of all mutants that are older than that.
func keyRated(seed uint64) bool { return seed%29 == 19 && !fairly(seed) }

// drawKeyRates draws, from dice of its own, which types have such a rate, and for most of these that many jobs of a few keys come at once.
func (p *plan) drawKeyRates(d *dice) {
	for i := range p.configs {
		cfg := &p.configs[i]
		long := slices.ContainsFunc(p.orders, func(o *order) bool { return o.row.JobType == cfg.JobType && o.backlog != nil })
		if d.chance(200) || long {
			continue
		}
		cfg.RatePerKey, cfg.BurstPerKey = float64(10+d.upTo(30)), 1+d.upTo(4)
		if p.weather.truncated || d.chance(200) {
			continue
		}
		for range 1 + d.upTo(2) {
			orders := make([]*order, 20+d.upTo(60))
			for n := range orders {
				orders[n] = p.drawOfGroup(d, cfg.JobType, fmt.Sprint("rated ", d.upTo(3)), time.Millisecond)
			}
			p.at(d.between(0, p.calmAt), func(w *world) { w.insert(orders).commit(true) }, "insert %s to %s, more of a few keys than their rates let start",
				orders[0].label, orders[len(orders)-1].label)
		}
	}
}

// expectKeyRate expects that in no time more jobs of a key start than its rate allows.
func (j *judge) expectKeyRate(r *run, cfg *queue_job.Config) {
	key := r.history.order.row.Group()
	if cfg.RatePerKey == 0 || key == "" || j.upset(r.jobType) || j.world.weather.edited || j.world.weather.stepped {
		return
	}
	of := fmt.Sprint(r.jobType, " ", key)
	starts := append(j.keyStarts[of], r.began)
	j.keyStarts[of] = starts
	j.saw["run of a key with a rate"]++
	for i, at := range starts {
		n, within := len(starts)-i, r.began.Sub(at)
		if most := within.Seconds()*cfg.RatePerKey + float64(cfg.BurstPerKey); float64(n) > most+1e-6 {
			j.accuse("%d runs of key %s of type %d began within %v; its rate allows %v", n, key, r.jobType, within, most)
			return
		}
	}
	if len(starts) > 1 && starts[len(starts)-1].Sub(starts[len(starts)-2]) < time.Second {
		j.saw["run of a key with a rate, right after another one"]++
	}
}

// untilToken is how long a key waits for its first token when a holder is new.
func untilToken(cfg *queue_job.Config) time.Duration {
	if cfg.RatePerKey == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / cfg.RatePerKey)
}
