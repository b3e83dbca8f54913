package faces

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// Series is what ran of some job types in a span of time, in steps of one length.
type Series struct {
	Begin time.Time
	Step  time.Duration
	// All are the steps of all these types together.
	All []Step
	// Earlier are the steps of a span of the same length right before Begin, with their runs and delays, if they were asked for. A step without
	// a length is not known: of the hour in which it lies, only the whole is.
	Earlier []Step
	// ByType are the steps of each type of which anything is known.
	ByType map[int32]*TypeSeries
	// Errors are the errors with which runs ended, the most frequent one first.
	Errors []ErrorTrend
}

// Step is what is known of a step.
type Step struct {
	operate.Period
	// Lost are the runs of which it was found in this step that their process had died. Deferred are the runs that ended before they had begun.
	Lost, Deferred int64
	// Waiting, Overdue and Busy are the most that holders had in memory at a time: jobs that were due, how long the first of them had been due,
	// and busy workers. Holders look every ten seconds; those of an earlier version do not tell it.
	Waiting, Busy int64
	Overdue       time.Duration
}

// TypeSeries is what is shown of each type.
type TypeSeries struct {
	Ended, Failed []int64 // runs of each step; a run that is retried has failed
	Delays        operate.Histogram
}

// Sum is how many runs ended in all steps, and how many of them failed.
func (t *TypeSeries) Sum() (ended, failed int64) {
	for i := range t.Ended {
		ended, failed = ended+t.Ended[i], failed+t.Failed[i]
	}
	return ended, failed
}

// ErrorTrend is an error, however often it came. Errors of a type that differ in numbers and ids only are one.
type ErrorTrend struct {
	ID      string // for an address
	JobType int32
	Text    string // of the last run
	// Runs is how many runs ended with it, of which Failed were the last ones of their jobs, and Steps how many in each step.
	Runs, Failed int64
	Steps        []int64
	// First and Last are when the first and the last of these runs ended, and Job had the last of them.
	First, Last time.Time
	Job         uint64
}

// ErrorID is what an error of a job type is called in addresses: the same for all that differ in numbers and ids only.
func ErrorID(jobType int32, text string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", jobType, store.KindOfError(store.ErrorOf(&store.Attempt{Error: text}).Text))
	return fmt.Sprintf("%016x", h.Sum64())
}

// SeriesOf reads what ran of these job types from a moment on and before another, in steps of a length, which is in whole minutes, the first of
// which begins at from, rounded down to a whole step of unix time. It takes a statement for each 250 types, which reads a row for each type,
// minute and lease, or for each type and hour of what ran more than two days ago. An hour counts in the step in which it begins. To compare, it
// reads what ran as long before, too: twice the rows, and not one statement more.
func SeriesOf(
	ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobTypes []int32, from, before time.Time, step time.Duration, compare bool,
) (*Series, error) {
	seconds := int64(step / time.Second)
	b := newSeries(time.Unix(from.Unix()/seconds*seconds, 0), before, step)
	first := b.Begin
	if compare {
		first = b.compare()
	}
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		err = st.EachStat(ctx, jobTypes, first.Unix(), before.Unix(), b.add)
	}
	if err != nil {
		return nil, fmt.Errorf("what ran: %w", err)
	}
	return b.series(), nil
}

// seriesBuilder adds up stats as they come.
type seriesBuilder struct {
	Series
	levels map[levelKey]*record.Level
	errors map[sameError]*ErrorTrend
}

// levelKey is a lease in the span of a stat.
type levelKey struct {
	jobType int32
	begin   int64
	lease   string
}

func newSeries(from, before time.Time, step time.Duration) *seriesBuilder {
	b := &seriesBuilder{levels: map[levelKey]*record.Level{}, errors: map[sameError]*ErrorTrend{}}
	b.Begin, b.Step, b.ByType = from, step, map[int32]*TypeSeries{}
	for at := from; at.Before(before); at = at.Add(step) {
		b.All = append(b.All, stepAt(at, step))
	}
	return b
}

func stepAt(begin time.Time, step time.Duration) Step {
	return Step{Period: operate.Period{Begin: begin, Length: step, Runs: map[queue_job.JobStatus]int64{}}}
}

// compare makes room for the steps before the first one, and returns when they begin.
func (b *seriesBuilder) compare() (first time.Time) {
	first = b.Begin.Add(-time.Duration(len(b.All)) * b.Step)
	for at := first; at.Before(b.Begin); at = at.Add(b.Step) {
		b.Earlier = append(b.Earlier, stepAt(at, b.Step))
	}
	return first
}

