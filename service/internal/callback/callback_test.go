package callback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

type sender func(*deliver.Call) deliver.Result

func (s sender) Deliver(_ context.Context, call *deliver.Call) deliver.Result { return s(call) }

func TestWhatTheReceiverAnswersIsWhatBecomesOfTheTask(t *testing.T) {
	retry := &task.Retry{Waits: []time.Duration{4 * time.Second, time.Minute}}
	const most = 30 * time.Second
	for _, c := range []struct {
		result   deliver.Result
		attempts int
		step     int
		want     queue_job.Outcome
	}{
		{deliver.Result{Outcome: deliver.Retry}, 1, 0, queue_job.Outcome{Status: queue_job.JobStatusRetry, Wait: 4 * time.Second}},
		{deliver.Result{Outcome: deliver.Retry}, 1, 8, queue_job.Outcome{Status: queue_job.JobStatusRetry, Wait: 4500 * time.Millisecond}},
		{deliver.Result{Outcome: deliver.Retry, Wait: 9 * time.Second}, 1, 0, queue_job.Outcome{Status: queue_job.JobStatusRetry, Wait: 9 * time.Second}},
		{deliver.Result{Outcome: deliver.Retry}, 2, 0, queue_job.Outcome{Status: queue_job.JobStatusRetry, Wait: most}}, // no longer than to its end
		{deliver.Result{Outcome: deliver.Retry}, 3, 0, queue_job.Outcome{Status: queue_job.JobStatusFailed}},            // that was the last attempt
		{deliver.Result{Outcome: deliver.Failed}, 1, 0, queue_job.Outcome{Status: queue_job.JobStatusFailed}},
		{deliver.Result{Outcome: deliver.Deferred, Wait: time.Second}, 1, 0, queue_job.Outcome{Status: queue_job.JobStatusContinue, Wait: time.Second, Deferred: true}},
		{deliver.Result{Outcome: deliver.Deferred, Wait: time.Hour}, 1, 0, queue_job.Outcome{Status: queue_job.JobStatusContinue, Wait: most, Deferred: true}},
	} {
		err := outcomeOf(&c.result, c.attempts, retry, most, c.step)
		var got *queue_job.Outcome
		if !errors.As(err, &got) || got.Status != c.want.Status || got.Wait != c.want.Wait || got.Deferred != c.want.Deferred {
			t.Errorf("%v after %d attempts: %+v, want %+v", c.result.Outcome, c.attempts, got, c.want)
		}
	}
	if err := outcomeOf(&deliver.Result{Outcome: deliver.Succeeded}, 1, retry, most, 0); err != nil {
		t.Error(err)
	}
	var outcome *queue_job.Outcome
	if err := outcomeOf(&deliver.Result{Outcome: deliver.Aborted}, 1, retry, most, 0); err == nil || errors.As(err, &outcome) {
		t.Errorf("a call that our own stop has ended: %v, want an error that is no outcome, so that it does not count", err)
	}
}

// right is a database whose clock is this process's.
func right(context.Context) (time.Time, error) { return time.Now(), nil }

