package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/otelqueue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestATraceGoesFromTheRequestThroughTheTableToTheRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		spans := tracetest.NewSpanRecorder()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
		tracing := otelqueue.New(otelqueue.WithTracerProvider(provider))
		var fails atomic.Bool
		startWith(t, []persistent_queue.Option{persistent_queue.WithMiddleware(tracing.Middleware)}, d.DB, queue_job.Config{
			JobType: 7, ServiceName: "mail", NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if fails.CompareAndSwap(true, false) {
					return context.DeadlineExceeded
				}
				return nil
			}})
		jobs, err := queue_job.Open(d.DB, queue_job.OnAdd(tracing.OnAdd))
		if err != nil {
			t.Fatal(err)
		}
		runs := func(n int) (of []sdk.ReadOnlySpan) {
			t.Helper()
			awaitWithin(t, patience, func() string { return "the run has no span" }, func() bool {
				of = nil
				for _, s := range spans.Ended() {
					if s.Name() == "run mail" {
						of = append(of, s)
					}
				}
				return len(of) == n
			})
			return of
		}
		ctx, request := provider.Tracer("shop").Start(t.Context(), "POST /orders")
		fails.Store(true)
		if _, err := jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 7}); err != nil {
			t.Fatal(err)
		}
		request.End()
		of := runs(2)
		if first := of[0].SpanContext().TraceID(); first != request.SpanContext().TraceID() {
			t.Errorf("the first run belongs to the trace %v, and the request to %v", first, request.SpanContext().TraceID())
		}
		if of[1].Parent().IsValid() || len(of[1].Links()) != 1 || of[1].Links()[0].SpanContext.TraceID() != request.SpanContext().TraceID() {
			t.Errorf("the retry is within %v, and linked to %v", of[1].Parent(), of[1].Links())
		}

		// As any language may add it.
		now := time.Now().Unix()
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, create_time, update_time, meta) VALUES ('{}', 7, ?, ?, ?)", now, now,
			`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`)
		want, _ := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
		if got := runs(3)[2].SpanContext().TraceID(); got != want {
			t.Errorf("what was inserted by hand runs within the trace %v, want %v", got, want)
		}
	})
}
