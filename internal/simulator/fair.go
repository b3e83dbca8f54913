package simulator

import (
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/queue_job"
)

// Types that are fair by group.

// fairly reports whether types of a world may be fair by group. It is one world of 26, so that the others stay as they were before; among
// these are the seeds of all mutants.
func fairly(seed uint64) bool { return seed%26 == 13 }

const (
	// fairWithin is how long a job of a small group may wait behind the backlog of a large one, until the loader has found it. fairOthers is how many
	// of the large group may start then before it: those that were marked ahead, and those whose turns it is.
	fairWithin = 3 * time.Second
	fairOthers = 10
)

// drawFair draws, from dice of its own, which types are fair by group, and for some worlds a long backlog of one group, with jobs of another
// behind it. Some of these come with the backlog, and are behind it in the table; the others come one by one.
func (p *plan) drawFair(d *dice) {
	for i := range p.configs {
		p.configs[i].FairByGroup = d.chance(700)
		if d.chance(300) && p.configs[i].FairByGroup {
			p.configs[i].GroupWeight = func(group string) float64 { return float64(1 + len(group)) }
		}
	}
	if p.weather.truncated || p.weather.steered || p.weather.hasty || p.weather.stepped || p.weather.edited || p.weather.slowTables() {
		return
	}
	const rows, takes = 400, 60 * time.Millisecond
	cfg := &p.configs[d.upTo(len(p.configs))]
	*cfg = bridge.QueueJob.WithDefaults(queue_job.Config{
		JobType: cfg.JobType, LockSecond: cfg.LockSecond, DormantAfter: cfg.DormantAfter, FirstPullDay: -1, LostLimit: 4, FairByGroup: true,
		WorkerPoolCapacity: 2, QueueMaxSize: 40 + d.upTo(40), LoadLimit: 4 + d.upTo(40),
	})
	orders := make([]*order, rows)
	for i := range orders {
		orders[i] = p.drawOfGroup(d, cfg.JobType, "large", takes)
	}
	small := make([]*order, 8)
	for i := range small {
		small[i] = p.drawOfGroup(d, cfg.JobType, "small", takes)
		small[i].behind = orders
	}
	for _, o := range orders {
		o.small = small
	}
	for _, o := range p.orders { // if runs took no time, hundreds would be marked ahead
		if o.row.JobType == cfg.JobType {
			o.takes = takes
		}
	}
	begins := d.between(time.Second, max(p.calmAt, 2*time.Second))
	all := slices.Concat(orders, small[:4])
	p.at(begins, func(w *world) { w.insert(all).commit(true) }, "insert %s to %s, a long backlog of two groups", all[0].label, small[3].label)
	for _, o := range small[4:] {
		p.at(begins+d.between(0, 6*time.Second), func(w *world) { w.insert([]*order{o}).commit(true) }, "insert %s, of that group", o.label)
	}
}

func (p *plan) drawOfGroup(d *dice, jobType int32, group string, takes time.Duration) *order {
	o := p.drawOrder(d, false)
	o.due, o.old, o.ignored, o.lengthy, o.deadly, o.takes = 0, 0, false, false, false, takes
	o.row.JobType, o.row.Status, o.row.NoStatus, o.row.NoStart, o.row.Key, o.row.Extra = jobType, 0, false, false, group, nil
	return o
}

// expectFair expects that no job of a small group waits while many of a large one start. The world stands still.
func (j *judge) expectFair(r *run) {
	w := j.world
	if r.history.order.small == nil || !w.calm() {
		return
	}
	var turn time.Time // of the small group: its last
	for _, o := range r.history.order.small {
		if o.history != nil && len(o.history.runs) > 0 {
			turn = latest(turn, o.history.runs[len(o.history.runs)-1].began)
		}
	}
	for _, o := range r.history.order.small {
		h := o.history
		if h == nil || !h.committed || h.gone || h.final || h.byHand || h.mark != nil || len(h.runs) > 0 || len(h.losses) > 0 || h.putBacks > 0 {
			continue
		}
		free := latest(w.calmAt(), h.since, j.disturbed, j.cameOrWent, j.recast, w.locked[h.id])
		if others := startsOfTerm(o.behind, r.term, latest(free, turn), h); others > fairOthers {
			j.accuse("%s waits since %v, and %d jobs of a larger group have started after %v of that", h.name(), time.Since(free), others, fairWithin)
			return
		}
		j.saw["job of a small group behind a long backlog of another"]++
	}
}

// startsOfTerm counts the jobs that have started first under a term and a lease that covers a row, some time after a moment and after the first
// of them.
func startsOfTerm(orders []*order, term int64, after time.Time, h *history) (n int) {
	var began []time.Time
	for _, o := range orders {
		if l := o.history; l != nil && len(l.runs) > 0 && l.runs[0].term == term && l.runs[0].lease.covers(h) {
			began = append(began, l.runs[0].began)
		}
	}
	if len(began) == 0 {
		return 0
	}
	after = latest(after, slices.MinFunc(began, time.Time.Compare)).Add(fairWithin)
	for _, at := range began {
		if at.After(after) {
			n++
		}
	}
	return n
}
