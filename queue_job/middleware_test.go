package queue_job

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestTheFirstMiddlewareIsTheOutermost(t *testing.T) {
	var calls []string
	note := func(name string) Middleware {
		return func(next Handler) Handler {
			return func(ctx context.Context, job *Job) error {
				calls = append(calls, name+" before")
				defer func() { calls = append(calls, name+" after") }()
				return next(ctx, job)
			}
		}
	}
	cfg := valid()
	cfg.HandleJobFunc = func(context.Context, *Job) error { calls = append(calls, "handler"); return nil }
	cfg.Middleware = []Middleware{note("first"), note("second")}
	handler, err := cfg.Handler()
	if err != nil {
		t.Fatal(err)
	}
	if err := handler(t.Context(), &Job{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first before", "second before", "handler", "second after", "first after"}; !slices.Equal(calls, want) {
		t.Errorf("%v, want %v", calls, want)
	}
}

func TestAMiddlewareThatMakesNoHandlerIsRefused(t *testing.T) {
	cfg := valid()
	cfg.Middleware = []Middleware{func(next Handler) Handler { return next }, func(Handler) Handler { return nil }}
	if _, err := cfg.Handler(); err == nil || !strings.Contains(err.Error(), "Middleware (job type 7, service \"shop\"): number 1 ") {
		t.Errorf("%v", err)
	}
}

func TestTheIdempotencyKeyIsThatOfTheJobAndOfNoOther(t *testing.T) {
	job := Job{Id: 1, JobType: 7, CreateTime: 1000, Attempt: 1, Term: 5}
	again := job
	again.Attempt, again.Term, again.Retries, again.Status = 2, 9, 1, JobStatusRetry
	if job.IdempotencyKey() != again.IdempotencyKey() {
		t.Error("another run has another key")
	}
	seen := map[string]Job{}
	for _, other := range []Job{job, {Id: 2, JobType: 7, CreateTime: 1000}, {Id: 1, JobType: 8, CreateTime: 1000}, {Id: 1, JobType: 7, CreateTime: 1001}, {Id: 11, JobType: -7, CreateTime: 1000}, {Id: 1, JobType: 71, CreateTime: 1000}} {
		if same, ok := seen[other.IdempotencyKey()]; ok {
			t.Errorf("%+v and %+v have the key %s", same, other, other.IdempotencyKey())
		}
		seen[other.IdempotencyKey()] = other
	}
}
