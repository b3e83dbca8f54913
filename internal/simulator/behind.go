package simulator

import (
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/queue_job"
)

// A backlog that is longer than the queue and lasts for longer than half a minute. Its first jobs run on an instance that gives the lease
// away and dies; others are changed while they wait in memory. The loader of the next holder has passed their rows by then.

// behindWithin is how long a row that nobody has in memory may wait while later rows of its lane start: if rows lie behind it, the loader
// begins its rounds again after five seconds. behindOthers is how many rows may be in memory by then and start first, beside the marked rows.
const (
	behindWithin = 8 * time.Second
	behindOthers = 20
)

// drawBehind draws such a backlog for some rough worlds, from dice of its own.
func (p *plan) drawBehind(d *dice) {
	if p.weather.gentle || p.weather.truncated || p.weather.steered || p.weather.hasty || p.weather.stepped || p.weather.edited || d.chance(900) {
		return
	}
	const rows, takes = 300, 200 * time.Millisecond
	cfg := &p.configs[d.upTo(len(p.configs))]
	*cfg = bridge.QueueJob.WithDefaults(queue_job.Config{
		JobType: cfg.JobType, LockSecond: cfg.LockSecond, DormantAfter: cfg.DormantAfter, FirstPullDay: -1, LostLimit: 4,
		WorkerPoolCapacity: 2, QueueMaxSize: 4 + d.upTo(4), LoadLimit: 1 + d.upTo(3),
	})
	orders := make([]*order, rows)
	for i := range orders {
		o := p.drawOrder(d, false)
		o.due, o.old, o.ignored, o.lengthy, o.deadly, o.takes, o.backlog = 0, 0, false, false, false, takes, orders
		o.row.JobType, o.row.Status, o.row.NoStatus, o.row.NoStart, o.row.Key, o.row.Extra = cfg.JobType, 0, false, false, "", nil
		orders[i] = o
	}
	orders[0].first = 10 * time.Second
	begins := d.between(time.Second, max(p.calmAt, 2*time.Second))
	p.at(begins, func(w *world) { w.insert(orders).commit(true) }, "insert %s to %s, a long backlog", orders[0].label, orders[rows-1].label)
	p.at(begins+200*time.Millisecond, func(w *world) { w.start(7) }, "start in place 7")
	p.at(begins+600*time.Millisecond, func(w *world) { w.handOver(cfg.JobType) }, "ask for %s to be handed over", leaseName(cfg.JobType))
	p.at(begins+1500*time.Millisecond, func(w *world) { w.killRunner(orders[0]) }, "kill who runs %s", orders[0].label)
	for n := range 3 {
		p.at(begins+time.Duration(2+n)*time.Second, func(w *world) { w.changeNext(orders) }, "change a job that waits in memory")
	}
}

// killRunner kills the instance that runs the job of an order, if it runs, and starts another in its place.
func (w *world) killRunner(o *order) {
	w.mu.Lock()
	i := slices.IndexFunc(w.judge.active, func(r *run) bool { return r.history.order == o && !r.over })
	var by *instance
	if i >= 0 {
		by = w.judge.active[i].by
	}
	w.mu.Unlock()
	if by != nil {
		w.kill(by)
		w.start(by.place)
	}
}

// changeNext changes a job that is about to be marked. It stays in its lane.
func (w *world) changeNext(orders []*order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := -1
	for i, o := range orders {
		if len(o.history.runs) > 0 {
			last = i
		}
	}
	for _, o := range orders[last+1:] {
		if h := o.history; h.committed && h.mark == nil && !h.final && !w.locked[h.id].After(time.Now()) {
			o.changed = time.Now()
			w.judge.saw["job of a long backlog that is changed in memory"]++
			w.trace.add(event{what: "changes", about: about{ids: []uint64{h.id}, note: o.label}})
			w.table.SetPriority(h.id, 0)
			return
		}
	}
}

// expectNoneBehind expects that no earlier job of a long backlog is left behind, while later ones of its shard start. The world stands still.
func (j *judge) expectNoneBehind(r *run) {
	orders, w := r.history.order.backlog, j.world
	if orders == nil || !w.calm() {
		return
	}
	lock := time.Duration(j.configOf(r.jobType).LockSecond) * time.Second
	for i, o := range orders {
		h := o.history
		if o == r.history.order {
			return
		}
		if h == nil || !h.committed || h.gone || h.final || h.byHand || h.putBacks > 0 || len(h.losses) > 0 ||
			slices.ContainsFunc(j.active, func(r *run) bool { return r.history == h && r.by.up }) {
			continue
		}
		free := latest(w.calmAt(), o.changed, j.disturbed, j.cameOrWent, j.recast, w.locked[h.id])
		if h.mark != nil {
			if h.mark.by.up {
				continue
			}
			free = latest(free, h.mark.by.ended.Add(lock+time.Second))
		}
		if !o.changed.IsZero() { // the holder finds that when it marks the row as it was, and it can mark none while runs elsewhere take all workers
			free = latest(free, h.tried)
		}
		others := 0
		for _, later := range orders[i+1:] {
			l := later.history
			if len(l.runs) > 0 && l.runs[0].lease.covers(h) && len(l.marks) > 0 && l.marks[0].at.After(free.Add(behindWithin)) {
				others++
			}
		}
		if h.mark != nil || !o.changed.IsZero() {
			j.saw["row of a long backlog that the loader may have passed"]++
		}
		if others > behindOthers {
			j.accuse("%s waits since %v, and %d later ones of its backlog have started %v after that", h.name(), time.Since(free), others, behindWithin)
			return
		}
	}
}

func latest(moments ...time.Time) time.Time { return slices.MaxFunc(moments, time.Time.Compare) }
