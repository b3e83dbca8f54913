package simulator

import (
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// A handler completes its job and goes on. Its row says nothing of it any more, but it has the slot of its key, wherever the lease goes.

// drawOutlived draws, from dice of its own, that handlers of a key go on for seconds when their jobs are final, that other jobs of the key
// wait for them, and that the lease moves meanwhile. Only gentle worlds tell who keeps to the limits of keys.
func (p *plan) drawOutlived(d *dice) {
	if !p.weather.gentle || p.weather.truncated || p.weather.sluggish > 0 || p.calmAt < 3*time.Second || d.chance(700) {
		return
	}
	at := d.upTo(len(p.configs))
	cfg := &p.configs[at]
	if !cfg.OrderedByKey && cfg.MaxPerKey == 0 {
		cfg.MaxPerKey = 1
	}
	p.slowKeys = true
	for range 1 + d.upTo(2) {
		orders := make([]*order, 2+d.upTo(4))
		for i := range orders {
			o := p.drawOrder(d, false)
			o.due, o.old, o.ignored, o.lengthy, o.deadly, o.row.JobType, o.row.Status, o.row.NoStart = 0, 0, false, false, false, cfg.JobType, 0, false
			o.row.Key, o.row.Extra = "outlived", nil
			orders[i] = o
		}
		first := d.between(200*time.Millisecond, p.calmAt-1500*time.Millisecond)
		orders[0].outlived = d.between(500*time.Millisecond, longestUsualRun)
		p.at(first, func(w *world) { w.insert(orders).commit(true) }, "insert %s to %s; the handler of the first goes on for %v when its job is final",
			orders[0].label, orders[len(orders)-1].label, orders[0].outlived)
		moved, among := min(p.calmAt, first+d.between(50*time.Millisecond, orders[0].outlived)), d.next()
		switch d.upTo(4) {
		case 0:
			p.at(moved, func(w *world) { w.stopHolder(cfg.JobType) }, "stop the holder of %s", leaseName(cfg.JobType))
		case 1:
			p.at(moved, func(w *world) { w.drain(among, 2*time.Second) }, "drain an instance for 2s")
		default:
			p.at(moved, func(w *world) { w.handOver(cfg.JobType) }, "ask for %s to be handed over", leaseName(cfg.JobType))
		}
	}
}

// stopHolder stops the instance that has a lease of a type in good order, as a deploy does, and starts another in its place.
func (w *world) stopHolder(jobType int32) {
	w.mu.Lock()
	var holder *instance
	for _, i := range w.instances {
		if !i.ending.Load() && len(w.judge.heldBy(i, jobType)) > 0 {
			holder = i
			break
		}
	}
	w.mu.Unlock()
	if holder == nil {
		return
	}
	w.stop(holder.place, time.Minute)
	time.AfterFunc(100*time.Millisecond, func() { w.start(holder.place + 100) })
}

// outlive makes a run of such a job one that completes it; nil: it is none.
func (b *behaviour) outlive(r *run, l *link) *completion {
	if r.history.order.outlived == 0 {
		return nil
	}
	b.takes, b.ends = 0, endsWell
	return &completion{link: l, h: r.history, takes: time.Millisecond, to: queue_job.JobStatusSuccess}
}

// outlivesAKey reports whether the handler of a run has a slot of a key, and its row does not say so any more.
func (j *judge) outlivesAKey(r *run) bool {
	cfg := j.configOf(r.jobType)
	return (cfg.OrderedByKey || cfg.MaxPerKey > 0) && r.history.order.row.Group() != "" && r.history.final
}

// slowToTell is how much later a statement arrives that tells the next holder of keys: so it is seen whether the lease waits for it.
func (w *world) slowToTell(d *dice) time.Duration {
	if !w.plan.slowKeys || !d.chance(500) {
		return 0
	}
	return d.between(20*time.Millisecond, 900*time.Millisecond)
}
