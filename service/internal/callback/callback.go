// Package callback is the handler of a topic's jobs: it has each task sent, and says what becomes of it.
package callback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// Sender sends a callback. *deliver.Deliverer is one.
type Sender interface {
	Deliver(ctx context.Context, call *deliver.Call) deliver.Result
}

// Clock asks the database's clock.
type Clock func(ctx context.Context) (time.Time, error)

// Add adds a job, unless one with its key is there.
type Add func(ctx context.Context, job queue_job.AddModelJob) error

// Handler sends the tasks of a topic. Signer signs them; nil: they go out without a signature. What tells of a failed task is added to the
// topic before the task has failed, so it is not lost.
//
// If something here panics, the log has all of it, and the attempt's error is a sentence: who may read a task need not see our files.
func Handler(topic *topics.Topic, sender Sender, signer *deliver.Signer, add Add, clock Clock, log *slog.Logger) queue_job.Handler {
	to := &deliver.Topic{Name: topic.Name, Header: task.HeaderOf(topic.Config.Headers),
		Limits: topic.Config.Limits(), Rules: topic.Config.Rules, Signer: signer}
	return func(ctx context.Context, job *queue_job.Job) (outcome error) {
		retry := topic.Config.RetryOf(&task.Content{})
		defer func() {
			if p := recover(); p != nil {
				log.Error("callbacks: a task's handler panicked", "topic", topic.Name, "task", job.Id, "panic", p, "stack", string(debug.Stack()))
				outcome = outcomeOf(&panicked, job.Retries+1, retry, never, rand.IntN(jitterSteps))
			}
		}()
		if stored, encoded := queue_job.EncodingOf(job.JobParams); encoded { // another process may have the key
			log.Error("callbacks: a task is encrypted, and this process has no keys", "topic", topic.Name, "task", job.Id, "key", stored.Key)
			return queue_job.Defer(keyAgain)
		}
		content, bad := task.ParseContent(job.JobParams)
		if bad != nil {
			return queue_job.Fail(fmt.Errorf("invalid: %w", bad))
		}
		if isOver(content, time.Now()) {
			return expired(ctx, content, clock)
		}
		retry = topic.Config.RetryOf(content)
		result := sender.Deliver(ctx, callOf(job, content, to, topic.Config.TimeoutOf(content), retry))
		outcome = outcomeOf(&result, job.Retries+1, retry, untilOver(content, time.Now()), rand.IntN(jitterSteps))
		if content.OnFailure != "" && isFinal(outcome) {
			notice, err := noticeOf(topic, job, content, outcome)
			if err == nil {
				err = add(ctx, notice)
			}
			switch {
			case err == nil:
			case task.IsRefused(err):
				return queue_job.Fail(fmt.Errorf("%w; nobody is told of it: %w", outcome, err))
			default:
				return queue_job.Defer(tellAgain) // the receiver may be called once more; the failure is told
			}
		}
		return outcome
	}
}

// panicked is what a task is told of a panic.
var panicked = deliver.Result{Outcome: deliver.Retry,
	Code: deliver.CodeInternal, Detail: "the service made a mistake, which its log describes; report it"}

const (
	keyAgain  = 30 * time.Second // if a task is encrypted, and the process was started without keys
	tellAgain = 5 * time.Second  // if the database does not take what tells of a failure
	askAgain  = 5 * time.Second  // if the clocks do not agree
)

func isFinal(err error) bool {
	var outcome *queue_job.Outcome
	return errors.As(err, &outcome) && outcome.Status == queue_job.JobStatusFailed
}

