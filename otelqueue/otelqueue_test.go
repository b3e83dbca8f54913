package otelqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/create-info/persistent-queue/otelqueue"
	"github.com/create-info/persistent-queue/queue_job"
)

// traced is a tracing with what it has recorded.
type traced struct {
	*otelqueue.Tracing
	spans    *tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func newTraced(options ...otelqueue.Option) traced {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	return traced{otelqueue.New(append(options, otelqueue.WithTracerProvider(provider))...), spans, provider}
}

func (r traced) last(t *testing.T) sdk.ReadOnlySpan {
	t.Helper()
	ended := r.spans.Ended()
	if len(ended) == 0 {
		t.Fatal("no span has ended")
	}
	return ended[len(ended)-1]
}

func attributeOf(s sdk.ReadOnlySpan, name string) string {
	for _, a := range s.Attributes() {
		if a.Key == attribute.Key(name) {
			return a.Value.String()
		}
	}
	return ""
}

// add adds a job within a request, and returns it as its first run has it.
func (r traced) add(t *testing.T) (job *queue_job.Job, request, added trace.SpanContext) {
	t.Helper()
	ctx, span := r.provider.Tracer("shop").Start(t.Context(), "POST /orders")
	defer span.End()
	model := &queue_job.AddModelJob{JobType: 7, Meta: map[string]string{"tenant": "a"}}
	if err := r.OnAdd(ctx, model); err != nil {
		t.Fatal(err)
	}
	if model.Meta["tenant"] != "a" || model.Meta["traceparent"] == "" {
		t.Fatalf("the metadata is %v", model.Meta)
	}
	return &queue_job.Job{Id: 4711, JobType: 7, TypeName: "mail", JobParams: `{"a":1}`, Attempt: 1, CreateTime: uint32(time.Now().Unix()), Meta: model.Meta}, span.SpanContext(), r.last(t).SpanContext()
}

func linkedTo(s sdk.ReadOnlySpan, to trace.SpanContext) bool {
	return slices.ContainsFunc(s.Links(), func(l sdk.Link) bool {
		return l.SpanContext.SpanID() == to.SpanID() && l.SpanContext.TraceID() == to.TraceID()
	})
}

func TestTheAddingOfADefinedJobBearsTheNameOfItsType(t *testing.T) {
	r := newTraced()
	job := queue_job.Define[int](201, "bill").New(1)
	job.Meta = map[string]string{}
	if err := r.OnAdd(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	if s := r.last(t); s.Name() != "add bill" || attributeOf(s, "messaging.destination.name") != "bill" {
		t.Errorf("the adding is %q, of %q", s.Name(), attributeOf(s, "messaging.destination.name"))
	}
}

func TestARequestTheAddingAndTheFirstRunAreOneTrace(t *testing.T) {
	r := newTraced(otelqueue.WithTypeNames(map[int32]string{7: "mail"}))
	job, request, added := r.add(t)
	if s := r.spans.Ended()[0]; s.Name() != "add mail" || s.SpanKind() != trace.SpanKindProducer || s.Parent().SpanID() != request.SpanID() || attributeOf(s, "messaging.operation.type") != "create" {
		t.Errorf("the adding is %q, %v, within %v", s.Name(), s.SpanKind(), s.Parent())
	}
	var inside trace.SpanContext
	err := r.Middleware(func(ctx context.Context, _ *queue_job.Job) error {
		inside = trace.SpanContextFromContext(ctx)
		return nil
	})(t.Context(), job)
	s := r.last(t)
	if err != nil || s.Name() != "run mail" || s.SpanKind() != trace.SpanKindConsumer || s.Parent().SpanID() != added.SpanID() || s.SpanContext().TraceID() != request.TraceID() || !linkedTo(s, added) {
		t.Errorf("%v; the run is %q, %v, within %v, linked to %v", err, s.Name(), s.SpanKind(), s.Parent(), s.Links())
	}
	if inside.SpanID() != s.SpanContext().SpanID() {
		t.Error("the handler does not run within the span")
	}
	for name, want := range map[string]string{"messaging.system": "persistent_queue", "messaging.destination.name": "mail", "messaging.message.id": "4711", "messaging.message.body.size": "7",
		"persistent_queue.job_type": "7", "persistent_queue.attempt": "1", "persistent_queue.outcome": "success"} {
		if got := attributeOf(s, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if s.Status().Code != codes.Unset {
		t.Errorf("the status is %v", s.Status())
	}
}

func TestARetryAndALateRunAreRootsWithALink(t *testing.T) {
	for what, change := range map[string]func(*queue_job.Job){
		"a retry":                   func(j *queue_job.Job) { j.Attempt = 2 },
		"a run after a lost one":    func(j *queue_job.Job) { j.Lost = 1 },
		"a run long after the add":  func(j *queue_job.Job) { j.CreateTime -= 62 },
		"a run of a job of nobody":  func(j *queue_job.Job) { j.Meta = nil },
		"a run of a garbled parent": func(j *queue_job.Job) { j.Meta["traceparent"] = "00-xyz" },
	} {
		r := newTraced()
		job, request, added := r.add(t)
		change(job)
		ctx, poll := r.provider.Tracer("other").Start(t.Context(), "around")
		if err := r.Middleware(func(context.Context, *queue_job.Job) error { return nil })(ctx, job); err != nil {
			t.Fatal(err)
		}
		poll.End()
		s := r.spans.Ended()[len(r.spans.Ended())-2]
		if s.Parent().IsValid() || s.SpanContext().TraceID() == request.TraceID() {
			t.Errorf("%s is no root: its parent is %v", what, s.Parent())
		}
		if known := strings.HasPrefix(job.Meta["traceparent"], "00-") && len(job.Meta["traceparent"]) > 50; linkedTo(s, added) != known {
			t.Errorf("%s has the links %v", what, s.Links())
		}
	}
	r := newTraced(otelqueue.ChildWithin(0))
	job, _, added := r.add(t)
	_ = r.Middleware(func(context.Context, *queue_job.Job) error { return nil })(t.Context(), job)
	if s := r.last(t); s.Parent().IsValid() || !linkedTo(s, added) {
		t.Errorf("with ChildWithin(0), the first run is within %v", s.Parent())
	}
}

func TestOnlyAFailureIsAnErrorOfTheSpan(t *testing.T) {
	plain := errors.New("no route")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(queue_job.ErrCancelled)
	late, end := context.WithCancelCause(t.Context())
	end(queue_job.ErrTimeout)
	for what, c := range map[string]struct {
		ctx                context.Context
		err                error
		set                queue_job.JobStatus
		outcome, errorType string // no type: no error
	}{
		"success":                   {outcome: "success"},
		"an error":                  {err: plain, outcome: "retry", errorType: "*errors.errorString"},
		"an error that is wrapped":  {err: fmt.Errorf("send: %w", plain), outcome: "retry", errorType: "*fmt.wrapError"},
		"given up":                  {err: queue_job.Fail(plain), outcome: "failed", errorType: "*errors.errorString"},
		"to be retried later":       {err: queue_job.RetryAfter(time.Minute, plain), outcome: "retry", errorType: "*errors.errorString"},
		"put off":                   {err: queue_job.Snooze(time.Minute), outcome: "continue"},
		"deferred":                  {err: queue_job.Defer(time.Minute), outcome: "continue"},
		"cancelled by the handler":  {err: queue_job.Cancel(plain), outcome: "cancelled"},
		"cancelled while it ran":    {ctx: cancelled, err: context.Canceled, outcome: "cancelled"},
		"out of time":               {ctx: late, err: context.Canceled, outcome: "retry", errorType: "timeout"},
		"a status and no error":     {set: queue_job.JobStatusFailed, outcome: "failed", errorType: "_OTHER"},
		"a status against an error": {set: queue_job.JobStatusSuccess, err: plain, outcome: "success"},
	} {
		r := newTraced()
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		got := r.Middleware(func(_ context.Context, job *queue_job.Job) error {
			job.Status = c.set
			return c.err
		})(c.ctx, &queue_job.Job{Id: 1, TypeName: "mail", Attempt: 1})
		s := r.last(t)
		if got != c.err {
			t.Errorf("%s: the error becomes %v", what, got)
		}
		isError := s.Status().Code == codes.Error
		if attributeOf(s, "persistent_queue.outcome") != c.outcome || attributeOf(s, "error.type") != c.errorType || isError != (c.errorType != "") {
			t.Errorf("%s: outcome %q, error type %q, status %v", what, attributeOf(s, "persistent_queue.outcome"), attributeOf(s, "error.type"), s.Status())
		}
	}
}

func TestASpanEndsThoughTheHandlerPanics(t *testing.T) {
	r := newTraced()
	func() {
		defer func() {
			if recover() != "ouch" {
				t.Error("the panic does not go on")
			}
		}()
		_ = r.Middleware(func(context.Context, *queue_job.Job) error { panic("ouch") })(t.Context(), &queue_job.Job{TypeName: "mail"})
	}()
	if s := r.last(t); attributeOf(s, "error.type") != "panic" || s.Status().Code != codes.Error {
		t.Errorf("the span says %q, %v", attributeOf(s, "error.type"), s.Status())
	}
}

func TestABatchIsOneSpanWithALinkForEachJob(t *testing.T) {
	r := newTraced()
	var jobs []*queue_job.Job
	var added []trace.SpanContext
	for range 3 {
		job, _, at := r.add(t)
		jobs, added = append(jobs, job), append(added, at)
	}
	jobs = append(jobs, &queue_job.Job{Id: 8, TypeName: "mail"})
	if err := r.BatchMiddleware(func(context.Context, []*queue_job.Job) error { return nil })(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	s := r.last(t)
	if s.Parent().IsValid() || len(s.Links()) != 3 || attributeOf(s, "messaging.batch.message_count") != "4" {
		t.Errorf("within %v, links %v, %s jobs", s.Parent(), s.Links(), attributeOf(s, "messaging.batch.message_count"))
	}
	for _, at := range added {
		if !linkedTo(s, at) {
			t.Errorf("no link leads to %v", at)
		}
	}
}

func TestAJobThatBelongsToATraceKeepsIt(t *testing.T) {
	r := newTraced()
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	job := &queue_job.AddModelJob{Meta: map[string]string{"traceparent": theirs}}
	if err := r.OnAdd(t.Context(), job); err != nil || job.Meta["traceparent"] != theirs || len(r.spans.Ended()) > 0 {
		t.Errorf("%v: %v, %d spans", err, job.Meta, len(r.spans.Ended()))
	}
}
