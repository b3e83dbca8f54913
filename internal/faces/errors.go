package faces

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Errors are what runs ended with lately.
type Errors struct {
	// At is when it was so, by the database's clock. Zero if these are all runs in the log.
	At time.Time
	// Groups are the errors by job type. Errors that differ only in numbers and ids are in one group. The group with the most runs comes
	// first.
	Groups []ErrorGroup
	// Runs is the number of runs that did not succeed. Others of them ended with errors that are in none of the groups: of a minute,
	// instances tell twenty kinds for each lease.
	Runs, Others int
	// All: these are all runs in the log. Else, they are those that ended Since then.
	All   bool
	Since time.Time
	// Mutes are the errors that are muted, by their ids.
	Mutes map[string]*Mute
}

// ErrorGroup is an error, however often it came.
type ErrorGroup struct {
	JobType int32
	// TypeName is what the type is called, see [queue_job.Config.ServiceName].
	TypeName string
	// Text is the error of the last run, with its numbers and ids. A long one may be cut.
	Text string
	// Runs is the number of runs that ended with it, Jobs the number of their jobs, and Failed how many of the runs were the last of
	// their job, which has failed for good. Jobs is 0 if it is not known.
	Runs, Jobs, Failed int
	// First and Last are when the first and the last of these runs ended.
	First, Last time.Time
	// Job had the last of them.
	Job uint64
}

const (
	errorsLast   = time.Hour // that errors are counted of, if the log has too many
	errorRowsMax = 3000      // stats with errors that are read
)

// LatestErrors groups the runs that did not succeed by type and error, and says which errors are muted. If the log has fewer rows than most, it
// reads them, with two statements in all, and these are all runs. Else it returns the runs of the last hour, or of less if very many types
// fail, as the instances have counted them up to ten seconds ago. That takes three statements more. They read small tables, and rows of the
// statistics along their index. Instances of an earlier version do not count errors; of their runs, it finds those that are among the last
// rows of the log, which are of the newest jobs.
func LatestErrors(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, most int) (*Errors, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	var runs []record.TypedAttempt
	if err == nil {
		runs, err = st.LastAttempts(ctx, most)
	}
	all := len(runs) < most
	var events record.Events
	if err == nil {
		events, err = st.Events(ctx, math.MaxInt64, 0, 0) // the marks, and the clock
	}
	runs = slices.DeleteFunc(runs, func(run record.TypedAttempt) bool { return run.Gone })
	var e *Errors
	switch {
	case err != nil:
	case all:
		e = group(runs)
	default:
		e, err = countedErrors(ctx, jobs, ex, st, runs, time.Unix(events.Now, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("latest errors: %w", err)
	}
	e.Mutes = mutesOf(events.Marks, events.Now)
	return e, nil
}

func countedErrors(
	ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, st *record.Store, logged []record.TypedAttempt, now time.Time,
) (*Errors, error) {
	kinds, err := jobs.Types(ctx, ex)
	if err != nil {
		return nil, err
	}
	var types []int32
	names := map[int32]string{}
	for _, k := range kinds {
		types, names[k.JobType] = append(types, k.JobType), k.Name
	}
	from := now.Add(-errorsLast).Truncate(time.Minute)
	stats, err := st.Errors(ctx, types, from.Unix(), errorRowsMax)
	if err != nil {
		return nil, err
	}
	if len(stats) == errorRowsMax { // of the first of these minutes, some may be missing
		from = time.Unix(stats[len(stats)-1].Begin, 0).Add(time.Minute)
	}
	lines, err := st.Lines(ctx)
	if err != nil {
		return nil, err
	}
	e := merged(stats, lines, logged, names, from)
	e.At = now
	return e, nil
}

// sameError is what errors of one group have in common.
type sameError struct {
	jobType int32
	kind    string
}

// merged joins what stats, lines and the log say of the runs since a moment. A line has counted what the stats of its term have, or more of
// it.
func merged(stats []record.SpanErrors, lines []store.Line, logged []record.TypedAttempt, names map[int32]string, from time.Time) *Errors {
	type span struct {
		begin int64
		lease string
		term  int64
	}
	types, spans := map[span]int32{}, map[span]store.Errors{}
	for i := range stats {
		s := &stats[i]
		if name := (span{s.Begin, s.Lease, s.Term}); s.Begin >= from.Unix() {
			types[name], spans[name] = s.JobType, s.Errors
		}
	}
	for i := range lines {
		l := &lines[i]
		jobType, _, ok := share.ParseType(l.Lease)
		for _, m := range l.Minutes {
			name := span{m.Begin, l.Lease, l.Term}
			if told := spans[name]; ok && m.Begin >= from.Unix() && m.Errors.Runs() > told.Runs() {
				types[name], spans[name] = jobType, m.Errors
			}
		}
	}
	e := &Errors{Since: from}
	groups := newGroups(e)
	for name, errors := range spans {
		e.Others += int(errors.Others)
		for i := range errors.Errors {
			jobType, one := types[name], &errors.Errors[i]
			groups.of(jobType, names[jobType], one.Text).addRuns(one)
		}
	}
	before := func(run record.TypedAttempt) bool { return time.UnixMilli(run.Finished).Before(from) }
	for _, known := range group(slices.DeleteFunc(slices.Clone(logged), before)).Groups {
		text := store.ErrorOf(&store.Attempt{Error: known.Text}).Text
		groups.of(known.JobType, known.TypeName, text).reconcile(&known)
	}
	e.Runs = e.Others
	for i := range e.Groups {
		e.Runs += e.Groups[i].Runs
	}
	e.sort()
	return e
}

// group takes the runs in the order of [store.Store.LastAttempts], where the runs of a job follow each other.
func group(runs []record.TypedAttempt) *Errors {
	e := &Errors{Runs: len(runs), All: true}
	groups := newGroups(e)
	lastJobs := map[sameError]uint64{}
	for i := range runs {
		run := &runs[i]
		text := store.ErrorOf(&run.Attempt).Text // as holders count it
		g := groups.of(run.JobType, run.TypeName, text)
		g.add(run)
		if same := (sameError{run.JobType, store.KindOfError(text)}); lastJobs[same] != run.JobID {
			lastJobs[same] = run.JobID
			g.Jobs++
		}
	}
	e.sort()
	return e
}

// groups finds the group of an error.
type groups struct {
	*Errors
	index map[sameError]int
}

func newGroups(e *Errors) groups { return groups{e, map[sameError]int{}} }

func (s groups) of(jobType int32, typeName, text string) *ErrorGroup {
	same := sameError{jobType, store.KindOfError(text)}
	at, known := s.index[same]
	if !known {
		at = len(s.Groups)
		s.index[same] = at
		s.Groups = append(s.Groups, ErrorGroup{JobType: jobType, TypeName: typeName})
	}
	return &s.Groups[at]
}

func (e *Errors) sort() {
	slices.SortFunc(e.Groups, func(a, b ErrorGroup) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), b.Last.Compare(a.Last), cmp.Compare(a.JobType, b.JobType), cmp.Compare(a.Text, b.Text))
	})
}

