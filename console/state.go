package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/queue_job"
)

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

// WithStatus is the query of the page with a status in the place of the states.
func (l pageOfJobs) WithStatus(s queue_job.JobStatus) string {
	terms := slices.DeleteFunc(l.asked.query.Terms(), func(term string) bool { return strings.HasPrefix(term, "state:") })
	return strings.Join(append(terms, "status:"+s.String()), " ")
}

// stateWord is how pages call the state of jobs with a status.
func stateWord(s queue_job.JobStatus) string {
	if s == queue_job.JobStatusSuccess {
		return queue_job.StateCompleted
	}
	return s.String()
}
