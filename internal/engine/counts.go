package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// counts counts the runs of a line since there has been the line. Workers count; the historian reads now and then, and writes down the
// difference.
type counts struct {
	delay [store.Ranges]atomic.Int64 // of runs that started, by how long their jobs had been due
	took  [store.Ranges]atomic.Int64 // of runs that ended, by how long their handlers took
	ended [queue_job.JobStatusCancelled + 1]atomic.Int64
}

func (c *counts) start(delay time.Duration) { c.delay[store.RangeOf(delay)].Add(1) }

func (c *counts) end(status queue_job.JobStatus, took time.Duration) {
	c.took[store.RangeOf(took)].Add(1)
	c.ended[status].Add(1)
}

// totals are what counts have come to at a moment.
type totals struct {
	delay, took [store.Ranges]int64
	ended       [queue_job.JobStatusCancelled + 1]int64
}

func (c *counts) now() (n totals) {
	for i := range n.delay {
		n.delay[i], n.took[i] = c.delay[i].Load(), c.took[i].Load()
	}
	for i := range n.ended {
		n.ended[i] = c.ended[i].Load()
	}
	return n
}

// since is what has come to it since an earlier moment.
func (n *totals) since(earlier *totals) (s store.StatState) {
	s.Delay, s.Took = grown(n.delay[:], earlier.delay[:]), grown(n.took[:], earlier.took[:])
	for status := range n.ended {
		if runs := n.ended[status] - earlier.ended[status]; runs > 0 {
			if s.Runs == nil {
				s.Runs = map[string]int64{}
			}
			s.Runs[queue_job.JobStatus(status).String()] = runs
		}
	}
	return s
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