// addRuns adds runs that a holder has counted.
func (g *ErrorGroup) addRuns(e *store.ErrorStat) {
	first, last := time.UnixMilli(e.First), time.UnixMilli(e.Last)
	g.Runs, g.Failed = g.Runs+int(e.Runs), g.Failed+int(e.Failed)
	if g.First.IsZero() || first.Before(g.First) {
		g.First = first
	}
	if last.After(g.Last) {
		g.Last, g.Text, g.Job = last, e.Text, e.Job
	}
}

// reconcile takes over what the log knows better: it has fewer runs, or all, or more than the instances of this version have counted.
func (g *ErrorGroup) reconcile(logged *ErrorGroup) {
	if logged.Runs >= g.Runs {
		g.Runs, g.Failed, g.Jobs = logged.Runs, max(g.Failed, logged.Failed), logged.Jobs
	}
	if g.First.IsZero() || logged.First.Before(g.First) {
		g.First = logged.First
	}
	if !logged.Last.Before(g.Last) {
		g.Last, g.Text, g.Job = logged.Last, logged.Text, logged.Job
	}
}

func (g *ErrorGroup) add(run *record.TypedAttempt) {
	at := time.UnixMilli(run.Finished)
	g.Runs++
	if run.Outcome == queue_job.JobStatusFailed.String() {
		g.Failed++
	}
	if g.First.IsZero() || at.Before(g.First) {
		g.First = at
	}
	if at.After(g.Last) || g.Job == 0 {
		g.Last, g.Text, g.Job = at, cmp.Or(run.Error, run.Outcome), run.JobID
	}
}
