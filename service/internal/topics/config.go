package topics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/object"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
)

// Config says how the tasks of a topic are sent. The zero value is a topic that nobody has configured.
type Config struct {
	Rate           float64       // tasks per second, over all instances; 0: no limit
	Burst          int           // see [queue_job.Config.RateBurst]
	Concurrency    int           // tasks in flight, over all instances; 0: ConcurrencyDefault
	PerDestination int           // of them to one destination; 0: half of them, so that one that hangs leaves room for others
	PerKey         int           // tasks of one key in flight; 0: no limit
	Ordered        bool          // tasks of a key one after the other
	Timeout        time.Duration // 0: TimeoutDefault
	Retry          *task.Retry   // nil: RetryDefault

	PerKeyRate         float64           // tasks of one key that start in a second, over all instances; 0: no limit
	PerKeyBurst        int               // see [queue_job.Config.BurstPerKey]
	PerDestinationRate float64           // calls to one destination that start in a second, in each instance; 0: no limit
	Rules              deliver.Rules     // what an answer means
	Headers            map[string]string // of each callback; a task's own are stronger
}

const (
	// ConcurrencyDefault is small enough that workers wait for a busy destination that answers quickly. With more workers than it can take
	// at a time, tasks would be put off, by a second at least.
	ConcurrencyDefault = 64
	TimeoutDefault     = 15 * time.Second

	configMax      = 60_000 // bytes: on MySQL, the column has 65535
	successMax     = 8 << 10
	permanentMax   = 1000
	concurrencyMax = 10_000
	rateMax        = 1_000_000
	rateMin        = 0.0001
	keyBurstMax    = 100_000
)

// RetryDefault is what the Standard Webhooks advise: ten attempts within 75 hours.
var RetryDefault = &task.Retry{Waits: []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}}

// written is a Config as the API and the table have it.
type written struct {
	Rate           float64         `json:"rate,omitempty"`
	Burst          int             `json:"burst,omitempty"`
	Concurrency    int             `json:"concurrency,omitempty"`
	PerDestination int             `json:"per_destination,omitempty"`
	PerKey         int             `json:"per_key,omitempty"`
	Ordered        bool            `json:"ordered,omitempty"`
	Timeout        json.RawMessage `json:"timeout,omitempty"`
	Retry          json.RawMessage `json:"retry,omitempty"`

	PerKeyRate         float64           `json:"per_key_rate,omitempty"`
	PerKeyBurst        int               `json:"per_key_burst,omitempty"`
	PerDestinationRate float64           `json:"per_destination_rate,omitempty"`
	Success            json.RawMessage   `json:"success,omitempty"`
	Permanent          string            `json:"permanent_statuses,omitempty"`
	Headers            map[string]string `json:"headers,omitempty"`
}

// ParseConfig reads a configuration. All that is wrong is said at once.
func ParseConfig(text []byte) (Config, *problem.Problem) { return parseConfig(text, false) }

// storedConfig reads a configuration from the table. Earlier versions took per_key beside ordered, which the library refuses: there,
// ordered counts. They took headers such as pq_topic, too, which are not sent.
func storedConfig(text string) (Config, *problem.Problem) { return parseConfig([]byte(text), true) }

