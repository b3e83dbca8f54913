package queuetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/queue_job"
)

// RequireAdded fails the test unless a job of the type was added that fits all matchers, and returns the first such job.
// Whether it has run since does not matter.
func (q *Queue) RequireAdded(jobType int32, matchers ...Matcher) queue_job.JobInfo {
	q.t.Helper()
	return q.In(q.DB).RequireAdded(jobType, matchers...)
}

// RequireAdded is [Queue.RequireAdded] for a defined type, with a condition on its parameters, which it returns. A nil condition
// means any.
func RequireAdded[P any](q *Queue, d queue_job.Definition[P], condition func(P) bool, matchers ...Matcher) P {
	q.t.Helper()
	if condition != nil {
		matchers = append(slices.Clone(matchers), ParamsThat(condition))
	}
	job := q.RequireAdded(d.JobType, matchers...)
	params, err := d.Decode(&job)
	q.must(err)
	return params
}

// RequireNotAdded fails the test if a job of the type was added that fits all matchers.
func (q *Queue) RequireNotAdded(jobType int32, matchers ...Matcher) {
	q.t.Helper()
	q.In(q.DB).RequireNotAdded(jobType, matchers...)
}

// Added returns the jobs of the type that were added and fit all matchers, in the order of their ids.
func (q *Queue) Added(jobType int32, matchers ...Matcher) []queue_job.JobInfo {
	q.t.Helper()
	return q.In(q.DB).Added(jobType, matchers...)
}

// In looks through a transaction that is still open. Use it if the code under test leaves the commit to its caller.
func (q *Queue) In(tx queue_job.Executor) Within { return Within{q, tx} }

// Within is a [Queue] as a transaction sees it; [Queue.In] makes one.
type Within struct {
	q  *Queue
	ex queue_job.Executor
}

// RequireAdded is [Queue.RequireAdded] inside the transaction.
func (w Within) RequireAdded(jobType int32, matchers ...Matcher) queue_job.JobInfo {
	w.q.t.Helper()
	matching, others := w.look(jobType, matchers)
	if len(matching) == 0 {
		w.q.t.Fatalf("queuetest: no job of type %d was added that matches%s", jobType, listOf(others))
		return queue_job.JobInfo{}
	}
	return matching[0]
}

// RequireNotAdded is [Queue.RequireNotAdded] inside the transaction.
func (w Within) RequireNotAdded(jobType int32, matchers ...Matcher) {
	w.q.t.Helper()
	if matching, _ := w.look(jobType, matchers); len(matching) > 0 {
		w.q.t.Fatalf("queuetest: %d jobs of type %d were added that match, the first is %s", len(matching), jobType, told(&matching[0]))
	}
}

// Added is [Queue.Added] inside the transaction.
func (w Within) Added(jobType int32, matchers ...Matcher) []queue_job.JobInfo {
	w.q.t.Helper()
	matching, _ := w.look(jobType, matchers)
	return matching
}

// look divides the added jobs into jobs that match and others, which come with the reasons why they do not.
func (w Within) look(jobType int32, matchers []Matcher) (matching []queue_job.JobInfo, others []string) {
	w.q.t.Helper()
	filter := queue_job.Filter{JobTypes: []int32{jobType}, After: w.q.before, Limit: 1000}
	for {
		jobs, err := w.q.Jobs.List(w.q.ctx, w.ex, filter)
		w.q.must(err)
		for i := range jobs {
			job := &jobs[i]
			var misses []string
			for _, match := range matchers {
				if miss := match(w.q, job); miss != "" {
					misses = append(misses, miss)
				}
			}
			if len(misses) == 0 {
				matching = append(matching, *job)
			} else {
				others = append(others, fmt.Sprintf("%s: %s", told(job), strings.Join(misses, "; ")))
			}
			filter.After = job.Id
		}
		if len(jobs) < filter.Limit {
			return matching, others
		}
	}
}

// listOf lists the first jobs that are there instead.
func listOf(others []string) string {
	const most = 10
	if len(others) == 0 {
		return "; there is none of the type"
	}
	list := ":\n\t" + strings.Join(others[:min(len(others), most)], "\n\t")
	if len(others) > most {
		list += fmt.Sprintf("\n\tand %d more", len(others)-most)
	}
	return list
}