// Whatever becomes of it by the database's clock, a task is not sent that is over by the clock of its instance.
func TestATaskThatIsOverByOneClockWaits(t *testing.T) {
	for name, clock := range map[string]Clock{
		"the clocks differ":  func(context.Context) (time.Time, error) { return time.Unix(999, 0), nil },
		"there is no answer": func(context.Context) (time.Time, error) { return time.Unix(2000, 0), errors.New("away") },
	} {
		handle := Handler(&topics.Topic{Name: "mails"}, sender(func(*deliver.Call) deliver.Result {
			t.Errorf("%s: it was sent", name)
			return deliver.Result{Outcome: deliver.Succeeded}
		}), nil, nil, clock, slog.New(slog.DiscardHandler))
		var outcome *queue_job.Outcome
		err := handle(t.Context(), &queue_job.Job{Id: 1, JobParams: `{"url":"https://shop.example/","expires":1000}`})
		if !errors.As(err, &outcome) || outcome.Status != queue_job.JobStatusContinue || !outcome.Deferred || outcome.Wait < time.Second {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that was started without keys neither fails a task that is encrypted nor uses up its attempts.
func TestATaskThatIsEncryptedWaitsForAProcessWithItsKey(t *testing.T) {
	handle := Handler(&topics.Topic{Name: "mails"}, sender(func(*deliver.Call) deliver.Result {
		t.Error("it was sent")
		return deliver.Result{Outcome: deliver.Succeeded}
	}), nil, nil, right, slog.New(slog.DiscardHandler))
	var outcome *queue_job.Outcome
	err := handle(t.Context(), &queue_job.Job{Id: 1, JobParams: `"pq:codec:2026-11:AAAA"`})
	if !errors.As(err, &outcome) || outcome.Status != queue_job.JobStatusContinue || !outcome.Deferred || outcome.Wait < time.Second {
		t.Errorf("%v", err)
	}
}

func TestATaskThatIsOverIsNotSent(t *testing.T) {
	handle := Handler(&topics.Topic{Name: "mails"}, sender(func(*deliver.Call) deliver.Result {
		t.Error("it was sent")
		return deliver.Result{Outcome: deliver.Succeeded}
	}), nil, nil, right, slog.New(slog.DiscardHandler))
	for params, want := range map[string]queue_job.JobStatus{
		`{"url":"https://shop.example/","expires":1000}`: queue_job.JobStatusCancelled,
		`{"url":"shop.example"}`:                         queue_job.JobStatusFailed,
		`[]`:                                             queue_job.JobStatusFailed,
	} {
		var outcome *queue_job.Outcome
		if err := handle(t.Context(), &queue_job.Job{Id: 1, JobParams: params}); !errors.As(err, &outcome) || outcome.Status != want {
			t.Errorf("%s: %v, want %v", params, err, want)
		}
	}
}

// failing calls a receiver that takes nothing, and tells of it.
func failing(t *testing.T, job *queue_job.Job, add Add) *queue_job.Outcome {
	t.Helper()
	handle := Handler(&topics.Topic{Type: 1_000_000, Name: "mails"}, sender(func(*deliver.Call) deliver.Result {
		return deliver.Result{Outcome: deliver.Failed, Code: "gone", Detail: "it is gone"}
	}), nil, add, right, slog.New(slog.DiscardHandler))
	var outcome *queue_job.Outcome
	if err := handle(t.Context(), job); !errors.As(err, &outcome) {
		t.Fatal(err)
	}
	return outcome
}

func TestAFailureIsToldHoweverLongTheLabelsAre(t *testing.T) {
	for label, kept := range map[string]bool{"<b>": true, strings.Repeat("<", 170_000): true, strings.Repeat("x", 270<<10): false, strings.Repeat("\x01", 100_000): false} {
		params, err := task.PlainJSON(map[string]any{"url": "https://shop.example/", "labels": map[string]string{"a": label}, "on_failure": map[string]string{"url": "https://shop.example/failed"}})
		if err != nil {
			t.Fatal(err)
		}
		var told []queue_job.AddModelJob
		outcome := failing(t, &queue_job.Job{Id: 5, Attempt: 1, JobParams: string(params)}, func(_ context.Context, job queue_job.AddModelJob) error {
			told = append(told, job)
			return nil
		})
		if outcome.Status != queue_job.JobStatusFailed || len(told) != 1 {
			t.Fatalf("%v, and %d are told", outcome, len(told))
		}
		notice := string(told[0].JobParams.(queue_job.JSON))
		content, bad := task.ParseContent(notice)
		if bad != nil || len(notice) > queue_job.ParamsMax || strings.Contains(string(content.Body), `"labels"`) != kept {
			t.Errorf("a label of %d bytes: %v, %d bytes", len(label), bad, len(notice))
		}
	}
}

func TestWhatCannotBeToldIsOverAndWhatTheDatabaseDoesNotTakeIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want queue_job.JobStatus
	}{
		{fmt.Errorf("add: %w", queue_job.ErrParamsTooLong), queue_job.JobStatusFailed},
		{fmt.Errorf("add: %w", queue_job.ErrBadKey), queue_job.JobStatusFailed},
		{errors.New("the database is away"), queue_job.JobStatusContinue},
	} {
		job := &queue_job.Job{Id: 5, Attempt: 1, JobParams: `{"url":"https://shop.example/","on_failure":{"url":"https://shop.example/failed"}}`}
		outcome := failing(t, job, func(context.Context, queue_job.AddModelJob) error { return c.err })
		if outcome.Status != c.want || c.want == queue_job.JobStatusFailed && !strings.Contains(outcome.Error(), "nobody is told") {
			t.Errorf("%v: %v, want %v", c.err, outcome, c.want)
		}
	}
}

func TestARunThatIsRepeatedTellsOfTheSameFailureAndARetryOfAnother(t *testing.T) {
	told := map[string]bool{}
	for _, run := range []struct{ attempt, retries, lost, want int }{
		{3, 2, 0, 1}, // told of, and lost
		{4, 2, 1, 1}, // the same again
		{5, 0, 0, 2}, // somebody has retried it
		{7, 1, 1, 2},
		{8, 0, 0, 3},
	} {
		job := &queue_job.Job{Id: 5, Attempt: run.attempt, Retries: run.retries, Lost: run.lost, JobParams: `{"url":"https://shop.example/","on_failure":{"url":"https://shop.example/failed"}}`}
		failing(t, job, func(_ context.Context, job queue_job.AddModelJob) error {
			told[job.Key] = true
			return nil
		})
		if len(told) != run.want {
			t.Errorf("%+v: %v", run, told)
		}
	}
}

func TestTheCallIsTheTask(t *testing.T) {
	var call *deliver.Call
	handle := Handler(&topics.Topic{Name: "mails", Config: topics.Config{Timeout: 20 * time.Second}}, sender(func(c *deliver.Call) deliver.Result {
		call = c
		return deliver.Result{Outcome: deliver.Succeeded}
	}), nil, nil, right, slog.New(slog.DiscardHandler))
	job := &queue_job.Job{
		Id: 5, JobType: 1_000_000, CreateTime: 7, Attempt: 2, Retries: 1, Key: "order-5", Term: 9,
		JobParams: `{"url":"https://shop.example/cancel","headers":{"x-tenant":"7"},"body_text":"{\"a\": 1.50}","content_type":"application/json"}`,
		Meta:      map[string]string{"traceparent": "00-a-b-01"},
	}
	if err := handle(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if call.Topic.Name != "mails" || call.Method != "POST" || call.URL != "https://shop.example/cancel" || call.Header.Get("X-Tenant") != "7" ||
		string(call.Body) != `{"a": 1.50}` || call.ContentType != "application/json" || call.Timeout != 20*time.Second ||
		call.ID != "pq_"+job.IdempotencyKey() || call.Task.Name != "order-5" || call.Task.Attempt != 2 || call.Task.MaxAttempts != 10 ||
		call.Task.Term != 9 || call.Task.Traceparent != "00-a-b-01" {
		t.Errorf("%+v", call)
	}
}

// Who may read a task reads its attempts: they show nothing of our files.
func TestAPanicIsASentenceForTheTaskAndAStackForTheLog(t *testing.T) {
	var said strings.Builder
	handle := Handler(&topics.Topic{Name: "mails"}, sender(func(*deliver.Call) deliver.Result { panic("s3cret cause") }), nil, nil, right, slog.New(slog.NewTextHandler(&said, nil)))
	err := handle(t.Context(), &queue_job.Job{Id: 47, JobParams: `{"url":"https://shop.example/"}`})
	var outcome *queue_job.Outcome
	if !errors.As(err, &outcome) || outcome.Status != queue_job.JobStatusRetry || !strings.HasPrefix(err.Error(), "internal: ") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), ".go") {
		t.Errorf("the task's error is %v", err)
	}
	for _, want := range []string{"task=47", "s3cret cause", "callback_test.go"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log lacks %q: %s", want, said.String())
		}
	}
	err = handle(t.Context(), &queue_job.Job{Id: 47, Retries: 1000, JobParams: `{"url":"https://shop.example/"}`})
	if !errors.As(err, &outcome) || outcome.Status != queue_job.JobStatusFailed {
		t.Errorf("after its last attempt, the task has %v", err)
	}
}
