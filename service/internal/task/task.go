// Package task says what a task is: how it comes in as JSON, what of it stands in the parameters of its job, and what is wrong with it.
package task

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	// BodyMax is how many bytes the body of a task may have.
	BodyMax = 256 << 10
	// URLMax is how many bytes the address of a task may have.
	URLMax = 2048
	// NameMax is how many characters a name or a key may have, as a key of the library's jobs.
	NameMax = 128
	// AttemptsMax is how many attempts a task may ask for.
	AttemptsMax = 1000
	// TimeoutMin and TimeoutMax limit how long a receiver may take for its answer.
	TimeoutMin, TimeoutMax = time.Second, 10 * time.Minute

	// DelayMax is how long from now a task may be due by its delay, as the library has it.
	DelayMax = 10 * 365 * 24 * time.Hour
	// LatestUnix is the last second in which a task may be due: there, the column ends.
	LatestUnix = 1<<32 - 1
	// LabelBytesMax is how many bytes the labels of a task may have, all together: whoever is told of its failure gets them, too.
	LabelBytesMax = 4 << 10

	// FailurePrefix begins the names of the tasks that tell of failures. Nobody else's may: a task with such a name would silence one.
	FailurePrefix = "failure-of-"

	labelsMax = 20
	waitsMax  = 100
	waitMax   = 30 * 24 * time.Hour
)

// Conflict says what becomes of a task if another one has its name.
type Conflict string

const (
	Keep    Conflict = "keep"    // the other one stays, and the answer has its id
	Replace Conflict = "replace" // if the other one waits, it becomes this one
	Error   Conflict = "error"   // the request fails
)

// Task is a callback that is to be made, and when.
type Task struct {
	Content

	Topic      string // only the tasks of a batch name it
	Name       string
	Key        string // tasks of a key keep their order if their topic has ordered
	At         time.Time
	Delay      time.Duration
	Priority   queue_job.Priority
	OnConflict Conflict
}

// Content is what the parameters of a task's job hold. A plain INSERT by somebody else may write it in any form that the API takes.
type Content struct {
	URL         string
	Method      string
	Headers     map[string]string
	Body        []byte
	ContentType string
	Timeout     time.Duration // 0: the topic's
	Retry       *Retry        // nil: the topic's
	Expires     time.Time     // zero: never
	Labels      map[string]string
	OnFailure   string // address that is told if the task fails for good; empty: nobody is
}

// Retry says how often, and when, a task is sent again after an attempt that failed.
type Retry struct {
	// Waits are the waits before the second attempt, the third, and so on. The last one is used for all that follow.
	Waits []time.Duration
	// MaxAttempts counts the first attempt, too. 0: one more than there are waits.
	MaxAttempts int
}

// Attempts is how many attempts there are at most.
func (r *Retry) Attempts() int {
	if r.MaxAttempts > 0 {
		return r.MaxAttempts
	}
	return len(r.Waits) + 1
}

// Wait is how long the next attempt waits after this many failed ones, of which there is one at least.
func (r *Retry) Wait(failed int) time.Duration {
	if len(r.Waits) == 0 {
		return 0
	}
	return r.Waits[min(max(failed, 1), len(r.Waits))-1]
}

// Header are the headers that the callback gets.
func (c *Content) Header() http.Header { return HeaderOf(c.Headers) }

// HeaderOf are headers that were given as an object of texts. If two have one name, the one that counts is always the same.
func HeaderOf(texts map[string]string) http.Header {
	header := make(http.Header, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		header.Set(name, texts[name])
	}
	return header
}

// Job is the job of a task in a topic.
func (t *Task) Job(jobType int32) (queue_job.AddModelJob, error) {
	params, err := t.Content.MarshalJSON()
	if err != nil {
		return queue_job.AddModelJob{}, err
	}
	job := queue_job.AddModelJob{JobType: jobType, JobParams: queue_job.JSON(params), Group: t.Key, Priority: t.Priority}
	switch {
	case !t.At.IsZero():
		job = job.With(queue_job.At(t.At))
	case t.Delay > 0:
		job.Delay = t.Delay
	}
	if t.Name != "" {
		job.Key, job.Unique, job.ReplaceWaiting = t.Name, queue_job.UniqueForever, t.OnConflict == Replace
	}
	if t.Retry != nil {
		job = job.With(queue_job.WithMaxRetries(t.Retry.Attempts() - 1))
	}
	return job, nil
}

// IsRefused reports whether the library has refused a job for what it is, so that no second try helps.
func IsRefused(err error) bool {
	return errors.Is(err, queue_job.ErrParamsTooLong) || errors.Is(err, queue_job.ErrBadKey) || errors.Is(err, queue_job.ErrTextTooLong)
}

// stored is the form in which the service itself writes a content.
type stored struct {
	URL         string            `json:"url"`
	Method      string            `json:"method,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Text        string            `json:"body_text,omitempty"`
	Base64      string            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Timeout     string            `json:"timeout,omitempty"`
	Retry       *Retry            `json:"retry,omitempty"`
	Expires     string            `json:"expires,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	OnFailure   *onFailure        `json:"on_failure,omitempty"`
}

type onFailure struct {
	URL string `json:"url"`
}

// MarshalJSON writes the content so that the body goes out byte by byte as it came in: JSON is kept as a text.
func (c *Content) MarshalJSON() ([]byte, error) {
	s := stored{URL: c.URL, Headers: c.Headers, ContentType: c.ContentType, Retry: c.Retry, Labels: c.Labels}
	if c.Method != "POST" {
		s.Method = c.Method
	}
	if c.OnFailure != "" {
		s.OnFailure = &onFailure{c.OnFailure}
	}
	if c.Timeout != 0 {
		s.Timeout = c.Timeout.String()
	}
	if !c.Expires.IsZero() {
		s.Expires = c.Expires.UTC().Format(time.RFC3339Nano)
	}
	if text, ok := asText(c.Body); ok {
		s.Text = text
	} else {
		s.Base64 = base64.StdEncoding.EncodeToString(c.Body)
	}
	return PlainJSON(s)
}

// MarshalJSON writes the waits as texts.
func (r *Retry) MarshalJSON() ([]byte, error) {
	var waits []string
	for _, w := range r.Waits {
		waits = append(waits, w.String())
	}
	return json.Marshal(struct {
		Waits       []string `json:"waits,omitempty"`
		MaxAttempts int      `json:"max_attempts,omitempty"`
	}{waits, r.MaxAttempts})
}

// PlainJSON is a value as JSON that leaves & < > as they are: in a URL, each would become six characters.
func PlainJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	err := to.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
