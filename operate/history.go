package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/queue_job"
)

// Period is what ran of a job type in a step of its history, on all instances together.
type Period struct {
	Begin  time.Time
	Length time.Duration
	// Runs are the runs that ended, by the status that they led to.
	Runs map[queue_job.JobStatus]int64
	// Delays are of the runs that started: how long before that their jobs had fallen due. Durations are of the runs that ended: how
	// long their handlers took.
	Delays, Durations queue_job.Histogram
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
func History(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobType int32, from, before time.Time, step time.Duration) ([]Period, error) {
	from, err := firstStep(from, before, step)
	if err != nil {
		return nil, fmt.Errorf("history of job type %d: %w", jobType, err)
	}
	stats, err := jobs.Stats(ctx, ex, jobType, from, before)
	if err != nil {
		return nil, err
	}
	return periodsOf(stats, from, before, step), nil
}

// Activity returns how busy job types were. For each type that has run anything, it adds up the runs that started and the runs that
// ended in each step. The steps are those of [History]. Use it for many types: it reads one number for each type, minute and lease.
func Activity(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobTypes []int32, from, before time.Time, step time.Duration) (map[int32][]int64, error) {
	from, err := firstStep(from, before, step)
	if err != nil {
		return nil, fmt.Errorf("activity: %w", err)
	}
	st, err := hidden.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("activity: %w", err)
	}
	counted, err := st.Activity(ctx, jobTypes, from.Unix(), before.Unix())
	if err != nil {
		return nil, err
	}
	steps := int((before.Sub(from) + step - 1) / step)
	busy := map[int32][]int64{}
	for _, c := range counted {
		if busy[c.JobType] == nil {
			busy[c.JobType] = make([]int64, steps)
		}
		busy[c.JobType][int(time.Unix(c.Begin, 0).Sub(from)/step)] += c.Counted
	}
	return busy, nil
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
func periodsOf(stats []queue_job.Stat, from, before time.Time, step time.Duration) []Period {
	var periods []Period
	for begin := from; begin.Before(before); begin = begin.Add(step) {
		periods = append(periods, Period{Begin: begin, Length: step})
	}
	for i := range stats {
		s := &stats[i]
		if at := s.Begin.Sub(from) / step; !s.Begin.Before(from) && int(at) < len(periods) {
			periods[at].add(s)
		}
	}
	return periods
}

func (p *Period) add(s *queue_job.Stat) {
	if p.Runs == nil && len(s.Runs) > 0 {
		p.Runs = map[queue_job.JobStatus]int64{}
	}
	for status, n := range s.Runs {
		p.Runs[status] += n
	}
	p.Delays.Add(&s.Delays)
	p.Durations.Add(&s.Durations)
}

// Tenure is the time in which an instance held a lease.
type Tenure struct {
	queue_job.Tenure
	// After is the holder before, and Gap for how long nobody held the lease between the two. Nil: it is not known.
	After *queue_job.Tenure
	Gap   time.Duration
	// Over: it has ended, or a later holder has had the lease, even if nobody has said yet how it ended.
	Over bool
}

// LeaseHistory returns who held the leases of job types, and for how long nobody did in between, the latest first.
func LeaseHistory(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, f queue_job.TenureFilter) ([]Tenure, error) {
	tenures, err := jobs.Tenures(ctx, ex, f)
	return successions(tenures), err
}

// successions finds for each tenure the one before. If a holder says later than its successor that it has ended, there was no gap.
func successions(tenures []queue_job.Tenure) []Tenure {
	list := make([]Tenure, len(tenures))
	next := map[string]*Tenure{} // of each lease: the tenure above in the list
	ordered := slices.Clone(tenures)
	slices.SortStableFunc(ordered, func(a, b queue_job.Tenure) int { return b.Taken.Compare(a.Taken) })
	for i := range ordered {
		t := &ordered[i]
		list[i].Tenure, list[i].Over = *t, !t.Ended.IsZero()
		if later := next[t.Lease]; later != nil {
			list[i].Over, later.After = true, t
			if !t.Ended.IsZero() {
				later.Gap = max(0, later.Taken.Sub(t.Ended))
			}
		}
		next[t.Lease] = &list[i]
	}
	return list
}