func parseConfig(text []byte, stored bool) (Config, *problem.Problem) {
	var w written
	wrong := object.Read(text, "", &w)
	if stored {
		if w.Ordered {
			w.PerKey = min(w.PerKey, 1)
		}
		maps.DeleteFunc(w.Headers, func(name, value string) bool { return deliver.CheckHeader(http.Header{name: {value}}) != nil })
	}
	c := Config{Rate: w.Rate, Burst: w.Burst, Concurrency: w.Concurrency, PerDestination: w.PerDestination, PerKey: w.PerKey, Ordered: w.Ordered,
		PerKeyRate: w.PerKeyRate, PerKeyBurst: w.PerKeyBurst, PerDestinationRate: w.PerDestinationRate, Headers: w.Headers}
	var more []problem.Field
	c.Rules, more = parseRules(w.Success, w.Permanent, !stored)
	wrong = append(wrong, more...)
	err := deliver.CheckHeader(task.HeaderOf(w.Headers))
	if err == nil && !stored {
		err = checkHeaders(w.Headers)
	}
	if err != nil {
		wrong = append(wrong, problem.Field{Pointer: "/headers", Detail: err.Error()})
	}
	if given(w.Timeout) {
		var err error
		c.Timeout, err = task.ParseDuration(w.Timeout)
		if err == nil && (c.Timeout < task.TimeoutMin || c.Timeout > task.TimeoutMax) {
			err = fmt.Errorf("it is to be from %v to %v", task.TimeoutMin, task.TimeoutMax)
		}
		if err != nil {
			wrong = append(wrong, problem.Field{Pointer: "/timeout", Detail: err.Error()})
		}
	}
	if given(w.Retry) {
		c.Retry, more = task.ParseRetry(w.Retry, "/retry", !stored)
		wrong = append(wrong, more...)
	}
	wrong = append(wrong, c.limits()...)
	if !stored {
		wrong = append(wrong, c.sizes(&w)...)
		wrong = append(wrong, c.contradictions()...)
	}
	if len(wrong) == 0 {
		if err := c.validate(); err != nil { // limits has forgotten something
			wrong = append(wrong, problem.Field{Detail: err.Error()})
		}
	}
	if len(wrong) > 0 {
		return Config{}, problem.OfFields(wrong)
	}
	return c, nil
}

// checkHeaders refuses what would have no effect. Earlier versions took that.
func checkHeaders(headers map[string]string) error {
	for name := range headers {
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			return errors.New("the type of a body is the task's; give each task its content_type")
		}
	}
	return deliver.CheckNames(headers)
}

// sizes says what is too long for the table. In JSON as it stands there, some bytes are six.
func (c *Config) sizes(w *written) (wrong []problem.Field) {
	if n := len(w.Success); n > successMax {
		wrong = append(wrong, problem.Field{Pointer: "/success", Detail: fmt.Sprintf("it has %d bytes, and the most is %d", n, successMax)})
	}
	if n := len(w.Permanent); n > permanentMax {
		wrong = append(wrong,
			problem.Field{Pointer: "/permanent_statuses",
				Detail: fmt.Sprintf("it has %d bytes, and the most is %d; use ranges, such as 400-499", n, permanentMax)})
	}
	if text, err := json.Marshal(c); len(wrong) == 0 && err == nil && len(text) > configMax {
		wrong = append(wrong,
			problem.Field{Detail: fmt.Sprintf("it has %d bytes as it is stored, and the most is %d; shorten its headers", len(text), configMax)})
	}
	return wrong
}

// validate asks the library whether it runs jobs that way. One topic that it refuses would keep others from being served.
func (c *Config) validate() error {
	job := (&Topic{Type: tables.FirstType, Name: "topic", Config: *c}).Job()
	job.Db, job.HandleJobFunc = noDB{}, func(context.Context, *queue_job.Job) error { return nil }
	return job.Validate()
}

// noDB stands for the database, which is not asked.
type noDB struct{ queue_job.DB }

