package queuetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Matcher says why a job does not match; empty: the job matches. [Queue.RequireAdded] takes matchers.
type Matcher func(q *Queue, job *queue_job.JobInfo) (mismatch string)

// Params matches a job whose parameters are the same JSON as the value's, whatever the spaces and the order of fields.
func Params(value any) Matcher {
	text, err := json.Marshal(value)
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if err != nil {
			return fmt.Sprintf("the parameters to look for have no JSON: %v", err)
		}
		if want, got := decoded(string(text)), decoded(job.JobParams); !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("its parameters are not %s", text)
		}
		return ""
	}
}

// decoded returns the value of a JSON text, without its spaces and the order of its fields; if the text is no JSON, it
// returns the text.
func decoded(text string) (value any) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // ids may have more digits than a float
	if err := decoder.Decode(&value); err != nil {
		return text
	}
	return value
}

// ParamsThat matches a job whose parameters decode into a P for which the condition is true.
func ParamsThat[P any](condition func(P) bool) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		var params P
		if err := job.Decode(&params); err != nil {
			return fmt.Sprintf("its parameters are no %T: %v", params, err)
		}
		if !condition(params) {
			return "the condition does not hold for its parameters"
		}
		return ""
	}
}

// Key matches a job with this business key.
func Key(key string) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if job.Key != key {
			return fmt.Sprintf("its key is not %q", key)
		}
		return ""
	}
}

// Group matches a job that goes by this group; a job without a group goes by its key.
func Group(group string) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if job.Group != group {
			return fmt.Sprintf("its group is not %q", group)
		}
		return ""
	}
}

// Meta matches a job whose metadata has this text under the key.
func Meta(key, value string) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if got, there := job.Meta[key]; !there || got != value {
			return fmt.Sprintf("its metadata has no %s=%q", key, value)
		}
		return ""
	}
}

// Priority matches a job with this priority.
func Priority(priority queue_job.Priority) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if job.Priority != priority {
			return fmt.Sprintf("its priority is %v, not %v", job.Priority, priority)
		}
		return ""
	}
}

// Status matches a job with this status.
func Status(status queue_job.JobStatus) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if job.Status != status {
			return fmt.Sprintf("it is not %v", status)
		}
		return ""
	}
}

// DueAt matches a job that is due at this time, to the second.
func DueAt(at time.Time) Matcher {
	return func(_ *Queue, job *queue_job.JobInfo) string {
		if off := job.Due.Sub(at); off <= -time.Second || off >= time.Second {
			return fmt.Sprintf("it is due %v off %v", off, at)
		}
		return ""
	}
}

// DueIn matches a job that is due when this time has passed from now, by the test's clock. The clock goes on while the
// test runs, and jobs are due at whole seconds, so five seconds more or less do not matter.
func DueIn(d time.Duration) Matcher {
	const tolerance = 5 * time.Second
	return func(q *Queue, job *queue_job.JobInfo) string {
		if in := job.Due.Sub(q.Now()); in < d-tolerance || in > d+tolerance {
			return fmt.Sprintf("it is due in %v, not %v", in.Round(time.Second), d)
		}
		return ""
	}
}
