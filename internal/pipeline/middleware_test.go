package pipeline

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestTheFirstMiddlewareIsTheOutermost(t *testing.T) {
	var calls []string
	note := func(name string) queue_job.Middleware {
		return func(next queue_job.Handler) queue_job.Handler {
			return func(ctx context.Context, job *queue_job.Job) error {
				calls = append(calls, name+" before")
				defer func() { calls = append(calls, name+" after") }()
				return next(ctx, job)
			}
		}
	}
	cfg := queue_job.Config{JobType: 7, ServiceName: "shop"}
	cfg.HandleJobFunc = func(context.Context, *queue_job.Job) error { calls = append(calls, "handler"); return nil }
	cfg.Middleware = []queue_job.Middleware{note("first"), note("second")}
	handler, _, err := handlersOf(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := handler(t.Context(), &queue_job.Job{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first before", "second before", "handler", "second after", "first after"}; !slices.Equal(calls, want) {
		t.Errorf("%v, want %v", calls, want)
	}
}

func TestAMiddlewareThatMakesNoHandlerIsRefused(t *testing.T) {
	cfg := queue_job.Config{JobType: 7, ServiceName: "shop"}
	cfg.Middleware = []queue_job.Middleware{func(next queue_job.Handler) queue_job.Handler { return next }, func(queue_job.Handler) queue_job.Handler { return nil }}
	if _, _, err := handlersOf(&cfg); err == nil || !strings.Contains(err.Error(), "Middleware (job type 7, service \"shop\"): number 1 ") {
		t.Errorf("%v", err)
	}
	cfg.HandleBatchFunc = func(context.Context, []*queue_job.Job) error { return nil }
	cfg.BatchMiddleware = []queue_job.BatchMiddleware{func(queue_job.BatchHandler) queue_job.BatchHandler { return nil }}
	if _, _, err := handlersOf(&cfg); err == nil || !strings.Contains(err.Error(), "BatchMiddleware (job type 7, service \"shop\"): number 0 ") {
		t.Errorf("%v", err)
	}
}
