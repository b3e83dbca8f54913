package operate

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Errors are what runs ended with lately.
type Errors struct {
	// Groups are the errors by job type. Errors that differ only in numbers and ids are in one group. The latest comes first.
	Groups []ErrorGroup
	// Runs is the number of runs that did not succeed and were looked at, from the newest job down.
	Runs int
	// SinceJob is the id of the oldest of these jobs. If All is false, older jobs may have errors, too.
	SinceJob uint64
	All      bool
}

// ErrorGroup is an error, however often it came.
type ErrorGroup struct {
	JobType int32
	// TypeName is what the type is called, see [queue_job.Config.ServiceName].
	TypeName string
	// Text is the error of the last run, with its numbers and ids.
	Text string
	// Runs is the number of runs that ended with it, Jobs the number of their jobs, and Failed how many of the runs were the last of
	// their job, which has failed for good.
	Runs, Jobs, Failed int
	// First and Last are when the first and the last of these runs ended.
	First, Last time.Time
	// Job had the last of them.
	Job uint64
}

// LatestErrors looks at the last runs that did not succeed, as many as most, and groups them by type and error. It takes one statement,
// which reads the log table from its end, and the rows of those jobs by their ids.
func LatestErrors(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, most int) (*Errors, error) {
	st, err := hidden.StoreOf(jobs, ex)
	var runs []store.TypedAttempt
	if err == nil {
		runs, err = st.LastAttempts(ctx, most)
	}
	if err != nil {
		return nil, fmt.Errorf("latest errors: %w", err)
	}
	return group(runs, len(runs) < most), nil
}

// group takes the runs in the order of [store.Store.LastAttempts].
func group(runs []store.TypedAttempt, all bool) *Errors {
	type sameError struct {
		jobType int32
		text    string
	}
	e := &Errors{Runs: len(runs), All: all}
	index := map[sameError]int{}
	var lastJobs []uint64 // of each group; the runs of a job follow each other
	for i := range runs {
		run := &runs[i]
		same := sameError{run.JobType, withoutNumbers(run.Error)}
		at, known := index[same]
		if !known {
			at = len(e.Groups)
			index[same] = at
			e.Groups = append(e.Groups, ErrorGroup{JobType: run.JobType, TypeName: run.TypeName})
			lastJobs = append(lastJobs, 0)
		}
		g := &e.Groups[at]
		g.add(run)
		if lastJobs[at] != run.JobID {
			lastJobs[at] = run.JobID
			g.Jobs++
		}
		e.SinceJob = run.JobID
	}
	slices.SortStableFunc(e.Groups, func(a, b ErrorGroup) int { return b.Last.Compare(a.Last) })
	return e
}

func (g *ErrorGroup) add(run *store.TypedAttempt) {
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

// numbers are what tells two errors of the same kind apart: UUIDs and other hexadecimal words that have a digit, and numbers.
var numbers = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]*[0-9][0-9a-f]{7,}\b|\b[0-9a-f]{7,}[0-9][0-9a-f]*\b|[0-9]+`)

// withoutNumbers is what errors of the same kind have in common.
func withoutNumbers(text string) string { return numbers.ReplaceAllString(text, "#") }
