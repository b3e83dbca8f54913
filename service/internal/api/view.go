package api

import (
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// status is the state of a task in the words that the API had first. It tells expired tasks from cancelled ones; else state says more.
type status string

const (
	waiting   status = "waiting"
	inFlight  status = "in_flight"
	deferred  status = "deferred" // its destination is busy, paused or broken
	retrying  status = "retrying"
	succeeded status = "succeeded"
	failed    status = "failed"
	cancelled status = "cancelled"
	expired   status = "expired"

	// Two of the states of the library's words are not so in the API's first words: a task that waits is one or the other.
	scheduled status = queue_job.StateScheduled
	queued    status = queue_job.StateQueued
)

// allStatuses is what may be asked for.
const allStatuses = "scheduled, queued, running, retrying, deferred, completed, failed, cancelled, and expired, waiting, in_flight, succeeded"

// inFirstWords returns the word that the API had first for a state.
func inFirstWords(s status) status {
	switch s {
	case queue_job.StateRunning:
		return inFlight
	case queue_job.StateCompleted:
		return succeeded
	}
	return s
}

// jobStatuses says which jobs may have a status.
var jobStatuses = map[status][]queue_job.JobStatus{
	waiting: {queue_job.JobStatusInit}, deferred: {queue_job.JobStatusContinue}, retrying: {queue_job.JobStatusRetry},
	inFlight: queue_job.PendingStatuses(), succeeded: {queue_job.JobStatusSuccess}, failed: {queue_job.JobStatusFailed},
	cancelled: {queue_job.JobStatusCancelled}, expired: {queue_job.JobStatusCancelled},
	scheduled: {queue_job.JobStatusInit}, queued: {queue_job.JobStatusInit},
}

func statusOf(job *queue_job.JobInfo, expires time.Time) status {
	switch {
	case job.InFlight:
		return inFlight
	case job.Status == queue_job.JobStatusCancelled && !expires.IsZero() && !job.Updated.Before(expires):
		return expired
	}
	for _, s := range []status{waiting, deferred, retrying, succeeded, failed, cancelled} {
		if jobStatuses[s][0] == job.Status {
			return s
		}
	}
	return status(job.Status.String())
}

// view is a task as the API shows it.
type view struct {
	ID          string            `json:"id"`
	Topic       string            `json:"topic"`
	Name        string            `json:"name,omitempty"`
	Key         string            `json:"key,omitempty"`
	State       string            `json:"state"`
	Status      status            `json:"status"`
	Due         string            `json:"due"`
	Created     string            `json:"created"`
	Updated     string            `json:"updated"`
	Expires     string            `json:"expires,omitempty"`
	Attempts    int               `json:"attempts"`
	MaxAttempts int               `json:"max_attempts"`
	Deferred    int               `json:"deferrals,omitempty"`
	Priority    string            `json:"priority"`
	Method      string            `json:"method,omitempty"`
	URL         string            `json:"url,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// viewOf shows a job of a topic. Parameters that were left out, or that somebody's INSERT has spoilt, are not shown.
func viewOf(job *queue_job.JobInfo, topic *topics.Topic) view {
	v := view{
		ID: strconv.FormatUint(job.Id, 10), Topic: topic.Name, Name: job.Key, State: job.State(),
		Due: stamp(job.Due), Created: stamp(job.Created), Updated: stamp(job.Updated),
		Attempts: job.Attempts - job.Deferred, Deferred: job.Deferred, Priority: job.Priority.String(),
	}
	if job.Group != job.Key {
		v.Key = job.Group
	}
	content, bad := task.ParseContent(job.JobParams)
	if bad != nil {
		content = &task.Content{}
	}
	v.Status, v.MaxAttempts = statusOf(job, content.Expires), topic.Config.RetryOf(content).Attempts()
	if job.MaxRetries != nil {
		v.MaxAttempts = *job.MaxRetries + 1
	}
	v.Expires = stamp(content.Expires)
	v.Method, v.URL, v.Labels = content.Method, deliver.WithoutValues(content.URL), content.Labels
	return v
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
