package console

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/create-info/persistent-queue/queue_job"
)

// statusesIn are the statuses of the jobs that are in a state. A state in which jobs have ended is a status of its own.
var statusesIn = map[string][]queue_job.JobStatus{
	queue_job.StateScheduled: {queue_job.JobStatusInit},
	queue_job.StateQueued:    {queue_job.JobStatusInit},
	queue_job.StateRunning:   queue_job.PendingStatuses(),
	queue_job.StateRetrying:  {queue_job.JobStatusRetry},
	queue_job.StateDeferred:  {queue_job.JobStatusContinue},
	queue_job.StateCompleted: {queue_job.JobStatusSuccess},
	queue_job.StateFailed:    {queue_job.JobStatusFailed},
	queue_job.StateCancelled: {queue_job.JobStatusCancelled},
}

// stateAsked is the state that a request asks for. Its address may call it status, as all did when lists went by status.
func stateAsked(r *http.Request) (string, error) {
	state, status := r.FormValue("state"), r.FormValue("status")
	if state != "" && status != "" && state != status {
		return "", failed(http.StatusBadRequest, "state=%q and status=%q: leave one of them out.", state, status)
	}
	if word := cmp.Or(state, status); word != queue_job.JobStatusSuccess.String() {
		return word, nil
	}
	return queue_job.StateCompleted, nil
}

// OtherWord is the status, or the older word for a state, that the page was asked for. Empty: it was asked for a state, or for all jobs.
func (l pageOfJobs) OtherWord() string {
	if slices.Contains(l.States, l.State) {
		return ""
	}
	return l.State
}

// choose narrows a filter to the jobs that a word means: a state, or the status of jobs that have not ended, which addresses had first. States
// in which jobs have ended become statuses: an index leads to those, and operations take them.
func choose(f *queue_job.Filter, word string) error {
	for _, s := range queue_job.PendingStatuses() {
		if s.String() == word {
			f.Statuses = []queue_job.JobStatus{s}
			return nil
		}
	}
	states, err := queue_job.ParseStates(word)
	if err != nil {
		return failed(http.StatusBadRequest, "%q is no state.", word)
	}
	if statuses := statusesIn[states[0]]; len(states) == 1 && !statuses[0].Pending() {
		f.Statuses = statuses
		return nil
	}
	f.States = states
	return nil
}

// statusesOf are the statuses that the jobs of a filter may have. None: any.
func statusesOf(f *queue_job.Filter) (list []queue_job.JobStatus) {
	if len(f.States) == 0 {
		return f.Statuses
	}
	for _, state := range f.States {
		for _, s := range statusesIn[state] {
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	return list
}

// isIn reports whether a job is in one of the states, or has one of the statuses, of a filter.
func isIn(f *queue_job.Filter, job *queue_job.JobInfo) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, job.State())) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, job.Status))
}

// stateWord is how pages call the state of jobs with a status.
func stateWord(s queue_job.JobStatus) string {
	if s == queue_job.JobStatusSuccess {
		return queue_job.StateCompleted
	}
	return s.String()
}
