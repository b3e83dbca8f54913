package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// counts counts the runs of a line since there has been the line. Workers count; the stats ask now and then, and write down the
// difference.
type counts struct {
	delay [store.Ranges]atomic.Int64 // of runs that started, by how long their jobs had been due
	took  [store.Ranges]atomic.Int64 // of runs that ended, by how long their handlers took
	ended [queue_job.JobStatusCancelled + 1]atomic.Int64

	deferred  [store.Ranges]atomic.Int64 // of runs that started and ended before they had begun, as delay
	deferrals atomic.Int64

	told totals // what the stats have heard of; theirs
}

// byStatus are numbers of runs that have ended, by the status that they led to.
type byStatus [queue_job.JobStatusCancelled + 1]int64

func (c *counts) start(delay time.Duration) { c.delay[store.RangeOf(delay)].Add(1) }

func (c *counts) end(status queue_job.JobStatus, took time.Duration) {
	c.took[store.RangeOf(took)].Add(1)
	c.ended[status].Add(1)
}

// putOff counts a run that ended before it had begun.
func (c *counts) putOff(delay time.Duration) {
	c.deferred[store.RangeOf(delay)].Add(1)
	c.deferrals.Add(1)
}

// ends are how many runs have ended, in whatever way.
func (c *counts) ends() cluster.Ended {
	return cluster.Ended{ByStatus: c.endedNow(), Deferrals: c.deferrals.Load()}
}

// totals are what counts have come to at a moment.
type totals struct {
	delay, took, deferred [store.Ranges]int64
	ended                 byStatus
}

func (c *counts) now() (n totals) {
	for i := range n.delay {
		n.delay[i], n.took[i], n.deferred[i] = c.delay[i].Load(), c.took[i].Load(), c.deferred[i].Load()
	}
	n.ended = c.endedNow()
	return n
}

func (c *counts) endedNow() (n byStatus) {
	for i := range n {
		n[i] = c.ended[i].Load()
	}
	return n
}

// news is what has come since the stats asked last.
func (c *counts) news() store.StatState {
	now := c.now()
	news := now.since(&c.told)
	c.told = now
	return news
}

// since is what has come to it since an earlier moment.
func (n *totals) since(earlier *totals) (s store.StatState) {
	s.Delay, s.Took = grown(n.delay[:], earlier.delay[:]), grown(n.took[:], earlier.took[:])
	s.Deferred = grown(n.deferred[:], earlier.deferred[:])
	s.Runs = n.ended.since(&earlier.ended)
	return s
}

// since are the runs that have ended since an earlier moment; nil: none.
func (n *byStatus) since(earlier *byStatus) (runs map[string]int64) {
	for status := range n {
		if more := n[status] - earlier[status]; more > 0 {
			if runs == nil {
				runs = map[string]int64{}
			}
			runs[queue_job.JobStatus(status).String()] = more
		}
	}
	return runs
}

// ranUnderLease are the runs that have ended since the lease was taken.
func (l *line) ranUnderLease() map[string]int64 {
	var before byStatus
	if b := l.endedBefore.Load(); b != nil {
		before = *b
	}
	now := l.counts.endedNow()
	return now.since(&before)
}

// grown is by how much each number has grown, up to the last that has.
func grown(now, earlier []int64) []int64 {
	for i := len(now); i > 0; i-- {
		if now[i-1] > earlier[i-1] {
			by := slices.Clone(now[:i])
			for k := range by {
				by[k] -= earlier[k]
			}
			return by
		}
	}
	return nil
}
