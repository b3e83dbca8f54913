package simulator

import (
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// A Stop that has lost its patience leaves handlers behind. Their jobs are not lost, and run again when their leases have ended.

// leaseSlack is by how much a lease may end later than its holder knows: the table has whole seconds, and a statement takes its time.
const leaseSlack = 0.6

// cutsOff reports whether what is written about a run is that a stop has cut it off. The handler may have ended while that was on its
// way.
func (j *judge) cutsOff(h *history, c change) bool {
	m := h.mark
	if c.verb != putBack || m.run == nil || !m.by.impatient.Load() ||
		queue_job.JobStatus(c.after.Status) != queue_job.JobStatusRetry || c.retried+c.deferred != 0 ||
		m.run.ended && (m.run.verdict == c.verdict() || time.Since(m.run.finished) > time.Second) {
		return false
	}
	j.saw["cut off by a stop"]++
	m.run.cutOff = true
	const underWay = 2 * time.Second // the statement, while the lease was kept
	if w := j.world.weather; w.stepped || w.edited || !m.by.hasty.Load() || w.slow > 0 || w.slowTables() ||
		j.stoodStill(time.Now().Add(-underWay), time.Now()) {
		return true
	}
	for _, name := range []string{m.run.lease.lease, share.Remains(m.run.lease.lease, m.term)} {
		if l, ok := j.world.table.leases[name]; ok && l.Term == m.term && l.Layout > 0 && float64(l.Until)-leaseSlack > c.after.Due && !m.run.ended {
			j.accuse("%s was cut off by a stop and falls due %.3f s before the lease %s of its handler ends", h.name(), float64(l.Until)-c.after.Due, name)
		}
	}
	return true
}

// expectNotCutOff expects of a run that counts as lost that its process has not seen it to the end of a Stop, if it could write then.
func (j *judge) expectNotCutOff(h *history) {
	m, w := h.mark, j.world.weather
	if m == nil || m.run == nil || !m.by.hasty.Load() || m.by.ended.IsZero() || m.by.link.dead() || m.run.completes ||
		m.run.ended && m.run.finished.Before(m.by.ended) ||
		w.refused+w.broken+w.slow+w.stray > 0 || w.slowTables() || j.saw["stall"] > 0 ||
		len(j.world.locked)+len(j.world.lockedLeases) > 0 || j.twoHolders() || j.excuses(h, m) {
		return
	}
	j.accuse("%s counts as lost; instance %d has stopped while its handler ran, and nobody has died", h.name(), m.by.number)
}