// failure is what a receiver is told of a task that has failed.
type failure struct {
	ID       string            `json:"id"`
	Topic    string            `json:"topic"`
	Name     string            `json:"name,omitempty"`
	Status   string            `json:"status"`
	Error    string            `json:"error"`
	Attempts int               `json:"attempts"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// noticeOf is the task that tells of a failure. Its name comes from the failed task, and from the run that was its first since it was
// added or retried: so there is one for each failure, also if this run was lost and is repeated.
func noticeOf(topic *topics.Topic, job *queue_job.Job, content *task.Content, why error) (queue_job.AddModelJob, error) {
	body, err := task.PlainJSON(failure{strconv.FormatUint(job.Id, 10), topic.Name, job.Key, "failed", why.Error(), job.Attempt, content.Labels})
	if err != nil {
		return queue_job.AddModelJob{}, err
	}
	told := &task.Task{Name: fmt.Sprintf("%s%s-%d", task.FailurePrefix, job.IdempotencyKey(), job.Attempt-job.Retries-job.Lost),
		OnConflict: task.Keep, Priority: queue_job.PriorityHigh,
		Content: task.Content{URL: content.OnFailure, Method: http.MethodPost, Body: body, ContentType: "application/json"}}
	notice, err := told.Job(topic.Type)
	params, _ := notice.JobParams.(queue_job.JSON)
	// a plain INSERT may write labels of any length
	if err == nil && content.Labels != nil && (len(body) > task.BodyMax || len(params) > queue_job.ParamsMax) {
		bare := *content
		bare.Labels = nil
		return noticeOf(topic, job, &bare, why)
	}
	return notice, err
}

var errExpired = errors.New("expired: its time was over before it was sent with success")

// expired ends a task whose time is over, if the database's clock says so, too: what has ended is not sent any more, and a clock may be ahead
// for a moment. Until the clocks agree, the task waits.
func expired(ctx context.Context, c *task.Content, clock Clock) error {
	now, err := clock(ctx)
	if err != nil || !isOver(c, now) {
		return &queue_job.Outcome{Status: queue_job.JobStatusContinue,
			Wait: askAgain, Deferred: true, Because: "the task has expired by the clock of its instance, and not by the database's"}
	}
	return queue_job.Cancel(errExpired)
}

func isOver(c *task.Content, now time.Time) bool {
	return !c.Expires.IsZero() && !now.Before(c.Expires)
}

// untilOver is how long the task may wait at most: then it runs once more, to end as expired.
func untilOver(c *task.Content, now time.Time) time.Duration {
	if c.Expires.IsZero() {
		return never
	}
	return max(0, c.Expires.Sub(now))
}

const never = 1<<63 - 1

func callOf(job *queue_job.Job, c *task.Content, topic *deliver.Topic, timeout time.Duration, retry *task.Retry) *deliver.Call {
	return &deliver.Call{
		Topic: topic, Method: c.Method, URL: c.URL, Header: c.Header(), Body: c.Body, ContentType: c.ContentType, Timeout: timeout,
		ID: "pq_" + job.IdempotencyKey(),
		Task: deliver.Task{
			Name: job.Key, Attempt: job.Attempt, MaxAttempts: retry.Attempts(), Due: job.Due(), Expires: c.Expires, Term: job.Term,
			Traceparent: job.Meta["traceparent"],
		},
	}
}

// jitterSteps is into how many steps chance divides a wait: outcomes with equal waits are written in one statement.
const jitterSteps = 16

// outcomeOf is what becomes of a task after as many failed attempts as attempts says, this one included if it failed. The step is chance's,
// from 0.
func outcomeOf(r *deliver.Result, attempts int, retry *task.Retry, most time.Duration, step int) error {
	reason := fmt.Errorf("%s: %s", r.Code, r.Detail)
	switch r.Outcome {
	case deliver.Succeeded:
		return nil
	case deliver.Failed:
		return queue_job.Fail(reason)
	case deliver.Deferred:
		return &queue_job.Outcome{Status: queue_job.JobStatusContinue, Wait: min(r.Wait, most), Deferred: true, Because: r.Detail, Until: r.Until}
	case deliver.Aborted:
		return reason // the context is over: the library runs the job again, and counts nothing
	}
	if attempts >= retry.Attempts() {
		return queue_job.Fail(reason)
	}
	wait := retry.Wait(attempts)
	wait += wait / 4 * time.Duration(step) / jitterSteps // later by up to a quarter, so that what failed together does not come back together
	return queue_job.RetryAfter(min(max(wait, r.Wait), most), reason)
}
