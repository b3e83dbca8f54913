package recipes

import (
	"context"

	"github.com/create-info/persistent-queue/queue_job"
)

// traceKey stands for what the application's tracing keeps in a context. With OpenTelemetry, propagation.MapCarrier(job.Meta) is
// what a propagator injects into and extracts from.
type traceKey struct{}

func traceOf(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// StampTrace gives each job the trace of the request, or of the job, that adds it.
func StampTrace(ctx context.Context, job *queue_job.AddModelJob) error {
	if trace := traceOf(ctx); trace != "" {
		job.Meta["trace"] = trace
	}
	return nil
}

// ResumeTrace gives the handler's context the trace of its job.
func ResumeTrace(next queue_job.Handler) queue_job.Handler {
	return func(ctx context.Context, job *queue_job.Job) error {
		return next(context.WithValue(ctx, traceKey{}, job.Meta["trace"]), job)
	}
}
