package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// Period is what ran of a job type in a step of its history, on all instances together. Holders write it when a minute is over; a process
// that dies takes up to a minute with it. All this is kept for 90 days.
type Period struct {
	Begin  time.Time
	Length time.Duration
	// Runs are the runs that ended, by the status that they led to. A run whose process died has not ended, and is not counted. A run that
	// ended with [queue_job.Defer] had not begun, and counts nowhere.
	Runs map[queue_job.JobStatus]int64
	// Delays are of the runs that started: how long before that their jobs had fallen due. Durations are of the runs that ended: how
	// long their handlers took.
	Delays, Durations Histogram
}

// Started is how many runs started.
func (p *Period) Started() int64 { return p.Delays.Count() }

// Ended is how many runs ended.
func (p *Period) Ended() (n int64) {
	for _, runs := range p.Runs {
		n += runs
	}
	return n
}

// periodsMax is how many steps a history has at most.
const periodsMax = 10_000

// History returns what ran of a job type from a moment on and before another, in steps of a length, the first of which begins at from,
// rounded down to a whole step of unix time. The length is in whole minutes. Of more than two days ago, whole hours are known only: the
// whole hour counts in the step in which it begins. Steps in which nothing ran are returned, too.
func History(
	ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobType int32, from, before time.Time, step time.Duration,
) ([]Period, error) {
	from, err := firstStep(from, before, step)
	if err != nil {
		return nil, fmt.Errorf("history of job type %d: %w", jobType, err)
	}
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("history of job type %d: %w", jobType, err)
	}
	stats, err := st.Stats(ctx, jobType, from.Unix(), before.Add(time.Second-1).Unix())
	if err != nil {
		return nil, err
	}
	return periodsOf(stats, from, before, step), nil
}

func firstStep(from, before time.Time, step time.Duration) (time.Time, error) {
	seconds := int64(step / time.Second)
	switch {
	case step < time.Minute || step%time.Minute != 0:
		return from, fmt.Errorf("a step of %v; use whole minutes", step)
	case !from.Before(before):
		return from, fmt.Errorf("from %v to %v; the second must be later", from, before)
	case before.Sub(from)/step >= periodsMax:
		return from, fmt.Errorf("steps of %v from %v to %v are too many; use %d at most", step, from, before, periodsMax)
	}
	return time.Unix(from.Unix()/seconds*seconds, 0), nil
}

// periodsOf adds up what stats say. A stat counts in the step in which it begins.
func periodsOf(stats []record.Stat, from, before time.Time, step time.Duration) []Period {
	var periods []Period
	for begin := from; begin.Before(before); begin = begin.Add(step) {
		periods = append(periods, Period{Begin: begin, Length: step})
	}
	for i := range stats {
		s := &stats[i]
		begin := time.Unix(s.Begin, 0)
		if at := begin.Sub(from) / step; !begin.Before(from) && int(at) < len(periods) {
			periods[at].add(s)
		}
	}
	return periods
}

func (p *Period) add(s *record.Stat) {
	for status := queue_job.JobStatusInit; status <= queue_job.JobStatusCancelled; status++ {
		if n := s.Runs[status.String()]; n > 0 {
			if p.Runs == nil {
				p.Runs = map[queue_job.JobStatus]int64{}
			}
			p.Runs[status] += n
		}
	}
	started, deferred, took := histogramOf(s.Delay), histogramOf(s.Deferred), histogramOf(s.Took)
	for i := range started { // some turned out not to have begun, and may have started in the minute before
		started[i] = max(0, started[i]-deferred[i])
	}
	p.Delays.Add(&started)
	p.Durations.Add(&took)
}