// addEarlier adds what is compared: runs, and how late they started. Steps within an hour of which only the whole is known have no length.
func (b *seriesBuilder) addEarlier(s *record.Stat) {
	if len(b.Earlier) == 0 || s.Begin < b.Earlier[0].Begin.Unix() {
		return
	}
	at := int(time.Unix(s.Begin, 0).Sub(b.Earlier[0].Begin) / b.Step)
	if long := time.Duration(s.Seconds) * time.Second; long > b.Step {
		for i := at; i < len(b.Earlier) && i <= at+int(long/b.Step)-1; i++ {
			b.Earlier[i].Length = 0
		}
		return
	}
	was := &b.Earlier[at]
	for status := queue_job.JobStatusInit; status <= queue_job.JobStatusCancelled; status++ {
		if n := s.Runs[status.String()]; n > 0 {
			was.Runs[status] += n
		}
	}
	b.addDelays(s, was, &TypeSeries{})
}

func (b *seriesBuilder) add(s *record.Stat) {
	if s.Begin < b.Begin.Unix() {
		b.addEarlier(s)
		return
	}
	at := int(time.Unix(s.Begin, 0).Sub(b.Begin) / b.Step)
	if at >= len(b.All) {
		return
	}
	all, one := &b.All[at], b.ByType[s.JobType]
	if one == nil {
		one = &TypeSeries{Ended: make([]int64, len(b.All)), Failed: make([]int64, len(b.All))}
		b.ByType[s.JobType] = one
	}
	for status := queue_job.JobStatusInit; status <= queue_job.JobStatusCancelled; status++ {
		n := s.Runs[status.String()]
		if n == 0 {
			continue
		}
		all.Runs[status] += n
		one.Ended[at] += n
		if status == queue_job.JobStatusFailed || status == queue_job.JobStatusRetry {
			one.Failed[at] += n
		}
	}
	b.addDelays(s, all, one)
	all.Lost += s.Lost
	if s.Level != (record.Level{}) {
		key := levelKey{s.JobType, s.Begin, s.Lease}
		if b.levels[key] == nil {
			b.levels[key] = &record.Level{}
		}
		b.levels[key].Raise(s.Level) // holders of a lease follow each other
	}
	for i := range s.Errors.Errors {
		b.addError(s.JobType, at, &s.Errors.Errors[i])
	}
}

// addDelays adds the delays of runs that started and have not turned out not to have begun.
func (b *seriesBuilder) addDelays(s *record.Stat, all *Step, one *TypeSeries) {
	var delays, took operate.Histogram
	copy(delays[:], s.Delay)
	copy(took[:], s.Took)
	for i, n := range s.Deferred[:min(len(s.Deferred), len(delays))] {
		all.Deferred += n
		delays[i] = max(0, delays[i]-n)
	}
	all.Delays.Add(&delays)
	all.Durations.Add(&took)
	one.Delays.Add(&delays)
}

func (b *seriesBuilder) addError(jobType int32, at int, e *store.ErrorStat) {
	same := sameError{jobType, store.KindOfError(e.Text)}
	t := b.errors[same]
	if t == nil {
		t = &ErrorTrend{ID: ErrorID(jobType, e.Text), JobType: jobType, Steps: make([]int64, len(b.All))}
		b.errors[same] = t
	}
	first, last := time.UnixMilli(e.First), time.UnixMilli(e.Last)
	t.Runs, t.Failed = t.Runs+e.Runs, t.Failed+e.Failed
	t.Steps[at] += e.Runs
	if t.First.IsZero() || first.Before(t.First) {
		t.First = first
	}
	if !last.Before(t.Last) {
		t.Last, t.Text, t.Job = last, e.Text, e.Job
	}
}

// series is what all stats come to. At a moment, levels add up; of the moments of a step, the highest counts.
func (b *seriesBuilder) series() *Series {
	moments := map[int64]*record.Level{}
	for key, level := range b.levels {
		if moments[key.begin] == nil {
			moments[key.begin] = &record.Level{}
		}
		m := moments[key.begin]
		m.Waiting, m.Busy, m.Overdue = m.Waiting+level.Waiting, m.Busy+level.Busy, max(m.Overdue, level.Overdue)
	}
	for begin, m := range moments {
		s := &b.All[int(time.Unix(begin, 0).Sub(b.Begin)/b.Step)]
		s.Waiting, s.Busy = max(s.Waiting, m.Waiting), max(s.Busy, m.Busy)
		s.Overdue = max(s.Overdue, time.Duration(m.Overdue)*time.Millisecond)
	}
	for _, t := range b.errors {
		b.Errors = append(b.Errors, *t)
	}
	slices.SortFunc(b.Errors, func(x, y ErrorTrend) int {
		return cmp.Or(cmp.Compare(y.Runs, x.Runs), y.Last.Compare(x.Last), cmp.Compare(x.ID, y.ID))
	})
	return &b.Series
}
