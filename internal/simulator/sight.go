package simulator

import (
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Sight is a moment at which it is certain what an instance does with a job: it marks the job, starts its run, or is buried while it has the
// job. A test can compare that with what it concludes from the tables.
type Sight struct {
	Instance string    // that marks or starts it, or is buried
	Starts   bool      // it starts the job; otherwise it marks it …
	Buried   bool      // … or was buried at this moment
	Row      store.Row // at the start, or before the mark
	First    uint64    // the first pending job of its type and group; 0: it has no group
	Fleet    store.Fleet
	Paused   time.Time // since when its type is paused; zero: it is not
	Config   queue_job.Config
}

// Watch lets a world live in a bubble of virtual time, and shows its sights. It leaves out sights at which the instance itself may be
// wrong: it was struck, its statement comes late, or somebody has set the clock or edited rows.
func Watch(seed uint64, look func(Sight)) {
	w := newWorld(seed)
	w.judge.look = look
	w.live()
}

// showStart shows the start of a job whose row is the run's: nobody has cancelled or retried it since the mark.
func (j *judge) showStart(h *history, by *instance, job *queue_job.Job) {
	t := j.world.table
	if row := t.find(job.Id); row != nil && row.pending() && row.Term == job.Term {
		j.show(h, row.Row, by, true)
	}
}

// showBuried shows the jobs that an instance has which was buried at this moment.
func (j *judge) showBuried(by *instance) {
	w := j.world
	if j.look == nil || j.truncated || w.weather.stepped || w.weather.edited {
		return
	}
	for _, h := range j.histories {
		if h.gone || h.byHand || h.order.ignored || j.upset(h.order.row.JobType) {
			continue
		}
		if row := w.table.find(h.id); row != nil && row.pending() && row.Term != 0 && j.takingOf(h, row.Term).by == by {
			j.look(j.sightOf(row.Row, by, Sight{Buried: true}))
		}
	}
}

// show shows a sight. The world stands still, and the table too.
func (j *judge) show(h *history, row store.Row, by *instance, starts bool) {
	if j.look == nil || j.late || j.truncated || h.byHand || h.order.ignored || !j.innocent(by) || j.upset(h.order.row.JobType) {
		return
	}
	j.look(j.sightOf(row, by, Sight{Starts: starts}))
}

func (j *judge) sightOf(row store.Row, by *instance, s Sight) Sight {
	s.Instance, s.Row, s.Fleet, s.Config = by.id(), row, j.world.table.fleet(share.Prefixes), *j.configOf(row.JobType)
	if group := row.Group(); group != "" {
		s.First = j.world.table.firstOfKeys(row.JobType, []string{group}, 0, 0, 0)[group]
	}
	if p := j.pausedTypes[row.JobType]; p != nil {
		s.Paused = j.world.clock().Add(-time.Since(p.since))
	}
	return s
}
