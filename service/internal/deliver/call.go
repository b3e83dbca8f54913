package deliver

import (
	"net/http"
	"time"
)

// Call is one callback, for one run of a job.
type Call struct {
	// Topic is what the call has in common with the others of its topic.
	Topic *Topic
	// Method defaults to POST.
	Method string
	// URL is where the callback goes, see [Guard.Check].
	URL string
	// Header holds headers of the caller's, see [CheckHeader]. They win over those of the topic. Secrets are filled in already.
	Header http.Header
	// Body goes out as it is.
	Body []byte
	// ContentType of the body. Default: application/json, if there is a body.
	ContentType string
	// Timeout is how long the receiver may take from the request to the header of its answer: between [TimeoutMin] and [TimeoutMax],
	// [TimeoutDefault] if 0. Looking up the host, connecting and reading the body have times of their own.
	Timeout time.Duration

	// ID is the webhook-id: the same over all attempts and replays of a task, and of no other task. It has no dots. Required.
	ID string
	// Task tells the receiver of the task; what is zero is not sent.
	Task Task
}

// Task is what the receiver is told of the task, in headers that begin with pq-.
type Task struct {
	Name         string    // pq-task-name: the caller's own id
	Attempt      int       // pq-attempt: 1 for the first
	MaxAttempts  int       // pq-max-attempts
	Due          time.Time // pq-due: when this run fell due
	FirstAttempt time.Time // pq-first-attempt
	Expires      time.Time // pq-expires
	Replay       bool      // pq-replay: somebody asked for it after the task had come to its end
	Term         int64     // pq-term: grows with each change of holder, so a receiver can refuse a holder that was replaced
	Traceparent  string    // traceparent, as the task was added with it
}

const (
	TimeoutDefault = 15 * time.Second
	TimeoutMin     = time.Second
	TimeoutMax     = 10 * time.Minute
)

// Topic is what the calls of a topic have in common. It is read only; a change of the configuration makes a new one with the same
// Name, which takes effect with the first call that has it.
type Topic struct {
	// Name goes out as pq-topic. With the origin of the URL it names the lane of a call. Topics of different tenants need different
	// names here.
	Name string
	// Header is sent with each call of the topic, see [CheckHeader].
	Header http.Header
	// Limits are those of each destination of the topic.
	Limits Limits
	// Rules say what an answer means.
	Rules Rules
	// Signer signs the calls; nil: they go out without a signature.
	Signer *Signer
	// Identity is by which way, and as whom, the calls go out.
	Identity Identity
}

// Limits bound the calls of a topic to one destination.
type Limits struct {
	// InFlight is how many calls run at a time at most, 64 if 0. How many do follows from how the destination copes.
	InFlight int
	// PerSecond is how many calls start in a second; 0: no limit.
	PerSecond float64
	// Burst is how many calls may start at once after a quiet time, 1 if 0. It counts only with PerSecond.
	Burst int
}
