package queue_job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

// The states of a job, as [JobInfo.State] tells them and [Filter.States] takes them: the same eight words in the API, in the console, on the
// command line and over HTTP. Each job is in one of them.
const (
	// StateScheduled: the job is new, or [Jobs.Retry] has made it so, and is not due yet.
	StateScheduled = "scheduled"
	// StateQueued: such a job is due and waits for its turn: for a worker, for a limit, for its key, for the end of a pause, or for an instance
	// that runs its type. operate.Explain says for what.
	StateQueued = "queued"
	// StateRunning: a handler has the job, or is about to get it. If its process dies, that stays so until another instance has taken over.
	StateRunning = "running"
	// StateRetrying: the last run failed, and another one follows: after a wait, or as soon as it gets its turn.
	StateRetrying = "retrying"
	// StateDeferred: the last run ended with [Snooze], [Defer] or [JobStatusContinue], so the job was put off, by its handler or because of a limit
	// that the handler has found. It runs again after a wait.
	StateDeferred = "deferred"
	// StateCompleted is final: the job succeeded.
	StateCompleted = "completed"
	// StateFailed is final: see [JobStatusFailed].
	StateFailed = "failed"
	// StateCancelled is final. A handler that had the job may take a second to hear of it.
	StateCancelled = "cancelled"
)

// States returns the eight states, in the order of a job's life.
func States() []string {
	return []string{StateScheduled, StateQueued, StateRunning, StateRetrying, StateDeferred, StateCompleted, StateFailed, StateCancelled}
}

// State says in one word how the job stands, see [StateScheduled] and its neighbours. Use it where people read: Status alone is "init" while a
// job waits and while it runs. For a status that this version does not know, it says so, with the number.
//
// It follows from three columns and the database's clock:
//
//	job_status   term ≠ 0    term = 0
//	0 or NULL    running     scheduled if start_time lies ahead, else queued
//	4            running     retrying
//	3            running     deferred
//	1, 2, 5      completed, failed, cancelled
//
// What no row tells: whether a marked job has begun or is about to; whether its process lives; and for what a queued job waits. Jobs that were
// moved by hand ([Jobs.Reschedule]) keep their status, so a job that was retrying goes on retrying. A job that [Jobs.Retry] makes run again is new. A
// job whose end in time has come ([Expires]) stays what it is until its turn comes and it is cancelled; [JobInfo.Expires] tells.
func (i *JobInfo) State() string {
	switch {
	case i.Pending() && i.InFlight:
		return StateRunning
	case i.Status == JobStatusInit && i.Due.After(i.readAt()):
		return StateScheduled
	}
	switch i.Status {
	case JobStatusInit:
		return StateQueued
	case JobStatusSuccess:
		return StateCompleted
	case JobStatusFailed:
		return StateFailed
	case JobStatusContinue:
		return StateDeferred
	case JobStatusRetry:
		return StateRetrying
	case JobStatusCancelled:
		return StateCancelled
	}
	return i.Status.String()
}

// readAt is AsOf; of a JobInfo that was not read from the table, now.
func (i *JobInfo) readAt() time.Time {
	if i.AsOf.IsZero() {
		return time.Now()
	}
	return i.AsOf
}

// kinds are the rows that are in a state.
var kinds = map[string]record.Kind{
	StateScheduled: {Statuses: []int32{int32(JobStatusInit)}, Mark: record.Unmarked, Due: record.DueLater},
	StateQueued:    {Statuses: []int32{int32(JobStatusInit)}, Mark: record.Unmarked, Due: record.DueNow},
	StateRunning:   {Statuses: numbersOf(PendingStatuses()), Mark: record.Marked},
	StateRetrying:  {Statuses: []int32{int32(JobStatusRetry)}, Mark: record.Unmarked},
	StateDeferred:  {Statuses: []int32{int32(JobStatusContinue)}, Mark: record.Unmarked},
	StateCompleted: {Statuses: []int32{int32(JobStatusSuccess)}},
	StateFailed:    {Statuses: []int32{int32(JobStatusFailed)}},
	StateCancelled: {Statuses: []int32{int32(JobStatusCancelled)}},
}

// earlier are the words by which states were called, and what they mean now.
var earlier = map[string][]string{
	"waiting": {StateScheduled, StateQueued}, "in flight": {StateRunning}, "in_flight": {StateRunning},
	"put off": {StateDeferred}, "succeeded": {StateCompleted},
}

// ParseStates returns the states of [Filter.States] that words mean. A word is a state, or one of the older words for it: "waiting" (scheduled and
// queued), "in flight" or "in_flight" (running), "put off" (deferred), "succeeded" (completed). The error names the eight.
func ParseStates(words ...string) (states []string, err error) {
	for _, word := range words {
		some := earlier[word]
		if _, known := kinds[word]; known {
			some = []string{word}
		}
		if some == nil {
			return nil, fmt.Errorf("no state %q; there are %s", word, strings.Join(States(), ", "))
		}
		for _, state := range some {
			if !slices.Contains(states, state) {
				states = append(states, state)
			}
		}
	}
	return states, nil
}

// kindsOf are the rows that are in one of the states.
func kindsOf(words []string) (list []record.Kind, err error) {
	states, err := ParseStates(words...)
	for _, state := range states {
		list = append(list, kinds[state])
	}
	return list, err
}

// statusNames are the words for the statuses, by number.
var statusNames = [...]string{"init", "success", "failed", "continue", "retry", "cancelled"}

// MarshalText writes the status as [JobStatus.String] does: so it stands in JSON, and in the keys of a JSON object. A status that this version does
// not know is its number.
func (s JobStatus) MarshalText() ([]byte, error) {
	if s < 0 || int(s) >= len(statusNames) {
		return strconv.AppendInt(nil, int64(s), 10), nil
	}
	return []byte(statusNames[s]), nil
}

// UnmarshalText reads what MarshalText writes, and any status by its number, as it stands in the column.
func (s *JobStatus) UnmarshalText(text []byte) error {
	if i := slices.Index(statusNames[:], string(text)); i >= 0 {
		*s = JobStatus(i)
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return fmt.Errorf("%q is no status of a job; there are %s", text, strings.Join(statusNames[:], ", "))
	}
	*s = JobStatus(n)
	return nil
}

// UnmarshalJSON reads a text or a number: archives and other JSON that was written before this type was marshalled as text have the number.
func (s *JobStatus) UnmarshalJSON(text []byte) error {
	switch {
	case string(text) == "null":
		return nil
	case len(text) > 0 && text[0] == '"':
		var word string
		if err := json.Unmarshal(text, &word); err != nil {
			return err
		}
		return s.UnmarshalText([]byte(word))
	}
	return s.UnmarshalText(text)
}