func given(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

func (c *Config) limits() (wrong []problem.Field) {
	for _, f := range []struct {
		pointer    string
		value, max float64
	}{{"/rate", c.Rate, rateMax}, {"/per_destination_rate", c.PerDestinationRate, rateMax}, {"/burst", float64(c.Burst), rateMax},
		{"/per_key_rate", c.PerKeyRate, rateMax}, {"/per_key_burst", float64(c.PerKeyBurst), keyBurstMax},
		{"/concurrency", float64(c.Concurrency), concurrencyMax},
		{"/per_key", float64(c.PerKey), concurrencyMax}, {"/per_destination", float64(c.PerDestination), concurrencyMax}} {
		if f.value < 0 || f.value > f.max {
			wrong = append(wrong, problem.Field{Pointer: f.pointer, Detail: fmt.Sprintf("it is to be from 0, which means the default, to %.0f", f.max)})
		}
	}
	const tooLow = "it is to be 0.0001 at least; pause the topic to stop it"
	if c.Rate > 0 && c.Rate < rateMin {
		wrong = append(wrong, problem.Field{Pointer: "/rate", Detail: tooLow})
	}
	if c.PerKeyRate > 0 && c.PerKeyRate < rateMin {
		wrong = append(wrong, problem.Field{Pointer: "/per_key_rate", Detail: tooLow})
	}
	if c.PerKeyBurst > 0 && c.PerKeyRate == 0 {
		wrong = append(wrong, problem.Field{Pointer: "/per_key_burst", Detail: "it means nothing without per_key_rate; set per_key_rate, too"})
	}
	if c.Burst > 0 && c.Rate == 0 {
		wrong = append(wrong, problem.Field{Pointer: "/burst", Detail: "it means nothing without rate; set rate, too"})
	}
	if c.Ordered && c.PerKey > 1 {
		wrong = append(wrong,
			problem.Field{Pointer: "/per_key", Detail: "with ordered, one task of a key is in flight at a time; leave per_key out, or ordered"})
	}
	return wrong
}

// contradictions are fields that would have no effect beside others. Earlier versions took them.
func (c *Config) contradictions() (wrong []problem.Field) {
	say := func(pointer, format string, args ...any) {
		wrong = append(wrong, problem.Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
	concurrency := fmt.Sprintf("concurrency, which is %d", c.AtATime())
	if c.Concurrency == 0 {
		concurrency += " by default"
	}
	if c.PerDestination > c.AtATime() {
		say("/per_destination", "it is more than %s, so it would limit nothing; raise that, or leave per_destination out", concurrency)
	}
	if c.PerKey > c.AtATime() {
		say("/per_key", "it is more than %s, so it would limit nothing; raise that, or leave per_key out", concurrency)
	}
	if field, why := c.Rules.Contradiction(); field != "" {
		say(map[string]string{"Success": "/success/status", "BodyJSON": "/success/json", "Permanent": "/permanent_statuses"}[field], "%s", why)
	}
	return wrong
}

// MarshalJSON writes what was configured, without defaults.
func (c *Config) MarshalJSON() ([]byte, error) {
	w := written{Rate: c.Rate, Burst: c.Burst, Concurrency: c.Concurrency, PerDestination: c.PerDestination, PerKey: c.PerKey, Ordered: c.Ordered,
		PerKeyRate: c.PerKeyRate, PerKeyBurst: c.PerKeyBurst, PerDestinationRate: c.PerDestinationRate,
		Permanent: statusesText(c.Rules.Permanent), Headers: c.Headers}
	var err error
	if w.Success, err = writtenSuccess(&c.Rules); err != nil {
		return nil, err
	}
	if c.Timeout != 0 {
		w.Timeout, _ = json.Marshal(c.Timeout.String()) // a text
	}
	if c.Retry != nil {
		if w.Retry, err = json.Marshal(c.Retry); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}

// RetryOf is the retry of a task in the topic.
func (c *Config) RetryOf(t *task.Content) *task.Retry {
	switch {
	case t.Retry != nil:
		return t.Retry
	case c.Retry != nil:
		return c.Retry
	}
	return RetryDefault
}

// TimeoutOf is the timeout of a task in the topic.
func (c *Config) TimeoutOf(t *task.Content) time.Duration {
	switch {
	case t.Timeout != 0:
		return t.Timeout
	case c.Timeout != 0:
		return c.Timeout
	}
	return TimeoutDefault
}

// AtATime is how many of the topic's tasks are in flight at a time.
func (c *Config) AtATime() int { return cmp.Or(c.Concurrency, ConcurrencyDefault) }

// Limits are those of each destination of the topic.
func (c *Config) Limits() deliver.Limits {
	return deliver.Limits{InFlight: cmp.Or(c.PerDestination, (c.AtATime()+1)/2), PerSecond: c.PerDestinationRate}
}

// Job is how the library runs the topic's jobs, but for the handler and the database.
func (t *Topic) Job() queue_job.Config {
	c := &t.Config
	return queue_job.Config{
		ServiceName: t.Name, JobType: t.Type, WorkerPoolCapacity: c.AtATime(),
		RatePerSecond: c.Rate, RateBurst: c.Burst, MaxPerKey: c.PerKey, OrderedByKey: c.Ordered, RatePerKey: c.PerKeyRate, BurstPerKey: c.PerKeyBurst,
		NeedRetry: true, MaxRetries: max(1, c.RetryOf(&task.Content{}).Attempts()-1), // the handler knows of topics without a second attempt
		DormantAfter: dormantAfter,
		LostLimit:    -1, // a callback cannot harm this process, so a process that dies says nothing against its tasks
	}
}
