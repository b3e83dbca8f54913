package otelqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	library = "github.com/create-info/persistent-queue/otelqueue"

	linksMax = 128 // of a batch: as many as an SDK keeps by default
)

// Tracing makes spans of adding jobs and of running them. It may be used by any number of goroutines.
type Tracing struct {
	provider    trace.TracerProvider // nil: the global one
	childWithin time.Duration
	names       map[int32]string
}

// Option changes what [New] makes.
type Option func(*Tracing)

// WithTracerProvider uses this provider instead of the global one, which is asked at each span.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(t *Tracing) { t.provider = provider }
}

// ChildWithin makes a job's first run a child of its adding if it begins within this time. Default: a minute. 0: no run is a child,
// each is a root with a link.
func ChildWithin(span time.Duration) Option {
	return func(t *Tracing) { t.childWithin = span }
}

// WithTypeNames gives job types their names in the spans of adding, where only the number of a type is known. Without it, the number
// stands there.
func WithTypeNames(names map[int32]string) Option {
	return func(t *Tracing) { t.names = names }
}

// New makes a Tracing.
func New(options ...Option) *Tracing {
	t := &Tracing{childWithin: time.Minute}
	for _, set := range options {
		set(t)
	}
	return t
}

func (t *Tracing) tracer() trace.Tracer {
	provider := t.provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return provider.Tracer(library)
}

// OnAdd is for [queue_job.OnAdd]. It makes a span "add" and puts its context into the job's metadata. A job that has a traceparent
// already, as a copy of another job may have, keeps it.
func (t *Tracing) OnAdd(ctx context.Context, job *queue_job.AddModelJob) error {
	carrier := propagation.MapCarrier(job.Meta)
	if carrier.Get("traceparent") != "" {
		return nil
	}
	name := t.nameOf(job)
	ctx, span := t.tracer().Start(ctx, "add "+name, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(messaging("add", "create", job.JobType, name)...))
	defer span.End()
	propagation.TraceContext{}.Inject(ctx, carrier)
	return nil
}

func (t *Tracing) nameOf(job *queue_job.AddModelJob) string {
	return cmp.Or(t.names[job.JobType], job.TypeName, strconv.Itoa(int(job.JobType)))
}

// messaging are the attributes that all spans have.
func messaging(operation, kind string, jobType int32, name string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "persistent_queue"),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", kind),
		attribute.String("messaging.destination.name", name),
		attribute.Int("persistent_queue.job_type", int(jobType)),
	}
}

func idOf(job *queue_job.Job) attribute.KeyValue {
	return attribute.String("messaging.message.id", strconv.FormatUint(job.Id, 10))
}

// Middleware is for persistent_queue.WithMiddleware, or for [queue_job.Config.Middleware] of one type. Put it first, so that other
// middleware runs within its span.
func (t *Tracing) Middleware(next queue_job.Handler) queue_job.Handler {
	return func(ctx context.Context, job *queue_job.Job) error {
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(append(
			messaging("run", "process", job.JobType, job.TypeName),
			idOf(job),
			attribute.Int("messaging.message.body.size", len(job.JobParams)),
			attribute.Int("persistent_queue.attempt", job.Attempt),
			attribute.Int("persistent_queue.retries", job.Retries),
			attribute.Int("persistent_queue.lost", job.Lost))...)}
		added := addedIn(job)
		if added.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: added}))
		}
		if t.isChild(job, added) {
			ctx = trace.ContextWithRemoteSpanContext(ctx, added)
		} else {
			options = append(options, trace.WithNewRoot())
		}
		ctx, span := t.tracer().Start(ctx, "run "+job.TypeName, options...)
		return within(ctx, span, func() (queue_job.JobStatus, error) {
			err := next(ctx, job)
			return job.Status, err
		})
	}
}

// isChild reports whether a run is a child of its job's adding. The times of the table are whole seconds.
func (t *Tracing) isChild(job *queue_job.Job, added trace.SpanContext) bool {
	since := time.Since(time.Unix(int64(job.CreateTime), 0))
	return added.IsValid() && t.childWithin > 0 && job.Attempt == 1 && job.Lost == 0 && since <= t.childWithin
}

// addedIn is the span in which a job was added; it is not valid if nobody told one.
func addedIn(job *queue_job.Job) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(job.Meta)))
}

// BatchMiddleware is for persistent_queue.WithBatchMiddleware, or for [queue_job.Config.BatchMiddleware] of one type.
func (t *Tracing) BatchMiddleware(next queue_job.BatchHandler) queue_job.BatchHandler {
	return func(ctx context.Context, jobs []*queue_job.Job) error {
		first := jobs[0] // no call is empty, and all its jobs are of one type
		var links []trace.Link
		for _, job := range jobs {
			if added := addedIn(job); added.IsValid() && len(links) < linksMax {
				links = append(links, trace.Link{SpanContext: added, Attributes: []attribute.KeyValue{idOf(job)}})
			}
		}
		ctx, span := t.tracer().Start(ctx, "run "+first.TypeName,
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithNewRoot(), trace.WithLinks(links...),
			trace.WithAttributes(append(messaging("run", "process", first.JobType, first.TypeName),
				attribute.Int("messaging.batch.message_count", len(jobs)))...))
		return within(ctx, span, func() (queue_job.JobStatus, error) { return queue_job.JobStatusInit, next(ctx, jobs) })
	}
}

// within calls a handler and ends its span, also if the handler panics or ends its goroutine.
func within(ctx context.Context, span trace.Span, call func() (queue_job.JobStatus, error)) (err error) {
	var status queue_job.JobStatus
	returned := false
	defer func() {
		if !returned {
			span.SetAttributes(attribute.String("error.type", "panic"))
			span.SetStatus(codes.Error, "the handler did not return")
		} else {
			tell(ctx, span, err, status)
		}
		span.End()
	}()
	status, err = call()
	returned = true
	return err
}

// tell records how a run ended. The span has an error only if the run failed. A job that was put off or cancelled has not failed.
func tell(ctx context.Context, span trace.Span, err error, status queue_job.JobStatus) {
	if status == queue_job.JobStatusInit { // the error decides
		status = statusOf(ctx, err)
	}
	span.SetAttributes(attribute.String("persistent_queue.outcome", status.String()))
	if status != queue_job.JobStatusRetry && status != queue_job.JobStatusFailed {
		return
	}
	reason := "the handler has set the status " + status.String()
	if err != nil {
		reason = err.Error()
		span.RecordError(err)
	}
	span.SetAttributes(attribute.String("error.type", errorType(ctx, err)))
	span.SetStatus(codes.Error, reason)
}

// statusOf is what an error makes of a job, as far as the handler knows: without retries left, retry means failed.
func statusOf(ctx context.Context, err error) queue_job.JobStatus {
	var o *queue_job.Outcome
	switch {
	case errors.Is(context.Cause(ctx), queue_job.ErrCancelled):
		return queue_job.JobStatusCancelled
	case err == nil:
		return queue_job.JobStatusSuccess
	case errors.As(err, &o):
		return o.Status
	}
	return queue_job.JobStatusRetry
}

func errorType(ctx context.Context, err error) string {
	var o *queue_job.Outcome
	switch {
	case errors.Is(context.Cause(ctx), queue_job.ErrTimeout):
		return "timeout"
	case errors.As(err, &o) && o.Err != nil:
		return fmt.Sprintf("%T", o.Err)
	case err == nil || o != nil:
		return "_OTHER"
	}
	return fmt.Sprintf("%T", err)
}
